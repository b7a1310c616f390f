"""Membership in a consumer group: what a member decides, and member.py, which carries it out.

membership: what both group protocols share
classic: one member of a classic group: join, sync, heartbeat, leave
classic_requests: the requests that it sends
classic_protocol: what classic consumers write inside JoinGroup and SyncGroup
leader: what the leader of a classic group does: assigns partitions
assignors: assignment strategies of classic groups
consumer: one member of a group of the consumer protocol (KIP-848)
zookeeper: one member of a group in ZooKeeper, without a coordinator
member: carries out what a membership decides
"""
