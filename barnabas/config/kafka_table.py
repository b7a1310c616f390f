"""Broker options of Kafka's that have no effect here, but those of kafka_table_security.py.

Of each: its name, type and default (`-`: none; `''`: empty), whether it can change while a broker
runs (dynamic), and its meaning. Read by kafka_options.py, which is loaded when it is first needed.
"""

TABLE = """\
alter.log.dirs.replication.quota.window.num int 11
  How many windows are kept when moves between log directories are throttled.
alter.log.dirs.replication.quota.window.size.seconds int 1
  The length of one such window.
background.threads int 10 dynamic
  Threads for work in the background.
broker.heartbeat.interval.ms int 2000
  How often a broker sends a heartbeat to the quorum.
broker.session.timeout.ms int 9000
  The quorum fences a broker that is silent for this long.
compression.gzip.level int -1 dynamic
  The level at which the broker compresses with gzip.
compression.lz4.level int 9 dynamic
  The level at which the broker compresses with lz4.
compression.zstd.level int 3 dynamic
  The level at which the broker compresses with zstd.
controlled.shutdown.enable boolean true
  Does a broker hand over its partitions before it stops? It always does.
controller.listener.names list -
  The listeners of the quorum's controllers.
controller.quorum.append.linger.ms int 25
  How long the quorum's leader collects records before it writes them.
controller.quorum.auto.join.enable boolean false
  Does a controller join the quorum by itself?
controller.quorum.bootstrap.servers list ''
  Addresses at which the quorum is found.
controller.quorum.election.backoff.max.ms int 1000
  The longest pause before the next election of the quorum.
controller.quorum.election.timeout.ms int 1000
  How long a candidate of the quorum waits for votes.
controller.quorum.fetch.max.bytes int 1048576
  The most bytes of one fetch within the quorum.
controller.quorum.fetch.snapshot.max.bytes int 1048576
  The most bytes of one piece of a snapshot of the quorum.
controller.quorum.fetch.timeout.ms int 2000
  A voter that could not fetch for this long becomes a candidate.
controller.quorum.request.timeout.ms int 2000
  How long a request within the quorum may take.
controller.quorum.retry.backoff.ms int 20
  The pause before a request within the quorum is sent again.
controller.quorum.voters list ''
  Ids and addresses of the quorum's voters.
controller.quota.window.num int 11
  How many windows are kept for the quota of topic changes.
controller.quota.window.size.seconds int 1
  The length of one such window.
controller.socket.timeout.ms int 30000
  How long the controller waits for an answer of a broker.
cordoned.log.dirs list '' dynamic
  Log directories in which no new replica is placed.
delete.records.purgatory.purge.interval.requests int 1
  After how many requests the waiting DeleteRecords are tidied.
early.start.listeners list -
  Listeners that open before the broker is authorized.
fetch.purgatory.purge.interval.requests int 1000
  After how many requests the waiting fetches are tidied.
group.coordinator.append.linger.ms int -1
  How long the group coordinator collects records before it writes them; -1: it adapts.
group.coordinator.background.threads int 2
  Threads that match patterns and compute assignments of groups.
group.coordinator.cached.buffer.max.bytes int 1048588 dynamic
  The largest buffer that the group coordinator keeps for its next write.
group.coordinator.rebalance.protocols list classic,consumer,streams
  The group protocols that are offered. Classic and consumer always are.
group.coordinator.threads int 4
  Threads of the group coordinator.
group.share.assignment.interval.ms int 1000 dynamic
  How often the assignment of a share group changes at most.
group.share.assignors list simple
  The assignors of share groups.
group.share.delivery.count.limit int 5
  How often a record is delivered to a share group.
group.share.heartbeat.interval.ms int 5000
  How often members of share groups send a heartbeat.
group.share.max.assignment.interval.ms int 15000
  The largest share.assignment.interval.ms that a group may have.
group.share.max.delivery.count.limit int 10
  The largest share.delivery.count.limit that a group may have.
group.share.max.heartbeat.interval.ms int 15000
  The largest share.heartbeat.interval.ms that a group may have.
group.share.max.partition.max.record.locks int 4000
  The largest share.partition.max.record.locks that a group may have.
group.share.max.record.lock.duration.ms int 60000
  The largest share.record.lock.duration.ms that a group may have.
group.share.max.session.timeout.ms int 60000
  The largest share.session.timeout.ms that a group may have.
group.share.max.share.sessions int 2000
  Share sessions of one broker at most.
group.share.max.size int 200
  Members of one share group at most.
group.share.min.assignment.interval.ms int 0
  The smallest share.assignment.interval.ms that a group may have.
group.share.min.delivery.count.limit int 2
  The smallest share.delivery.count.limit that a group may have.
group.share.min.heartbeat.interval.ms int 5000
  The smallest share.heartbeat.interval.ms that a group may have.
group.share.min.partition.max.record.locks int 100
  The smallest share.partition.max.record.locks that a group may have.
group.share.min.record.lock.duration.ms int 15000
  The smallest share.record.lock.duration.ms that a group may have.
group.share.min.session.timeout.ms int 45000
  The smallest share.session.timeout.ms that a group may have.
group.share.partition.max.record.locks int 2000
  Records of one partition that a share group may hold locked.
group.share.record.lock.duration.ms int 30000
  How long a record is locked for one member of a share group.
group.share.session.timeout.ms int 45000
  A member of a share group that is silent for this long leaves it.
group.streams.assignment.interval.ms int 1000 dynamic
  How often the assignment of a streams group changes at most.
group.streams.heartbeat.interval.ms int 5000
  How often members of streams groups send a heartbeat.
group.streams.initial.rebalance.delay.ms int 3000
  How long the first rebalance of a streams group waits for more members.
group.streams.max.assignment.interval.ms int 15000
  The largest streams.assignment.interval.ms that a group may have.
group.streams.max.heartbeat.interval.ms int 15000
  The largest streams.heartbeat.interval.ms that a group may have.
group.streams.max.session.timeout.ms int 60000
  The largest streams.session.timeout.ms that a group may have.
group.streams.max.size int 2147483647
  Members of one streams group at most.
group.streams.max.standby.replicas int 2
  The largest streams.num.standby.replicas that a group may have.
group.streams.min.assignment.interval.ms int 0
  The smallest streams.assignment.interval.ms that a group may have.
group.streams.min.heartbeat.interval.ms int 5000
  The smallest streams.heartbeat.interval.ms that a group may have.
group.streams.min.session.timeout.ms int 45000
  The smallest streams.session.timeout.ms that a group may have.
group.streams.num.standby.replicas int 0
  Standby replicas of each task.
group.streams.session.timeout.ms int 45000
  A member of a streams group that is silent for this long leaves it.
initial.broker.registration.timeout.ms int 60000
  How long a starting broker waits to be registered by the quorum.
inter.broker.listener.name string -
  The listener through which brokers call each other. There is one listener.
kafka.metrics.polling.interval.secs int 10
  How often metrics reporters are polled.
kafka.metrics.reporters list ''
  Java classes that report metrics.
listener.security.protocol.map string
    SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT dynamic
  The security protocol of each listener. PLAINTEXT is the one there is.
log.cleaner.io.buffer.load.factor double 0.9 dynamic
  How full the table of keys may become while a log is compacted.
log.cleaner.io.buffer.size int 524288 dynamic
  Memory for reading and writing while logs are compacted.
log.cleaner.threads int 1 dynamic
  Threads that compact logs.
log.dir.failure.timeout.ms long 30000
  A broker that cannot report a failed log directory for this long stops.
log.flush.start.offset.checkpoint.interval.ms int 60000
  How often the start offsets of logs are written down.
log.preallocate boolean false dynamic
  Default of the topic option preallocate.
max.connection.creation.rate int 2147483647 dynamic
  New connections in a second at most.
max.connections.per.ip.overrides string '' dynamic
  Other limits of open connections for single addresses.
metadata.log.dir string -
  Where the quorum's log is kept.
metadata.log.max.record.bytes.between.snapshots long 20971520
  After how many bytes the quorum writes a snapshot.
metadata.log.max.snapshot.interval.ms long 3600000
  After what time the quorum writes a snapshot.
metadata.log.segment.bytes int 1073741824
  The largest segment of the quorum's log.
metadata.log.segment.ms long 604800000
  The longest that a segment of the quorum's log is written to.
metadata.max.idle.interval.ms int 500
  How often an idle quorum writes a record.
metadata.max.retention.bytes long 104857600
  The most that the quorum keeps of its log and snapshots.
metadata.max.retention.ms long 604800000
  The longest that the quorum keeps its log and snapshots.
metric.reporters list org.apache.kafka.common.metrics.JmxReporter dynamic
  Java classes that report metrics.
metrics.num.samples int 2
  Samples from which a metric is worked out.
metrics.recording.level string INFO
  How detailed metrics are.
metrics.sample.window.ms long 30000
  The time that one sample covers.
num.io.threads int 8 dynamic
  Threads that handle requests.
num.network.threads int 3 dynamic
  Threads that read requests and write responses.
num.recovery.threads.per.data.dir int 2 dynamic
  Threads for each log directory that recover logs at start.
num.replica.alter.log.dirs.threads int -
  Threads that move logs between directories.
num.replica.fetchers int 1 dynamic
  Connections to each broker over which replicas are fetched.
offsets.commit.timeout.ms int 5000
  How long a commit of offsets waits for the replicas.
offsets.load.buffer.size int 5242880
  How much is read at a time when the offsets of groups are loaded.
offsets.retention.check.interval.ms long 600000
  How often expired offsets are looked for.
offsets.topic.compression.codec int 0
  The codec of __consumer_offsets.
process.roles list -
  The roles of this process: broker, controller or both.
producer.purgatory.purge.interval.requests int 1000
  After how many requests the waiting produces are tidied.
quota.window.num int 11
  How many windows are kept for the quotas of clients.
quota.window.size.seconds int 1
  The length of one such window.
replica.fetch.backoff.ms int 1000
  The pause of a follower after a failed fetch.
replica.fetch.min.bytes int 1
  The fewest bytes a follower waits for.
replica.fetch.response.max.bytes int 10485760
  The most bytes of one answer to a follower.
replica.socket.receive.buffer.bytes int 65536
  The kernel's receive buffer of a follower's connection.
replica.socket.timeout.ms int 30000
  How long a follower waits for an answer.
replication.quota.window.num int 11
  How many windows are kept when replication is throttled.
replication.quota.window.size.seconds int 1
  The length of one such window.
share.coordinator.append.linger.ms int -1
  How long the share coordinator collects records before it writes them.
share.coordinator.cached.buffer.max.bytes int 1048588 dynamic
  The largest buffer that it keeps for its next write.
share.coordinator.load.buffer.size int 5242880
  How much is read at a time when it loads its state.
share.coordinator.snapshot.update.records.per.snapshot int 500
  Updates between two snapshots of its state.
share.coordinator.state.topic.compression.codec int 0
  The codec of __share_group_state.
share.coordinator.state.topic.min.isr short 2
  The min.insync.replicas of __share_group_state.
share.coordinator.state.topic.num.partitions int 50
  Partitions of __share_group_state.
share.coordinator.state.topic.replication.factor short 3
  Replicas of __share_group_state.
share.coordinator.state.topic.segment.bytes int 104857600
  The segment.bytes of __share_group_state.
share.coordinator.threads int 1
  Threads of the share coordinator.
share.coordinator.write.timeout.ms int 5000
  How long a write of the share coordinator waits for the replicas.
share.fetch.purgatory.purge.interval.requests int 1000
  After how many requests the waiting share fetches are tidied.
socket.connection.setup.timeout.max.ms long 30000
  The longest that connecting to another broker may take.
socket.connection.setup.timeout.ms long 10000
  How long the first try to connect to another broker may take.
telemetry.max.bytes int 1048576
  The largest report of a client's metrics.
transaction.two.phase.commit.enable boolean false
  May a client prepare a transaction and finish it later?
"""
