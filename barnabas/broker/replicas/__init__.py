"""Replicas on this broker in a cluster: leading, following, and what followers fetch.

The decisions are in replication/.

roles: LeaderAndIsr and StopReplica: which partitions this broker leads or follows
incomplete: replicas that lost their log and have not caught up since
replica_cluster: what replicas need of the cluster membership
limited_log: log lines of a request with thousands of partitions
leading: one partition that this broker leads: in-sync set, high watermark
following: one partition that this broker follows
fetcher: fetches all partitions that are followed at one leader
fetchers: one fetcher per leader
follower_sessions: fetch requests of followers, and replies to them
follower_positions: a follower's position in one partition
isr_proposals: AlterPartition: in-sync sets proposed to the controller (when to propose:
    replication/leader.py)
failure_reports: reports to the controller which replicas were on a failed disk
logs: which log a replica gets, and what becomes of logs without a replica
throttles: which replicas are throttled, and by how much
"""
