"""Classic groups: JoinGroup, SyncGroup, Heartbeat, LeaveGroup; clients compute the assignment.

operations: one function per request; called by the shard
group: the state of one group
states: the states of a group, and the legal transitions
member: one member, and the requests that wait for their replies
members: all members: the group leader, and the protocol that all of them support
joining: what a JoinGroup request does
membership: heartbeats, leaving, session timeouts
rebalance: join and sync phases and their timers
causes: reports the causes of rebalances to the history
"""
