"""Consumer groups: membership, generations, committed offsets, and why each rebalance happened.

classic/   groups of the classic protocol (JoinGroup, SyncGroup)
consumer/  groups of the consumer protocol (ConsumerGroupHeartbeat)
offsets/   committed offsets and their retention
history/   the causes of rebalances
At this level: the shard that the runtime runs, its state, and its records in __consumer_offsets.
"""
