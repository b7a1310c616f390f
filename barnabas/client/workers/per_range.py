"""Several consumers per partition, each on a range of offsets: for reading a long log once.

From where the group left off to the end that is there at the start; then it is done.
Always: within a range in order, between ranges none; what is committed is the end of the finished
ranges without a gap, so that a run that was cut off goes on there.
"""

import threading
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from barnabas.client.blocking.admin import Admin
from barnabas.client.blocking.partition_consumer import PartitionConsumer
from barnabas.client.consumer.message import K, Message, V
from barnabas.client.workers.calls import Deserializer, Opener
from barnabas.client.workers.policy import check_whole, invalid
from barnabas.client.workers.prefix import FinishedPrefix
from barnabas.client.workers.threads import POLL_S, Worker, WorkerRun
from barnabas.config.client import Settings, Value
from barnabas.model.ids import TopicPartition


class OffsetSpan(NamedTuple):
    """Offsets from `start` on, before `stop`."""

    at: TopicPartition
    start: int
    stop: int


def per_range(
    *topics: str,
    group_id: str,
    readers: int = 4,
    size: int = 10_000,
    key_deserializer: Deserializer | None = None,
    value_deserializer: Deserializer | None = None,
    settings: Settings | None = None,
    **options: Value,
) -> "Callable[[Callable[[Message[K, V]], None]], Worker[K, V]]":
    """Call a blocking function for every record there is, read by several readers at once.

    `size`: offsets in one range. The group must have no members meanwhile.
    """
    check_whole("readers", readers, 1, 1_000)
    check_whole("size", size, 1, 1_000_000_000)
    if not topics:
        raise invalid("nothing to read: name topics")
    opener: Opener[Any, Any] = Opener(key_deserializer, value_deserializer)
    given: dict[str, Value] = {"auto_offset_reset": "earliest", **options, "group_id": group_id}

    def work(run: WorkerRun) -> None:
        _Ranges(run, topics, size).read(readers)

    def make(handler: "Callable[[Message[K, V]], None]") -> Worker[K, V]:
        return Worker(handler, work, opener, settings, given)

    return make


class _Ranges:
    """What is left to read, and how far it is finished."""

    def __init__(self, run: WorkerRun, topics: tuple[str, ...], size: int) -> None:
        self._run = run
        self._left: deque[OffsetSpan] = deque()
        self._prefixes: dict[TopicPartition, FinishedPrefix] = {}
        self._turn = threading.Lock()
        with Admin(run.settings) as admin:
            partitions = [
                TopicPartition(topic, partition.number)
                for topic in topics
                for partition in admin.topic(topic).partitions
            ]
        with self._reader() as reader:
            starts = reader.beginning_offsets(*partitions)
            ends = reader.end_offsets(*partitions)
            committed = reader.committed(*partitions)
        waiting: list[deque[OffsetSpan]] = []
        for at in partitions:
            start = max(starts[at], committed[at].offset) if at in committed else starts[at]
            self._prefixes[at] = FinishedPrefix(start)
            waiting.append(deque(ranges(at, start, ends[at], size)))
        while waiting:  # one of each partition in turn, so that all brokers are read from
            waiting = [queue for queue in waiting if queue]
            self._left.extend(queue.popleft() for queue in waiting)

    def read(self, readers: int) -> None:
        hands = [
            threading.Thread(
                target=self._run.guarded, args=(self._read,), name=f"barnabas-reader-{number}"
            )
            for number in range(min(readers, len(self._left)))
        ]
        for hand in hands:
            hand.start()
        for hand in hands:
            while hand.is_alive():
                hand.join(POLL_S)  # in slices, so that a signal is seen

    def _reader(self) -> PartitionConsumer[Any, Any]:
        return PartitionConsumer((), self._run.settings)

    def _read(self) -> None:
        with self._reader() as reader:
            while not self._run.stopping.is_set():
                try:
                    range_ = self._left.popleft()
                except IndexError:
                    return
                if self._read_range(reader, range_):
                    self._finished(reader, range_)

    def _read_range(self, reader: PartitionConsumer[Any, Any], range_: OffsetSpan) -> bool:
        """To its end? Not if the run is to stop."""
        reader.assign([range_.at])
        reader.seek(range_.at, range_.start)
        reader.stop_at({range_.at: range_.stop})
        while not reader.finished():
            for message in reader.getmany(timeout=POLL_S):
                if self._run.stopping.is_set():
                    return False
                self._run.call(message)
            if self._run.stopping.is_set():
                return reader.finished()
        return True

    def _finished(self, reader: PartitionConsumer[Any, Any], range_: OffsetSpan) -> None:
        prefix = self._prefixes[range_.at]
        with self._turn:  # commits of one partition must not overtake one another
            if prefix.finish(range_.start, range_.stop):
                reader.commit({range_.at: prefix.end})


def ranges(at: TopicPartition, start: int, end: int, size: int) -> list[OffsetSpan]:
    """The offsets from `start` to `end` in pieces."""
    return [OffsetSpan(at, first, min(first + size, end)) for first in range(start, end, size)]
