"""Kafka's broker options that have no effect here, except those in kafka_table_security.py.

Each has its name, type and default (`-`: none; `''`: empty), whether it can change while a broker
runs (dynamic), and its meaning. Read by kafka_options.py, which is loaded when it is first needed.
"""

TABLE = """\
alter.log.dirs.replication.quota.window.num int 11
  How many windows are kept when moves between log directories are throttled.
alter.log.dirs.replication.quota.window.size.seconds int 1
  The length of a window for the throttle of moves between log directories.
background.threads int 10 dynamic
  Threads for background work.
broker.heartbeat.interval.ms int 2000
  How often a broker sends a heartbeat to the quorum.
broker.session.timeout.ms int 9000
  The quorum fences a broker that sends no heartbeat for this long.
compression.gzip.level int -1 dynamic
  The compression level of the broker for gzip.
compression.lz4.level int 9 dynamic
  The compression level of the broker for lz4.
compression.zstd.level int 3 dynamic
  The compression level of the broker for zstd.
controlled.shutdown.enable boolean true
  Whether a broker hands over its partitions before it stops. Barnabas always does.
controller.listener.names list -
  The listeners of the quorum's controllers.
controller.quorum.append.linger.ms int 25
  How long the quorum's leader collects records before it writes them.
controller.quorum.auto.join.enable boolean false
  Whether a controller joins the quorum by itself.
controller.quorum.bootstrap.servers list ''
  Addresses of the quorum's bootstrap servers.
controller.quorum.election.backoff.max.ms int 1000
  The longest pause before the next election of the quorum.
controller.quorum.election.timeout.ms int 1000
  How long a candidate of the quorum waits for votes.
controller.quorum.fetch.max.bytes int 1048576
  The maximum bytes of one fetch within the quorum.
controller.quorum.fetch.snapshot.max.bytes int 1048576
  The maximum bytes of one part of a snapshot of the quorum.
controller.quorum.fetch.timeout.ms int 2000
  A voter that could not fetch for this long becomes a candidate.
controller.quorum.request.timeout.ms int 2000
  How long a request within the quorum may take.
controller.quorum.retry.backoff.ms int 20
  The pause before a request within the quorum is sent again.
controller.quorum.voters list ''
  Ids and addresses of the quorum's voters.
controller.socket.timeout.ms int 30000
  How long the controller waits for a response of a broker.
cordoned.log.dirs list '' dynamic
  Log directories in which no new replica is placed.
delete.records.purgatory.purge.interval.requests int 1
  The purgatory of DeleteRecords requests is purged after this many requests.
early.start.listeners list -
  Listeners that open before the authorizer is ready.
fetch.purgatory.purge.interval.requests int 1000
  The purgatory of Fetch requests is purged after this many requests.
group.coordinator.append.linger.ms int -1
  How long the group coordinator collects records before it writes them; -1: adaptive.
group.coordinator.background.threads int 2
  Threads that match patterns and compute assignments of groups.
group.coordinator.cached.buffer.max.bytes int 1048588 dynamic
  The largest buffer that the group coordinator keeps for its next write.
group.coordinator.rebalance.protocols list classic,consumer,streams
  The enabled group protocols. Barnabas always enables all of them.
group.coordinator.threads int 4
  Threads of the group coordinator.
initial.broker.registration.timeout.ms int 60000
  How long a starting broker waits for its registration by the quorum.
kafka.metrics.polling.interval.secs int 10
  How often metrics reporters are polled.
kafka.metrics.reporters list ''
  Java classes that report metrics.
log.cleaner.io.buffer.load.factor double 0.9 dynamic
  The maximum load factor of the key table of the log cleaner.
log.cleaner.io.buffer.size int 524288 dynamic
  The memory of the log cleaner for reading and writing.
log.cleaner.threads int 1 dynamic
  Threads that compact logs.
log.dir.failure.timeout.ms long 30000
  A broker that cannot report a failed log directory within this time stops.
log.flush.start.offset.checkpoint.interval.ms int 60000
  How often the start offsets of logs are written to their checkpoint.
log.preallocate boolean false dynamic
  Default of the topic option preallocate.
max.connections.per.ip.overrides string '' dynamic
  Limits of open connections for single addresses.
metadata.log.dir string -
  The directory of the quorum's log.
metadata.log.max.record.bytes.between.snapshots long 20971520
  The number of bytes after which the quorum writes a snapshot.
metadata.log.max.snapshot.interval.ms long 3600000
  The time after which the quorum writes a snapshot.
metadata.log.segment.bytes int 1073741824
  The maximum size of a segment of the quorum's log.
metadata.log.segment.ms long 604800000
  The time after which the quorum's log starts a new segment.
metadata.max.idle.interval.ms int 500
  How often an idle quorum writes a record.
metadata.max.retention.bytes long 104857600
  The maximum size of the quorum's log and snapshots.
metadata.max.retention.ms long 604800000
  How long the quorum keeps its log and snapshots.
metric.reporters list org.apache.kafka.common.metrics.JmxReporter dynamic
  Java classes that report metrics.
metrics.num.samples int 2
  The number of samples that a metric is computed from.
metrics.recording.level string INFO
  The level of detail of metrics.
metrics.sample.window.ms long 30000
  The time window of one sample.
num.io.threads int 8 dynamic
  Threads that handle requests.
num.network.threads int 3 dynamic
  Threads that read requests and write responses.
num.recovery.threads.per.data.dir int 2 dynamic
  Threads per log directory that recover logs at start.
num.replica.alter.log.dirs.threads int -
  Threads that move logs between directories.
num.replica.fetchers int 1 dynamic
  Connections per broker over which replicas are fetched.
offsets.commit.timeout.ms int 5000
  How long an offset commit waits for the replicas.
offsets.load.buffer.size int 5242880
  The size of the reads when the offsets of groups are loaded.
offsets.retention.check.interval.ms long 600000
  How often the broker looks for expired offsets.
offsets.topic.compression.codec int 0
  The compression codec of __consumer_offsets.
process.roles list -
  The roles of this process: broker, controller or both.
producer.purgatory.purge.interval.requests int 1000
  The purgatory of Produce requests is purged after this many requests.
replica.fetch.backoff.ms int 1000
  The pause of a follower after a failed fetch.
replica.fetch.min.bytes int 1
  The minimum bytes of a response to a follower.
replica.fetch.response.max.bytes int 10485760
  The maximum bytes of a response to a follower.
replica.socket.receive.buffer.bytes int 65536
  The kernel's receive buffer for the connection of a follower.
replica.socket.timeout.ms int 30000
  How long a follower waits for a response.
replication.quota.window.num int 11
  How many windows are kept when replication is throttled.
replication.quota.window.size.seconds int 1
  The length of a window for the throttle of replication.
share.coordinator.append.linger.ms int -1
  How long the share coordinator collects records before it writes them.
share.coordinator.cached.buffer.max.bytes int 1048588 dynamic
  The largest buffer that the share coordinator keeps for its next write.
share.coordinator.state.topic.compression.codec int 0
  The compression codec of __share_group_state.
share.coordinator.threads int 1
  Threads of the share coordinator.
share.fetch.purgatory.purge.interval.requests int 1000
  The purgatory of ShareFetch requests is purged after this many requests.
socket.connection.setup.timeout.max.ms long 30000
  The maximum time to connect to another broker.
socket.connection.setup.timeout.ms long 10000
  The time for the first attempt to connect to another broker.
telemetry.max.bytes int 1048576
  The maximum size of a report of client metrics.
transaction.two.phase.commit.enable boolean false
  Whether a client may prepare a transaction and complete it later.
"""
