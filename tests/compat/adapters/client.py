"""What every client library is asked to do, in one set of words.

Each adapter says these words with its library's own calls and nothing else, so a behaviour is
written once as a test and holds for all. A library without a call for something says so by
raising `NotOffered`.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from tests.process import REPLICAS
from tests.waiting import WAIT_S

APPEND_TIME = 1
Headers = tuple[tuple[str, bytes | None], ...]

"""For anything that must happen; long enough for a busy machine."""


class Refused(Exception):
    """The broker said no. `code` is Kafka's error code, or below zero the library's own."""

    def __init__(self, code: int, detail: str = "") -> None:
        super().__init__(f"{code} {detail}")
        self.code = code


class NotOffered(Exception):
    """The library has no call for this."""


def raise_refused(outcomes: "Sequence[int | Refused]") -> list[int]:
    """The offsets, if all went well."""
    for outcome in outcomes:
        if isinstance(outcome, Refused):
            raise outcome
    return [outcome for outcome in outcomes if isinstance(outcome, int)]


@dataclass(frozen=True)
class Record:
    """A record to send."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    timestamp_ms: int | None = None


@dataclass(frozen=True)
class Seen:
    """A record as a consumer gave it."""

    offset: int
    timestamp_ms: int
    by_broker: bool  # LogAppendTime
    key: bytes | None
    value: bytes | None
    headers: Headers


def read_exactly(count: int, where: object, read: Callable[[int], Iterable[Seen]]) -> list[Seen]:
    """So many records. `read` gives those that have come, at most as many as it is told."""
    seen: list[Seen] = []
    deadline = time.monotonic() + WAIT_S
    while len(seen) < count:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{len(seen)} of {count} records of {where}")
        seen += read(count - len(seen))
    return seen


def seen_by_python(message: Any) -> Seen:
    """A message of aiokafka or of kafka-python, which share their shape."""
    return Seen(
        message.offset,
        message.timestamp,
        message.timestamp_type == APPEND_TIME,
        message.key,
        message.value,
        tuple(message.headers),
    )


@dataclass(frozen=True)
class Placement:
    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True)
class Setting:
    value: str | None
    overridden: bool  # set on the topic itself


class Producer(Protocol):
    """Closed by its context manager, which waits for what was sent."""

    def send(self, topic: str, records: Sequence[Record], partition: int = 0) -> list[int]:
        """Send all, wait for all, and give their offsets (-1 each with acks=0)."""
        ...

    def begin(self, topic: str, record: Record, partition: int = 0) -> None:
        """Send without waiting; `finish` waits."""
        ...

    def finish(self) -> list[int | Refused]:
        """What became of each record begun, in order."""
        ...


class Consumer(Protocol):
    """Of one partition, without a group."""

    def read(self, count: int) -> list[Seen]:
        """The next records, exactly so many; TimeoutError after WAIT_S."""
        ...

    def poll_nothing(self) -> None:
        """One poll that finds nothing, so that a fetch is on its way when this returns."""
        ...

    def seek(self, offset: int) -> None: ...


class Client(Protocol):
    name: str

    def __init__(self, bootstrap_servers: str) -> None: ...

    def close(self) -> None: ...

    # Topics

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        configs: Mapping[str, str] | None = None,
        *,
        replicas: int = REPLICAS,
    ) -> None: ...

    def delete_topic(self, name: str) -> None: ...

    def add_partitions(self, name: str, total: int) -> None: ...

    def topic_names(self) -> set[str]: ...

    def partitions(self, name: str) -> dict[int, Placement]: ...

    # Configuration

    def configs(self, topic: str) -> dict[str, Setting]: ...

    def broker_configs(self, broker: int) -> dict[str, Setting]: ...

    def replace_configs(self, topic: str, configs: Mapping[str, str]) -> None:
        """These overrides and no others (AlterConfigs)."""
        ...

    def alter_configs(self, topic: str, configs: Mapping[str, str | None]) -> None:
        """Set these, or take them back where None (IncrementalAlterConfigs)."""
        ...

    # Records

    def producer(
        self,
        *,
        codec: str = "none",
        acks: str = "all",
        idempotent: bool = False,
        options: Mapping[str, object] | None = None,
    ) -> AbstractContextManager[Producer]: ...

    def consumer(
        self,
        topic: str,
        offset: int = 0,
        *,
        partition: int = 0,
        reset: str = "none",
        max_wait_ms: int = 500,
    ) -> AbstractContextManager[Consumer]:
        """`reset`: what to do when the offset is out of range: none, earliest or latest."""
        ...

    def delete_records(self, topic: str, before: int, partition: int = 0) -> int:
        """The new log start offset."""
        ...

    # Offsets

    def earliest(self, topic: str, partition: int = 0) -> int: ...

    def latest(self, topic: str, partition: int = 0) -> int: ...

    def at_time(self, topic: str, timestamp_ms: int, partition: int = 0) -> int | None:
        """The first offset at or after this time."""
        ...

    def at_max_timestamp(self, topic: str, partition: int = 0) -> int: ...
