"""The readers behind `format("barnabas")`: what Spark calls, and when.

Batch: `partitions` once per query, then `read` in each task.
Stream: `initialOffset` (twice, and again if batch 0 is tried again), then for each trigger
`latestOffset(start)`, `partitions(start, end)`, `read` in each task. What latestOffset is given as
start is in Spark's checkpoint: it is what a query's group has read.
"""

import logging
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any
from uuid import UUID

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    SupportsTriggerAvailableNow,
)

from barnabas.model.errors import KafkaError
from barnabas.model.ids import NO_TOPIC_ID, TopicPartition
from barnabas.pipeline.errors import PipelineError, one_line, one_line_each
from barnabas.pipeline.formats.typed import TypedOptions, typed, typed_options
from barnabas.pipeline.spark.brokers import INITIAL, Brokers
from barnabas.pipeline.spark.fetching import lost
from barnabas.pipeline.spark.offsets import (
    OffsetRange,
    Offsets,
    from_json,
    prorate,
    split,
    to_json,
)
from barnabas.pipeline.spark.options import SourceOptions, source_options
from barnabas.pipeline.spark.pushdown import PushedFilters, narrow
from barnabas.pipeline.spark.reading import Task, read_task
from barnabas.pipeline.spark.worker_start import settle

if TYPE_CHECKING:
    import pyarrow

_LOG = logging.getLogger(__name__)


class TaskSlice(InputPartition):  # type: ignore[misc]
    """One task's share."""

    def __init__(self, task: Task | None) -> None:
        super().__init__(task)


def _task(options: SourceOptions, each: OffsetRange, time_min: int | None = None) -> TaskSlice:
    return TaskSlice(
        Task(
            each,
            tuple(sorted(options.client.items())),
            options.headers,
            options.fail_on_data_loss,
            options.poll_timeout_ms,
            time_min,
        )
    )


def _data_lost(options: SourceOptions, reason: str) -> None:
    if options.fail_on_data_loss:
        raise lost(reason)
    _LOG.warning("%s: records may have been lost", reason)


def _read(
    slice_: TaskSlice, options: TypedOptions | None, schema: Any
) -> Iterator["pyarrow.RecordBatch"]:
    settle()
    if slice_.value is None:
        return iter(())
    batches = read_task(slice_.value)
    return batches if options is None else typed(options, schema["data"].dataType, batches)


class BatchReader(DataSourceReader):  # type: ignore[misc]
    """Reads between two ends, each looked up when the query is planned."""

    def __init__(self, given: Mapping[str, str], schema: Any) -> None:
        self._typed = typed_options(given)
        self._schema = schema
        self._options = source_options(given, streaming=False)
        self._narrow = PushedFilters()

    @one_line
    def partitions(self) -> list[TaskSlice]:
        options = self._options
        brokers = Brokers(options)
        ranges = [self._narrow.range(each) for each in self._ranges(brokers)]
        least = self._narrow.time_min
        if least is not None:
            # No record before the first that is not before a time is at or after it.
            since = brokers.first_since(least, [each.at for each in ranges])
            ranges = [
                each._replace(start=min(max(each.start, since.get(each.at, each.stop)), each.stop))
                for each in ranges
            ]
        pieces = split(ranges, options.tasks_min, options.records_per_task_max)
        # Spark makes a task of its own of an empty list, and gives it nothing.
        return [_task(options, each, least) for each in pieces] or [TaskSlice(None)]

    def _ranges(self, brokers: Brokers) -> list[OffsetRange]:
        options = self._options
        partitions = brokers.partitions()
        starts = brokers.resolve(options.starting, partitions, "starting")
        stops = brokers.resolve(options.ending, partitions, "ending")
        first, last = brokers.earliest(partitions), brokers.latest(partitions, {})
        ranges = []
        for at in partitions:
            start, stop = starts[at], stops[at]
            if start > stop:
                raise PipelineError(f"{at}: the start, offset {start}, is behind the end, {stop}")
            if start < first[at] and start < stop:
                _data_lost(options, f"{at} begins at offset {first[at]}, and {start} was wanted")
                start = min(first[at], stop)
            if stop > last[at]:
                _data_lost(options, f"{at} ends at offset {last[at]}, and {stop} was wanted")
                stop = last[at]
            ranges.append(OffsetRange(at.topic, at.partition, start, stop))
        return ranges

    @one_line_each
    def read(self, partition: TaskSlice) -> Iterator["pyarrow.RecordBatch"]:
        yield from _read(partition, self._typed, self._schema)


class FilteringReader(BatchReader):
    """Reads less where a filter says so. Spark applies every filter again."""

    def pushFilters(self, filters: list[Any]) -> list[Any]:
        self._narrow = narrow(filters)
        return filters


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Reads trigger by trigger, within the limits a user set."""

    def __init__(self, given: Mapping[str, str], schema: Any) -> None:
        self._typed = typed_options(given)
        self._schema = schema
        self._options = source_options(given, streaming=True)
        self._initial: Offsets | None = None
        self._newest: Offsets | None = None
        self._until: Offsets | None = None  # all there was when an available-now query began
        self._available_now = False
        self._triggered_at = float("-inf")
        self._noted: Offsets | None = None
        self._topic_ids: dict[str, UUID] = {}
        self._brokers_or_none: Brokers | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Tasks only read; connections stay where they are.
        return {**self.__dict__, "_brokers_or_none": None}

    @property
    def _brokers(self) -> Brokers:
        if self._brokers_or_none is None:
            self._brokers_or_none = Brokers(self._options)
        return self._brokers_or_none

    @one_line
    def initialOffset(self) -> dict[str, dict[str, int]]:
        if self._initial is None:
            self._initial = self._begun_before() or self._begin()
        return to_json(self._initial)

    def _begin(self) -> Offsets:
        partitions = self._brokers.partitions()
        begun = self._brokers.resolve(self._options.starting, partitions, "starting")
        # Spark keeps no record of it: were it asked again after a crash, `latest` would have moved.
        self._note(begun, INITIAL)
        return begun

    def _begun_before(self) -> Offsets | None:
        """Where this query began, if it ended before its first batch did."""
        if self._options.group is None:
            return None
        partitions = self._brokers.partitions()
        found = self._brokers.committed(self._options.group, partitions)
        if len(found) < len(partitions) or any(note != INITIAL for _, note in found.values()):
            return None
        return {at: offset for at, (offset, _) in found.items()}

    def getDefaultReadLimit(self) -> ReadLimit:
        # Spark's limits do not combine: ours are applied below.
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._available_now = True

    def reportLatestOffset(self) -> dict[str, dict[str, int]] | None:
        return None if self._newest is None else to_json(self._newest)

    @one_line
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, dict[str, int]]:
        begun = from_json(start, "offset in the checkpoint")
        self._note(begun, INITIAL if begun == self._initial else "")
        newest = self._available(begun)
        options = self._options
        if not self._available_now and self._delayed(begun, newest):
            return to_json(begun)
        if options.records_per_trigger_max is None:
            return to_json(newest)
        added = [at for at in newest if at not in begun]
        starts = {**begun, **self._brokers.earliest(added)}
        return to_json(prorate(options.records_per_trigger_max, starts, newest))

    def _available(self, begun: Offsets) -> Offsets:
        if self._until is not None:
            return self._until
        partitions = self._brokers.partitions()
        self._check_still_the_same()
        newest = self._newest = self._brokers.latest(partitions, begun)
        if self._options.behind_group is not None:
            newest = self._read_by(self._options.behind_group, begun, newest)
        if self._available_now:
            self._until = newest
        return newest

    def _check_still_the_same(self) -> None:
        """A topic of the same name may be another one, whose records have the same offsets."""
        now = {name: id_ for name, id_ in self._brokers.topic_ids.items() if id_ != NO_TOPIC_ID}
        for name, id_ in now.items():
            if self._topic_ids.get(name, id_) != id_:
                _data_lost(self._options, f"topic {name!r} was deleted, and made anew")
        self._topic_ids |= now

    def _read_by(self, group: str, begun: Offsets, newest: Offsets) -> Offsets:
        """No further than the other group is, nor back: partitions that it knows."""
        done = self._brokers.committed(group, list(newest))
        return {
            at: max(min(end, done[at][0] if at in done else 0), begun.get(at, 0))
            for at, end in newest.items()
            if at in done or at in begun
        }

    def _delayed(self, begun: Offsets, newest: Offsets) -> bool:
        """Too few records for a trigger, and not yet too long since the last."""
        least = self._options.records_per_trigger_min
        if least is None:
            return False
        now = time.monotonic()
        waited_ms = (now - self._triggered_at) * 1000
        if waited_ms < self._options.trigger_delay_ms_max:
            waiting = sum(end - begun.get(at, 0) for at, end in newest.items())
            if waiting < least:
                return True
        self._triggered_at = now
        return False

    @one_line
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[TaskSlice]:
        options = self._options
        starts = from_json(start, "offset in the checkpoint")
        stops = from_json(end, "offset in the checkpoint")
        ranges = self._ranges(starts, stops)
        pieces = split(ranges, options.tasks_min, options.records_per_task_max)
        return [_task(options, each) for each in pieces] or [TaskSlice(None)]

    def _ranges(self, starts: Offsets, stops: Offsets) -> list[OffsetRange]:
        options = self._options
        if gone := sorted(starts.keys() - stops.keys()):
            _data_lost(options, f"{gone[0]} does not exist any more")
        added = sorted(stops.keys() - starts.keys())
        firsts = self._brokers.earliest(added) if added else {}
        for at, first in firsts.items():
            if first:
                _data_lost(options, f"{at} is new, and begins at offset {first}")
        ranges = []
        for at, stop in sorted(stops.items()):
            begin = starts.get(at, firsts.get(at, stop))
            if stop < begin:
                _data_lost(options, f"{at} ended at offset {begin}, and ends at {stop} now")
            ranges.append(OffsetRange(at.topic, at.partition, begin, stop))
        return ranges

    @one_line_each
    def read(self, partition: TaskSlice) -> Iterator["pyarrow.RecordBatch"]:
        yield from _read(partition, self._typed, self._schema)

    @one_line
    def commit(self, end: dict[str, Any]) -> None:
        self._note(from_json(end, "offset in the checkpoint"), "")

    def _note(self, offsets: Offsets, note: str) -> None:
        """Tell the query's group how far it is. Only lag depends on it: no reason to stop."""
        group = self._options.group
        if group is None or offsets == self._noted or not offsets:
            return
        if self._noted is not None and _behind(offsets, self._noted):
            return
        try:
            self._brokers.commit(group, offsets, note)
        except KafkaError as problem:
            if note == INITIAL:
                raise
            _LOG.warning("progress was not committed: %s", problem)
            return
        self._noted = offsets


class BrokenReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Says why there is no reader as soon as Spark asks it anything."""

    def __init__(self, problem: Exception) -> None:
        self._problem = problem

    def prepareForTriggerAvailableNow(self) -> None:
        """Nothing to prepare."""

    @one_line
    def initialOffset(self) -> dict[str, dict[str, int]]:
        raise self._problem

    @one_line
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, dict[str, int]]:
        raise self._problem

    @one_line
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[TaskSlice]:
        raise self._problem

    def read(self, partition: TaskSlice) -> Iterator["pyarrow.RecordBatch"]:
        return iter(())


def _behind(offsets: Mapping[TopicPartition, int], noted: Mapping[TopicPartition, int]) -> bool:
    return all(offset <= noted.get(at, -1) for at, offset in offsets.items())
