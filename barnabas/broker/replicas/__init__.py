"""The replicas of a broker in a cluster: leading, following, and the fetches of followers.

The decisions are in replication/.

roles: LeaderAndIsr and StopReplica: which partitions this broker leads or follows
leading: one partition that this broker leads: in-sync set, high watermark
following: one partition that this broker follows
fetcher: fetches all partitions that are followed at one leader
fetchers: one fetcher per leader
sessions: fetch requests of followers, and replies to them
positions: a follower's position in one partition
isr_proposals: AlterPartition: in-sync sets proposed to the controller
failed_log_dirs: reports to the controller which replicas were on a failed disk
logs: which log a replica gets, and what happens to logs without a replica
incomplete: replicas that lost their log and have not caught up since
replica_cluster: what replicas need of the cluster membership
limited_log: a log line for each of the first partitions, one line for the rest
throttles: which replicas are throttled, and by how much
"""
