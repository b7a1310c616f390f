"""Options of the client.

Names are Kafka's; if a default differs from Kafka's, the doc says so.
In: a mapping of dotted names, keywords with underscores, or both. Out: checked values, or
INVALID_CONFIG with the nearest known name.
Not here: what takes a function (serializers, partitioners, interceptors): those are parameters of
the class that calls them.
"""

from collections.abc import Mapping
from typing import TypeVar

from barnabas.config.client_security import SecurityClientOptions
from barnabas.config.kinds import (
    Bool,
    Bytes,
    ConfigType,
    Enum,
    Int,
    Kind,
    List,
    Milliseconds,
    Text,
)
from barnabas.config.option import (
    Option,
    Scope,
    check_servers,
    declared,
    invalid,
    nearest,
    text_of,
)
from barnabas.config.resolve import Layers

T = TypeVar("T")
Value = str | int | float | bool | tuple[str, ...] | list[str] | None
Settings = Mapping[str, object]
"""By dotted names; values are of `Value`, which is checked here: a dictionary in a variable has
types of its own."""

# What is given as a function, to whom it concerns.
_PARAMETERS = dict.fromkeys(
    (
        "key_serializer",
        "value_serializer",
        "key_deserializer",
        "value_deserializer",
        "partitioner",
        "interceptors",
        "assignors",
        "on_assigned",
        "on_revoked",
        "on_lost",
    )
)


def _option(
    name: str, kind: Kind[T], default: T, doc: str, synonyms: tuple[str, ...] = ()
) -> Option[T]:
    return Option(name, kind, default, Scope.CLIENT, True, doc, synonyms)


class ClientConfig(SecurityClientOptions):
    """The effective options of one client, parsed."""

    # --- every client ---

    bootstrap_servers = _option(
        "bootstrap.servers",
        Text(),
        "localhost:9092",
        "HOST:PORT, separated by commas: the brokers to connect to first.",
        ("metadata.broker.list",),
    )
    client_id = _option(
        "client.id",
        Text(),
        "barnabas",
        "The name that brokers put into their logs and metrics.",
    )
    client_rack = _option(
        "client.rack",
        Text(),
        "",
        "The rack of this client, as in `broker.rack` of brokers: it reads from replicas in its"
        " rack.",
    )
    request_timeout_ms = _option(
        "request.timeout.ms",
        Milliseconds(min=1, bits=32),
        30_000,
        "How long to wait for the response to one request.",
    )
    default_api_timeout_ms = _option(
        "default.api.timeout.ms",
        Milliseconds(min=1, bits=32),
        60_000,
        "How long a call may take, retries included.",
    )
    socket_connection_setup_timeout_ms = _option(
        "socket.connection.setup.timeout.ms",
        Milliseconds(min=1),
        10_000,
        "How long to wait for a connection.",
    )
    retry_backoff_ms = _option(
        "retry.backoff.ms",
        Milliseconds(min=1),
        100,
        "The first pause before a retry; it doubles with each retry.",
    )
    retry_backoff_max_ms = _option(
        "retry.backoff.max.ms",
        Milliseconds(min=1),
        1_000,
        "The longest pause before a retry.",
    )
    metadata_max_age_ms = _option(
        "metadata.max.age.ms",
        Milliseconds(min=0),
        300_000,
        "After this long, metadata is refreshed.",
        ("topic.metadata.refresh.interval.ms",),
    )
    allow_auto_create_topics = _option(
        "allow.auto.create.topics",
        Bool(),
        True,
        "Whether a missing topic may be created, if the broker allows that.",
    )

    # --- producers ---

    acks = _option(
        "acks",
        Enum("all", "-1", "0", "1"),
        "all",
        "Which replicas must have a record before it is acknowledged: all in-sync replicas (all), "
        "the leader (1), or none (0).",
        ("request.required.acks",),
    )
    enable_idempotence = _option(
        "enable.idempotence",
        Bool(),
        True,
        "Whether a record is written once, and in order, however often it is sent. Requires"
        " acks=all.",
    )
    compression_type = _option(
        "compression.type",
        Enum("none", "gzip", "snappy", "lz4", "zstd"),
        "none",
        "The codec of the batches that are sent.",
        ("compression.codec",),
    )
    batch_size = _option(
        "batch.size",
        Bytes(min=0),
        1_000_000,
        "The largest batch, before compression. (Kafka's default is 16384.)",
    )
    linger_ms = _option(
        "linger.ms",
        Milliseconds(min=0),
        0,
        "How long a batch waits for more records. With 0, a batch is sent as soon as a request "
        "may be sent, with the records so far. (Kafka's default is 5.)",
        ("queue.buffering.max.ms",),
    )
    buffer_memory = _option(
        "buffer.memory",
        Bytes(min=0, bits=64),
        33_554_432,
        "The bytes of records that may be unacknowledged; above it, `send` waits.",
    )
    max_block_ms = _option(
        "max.block.ms",
        Milliseconds(min=0),
        60_000,
        "How long `send` waits for room in `buffer.memory`, or for the metadata of its topic.",
    )
    max_request_size = _option(
        "max.request.size",
        Bytes(min=1),
        1_048_576,
        "The largest record, and the largest request that carries several batches.",
        ("message.max.bytes",),
    )
    max_in_flight_requests_per_connection = _option(
        "max.in.flight.requests.per.connection",
        Int(min=1),
        5,
        "The largest number of unanswered requests per broker; at most 5 for an idempotent"
        " producer.",
        ("max.in.flight",),
    )
    retries = _option(
        "retries",
        Int(min=0),
        2_147_483_647,
        "How often a batch is retried; `delivery.timeout.ms` is the better limit.",
        ("message.send.max.retries",),
    )
    delivery_timeout_ms = _option(
        "delivery.timeout.ms",
        Milliseconds(min=0, bits=32),
        120_000,
        "How long a record may take from `send` to its acknowledgement, retries included.",
        ("message.timeout.ms",),
    )

    transactional_id = _option(
        "transactional.id",
        Text(),
        "",
        "The name under which a producer writes transactions. A producer that starts with the same "
        "name ends the one before it. Empty: no transactions.",
    )
    transaction_timeout_ms = _option(
        "transaction.timeout.ms",
        Milliseconds(min=1, bits=32),
        60_000,
        "The coordinator aborts a transaction that is open for longer.",
    )

    # --- consumers ---

    group_id = _option("group.id", Text(), "", "The id of the consumer group.")
    group_instance_id = _option(
        "group.instance.id",
        Text(),
        "",
        "The id of a static member: a short restart moves no partition.",
    )
    group_protocol = _option(
        "group.protocol",
        Enum("classic", "consumer"),
        "classic",
        "The group protocol: members assign partitions (classic), or the coordinator does"
        " (consumer, KIP-848).",
    )
    group_remote_assignor = _option(
        "group.remote.assignor",
        Text(),
        "",
        "The coordinator's assignor, with group.protocol=consumer; unset: the coordinator chooses.",
    )
    partition_assignment_strategy = _option(
        "partition.assignment.strategy",
        List(),
        ("range", "cooperative-sticky"),
        "Assignors in order of preference, with group.protocol=classic.",
    )
    session_timeout_ms = _option(
        "session.timeout.ms",
        Milliseconds(min=1, bits=32),
        45_000,
        "A member that sends no heartbeat for this long is removed from the group.",
    )
    heartbeat_interval_ms = _option(
        "heartbeat.interval.ms",
        Milliseconds(min=1, bits=32),
        3_000,
        "How often a member sends a heartbeat.",
    )
    max_poll_interval_ms = _option(
        "max.poll.interval.ms",
        Milliseconds(min=1, bits=32),
        300_000,
        "A member that does not poll for this long leaves the group.",
    )
    max_poll_records = _option(
        "max.poll.records", Int(min=1), 500, "The largest number of records that one call returns."
    )
    enable_auto_commit = _option(
        "enable.auto.commit",
        Bool(),
        True,
        "Whether positions are committed automatically.",
        ("auto.commit.enable", "autocommit.enable"),
    )
    auto_commit_interval_ms = _option(
        "auto.commit.interval.ms",
        Milliseconds(min=0, bits=32),
        5_000,
        "How often positions are committed automatically.",
    )
    auto_offset_reset = _option(
        "auto.offset.reset",
        Text(),
        "latest",
        "Where to start without a committed offset: earliest, latest, none (an error), or "
        "by_duration:PT1H (the first record that is not older).",
    )
    isolation_level = _option(
        "isolation.level",
        Enum("read_committed", "read_uncommitted"),
        "read_committed",
        "Whether records of open and aborted transactions are read. (Kafka's default is"
        " read_uncommitted.)",
    )
    share_acknowledgement_mode = _option(
        "share.acknowledgement.mode",
        Enum("implicit", "explicit"),
        "implicit",
        "How a ShareConsumer acknowledges messages: the next poll accepts those before it "
        "(implicit), or the program acknowledges each (explicit).",
    )
    share_acquire_mode = _option(
        "share.acquire.mode",
        Enum("batch_optimized", "record_limit"),
        "batch_optimized",
        "How many records a ShareConsumer locks: whole batches (batch_optimized), or at most "
        "`max.poll.records` (record_limit).",
    )
    fetch_max_wait_ms = _option(
        "fetch.max.wait.ms",
        Milliseconds(min=0, bits=32),
        500,
        "How long the broker waits for data before it answers a fetch.",
        ("fetch.wait.max.ms",),
    )
    fetch_min_bytes = _option(
        "fetch.min.bytes",
        Bytes(min=0),
        1,
        "The bytes that the broker waits for before it answers a fetch.",
    )
    fetch_max_bytes = _option(
        "fetch.max.bytes",
        Bytes(min=0),
        52_428_800,
        "The largest fetch response; the first batch is always included.",
    )
    max_partition_fetch_bytes = _option(
        "max.partition.fetch.bytes",
        Bytes(min=0),
        1_048_576,
        "The most bytes of one partition in one fetch response; the first batch is always"
        " included.",
        ("fetch.message.max.bytes",),
    )
    check_crcs = _option(
        "check.crcs", Bool(), True, "Whether the checksums of batches are checked."
    )
    exclude_internal_topics = _option(
        "exclude.internal.topics",
        Bool(),
        True,
        "Whether a pattern excludes internal topics.",
    )

    def __init__(self, settings: Settings | None = None, /, **keywords: Value) -> None:
        given: dict[str, str] = {}
        if settings is not None and not isinstance(settings, Mapping):
            raise TypeError(
                f"options are a dictionary or keywords, as in bootstrap_servers="
                f"'localhost:9092', not {settings!r:.100}"
            )
        for name, value in (settings or {}).items():
            _put(given, name, value, name)
        for word, value in keywords.items():
            _put(given, _BY_KEYWORD.get(word, word.replace("_", ".")), value, word)
        self.given = frozenset(given)  # by name: the rest is at its default
        super().__init__(OPTIONS, {}, Layers(given))


def _put(given: dict[str, str], name: str, value: object, said: str) -> None:
    if name == "bootstrap.servers":
        check_servers(value, said)
    if name not in OPTIONS and name not in _OLDER_NAMES and name.startswith(_SECURITY):
        raise invalid(
            f"{said[:100]} is not supported: leave the option out. The options about security that"
            f" there are: {', '.join(each for each in OPTIONS if each.startswith(_SECURITY))}"
        )
    if name not in OPTIONS and name not in _OLDER_NAMES:
        from barnabas.config.unsupported import OLD_CLIENT, OTHER_CLIENTS

        for reasons in (OLD_CLIENT, OTHER_CLIENTS):
            if reason := reasons.get(name) or reasons.get(said):
                raise invalid(f"client option {said[:100]}: {reason}")
        known = {**OPTIONS, **_OLDER_NAMES}
        hint = nearest(said, _PARAMETERS) or nearest(name, known)
        raise invalid(f"unknown client option {said[:100]!r}{hint}")
    if value is not None:
        secret = name in OPTIONS and OPTIONS[name].kind.type is ConfigType.PASSWORD
        given[name] = text_of(value, said, secret)


_SECURITY = ("security.", "sasl.", "ssl.")
OPTIONS = {option.name: option for option in declared(ClientConfig)}
_OLDER_NAMES = {name: option for option in OPTIONS.values() for name in option.synonyms}
_BY_KEYWORD = {name.replace(".", "_").replace("-", "_"): name for name in (*OPTIONS, *_OLDER_NAMES)}
