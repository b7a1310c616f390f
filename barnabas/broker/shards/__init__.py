"""Shards of coordinators on this broker's logs and event loop: what groups, transactions and share
groups have in common.

The decisions are in coordinators/; what only one coordinator does is in groups/, transactions/ and
share/.

led_shards: which shards this broker has; their replies, tasks and deadlines
loading: reads shards back from their logs
journal: the log under a shard
"""
