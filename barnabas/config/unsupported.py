"""Kafka's broker options that are not declared here, and whether each is ignored or refused.

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
