"""Streams groups (KIP-1071): topologies, internal topics, tasks and their copies.

A broker without streams groups never imports any of it.

records: keys and values in __consumer_offsets
topology: what an application says about itself, checked
topics: partitions of internal topics, and which topics are missing
tasks: tasks of a member, to have or to release
member: one member, and its records
stored: what the log has of a group
reconcile: the next step of a member towards its target
target: the target of every member
group: a group with its timers
step: one step of one member, from a heartbeat to records
heartbeats: what a heartbeat does
causes: why a group rebalanced, for its history
endpoints: where interactive queries are answered
operations: heartbeats, leaving and deadlines, as the shard calls them
"""
