"""The store that brokers share, with ZooKeeper's data model: interface, memory, SQLite file."""
