"""Takes one partition's part of a fetch answer apart, batch by batch.

In: the bytes, as they came. Out: messages in the order of their offsets.
Always: nothing is decoded before it is asked for; control
records and, when only committed ones are wanted, records of aborted transactions are left out.
Not here: where reading stands (positions.py), what to fetch (fetching.py).
"""

from typing import Any

from barnabas.client.consumer.message import PartitionMarks, RawMessage
from barnabas.client.consumer.message_loops import decode_messages
from barnabas.model.ids import TopicPartition
from barnabas.model.ports import FileSlice
from barnabas.wire.batch import CONTROL, LOG_APPEND_TIME, TRANSACTIONAL, BatchHeader
from barnabas.wire.messages.fetch import PartitionData
from barnabas.wire.records import decode_batch, iter_batches, records_of

_CONTROL_TYPE_ABORT = 0
NEVER = 2**62


class FetchedRecords:
    """What one answer brought of one partition. `next` is where the following fetch begins."""

    __slots__ = ("_aborted", "_batches", "at", "marks", "next", "next_epoch", "size")

    def __init__(self, at: TopicPartition, answer: PartitionData, committed_only: bool) -> None:
        self.at = at
        self.marks = PartitionMarks(
            answer.log_start_offset, answer.last_stable_offset, answer.high_watermark
        )
        records = answer.records or b""
        assert not isinstance(records, FileSlice)  # those are only ever sent
        self.size = len(records)
        self._batches = list(iter_batches(records))
        self._batches.reverse()
        self._aborted = Aborted(answer) if committed_only else None
        self.next = -1
        self.next_epoch = -1
        if self._batches:
            last = self._batches[0][0]
            self.next = last.last_offset + 1
            self.next_epoch = last.leader_epoch

    def __bool__(self) -> bool:
        return bool(self._batches)

    def take(self, first: int) -> tuple[BatchHeader, memoryview | None]:
        """The next batch; without its bytes if nothing of it is wanted from `first` on."""
        header, batch = self._batches.pop()
        if header.last_offset < first:
            return header, None
        if self._aborted is not None and self._aborted.covers(header, batch):
            return header, None
        return header, None if header.attributes & CONTROL else batch


def messages_of(
    at: TopicPartition,
    batch: memoryview,
    header: BatchHeader,
    marks: PartitionMarks,
    first: int,
    stop: int,
) -> list[RawMessage]:
    messages: list[Any] = decode_messages(
        (at.topic, at.partition, header, marks),
        records_of(batch, header),
        header.record_count,
        header.base_offset,
        header.last_offset_delta,
        header.base_timestamp,
        header.max_timestamp,
        bool(header.attributes & LOG_APPEND_TIME),
        first,
        stop,
    )
    return messages


class Aborted:
    """Which batches belong to transactions that were aborted. Sees every batch, in order."""

    def __init__(self, answer: PartitionData) -> None:
        listed = answer.aborted_transactions or []
        self._coming = sorted(
            ((aborted.first_offset, aborted.producer_id) for aborted in listed), reverse=True
        )
        self._open: dict[int, None] = {}

    def covers(self, header: BatchHeader, batch: memoryview) -> bool:
        while self._coming and self._coming[-1][0] <= header.last_offset:
            self._open[self._coming.pop()[1]] = None
        if not header.attributes & TRANSACTIONAL:
            return False
        if header.attributes & CONTROL:
            self._ended(header, batch)
            return False
        return header.producer_id in self._open

    def _ended(self, header: BatchHeader, batch: memoryview) -> None:
        if header.producer_id not in self._open:
            return
        for marker in decode_batch(batch, crc=False):
            if marker.key is not None and int.from_bytes(marker.key[2:4]) == _CONTROL_TYPE_ABORT:
                self._open.pop(header.producer_id, None)
