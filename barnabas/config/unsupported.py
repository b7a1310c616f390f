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
    "group.streams.", "socket.connection.setup.", "ssl.keymanager.algorithm", "ssl.provider",
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
    "go.delivery.reports": "send() raises, and send_nowait() returns a Delivery",
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
