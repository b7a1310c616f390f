"""Options of the client. Names are Kafka's; where a default is not Kafka's, the doc says so.

In: a mapping of dotted names, keywords with underscores, or both. Out: checked values, or
INVALID_CONFIG with the nearest name there is.
Not here: what takes a function (serializers, partitioners, interceptors): those are parameters of
the class that calls them.
"""

from collections.abc import Mapping
from typing import TypeVar

from barnabas.config.kinds import Bool, Bytes, Enum, Int, Kind, List, Milliseconds, Text
from barnabas.config.option import Option, Scope, declared, invalid, nearest
from barnabas.config.resolve import Config, Layers

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


class ClientConfig(Config):
    """What is in force for one client, parsed."""

    # --- every client ---

    bootstrap_servers = _option(
        "bootstrap.servers",
        Text(),
        "localhost:9092",
        "HOST:PORT between commas: brokers to ask for the others.",
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
        "Where this client is, as brokers say it in `broker.rack`: near replicas are read.",
    )
    request_timeout_ms = _option(
        "request.timeout.ms",
        Milliseconds(min=1, bits=32),
        30_000,
        "How long to wait for the answer to one request.",
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
        "The first wait before trying again; it doubles.",
    )
    retry_backoff_max_ms = _option(
        "retry.backoff.max.ms",
        Milliseconds(min=1),
        1_000,
        "The longest wait before trying again.",
    )
    metadata_max_age_ms = _option(
        "metadata.max.age.ms",
        Milliseconds(min=0),
        300_000,
        "After this long, leaders and partitions are looked up anew.",
        ("topic.metadata.refresh.interval.ms",),
    )
    allow_auto_create_topics = _option(
        "allow.auto.create.topics",
        Bool(),
        True,
        "May a missing topic be created, where the broker does that?",
    )

    # --- producers ---

    acks = _option(
        "acks",
        Enum("all", "-1", "0", "1"),
        "all",
        "Who must have a record before it counts as written: all replicas in sync, the leader "
        "(1), or nobody (0).",
        ("request.required.acks",),
    )
    enable_idempotence = _option(
        "enable.idempotence",
        Bool(),
        True,
        "Is a record written once, and in order, however often it is sent? Needs acks=all.",
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
        "How long a batch waits for more records. Without, a batch leaves as soon as a request "
        "may, with all that has come by then. (Kafka's default is 5.)",
        ("queue.buffering.max.ms",),
    )
    buffer_memory = _option(
        "buffer.memory",
        Bytes(min=0, bits=64),
        33_554_432,
        "Bytes of records that may wait for their answer; then sending waits.",
    )
    max_block_ms = _option(
        "max.block.ms",
        Milliseconds(min=0),
        60_000,
        "How long a send waits for room in `buffer.memory`, or for its topic to be known.",
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
        "Requests sent to a broker and not yet answered; 5 at most when idempotent.",
        ("max.in.flight",),
    )
    retries = _option(
        "retries",
        Int(min=0),
        2_147_483_647,
        "How often a batch is sent again; `delivery.timeout.ms` is the better bound.",
    )
    delivery_timeout_ms = _option(
        "delivery.timeout.ms",
        Milliseconds(min=0, bits=32),
        120_000,
        "How long a record may take from send to its answer, retries included.",
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

    group_id = _option("group.id", Text(), "", "The group that shares the partitions.")
    group_instance_id = _option(
        "group.instance.id",
        Text(),
        "",
        "A name that stays with this member through restarts: a short one moves no partition.",
    )
    group_protocol = _option(
        "group.protocol",
        Enum("classic", "consumer"),
        "classic",
        "Members assign (classic), or the coordinator does (consumer, KIP-848).",
    )
    group_remote_assignor = _option(
        "group.remote.assignor",
        Text(),
        "",
        "The coordinator's assignor, with group.protocol=consumer; unset, it chooses.",
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
        "A member that is silent for this long is out of the group.",
    )
    heartbeat_interval_ms = _option(
        "heartbeat.interval.ms",
        Milliseconds(min=1, bits=32),
        3_000,
        "How often a member says that it is alive.",
    )
    max_poll_interval_ms = _option(
        "max.poll.interval.ms",
        Milliseconds(min=1, bits=32),
        300_000,
        "A member that asks for no records for this long leaves the group.",
    )
    max_poll_records = _option(
        "max.poll.records", Int(min=1), 500, "The most records that one call gives."
    )
    enable_auto_commit = _option(
        "enable.auto.commit", Bool(), True, "Are positions committed in the background?"
    )
    auto_commit_interval_ms = _option(
        "auto.commit.interval.ms",
        Milliseconds(min=0, bits=32),
        5_000,
        "How often positions are committed in the background.",
    )
    auto_offset_reset = _option(
        "auto.offset.reset",
        Text(),
        "latest",
        "Where to start without a committed offset: earliest, latest, none (an error), or "
        "by_duration:PT1H (what is no older).",
    )
    isolation_level = _option(
        "isolation.level",
        Enum("read_committed", "read_uncommitted"),
        "read_committed",
        "Are records of open and aborted transactions read? (Kafka's default is read_uncommitted.)",
    )
    fetch_max_wait_ms = _option(
        "fetch.max.wait.ms",
        Milliseconds(min=0, bits=32),
        500,
        "How long the broker may wait for data before it answers a fetch.",
        ("fetch.wait.max.ms",),
    )
    fetch_min_bytes = _option(
        "fetch.min.bytes", Bytes(min=0), 1, "How much data the broker waits for."
    )
    fetch_max_bytes = _option(
        "fetch.max.bytes",
        Bytes(min=0),
        52_428_800,
        "The most one fetch is answered with; the first batch always fits.",
    )
    max_partition_fetch_bytes = _option(
        "max.partition.fetch.bytes",
        Bytes(min=0),
        1_048_576,
        "The most one fetch brings of one partition; the first batch always fits.",
        ("fetch.message.max.bytes",),
    )
    check_crcs = _option("check.crcs", Bool(), True, "Are checksums of batches checked?")
    exclude_internal_topics = _option(
        "exclude.internal.topics",
        Bool(),
        True,
        "Does a pattern leave out the topics of Kafka's own?",
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
        _check_servers(value, said)
    if name not in OPTIONS and name.startswith(_NOT_SUPPORTED_YET):
        if name == "security.protocol" and str(value).upper() == "PLAINTEXT":
            return  # the only one there is
        raise invalid(
            f"{said[:100]} is not supported yet: this client speaks PLAINTEXT only, without TLS and"
            " without SASL. Leave the option out, and connect to a PLAINTEXT listener"
        )
    if name not in OPTIONS and name not in _OLDER_NAMES:
        known = {**OPTIONS, **_OLDER_NAMES}
        hint = nearest(said, _PARAMETERS) or nearest(name, known)
        raise invalid(f"unknown client option {said[:100]!r}{hint}")
    if value is not None:
        given[name] = _text(value, said)


def _check_servers(value: object, said: str) -> None:
    if value is None:
        raise invalid(f"{said} is None: name a broker, as in 'localhost:9092', or leave it out")
    if not value and isinstance(value, str | tuple | list):
        raise invalid(f"{said} names no broker: name one, as in 'localhost:9092', or leave it out")
    names = value if isinstance(value, tuple | list) else (value,)
    if not all(isinstance(each, str) for each in names):
        raise invalid(
            f"{said} is {value!r:.100}: name brokers as a text or a list of texts, as in"
            " 'localhost:9092'"
        )


def _text(value: object, said: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, tuple | list):
        return ",".join(map(str, value))
    if isinstance(value, str | int | float):
        return str(value)
    raise invalid(f"{said} is {value!r:.100}: a text, a number, a truth value or a list of texts")


_NOT_SUPPORTED_YET = ("security.", "sasl.", "ssl.")
OPTIONS = {option.name: option for option in declared(ClientConfig)}
_OLDER_NAMES = {name: option for option in OPTIONS.values() for name in option.synonyms}
_BY_KEYWORD = {name.replace(".", "_").replace("-", "_"): name for name in (*OPTIONS, *_OLDER_NAMES)}
