"""Groups of every kind: members, generations, committed offsets, and why each rebalance happened.

classic/   groups of the classic protocol (JoinGroup, SyncGroup)
consumer/  groups of the consumer protocol (ConsumerGroupHeartbeat)
share/     share groups (ShareGroupHeartbeat)
streams/   streams groups (StreamsGroupHeartbeat)
offsets/   committed offsets and their retention
history/   the causes of rebalances
At this level: the shard that the runtime runs, its state, its records in __consumer_offsets, the
sessions of members.
"""
