"""Converts rows of Spark to records: columns, partitions and batches.

In: Arrow batches. Out: a report of the written rows, for Spark's driver. Runs in Spark's tasks,
blocking.
Always: rows of a partition are written in the order they came; no object is created for a row.
Not here: the loops over rows (wire/column_writer.py), sending (sending.py).
"""

import random
import time
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from barnabas.client.blocking.net import run
from barnabas.client.cluster import ClusterClient
from barnabas.model.errors import Code, Retriable
from barnabas.model.ids import TopicPartition
from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.spark.brokers import look_again, opened
from barnabas.pipeline.spark.options import SinkOptions
from barnabas.pipeline.spark.sending import BatchSender
from barnabas.wire.batch import HEADER_SIZE
from barnabas.wire.column_writer import RowColumns, Strings, arrange, choose

if TYPE_CHECKING:
    import pyarrow

_BATCH_SIZE = 1_000_000  # below the default of max.message.bytes
_CREATION_S_MAX = 5


@dataclass(frozen=True)
class Written:
    """The offsets that one task wrote, and its producer."""

    records: int
    offsets: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict)
    producer_id: int = -1
    producer_epoch: int = -1
    query: str | None = None
    batch: int | None = None
    task: tuple[int, int] = (0, 0)  # partition and attempt


class Writing:
    """Writes the rows of one task."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._cluster: ClusterClient = opened(options.client)
        config = self._cluster.config
        asked = "batch.size" in options.client
        self._batch_size = max(config.batch_size, 1) if asked else _BATCH_SIZE
        self.sender = BatchSender(self._cluster)
        self._counts: dict[str, int] = {}
        self._turn = random.randrange(1 << 16)

    def report(self, batches: Iterator["pyarrow.RecordBatch"]) -> Written:
        """Write, and say what was written."""
        sender = self.write(batches)
        return Written(sender.records, sender.written, sender.producer_id, sender.epoch)

    def write(self, batches: Iterator["pyarrow.RecordBatch"]) -> BatchSender:
        identified = False
        for batch in batches:
            if not batch.num_rows:
                continue
            if not identified:
                self.sender.identify(reuse=True)
                identified = True
            self._write(batch)
        self.sender.flush()
        self.sender.release()
        return self.sender

    def partitions_of(self, batch: "pyarrow.RecordBatch") -> "array[int]":
        """The partition of each row, as a write would choose it."""
        names, topics = self._topics(batch)
        return self._places(batch, names, topics)[1]

    def _write(self, batch: "pyarrow.RecordBatch") -> None:
        rows: int = batch.num_rows
        columns = _row_columns(batch, time.time_ns() // 1_000_000)
        names, topics = self._topics(batch)
        counts, partitions = self._places(batch, names, topics)
        if len(names) == 1:
            bases, buckets = [0], partitions
        else:
            bases = [sum(counts[:number]) for number in range(len(names))]
            pairs = zip(topics, partitions, strict=True)
            buckets = array("i", [bases[topic] + number for topic, number in pairs])
        ends = array("i", bytes(4 * (sum(counts) + 1)))
        order = arrange(buckets, rows, ends)
        places = [
            TopicPartition(n, p) for n, c in zip(names, counts, strict=True) for p in range(c)
        ]
        self._send(columns, order, [0, *ends[:-1]], places)

    def _places(
        self, batch: "pyarrow.RecordBatch", names: list[str], topics: "array[int]"
    ) -> tuple["array[int]", "array[int]"]:
        """The number of partitions of each topic, and the partition of each row."""
        self._turn += 1
        keys = _strings(batch, "key")
        for last_try in (False, True):
            counts = array("i", [self._partitions(name) for name in names])
            unkeyed = array("i", [self._turn % count for count in counts])
            partitions = _given_partitions(batch)
            bad = choose(keys, batch.num_rows, topics, counts, partitions, unkeyed)
            if bad < 0:
                break
            name = names[topics[bad]]
            if last_try:
                raise PipelineError(
                    f"a row is for partition {partitions[bad]} of topic {name!r}, which has"
                    f" {self._counts[name]}"
                )
            look_again(self._cluster)  # the partition may have been added since
            self._counts.clear()
        return counts, partitions

    def _send(
        self,
        columns: RowColumns,
        order: "array[int]",
        ends: list[int],
        places: list[TopicPartition],
    ) -> None:
        """Sends rows in rounds, each with a batch for every partition that still has rows."""
        sender = self.sender
        waiting = [
            (at, ends[number], ends[number + 1])
            for number, at in enumerate(places)
            if ends[number + 1] > ends[number]
        ]
        while waiting:
            packed = []
            rest = []
            for at, first, last in waiting:
                records, count, first_ms, latest_ms = columns.encode(
                    order, first, last, HEADER_SIZE, self._batch_size
                )
                packed.append(sender.pack(at, records, count, first_ms, latest_ms))
                if first + count < last:
                    rest.append((at, first + count, last))
            sender.send(packed)
            waiting = rest

    def _topics(self, batch: "pyarrow.RecordBatch") -> tuple[list[str], "array[int]"]:
        """The topic names, and the index of each row's topic."""
        if self._options.topic is not None:
            return [self._options.topic], array("i", bytes(4 * batch.num_rows))
        column = batch.column("topic")
        if column.null_count:
            raise PipelineError("a row has no topic: fill the column, or set the option topic")
        encoded = column.dictionary_encode()
        indexes = array("i")
        indexes.frombytes(memoryview(encoded.indices.cast("int32").buffers()[1])[: 4 * len(column)])
        return encoded.dictionary.to_pylist(), indexes

    def _partitions(self, topic: str) -> int:
        """The number of partitions of a topic. The topic is created if the broker allows it."""
        count = self._counts.get(topic)
        if count is None:
            count = self._counts[topic] = run(_partition_count(self._cluster, topic))
        return count


async def _partition_count(cluster: ClusterClient, topic: str) -> int:
    deadline = cluster.net.now_ms() + _CREATION_S_MAX * 1000

    async def attempt() -> int:
        view = await cluster.view([topic])
        problem = view.errors.get(topic)
        if topic not in view.topics and (
            problem is None or problem.code is Code.UNKNOWN_TOPIC_OR_PARTITION
        ):
            view = await cluster.refresh(create=True)
            problem = view.errors.get(topic)
            if topic not in view.topics and cluster.net.now_ms() < deadline:
                raise Retriable(Code.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic!r} does not exist")
        found = view.topic(topic)
        for partition in found.partitions:
            view.leader(TopicPartition(topic, partition.number))
        return len(found.partitions)

    return await cluster.retrying(attempt)


def _row_columns(batch: "pyarrow.RecordBatch", now_ms: int) -> RowColumns:
    header_ends, names, contents = None, None, None
    if "headers" in batch.schema.names:
        lists = _whole(batch.column("headers"))
        header_ends = memoryview(lists.buffers()[1]).cast("i")
        pairs = lists.values
        key_column = pairs.field(0)
        if key_column.null_count:
            raise PipelineError("a header has no key: every header needs one")
        names, contents = _as_strings(key_column), _as_strings(pairs.field(1))
    return RowColumns(
        batch.num_rows,
        _strings(batch, "key"),
        _strings(batch, "value"),
        _times(batch, now_ms),
        header_ends,
        names,
        contents,
    )


def _strings(batch: "pyarrow.RecordBatch", name: str) -> Strings | None:
    if name not in batch.schema.names:
        return None
    return _as_strings(batch.column(name))


def _as_strings(column: Any) -> Strings:
    import pyarrow

    if column.type not in (pyarrow.binary(), pyarrow.string()):
        column = column.cast(pyarrow.binary())
    column = _whole(column)
    valid, ends, content = column.buffers()
    if ends is None:  # an array without values
        return Strings(memoryview(array("i", [0])), b"")
    return Strings(
        memoryview(ends).cast("i"),
        memoryview(content).cast("B") if content is not None else b"",
        memoryview(valid).cast("B") if valid is not None and column.null_count else b"",
    )


def _whole(column: Any) -> Any:
    """A copy that begins at the start of its buffers."""
    import pyarrow

    return column if column.offset == 0 else pyarrow.concat_arrays([column])


def _times(batch: "pyarrow.RecordBatch", now_ms: int) -> "array[int]":
    import pyarrow
    from pyarrow import compute

    if "timestamp" not in batch.schema.names:
        same: array[int] = array("q", [now_ms]) * batch.num_rows
        return same
    micros = compute.fill_null(batch.column("timestamp").cast("int64"), now_ms * 1000)
    whole = _whole(compute.divide(micros, pyarrow.scalar(1000, "int64")))
    times = array("q")
    times.frombytes(memoryview(whole.buffers()[1])[: 8 * len(whole)])
    return times


def _given_partitions(batch: "pyarrow.RecordBatch") -> "array[int]":
    """The partition of each row; -1 where the key decides."""
    from pyarrow import compute

    if "partition" not in batch.schema.names:
        undecided: array[int] = array("i", [-1]) * batch.num_rows
        return undecided
    column = batch.column("partition")
    low = compute.min(column).as_py()
    if low is not None and low < 0:
        raise PipelineError(f"a row is for partition {low}: there are none below 0")
    whole = _whole(compute.fill_null(column, -1))
    partitions = array("i")
    partitions.frombytes(memoryview(whole.buffers()[1])[: 4 * len(whole)])
    return partitions
