"""The store that brokers share, with ZooKeeper's data model.

keeper: the interface: nodes, sessions, watches, errors
memory: a keeper in memory
sqlite: a keeper in one SQLite file, the default
sqlite_file: schema, transactions, nodes and sessions of that file
sqlite_many: many operations of one kind in one SQLite transaction
sqlite_session: keeps a session alive (heartbeat), watches
session_locks: which sessions in the file belong to processes that have ended
zookeeper: a keeper in a real ZooKeeper
paths: where topics, configuration and brokers are, and their format
entity_settings: settings of users, clients, addresses, groups and others
controller_paths: nodes that only the controller writes
consumer_paths: nodes of consumer groups without a coordinator
"""
