"""Kafka's options that are not declared here, and whether each is ignored or refused.

An option that only tunes parts that Barnabas does not have (thread pools, purgatories, the quorum)
is accepted with a warning, so that a server.properties file can be used unchanged. An option that
users rely on (security, tiered storage, policies) is refused.
"""

IGNORED = (
    "alter.log.dirs.replication.quota.", "background.threads",
    "broker.heartbeat.interval.ms", "broker.session.timeout.ms", "controlled.shutdown.enable",
    "controller.", "delete.records.purgatory.", "early.start.listeners", "fetch.purgatory.",
    "group.consumer.", "group.coordinator.", "initial.broker.registration.timeout.ms",
    "internal.", "kafka.metrics.", "log.cleaner.", "log.dir.failure.timeout.ms",
    "log.flush.start.offset.checkpoint.interval.ms",
    "metadata.", "metric.reporters", "metrics.num.samples", "metrics.recording.level",
    "metrics.sample.window.ms", "num.io.threads", "num.network.threads",
    "num.recovery.threads.per.data.dir", "num.replica.", "offsets.commit.", "offsets.load.",
    "offsets.retention.check.interval.ms", "process.roles", "producer.id.expiration.check.",
    "producer.purgatory.", "replica.fetch.", "replica.socket.",
    "replication.quota.", "server.max.startup.time.ms", "share.", "group.share.",
    "socket.connection.setup.", "ssl.keymanager.algorithm", "ssl.provider",
    "ssl.secure.random.implementation", "ssl.trustmanager.algorithm", "telemetry.max.bytes",
    "unclean.leader.election.interval.ms", "zookeeper.",
)  # fmt: skip

REFUSED = (
    "alter.config.policy.", "client.quota.callback.class", "compression.gzip.level",
    "compression.lz4.level", "compression.zstd.level", "config.providers",
    "connection.failed.authentication.delay.ms", "connections.max.reauth.ms", "cordoned.log.dirs",
    "create.topic.policy.", "delegation.token.", "follower.fetch.last.tiered.offset.enable",
    "inter.broker.protocol.version", "log.local.retention.", "log.message.format.version",
    "log.preallocate", "max.connections.per.ip.overrides",
    "offsets.topic.compression.codec", "principal.builder.class", "remote.",
    "sasl.", "security.", "ssl.engine.factory.class", "transaction.two.phase.commit.enable",
    "unstable.",
)  # fmt: skip


def is_ignored(name: str) -> bool:
    return name.startswith(IGNORED) and not is_refused(name)


def is_refused(name: str) -> bool:
    return name.startswith(REFUSED)


# Names of older Kafka and of librdkafka that are refused, with what to use instead. Names that mean
# the same as one of our options are its synonyms, and are not here (client.py).

_TIMEOUTS = "group membership has session.timeout.ms, heartbeat.interval.ms, max.poll.interval.ms"
_ZOOKEEPER = (
    "consumers have not used ZooKeeper since Kafka 0.9: use bootstrap.servers, or read with "
    "barnabas.sync.ZookeeperConsumer"
)
_FUNCTION = "a class name means something only in Java: pass a function as {}="

OLD_CLIENT = {
    "producer.type": "removed in Kafka 0.9: send() waits for the reply, send_nowait() does not",
    "batch.num.messages": "batches are limited by their bytes: use batch.size and linger.ms",
    "queue.buffering.max.messages": "the buffer is limited by its bytes: use buffer.memory",
    "queue.buffering.max.kbytes": "use buffer.memory, in bytes",
    "queue.enqueue.timeout.ms": "removed in Kafka 0.9: use max.block.ms",
    "partitioner.class": _FUNCTION.format("partitioner"),
    "partition.class": _FUNCTION.format("partitioner"),
    "serializer.class": _FUNCTION.format("value_serializer"),
    "key.serializer.class": _FUNCTION.format("key_serializer"),
    "key.serializer": _FUNCTION.format("key_serializer"),
    "value.serializer": _FUNCTION.format("value_serializer"),
    "key.deserializer": _FUNCTION.format("key_deserializer"),
    "value.deserializer": _FUNCTION.format("value_deserializer"),
    "interceptor.classes": _FUNCTION.format("interceptors"),
    "zookeeper.connect": _ZOOKEEPER,
    "zk.connect": _ZOOKEEPER,
    "zookeeper.session.timeout.ms": _ZOOKEEPER,
    "zookeeper.connection.timeout.ms": _ZOOKEEPER,
    "zookeeper.sync.time.ms": _ZOOKEEPER,
    "offsets.storage": _ZOOKEEPER,
    "dual.commit.enabled": _ZOOKEEPER,
    "rebalance.max.retries": f"the coordinator retries, not the consumer; {_TIMEOUTS}",
    "rebalance.backoff.ms": f"the coordinator retries, not the consumer; {_TIMEOUTS}",
    "heartbeat.frequency": "use heartbeat.interval.ms: a third of session.timeout.ms or less",
    "consumer.timeout.ms": "removed in Kafka 0.9: getmany() and getone() take a timeout",
    "queued.max.message.chunks": "removed in Kafka 0.9: use max.partition.fetch.bytes",
    "consumer.id": "the coordinator gives out member ids; name a consumer with client.id",
    "socket.timeout.ms": "use request.timeout.ms",
    "api.version.request": "the client always asks for the versions of a broker",
    "broker.version.fallback": "the client always asks for the versions of a broker",
    "offsets.channel.backoff.ms": "removed in Kafka 0.9: use retry.backoff.ms",
    "block.on.buffer.full": "removed in Kafka 0.10: send() waits at most max.block.ms",
    "metadata.fetch.timeout.ms": "removed in Kafka 0.10: use max.block.ms",
    "timeout.ms": "removed in Kafka 0.10: use request.timeout.ms",
    "default.topic.config": "options of topics are options of the client: use the mapping itself",
    "go.delivery.reports": "send() raises, and send_nowait() returns a Delivery",
}

_SYSTEM = "the system chooses the size of a socket's buffers"
_METRICS = "this client keeps no metrics: `barnabas group describe` and a broker's metrics have lag"
_LOGGING = 'it logs with Python\'s logging, under "barnabas.client": set a level or a handler there'
_BACKOFF = "connections wait as requests do: use retry.backoff.ms and retry.backoff.max.ms"
_FETCHED = "fetched records are limited by their bytes: use fetch.max.bytes and max.poll.records"
_ALWAYS = "the client always asks for the versions of a broker"
_LEVEL = "each codec has one level here: choose the codec with compression.type"
_DELIVERY = "pass callback= to send_nowait(), or read the Delivery that it returns"
_STORE = "offsets are stored on the broker: set group.id, or keep them yourself and seek()"
_NOTHING = "this client has nothing that it tunes"
_LOOP = "the client has its own event loop and sockets"

# Options of Kafka's Java client and of librdkafka that this client does not have, and options of
# older clients that have no other place.
OTHER_CLIENTS = {
    # Kafka's
    "auto.include.jmx.reporter": _METRICS,
    "client.dns.lookup": "the client tries each address of a name in turn",
    "compression.gzip.level": _LEVEL,
    "compression.lz4.level": _LEVEL,
    "compression.zstd.level": _LEVEL,
    "connections.max.idle.ms": "brokers close idle connections, and the client opens them again",
    "enable.metrics.push": _METRICS,
    "metadata.max.idle.ms": "topics that are not used are forgotten at metadata.max.age.ms",
    "metadata.recovery.rebootstrap.trigger.ms": "the client always asks bootstrap.servers again",
    "metadata.recovery.strategy": "the client always asks bootstrap.servers again",
    "metric.reporters": _METRICS,
    "metrics.num.samples": _METRICS,
    "metrics.recording.level": _METRICS,
    "metrics.sample.window.ms": _METRICS,
    "partitioner": "pass a function as the keyword partitioner=, not as an option",
    "partitioner.adaptive.partitioning.enable": "records without keys go by turns of 16 KB",
    "partitioner.availability.timeout.ms": "records without keys go where a leader is",
    "partitioner.ignore.keys": "pass a function as partitioner=, which need not look at the key",
    "receive.buffer.bytes": _SYSTEM,
    "reconnect.backoff.max.ms": _BACKOFF,
    "reconnect.backoff.ms": _BACKOFF,
    "send.buffer.bytes": _SYSTEM,
    "socket.connection.setup.timeout.max.ms": "use socket.connection.setup.timeout.ms",
    "transaction.two.phase.commit.enable": "two-phase commit is not supported (KIP-939)",
    # librdkafka's
    "api.version.fallback.ms": _ALWAYS,
    "api.version.request.timeout.ms": "use request.timeout.ms",
    "background_event_cb": _LOOP,
    "broker.address.family": "the client tries the addresses of a name, IPv6 and IPv4",
    "broker.address.ttl": "names are looked up for each connection",
    "builtin.features": _NOTHING,
    "client.software.name": "it is always barnabas: name a client with client.id",
    "closesocket_cb": _LOOP,
    "compression.level": _LEVEL,
    "connect_cb": _LOOP,
    "consume.callback.max.messages": "use max.poll.records",
    "consume_cb": "iterate over the consumer, or let @parallel call a function for each record",
    "coordinator.query.interval.ms": "the coordinator is looked up when it is needed",
    "debug": _LOGGING,
    "default_topic_conf": "all options are in one dictionary",
    "delivery.report.only.error": _DELIVERY,
    "dr_cb": _DELIVERY,
    "dr_msg_cb": _DELIVERY,
    "enable.auto.offset.store": "commit by hand: enable.auto.commit=false and commit(message)",
    "enable.gapless.guarantee": "idempotence keeps the order: enable.idempotence",
    "enable.partition.eof": "stop_at() of a PartitionConsumer ends an iteration at an offset",
    "enabled_events": _LOOP,
    "error_cb": "errors are raised by the call that meets them",
    "fetch.error.backoff.ms": "use retry.backoff.ms",
    "fetch.queue.backoff.ms": _FETCHED,
    "group.protocol.type": "it is always consumer",
    "internal.termination.signal": _LOOP,
    "log.connection.close": _LOGGING,
    "log.queue": _LOGGING,
    "log.thread.name": _LOGGING,
    "log_cb": _LOGGING,
    "log_level": _LOGGING,
    "logger": _LOGGING,
    "message.copy.max.bytes": _NOTHING,
    "msg_order_cmp": "records of a partition are sent in the order in which they were given",
    "offset.store.method": _STORE,
    "offset.store.path": _STORE,
    "offset.store.sync.interval.ms": _STORE,
    "offset_commit_cb": "pass interceptors= with on_commit(), or await commit()",
    "on_commit": "pass interceptors= with on_commit(), or await commit()",
    "on_delivery": _DELIVERY,
    "opaque": _NOTHING,
    "open_cb": _LOOP,
    "partitioner_cb": "pass a function as partitioner=",
    "plugin.library.paths": "pass interceptors=",
    "produce.offset.report": "the result of send() always has the offset",
    "queue.buffering.backpressure.threshold": "use linger.ms",
    "queued.max.messages.kbytes": _FETCHED,
    "queued.min.messages": _FETCHED,
    "queuing.strategy": "records of a partition are sent in the order in which they were given",
    "rebalance_cb": "pass on_assigned=, on_revoked= and on_lost=",
    "receive.message.max.bytes": "use fetch.max.bytes",
    "reconnect.backoff.jitter.ms": _BACKOFF,
    "socket.blocking.max.ms": _LOOP,
    "socket.keepalive.enable": "a request that is not answered in request.timeout.ms is noticed",
    "socket.max.fails": _NOTHING,
    "socket.nagle.disable": "Nagle's algorithm is always off",
    "socket.receive.buffer.bytes": _SYSTEM,
    "socket.send.buffer.bytes": _SYSTEM,
    "socket_cb": _LOOP,
    "statistics.interval.ms": _METRICS,
    "stats_cb": _METRICS,
    "sticky.partitioning.linger.ms": "records without keys go by turns of 16 KB",
    "throttle_cb": "the client waits as long as the broker says",
    "topic.blacklist": "name the topics, or use a pattern that leaves some out",
    "topic.metadata.propagation.max.ms": "a topic that is not there yet has max.block.ms",
    "topic.metadata.refresh.fast.interval.ms": "use retry.backoff.ms",
    "topic.metadata.refresh.sparse": "the client always asks for its own topics only",
    # Kafka's before 0.9
    "backoff.increment.ms": "use retry.backoff.ms and retry.backoff.max.ms",
    "compressed.topics": "use one producer with compression.type, and one without",
    "fetch.size": "use max.partition.fetch.bytes",
    "num.consumer.fetchers": "each leader has one connection for fetches",
    "num.retries": "use retries",
    "refresh.leader.backoff.ms": "use retry.backoff.ms",
    "socket.buffersize": _SYSTEM,
}

_LAG = (
    "removed in Kafka 0.9: a follower is out of sync when it was not level for"
    " replica.lag.time.max.ms"
)

OLD_BROKER = {
    "replica.lag.max.messages": _LAG,
    "zk.connect": "use zookeeper.connect",
    "brokerid": "use node.id",
    "hostname": "use listeners",
    "host.name": "removed in Kafka 3.0: use listeners",
    "port": "removed in Kafka 3.0: use listeners",
    "advertised.host.name": "removed in Kafka 3.0: use advertised.listeners",
    "advertised.port": "removed in Kafka 3.0: use advertised.listeners",
    "log.file.size": "use log.segment.bytes",
    "log.cleanup.interval.mins": "use log.retention.check.interval.ms",
    "log.flush.interval": "use log.flush.interval.messages",
    "log.default.flush.interval.ms": "use log.flush.interval.ms",
    "log.delete.delay.ms": "use log.segment.delete.delay.ms",
    "enable.zookeeper": "removed in Kafka 0.8: leave it out, or set zookeeper.connect",
    "reserved.broker.max.id": "leave it out: a broker has the node.id that it is given",
    "log.retention.size": "use log.retention.bytes",
    "topic.partition.count.map": "removed in Kafka 0.8: create each topic with its partitions",
    "num.partitions.per.topic": "use num.partitions",
    "message.send.max.retries": "an option of producers: retries",
    "offsets.storage": "an option of consumers of Kafka 0.8",
}

_JAVA = "org.apache.kafka.clients.consumer."
ASSIGNORS = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "StickyAssignor": "sticky",
    "CooperativeStickyAssignor": "cooperative-sticky",
}


def assignor_name(name: str) -> str:
    """Kafka's class name of an assignor as our name; other names stay."""
    return ASSIGNORS.get(name.removeprefix(_JAVA), name)
