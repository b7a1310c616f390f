"""Membership in a consumer group: what a member decides, and member.py, which executes it.

membership: what both group protocols share
classic: one member of a classic group: join, sync, heartbeat, leave
classic_requests: the requests of a classic member
classic_protocol: the consumer protocol inside JoinGroup and SyncGroup
leader: assigns partitions in a classic group, as its leader
assignors: assignment strategies of classic groups
target_assignment: what members that use only heartbeats share
consumer: one member of a group of the consumer protocol (KIP-848)
zookeeper: one member of a group in ZooKeeper, without a coordinator
member: executes what a membership decides
"""
