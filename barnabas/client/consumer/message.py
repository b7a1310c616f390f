"""`Message[K, V]`: a record as a consumer returns it, with its topic, partition and offset.

`K` and `V` are the results of the deserializers; without deserializers, `bytes | None`.
Not here: creating them (message_loops.py, compiled if a compiler is available).
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
    """The offsets of a partition when it was read."""

    log_start: int
    last_stable: int
    high_watermark: int


class MessageAcquisition(NamedTuple):
    """How a member of a share group got a message. `hold`: a number of its consumer's own."""

    delivery_count: int
    hold: int


Source = (
    tuple[str, int, BatchHeader, PartitionMarks]
    | tuple[str, int, BatchHeader, PartitionMarks, MessageAcquisition]
)
"""What all messages of one batch share: topic, partition, batch, marks; in a share group, all of
one acquired range: these and the acquisition."""

if TYPE_CHECKING:

    class Message(Generic[K, V]):
        """One record, with its topic, partition and offset."""

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
        def acquisition(self) -> MessageAcquisition | None:
            """In a share group: its delivery count, and who holds it."""

        @property
        def delivery_count(self) -> int | None:
            """In a share group: how often it was delivered, this time included."""

        @property
        def marks(self) -> PartitionMarks:
            """Of its partition, when it was fetched."""

else:
    from barnabas.client.consumer.message_loops import Message

RawMessage = Message[Raw, Raw]
