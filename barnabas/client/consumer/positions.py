"""The fetch position of each partition, and the records that are fetched ahead.

In: starting offsets, parts of fetch responses, how many messages are wanted. Out: messages in the
order of their offsets; where the next fetch of a partition begins.
Always: a message is returned once between two seeks; no message at or after a partition's stop is
returned; records that were fetched for an old position are dropped; a paused partition returns
nothing and keeps its fetched records.
Not here: what to fetch from which broker (fetching.py), decoding batches (decoding.py).
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from barnabas.client.consumer.decoding import NEVER, FetchedRecords, messages_of
from barnabas.client.consumer.message import PartitionMarks, RawMessage
from barnabas.model.errors import Code, Corrupt, InvalidRequest
from barnabas.model.ids import NO_TOPIC_ID, TopicPartition
from barnabas.wire.batch import BatchHeader, check_crc

if TYPE_CHECKING:
    from barnabas.client.consumer.arrow import ArrowRows

UNKNOWN = -1
GARBLED_MAX = 3  # a corrupt batch is fetched again, until it is corrupt for the third time


class FetchPosition(NamedTuple):
    """An offset to read next, and the leader epoch of the record before it, if known."""

    offset: int
    leader_epoch: int = -1


class ReadPartition:
    """One partition that is read."""

    __slots__ = (
        "_chunks",
        "_ready",
        "_ready_after",
        "_ready_from",
        "at",
        "buffered",
        "doubted_since",
        "epoch",
        "failed",
        "fetch_epoch",
        "fetch_offset",
        "garbled",
        "marks",
        "moves",
        "offset",
        "paused",
        "replica",
        "replica_until",
        "retry_at",
        "stop",
        "topic_id",
    )

    def __init__(self, at: TopicPartition) -> None:
        self.at = at
        self.offset = UNKNOWN  # of the next message to return
        self.epoch = -1  # leader epoch of the record before it
        self.fetch_offset = UNKNOWN  # of the next record to fetch
        self.fetch_epoch = -1
        self.stop = NEVER
        self.paused = False
        self.buffered = 0
        self.garbled = 0  # times in a row that the next batch could not be read
        self.marks: PartitionMarks | None = None
        self.moves = 0  # how often the position was set: identifies responses to older fetches
        self.replica = -1  # the follower that the leader recommends
        self.replica_until = 0
        self.retry_at = 0
        # of the topic that is read: a topic that was created again has other epochs
        self.topic_id = NO_TOPIC_ID
        self.doubted_since = -1  # since when the leader in the metadata seems outdated
        self.failed: Exception | None = None  # raised by the next read
        self._chunks: deque[FetchedRecords] = deque()
        self._ready: list[RawMessage] = []
        self._ready_from = 0
        self._ready_after = UNKNOWN

    def seek(self, place: FetchPosition) -> None:
        self.offset = self.fetch_offset = place.offset
        self.epoch = self.fetch_epoch = place.leader_epoch
        self.moves += 1
        self.drop()

    def drop(self) -> None:
        """Drop the records that were fetched and not returned."""
        self.fetch_offset, self.fetch_epoch = self.offset, self.epoch
        self.buffered = 0
        self.retry_at = 0
        self.failed = None
        self._chunks.clear()
        self._ready = []
        self._ready_from = 0

    def add(self, chunk: FetchedRecords) -> None:
        self.marks = chunk.marks
        if not chunk:
            if chunk.size:
                raise Corrupt(f"{self.at}: {chunk.size} bytes at {self.fetch_offset}, but no batch")
            return
        if chunk.next <= self.fetch_offset:
            raise Corrupt(
                f"{self.at}: fetched from offset {self.fetch_offset}, but the response ends at"
                f" {chunk.next - 1}"
            )
        self.fetch_offset, self.fetch_epoch = chunk.next, chunk.next_epoch
        self.buffered += chunk.size
        self._chunks.append(chunk)

    @property
    def readable(self) -> bool:
        """Whether a message may be available without a fetch."""
        return not self.paused and (
            self._ready_from < len(self._ready) or bool(self._chunks) or self.failed is not None
        )

    def take(self, count_max: int, crc: bool) -> list[RawMessage]:
        """Up to this many messages of one batch; may be none although more follow."""
        ready, start = self._ready, self._ready_from
        if start >= len(ready):
            if not self._chunks:
                self._raise_failed()
                return []
            try:
                ready, self._ready_after = self._decoded(crc)
            except Corrupt as problem:
                self._fetch_again(problem)
                return []
            self.garbled = 0
            self._ready, start = ready, 0
            if not ready:
                self.offset = max(self.offset, min(self._ready_after, self.stop))
                return []
        end = start + count_max
        given = ready if start == 0 and end >= len(ready) else ready[start:end]
        if end >= len(ready):
            self._ready, self._ready_from = [], 0
            self.offset = min(self._ready_after, self.stop)
        else:
            self._ready_from = end
            self.offset = given[-1].offset + 1
        self.epoch = given[-1].leader_epoch
        return given

    def _raise_failed(self) -> None:
        failed, self.failed = self.failed, None
        if isinstance(failed, Corrupt):
            self._fetch_again(failed)
        elif failed is not None:
            raise failed

    def _fetch_again(self, problem: Corrupt) -> None:
        """Fetch a corrupt batch again: bytes may be damaged on the network and intact
        in the log.
        """
        self.seek(FetchPosition(self.offset, self.epoch))
        self.garbled += 1
        if self.garbled >= GARBLED_MAX:
            self.garbled = 0
            raise problem

    def _decoded(self, crc: bool) -> tuple[list[RawMessage], int]:
        header, batch = self._next_batch()
        if batch is None:
            return [], header.last_offset + 1
        if crc:
            check_crc(batch, header)
        assert self.marks is not None
        messages = messages_of(self.at, batch, header, self.marks, self.offset, self.stop)
        return messages, header.last_offset + 1

    def _next_batch(self) -> tuple[BatchHeader, memoryview | None]:
        chunk = self._chunks[0]
        taken = chunk.take(self.offset)
        if not chunk:
            self._chunks.popleft()
            self.buffered -= chunk.size
        return taken

    def take_rows(self, rows: "ArrowRows", crc: bool) -> int:
        """Adds the next batch to `rows`; returns the number of its rows."""
        if self._ready_from < len(self._ready):
            # Messages that were created and not returned: their batch is fetched again.
            self.seek(FetchPosition(self.offset, self.epoch))
            return 0
        if not self._chunks:
            self._raise_failed()
            return 0
        try:
            header, batch = self._next_batch()
            count = 0
            if batch is not None:
                topic, number = self.at
                count = rows.add(topic, number, header, batch, self.offset, self.stop, crc=crc)
                self.epoch = header.leader_epoch
        except Corrupt as problem:
            self._fetch_again(problem)
            return 0
        self.garbled = 0
        self.offset = max(self.offset, min(header.last_offset + 1, self.stop))
        return count

    def give_back(self, messages: list[RawMessage]) -> None:
        """The last messages were not used: they are returned next."""
        if not messages:
            return
        if not self._ready:
            self._ready_after = self.offset
        rest = self._ready[self._ready_from :]
        self._ready, self._ready_from = [*messages, *rest], 0
        self.offset = messages[0].offset


class ReadPositions:
    """All partitions that are read, in the order in which they are read next."""

    def __init__(self, *, crc: bool = True) -> None:
        self._partitions: dict[TopicPartition, ReadPartition] = {}
        self._crc = crc

    def __iter__(self) -> Iterator[ReadPartition]:
        return iter(self._partitions.values())

    def __len__(self) -> int:
        return len(self._partitions)

    def __contains__(self, at: TopicPartition) -> bool:
        return at in self._partitions

    def __getitem__(self, at: TopicPartition) -> ReadPartition:
        found = self._partitions.get(at)
        if found is None:
            raise InvalidRequest(
                Code.UNKNOWN_TOPIC_OR_PARTITION, f"{at} is not assigned to this consumer"
            )
        return found

    def get(self, at: TopicPartition) -> ReadPartition | None:
        return self._partitions.get(at)

    def add(self, partitions: Iterable[TopicPartition]) -> None:
        for at in partitions:
            self._partitions.setdefault(at, ReadPartition(at))

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        for at in partitions:
            self._partitions.pop(at, None)

    def read_again(self, messages: Sequence[RawMessage]) -> None:
        """These were not used; they are fetched again, so that none is deserialized twice."""
        for message in reversed(messages):
            one = self.get(TopicPartition(message.topic, message.partition))
            if one is not None and message.offset < one.offset:
                one.seek(FetchPosition(message.offset, message.leader_epoch))

    def lost_place(self) -> list[TopicPartition]:
        """Partitions whose position is not known."""
        return [at for at, one in self._partitions.items() if one.offset == UNKNOWN]

    @property
    def buffered(self) -> int:
        return sum(one.buffered for one in self._partitions.values())

    @property
    def readable(self) -> bool:
        return any(one.readable for one in self._partitions.values())

    @property
    def finished(self) -> bool:
        """Whether every partition has a stop, and has reached it."""
        partitions = self._partitions.values()
        return bool(partitions) and all(one.offset >= one.stop for one in partitions)

    def take(self, count_max: int) -> list[RawMessage]:
        """Up to this many messages, in order within each partition.

        A partition moves to the end of the order once its batch is used up.
        """
        given: list[RawMessage] = []
        for one in list(self._partitions.values()):
            while one.readable:
                if given and one.failed is not None and not one.buffered:
                    break  # messages before the error are used first
                taken = one.take(count_max - len(given), self._crc)
                given = given + taken if given else taken
                if len(given) >= count_max:
                    if one._ready_from >= len(one._ready):
                        self._to_back(one)
                    return given
            if given:
                self._to_back(one)
        return given

    def take_rows(self, rows: "ArrowRows", count_max: int) -> None:
        """Adds complete batches until `rows` has this many rows or no batch is left."""
        for one in list(self._partitions.values()):
            while one.readable and rows.rows < count_max:
                if rows.rows and one.failed is not None and not one.buffered:
                    break
                one.take_rows(rows, self._crc)
            if rows.rows >= count_max:
                self._to_back(one)
                return

    def _to_back(self, one: ReadPartition) -> None:
        del self._partitions[one.at]
        self._partitions[one.at] = one
