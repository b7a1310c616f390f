"""One broker: connections, partitions, one event loop, no locks.

This folder has what a reader needs first. The folders: net/ (from a socket to a handler),
handlers/ (one file per API) and requests/ (code that several handlers share), storage/ (log
directories, cleaner, housekeeping), groups/ (group coordinator),
transactions/ (transaction coordinator), and for a broker in a cluster:
cluster/, controller/ and replicas/.

broker: the whole broker: its parts, how it starts and stops
main: starts a broker on this machine and stops it on a signal
topic: topics in memory, by name and by id
partition: one partition: its log, its role, and the requests that wait for it
partition_errors: the errors that a partition answers with
delivery_delay: delayed delivery in one partition, and the timer that wakes its readers
partition_flush: syncs records before they are committed (flush.messages)
log_reading: reads the log of a coordinator back
no_log: stands in for the log of a partition that has none here
role: leader, follower, offline: the roles of a replica and their legal transitions
context: what most parts need of the broker, as a Protocol
uncommitted: batches above the high watermark, and the requests that wait for them
catalog: topics and configuration, stored in the keeper
catalog_interface: what both catalogs provide: a lone broker's and a cluster's
cluster_member: id and address of a broker, as clients see it
keepers: opens the keeper that the options name
quota_settings: creates the quotas of a broker with its first limit
producer_id_blocks: blocks of producer ids, from the keeper
metrics: counters, and their page for Prometheus
metrics_http: the metrics page over HTTP
health: the state of event loop, open files, disks and log lines
loop_heartbeat: shows whether the event loop is running or blocked
"""
