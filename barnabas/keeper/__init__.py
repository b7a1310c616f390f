"""The ZooKeeper-shaped store through which brokers agree: interface, memory, SQLite file."""
