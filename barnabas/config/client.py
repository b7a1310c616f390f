"""Options of the client. Names and defaults are Kafka's."""

from collections.abc import Mapping

from barnabas.config.kinds import Bytes, Enum, Milliseconds, Text
from barnabas.config.option import Option, Scope, declared, invalid, nearest
from barnabas.config.resolve import Config, Layers


class ClientConfig(Config):
    """What is in force for one client, parsed."""

    bootstrap_servers = Option[str](
        name="bootstrap.servers",
        kind=Text(),
        default="localhost:9092",
        scope=Scope.CLIENT,
        needs_restart=True,
        doc="HOST:PORT between commas: brokers to ask for the others.",
    )
    client_id = Option[str](
        name="client.id",
        kind=Text(),
        default="barnabas",
        scope=Scope.CLIENT,
        needs_restart=True,
        doc="The name that brokers put into their logs and metrics.",
    )
    request_timeout_ms = Option[int](
        name="request.timeout.ms",
        kind=Milliseconds(min=1, bits=32),
        default=30_000,
        scope=Scope.CLIENT,
        needs_restart=True,
        doc="How long to wait for an answer, retries included.",
    )
    acks = Option[str](
        name="acks",
        kind=Enum("all", "-1", "0", "1"),
        default="all",
        scope=Scope.CLIENT,
        needs_restart=True,
        doc="Who must have a record before it counts as written: all replicas in sync, "
        "the leader (1), or nobody (0).",
    )
    compression_type = Option[str](
        name="compression.type",
        kind=Enum("none", "gzip", "snappy", "lz4", "zstd"),
        default="none",
        scope=Scope.CLIENT,
        needs_restart=True,
        doc="The codec of the batches that are sent.",
        synonyms=("compression.codec",),
    )
    batch_size = Option[int](
        name="batch.size",
        kind=Bytes(min=0),
        default=1_000_000,
        scope=Scope.CLIENT,
        needs_restart=True,
        doc="The largest batch, before compression. (Kafka's default is 16384.)",
    )
    isolation_level = Option[str](
        name="isolation.level",
        kind=Enum("read_committed", "read_uncommitted"),
        default="read_committed",
        scope=Scope.CLIENT,
        needs_restart=True,
        doc="Are records of open and aborted transactions read? "
        "(Kafka's default is read_uncommitted.)",
    )
    fetch_max_wait_ms = Option[int](
        name="fetch.max.wait.ms",
        kind=Milliseconds(min=0, bits=32),
        default=500,
        scope=Scope.CLIENT,
        needs_restart=True,
        doc="How long the broker may wait for data before it answers a fetch.",
    )
    fetch_min_bytes = Option[int](
        name="fetch.min.bytes",
        kind=Bytes(min=0),
        default=1,
        scope=Scope.CLIENT,
        needs_restart=True,
        doc="How much data the broker waits for.",
    )
    fetch_max_bytes = Option[int](
        name="fetch.max.bytes",
        kind=Bytes(min=0),
        default=52_428_800,
        scope=Scope.CLIENT,
        needs_restart=True,
        doc="The most one fetch is answered with; the first batch always fits.",
    )
    max_partition_fetch_bytes = Option[int](
        name="max.partition.fetch.bytes",
        kind=Bytes(min=0),
        default=1_048_576,
        scope=Scope.CLIENT,
        needs_restart=True,
        doc="The most one fetch brings of one partition; the first batch always fits.",
    )

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        for name in settings or {}:
            if name not in OPTIONS and name not in _OLDER_NAMES:
                hint = nearest(name, OPTIONS)
                raise invalid(f"unknown client option {name[:100]!r}{hint}")
        super().__init__(OPTIONS, {}, Layers(settings or {}))


OPTIONS = {option.name: option for option in declared(ClientConfig)}
_OLDER_NAMES = {name for option in OPTIONS.values() for name in option.synonyms}
