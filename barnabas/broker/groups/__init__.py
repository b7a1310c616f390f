"""The group coordinator at work on this broker's logs; loaded with the first group.

The decisions are in coordinators/groups/.

coordination: hands group requests to their shard, writes its records, sends its replies
share_groups: calls the share coordinator for share groups
internal_topics: creates the internal topics of streams groups
committed: holds replies back until the state that they show is committed
offsets_topic: creates __consumer_offsets
loading: reads shards back from __consumer_offsets
ports: what a shard sees of its broker: log, topics, configuration
deleted_topics: forgets the committed offsets of deleted topics
pending_deletions: offset deletions that could not be written yet
rebalance_log: logs each rebalance that has ended, with the cause
lag: how far groups are behind, and since when
rates: records per second that groups consume and producers append
metrics: groups for Prometheus
"""
