"""Every option of a broker: its id and its limits.

Names and defaults are Kafka's, except `metrics.listen`, `keeper.file` and
`listeners.insecure.allow`. A broker with neither `keeper.file` nor `zookeeper.connect` is a lone
broker. Options come from files by subject: this one, and the others named `broker_...`.
Not here: Kafka's options without a meaning here (unsupported.py).
"""

from collections.abc import Mapping

from barnabas.config.broker_access import AuthorizerOptions, QuotaOptions
from barnabas.config.broker_listeners import ListenerOptions
from barnabas.config.broker_log import LogOptions
from barnabas.config.broker_roles import RoleOptions
from barnabas.config.broker_sasl import SaslOptions
from barnabas.config.broker_tls import TlsOptions
from barnabas.config.kinds import (
    INT_MAX,
    Address,
    Bool,
    Bytes,
    HostPort,
    Int,
    List,
    Milliseconds,
    Text,
)
from barnabas.config.option import Option, Scope, declared, invalid
from barnabas.config.resolve import NO_LAYERS, Layers
from barnabas.config.share.broker_options import ShareGroupBrokerOptions
from barnabas.config.share.coordinator_options import ShareCoordinatorOptions
from barnabas.config.streams.broker_options import StreamsGroupBrokerOptions


class BrokerConfig(
    AuthorizerOptions,
    ListenerOptions,
    LogOptions,
    QuotaOptions,
    RoleOptions,
    SaslOptions,
    ShareCoordinatorOptions,
    ShareGroupBrokerOptions,
    StreamsGroupBrokerOptions,
    TlsOptions,
):
    """The effective options of one broker, parsed."""

    node_id = Option[int](
        name="node.id",
        kind=Int(min=0),
        default=1,
        scope=Scope.BROKER,
        needs_restart=True,
        doc="The id of this broker in its cluster.",
        synonyms=("broker.id",),
    )
    broker_id = Option[int](
        name="broker.id",
        kind=Int(min=-1),
        default=-1,
        scope=Scope.BROKER,
        needs_restart=True,
        doc="The older name of node.id.",
    )
    broker_rack = Option[str | None](
        name="broker.rack",
        kind=Text(),
        default=None,
        scope=Scope.BROKER,
        needs_restart=True,
        doc="The rack of this broker: replicas are spread over racks, and clients can read "
        "from their own.",
    )
    log_dirs = Option[tuple[str, ...] | None](
        name="log.dirs",
        kind=List(),
        default=None,
        scope=Scope.BROKER,
        needs_restart=True,
        doc="The data directories; unset: log.dir.",
    )
    log_dir = Option[tuple[str, ...]](
        name="log.dir",
        kind=List(),
        default=("barnabas-data",),
        scope=Scope.BROKER,
        needs_restart=True,
        doc="The data directory when log.dirs is unset.",
    )
    metrics_listen = Option[Address | None](
        name="metrics.listen",
        kind=HostPort(),
        default=None,
        scope=Scope.BROKER,
        needs_restart=True,
        doc="HOST:PORT where Prometheus reads metrics over HTTP; unset: no metrics.",
    )
    auto_create_topics_enable = Option[bool](
        name="auto.create.topics.enable",
        kind=Bool(),
        default=True,
        scope=Scope.BROKER,
        needs_restart=True,
        doc="Create a topic when a client requests one that does not exist.",
    )
    delete_topic_enable = Option[bool](
        name="delete.topic.enable",
        kind=Bool(),
        default=True,
        scope=Scope.BROKER,
        needs_restart=True,
        doc="Allow topics to be deleted.",
    )
    num_partitions = Option[int](
        name="num.partitions",
        kind=Int(min=1),
        default=1,
        scope=Scope.BROKER,
        needs_restart=True,
        doc="The number of partitions of a new topic, if CreateTopics does not set it.",
    )
    default_replication_factor = Option[int](
        name="default.replication.factor",
        kind=Int(min=1),
        default=1,
        scope=Scope.BROKER,
        needs_restart=True,
        doc="The replication factor of a new topic, if CreateTopics does not set it.",
    )
    socket_request_max_bytes = Option[int](
        name="socket.request.max.bytes",
        kind=Bytes(min=1),
        default=104_857_600,
        scope=Scope.BROKER,
        needs_restart=True,
        doc="The largest request; a connection that announces a larger one is closed.",
    )
    socket_receive_buffer_bytes = Option[int](
        name="socket.receive.buffer.bytes",
        kind=Bytes(min=-1),
        default=102_400,
        scope=Scope.BROKER,
        needs_restart=True,
        doc="The kernel's receive buffer of a connection; -1: the kernel's choice.",
    )
    socket_send_buffer_bytes = Option[int](
        name="socket.send.buffer.bytes",
        kind=Bytes(min=-1),
        default=102_400,
        scope=Scope.BROKER,
        needs_restart=True,
        doc="The kernel's send buffer of a connection; -1: the kernel's choice.",
    )
    socket_listen_backlog_size = Option[int](
        name="socket.listen.backlog.size",
        kind=Int(min=1),
        default=50,
        scope=Scope.BROKER,
        needs_restart=True,
        doc="The number of connections that may wait to be accepted.",
    )
    queued_max_requests = Option[int](
        name="queued.max.requests",
        kind=Int(min=1),
        default=500,
        scope=Scope.BROKER,
        needs_restart=True,
        doc="The largest number of requests in memory; above it, connections are not read.",
    )
    queued_max_request_bytes = Option[int](
        name="queued.max.request.bytes",
        kind=Bytes(min=-1, bits=64),
        default=-1,
        scope=Scope.BROKER,
        needs_restart=True,
        doc="The largest number of bytes of requests in memory; above it, connections are "
        "not read; -1: 256 MiB.",
    )
    max_connections = Option[int](
        name="max.connections",
        kind=Int(min=0),
        default=INT_MAX,
        scope=Scope.BROKER,
        needs_restart=False,
        doc="The largest number of open connections.",
    )
    max_connections_per_ip = Option[int](
        name="max.connections.per.ip",
        kind=Int(min=0),
        default=INT_MAX,
        scope=Scope.BROKER,
        needs_restart=False,
        doc="The largest number of open connections from one address.",
    )
    connections_max_idle_ms = Option[int](
        name="connections.max.idle.ms",
        kind=Milliseconds(),
        default=600_000,
        scope=Scope.BROKER,
        needs_restart=True,
        doc="A connection idle for this long is closed; negative: never.",
    )
    fetch_max_bytes = Option[int](
        name="fetch.max.bytes",
        kind=Bytes(min=1024),
        default=57_671_680,
        scope=Scope.BROKER,
        needs_restart=True,
        doc="The largest fetch response, whatever the client requests; the first batch is "
        "always sent whole.",
    )
    max_incremental_fetch_session_cache_slots = Option[int](
        name="max.incremental.fetch.session.cache.slots",
        kind=Int(min=0),
        default=1000,
        scope=Scope.BROKER,
        needs_restart=True,
        doc="The largest number of incremental fetch sessions.",
    )
    max_request_partition_size_limit = Option[int](
        name="max.request.partition.size.limit",
        kind=Int(min=1),
        default=2000,
        scope=Scope.BROKER,
        needs_restart=True,
        doc="The largest number of partitions in one DescribeTopicPartitions response.",
    )
    request_timeout_ms = Option[int](
        name="request.timeout.ms",
        kind=Milliseconds(min=1, bits=32),
        default=30_000,
        scope=Scope.BROKER,
        needs_restart=True,
        doc="How long a request to another broker may take.",
    )
    producer_id_expiration_ms = Option[int](
        name="producer.id.expiration.ms",
        kind=Milliseconds(min=1, bits=32),
        default=86_400_000,
        scope=Scope.BROKER,
        needs_restart=False,
        doc="The broker forgets an idempotent producer that was idle for this long.",
    )

    keeper_file = Option[str | None](
        name="keeper.file",
        kind=Text(),
        default=None,
        scope=Scope.BROKER,
        needs_restart=True,
        doc="The keeper file that the brokers of one machine share; `barnabas up "
        "--brokers` sets it.",
    )
    zookeeper_connect = Option[str | None](
        name="zookeeper.connect",
        kind=Text(),
        default=None,
        scope=Scope.BROKER,
        needs_restart=True,
        doc="HOST:PORT,...[/root]: the ZooKeeper that brokers of several machines share.",
    )
    zookeeper_session_timeout_ms = Option[int](
        name="zookeeper.session.timeout.ms",
        kind=Milliseconds(min=100, bits=32),
        default=18_000,
        scope=Scope.BROKER,
        needs_restart=True,
        doc="The session timeout: a broker that sends the keeper nothing for this long is "
        "considered dead. On one machine, the end of its process is noticed at once.",
    )

    zookeeper_digest_file = Option[str | None](
        name="zookeeper.digest.file",
        kind=Text(),
        default=None,
        scope=Scope.BROKER,
        needs_restart=True,
        doc="A file with USER:PASSWORD, with which the broker authenticates at ZooKeeper (scheme "
        "digest). ZooKeeper gets the password as it is: use a network that you trust.",
    )
    zookeeper_set_acl = Option[bool](
        name="zookeeper.set.acl",
        kind=Bool(),
        default=False,
        scope=Scope.BROKER,
        needs_restart=True,
        doc="Whether new nodes in ZooKeeper are for the user of zookeeper.digest.file only.",
    )

    def __init__(self, layers: Layers | Mapping[str, str] = NO_LAYERS) -> None:
        """Creates it from layers, or from the settings at start alone."""
        super().__init__(OPTIONS, {}, layers if isinstance(layers, Layers) else Layers(layers))
        if self.queued_max_request_bytes == 0:
            raise invalid(
                "broker option queued.max.request.bytes = 0 would hold no request at all: "
                "give a number of bytes, or -1 for 256 MiB"
            )
        self.check_listeners()

    @property
    def directories(self) -> tuple[str, ...]:
        """log.dirs, or log.dir."""
        return self.log_dirs or self.log_dir

    @property
    def clustered(self) -> bool:
        """Whether this broker belongs to a cluster."""
        return bool(self.keeper_file or self.zookeeper_connect)


OPTIONS = {option.name: option for option in declared(BrokerConfig)}
