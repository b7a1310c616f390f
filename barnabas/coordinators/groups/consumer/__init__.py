"""Consumer groups (KIP-848): ConsumerGroupHeartbeat; the coordinator computes the assignment.

operations: one function per request; called by the shard
heartbeats: what a heartbeat does: joins, releases partitions, moves to the target
step: one step of one member: from its heartbeat to records
membership: which members leave or are removed, and who may commit
member: one member: subscription, partitions, partitions to release
group: the state of one group in memory: timers and waiting requests
stored: the state of one group in the log
states: the states of a group and of a member, and the legal transitions
target: the target assignment of every member
gathering: when a target assignment may be computed
reconcile: moves one member towards its target; no partition has two owners
classic_members: members of the classic protocol in a consumer group
patterns, pattern_syntax: topic names that match a regular expression; RE2's syntax
records: the records of these groups in __consumer_offsets
causes: reports the causes of rebalances to the history
"""
