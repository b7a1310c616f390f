"""What a consumer hands out: `Message[K, V]`, a record and where it was found.

`K` and `V` are what the deserializers make of key and value; without any, `bytes | None`.
Not here: making them (message_loops.py, compiled where a compiler is at hand).
"""

from typing import TYPE_CHECKING, Generic, NamedTuple

from barnabas.wire.batch import BatchHeader
from barnabas.wire.record_loops import Headers

Raw = bytes | None

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    K = TypeVar("K", default=Raw)
    V = TypeVar("V", default=Raw)
else:  # Python has defaults of type variables from 3.13 on
    from typing import TypeVar

    K = TypeVar("K")
    V = TypeVar("V")


class PartitionMarks(NamedTuple):
    """Of a partition, when it was read."""

    log_start: int
    last_stable: int
    high_watermark: int


Source = tuple[str, int, BatchHeader, PartitionMarks]
"""What all messages of one batch share: topic, partition, batch, marks."""

if TYPE_CHECKING:

    class Message(Generic[K, V]):
        """One record, and where it was found."""

        key: K
        value: V

        def __init__(
            self,
            source: Source,
            offset: int,
            timestamp: int,
            key: K,
            value: V,
            headers: Headers = (),
        ) -> None: ...
        @property
        def topic(self) -> str: ...
        @property
        def partition(self) -> int: ...
        @property
        def offset(self) -> int: ...
        @property
        def timestamp(self) -> int:
            """In milliseconds since 1970; -1 if it has none."""

        @property
        def headers(self) -> Headers: ...
        @property
        def leader_epoch(self) -> int: ...
        @property
        def batch(self) -> BatchHeader:
            """The header of its batch: producer, how the time was set."""

        @property
        def marks(self) -> PartitionMarks:
            """Of its partition, when it was fetched."""

else:
    from barnabas.client.consumer.message_loops import Message

RawMessage = Message[Raw, Raw]
