"""The readers behind `format("barnabas")`: what Spark calls, and when.

Batch: `partitions` once per query, then `read` in each task.
Stream: `initialOffset` (twice, and again if batch 0 is tried again), then for each trigger
`latestOffset(start)`, `partitions(start, end)`, `read` in each task. The start that Spark passes to
latestOffset is in its checkpoint: the query's group has read up to there.
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
    records_within,
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
    """The range of one task."""

    def __init__(self, task: Task | None) -> None:
        super().__init__(task)


def _task(
    options: SourceOptions,
    each: OffsetRange,
    topic_id: UUID | None,
    time_min: int | None = None,
) -> TaskSlice:
    return TaskSlice(
        Task(
            each,
            tuple(sorted(options.client.items())),
            options.headers,
            options.fail_on_data_loss,
            options.poll_timeout_ms,
            time_min,
            # With failOnDataLoss=false, the records of the new topic are read.
            topic_id if options.fail_on_data_loss else None,
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
    """Reads between two offsets, which are looked up when the query is planned."""

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
        if least is not None and least >= 0:
            # No record before the first one at or after a time is at or after it. Brokers cannot be
            # asked for a negative time, which records of Kafka may have.
            since = brokers.first_since(least, [each.at for each in ranges])
            ranges = [
                each._replace(start=min(max(each.start, since.get(each.at, each.stop)), each.stop))
                for each in ranges
            ]
        pieces = split(ranges, options.tasks_min, options.records_per_task_max)
        # For an empty list Spark starts one task without a partition.
        ids = brokers.topic_ids
        tasks = [_task(options, each, ids.get(each.topic), least) for each in pieces]
        return tasks or [TaskSlice(None)]

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
                _data_lost(options, f"{at} begins at offset {first[at]}, but {start} was requested")
                start = min(first[at], stop)
            if stop > last[at]:
                _data_lost(options, f"{at} ends at offset {last[at]}, but {stop} was requested")
                stop = last[at]
            ranges.append(OffsetRange(at.topic, at.partition, start, stop))
        return ranges

    @one_line_each
    def read(self, partition: TaskSlice) -> Iterator["pyarrow.RecordBatch"]:
        yield from _read(partition, self._typed, self._schema)


class FilteringReader(BatchReader):
    """Uses filters to read fewer records. Spark applies every filter again."""

    def pushFilters(self, filters: list[Any]) -> list[Any]:
        self._narrow = narrow(filters)
        return filters


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Reads trigger by trigger, within the user's limits."""

    def __init__(self, given: Mapping[str, str], schema: Any) -> None:
        self._typed = typed_options(given)
        self._schema = schema
        self._options = source_options(given, streaming=True)
        self._initial: Offsets | None = None
        self._newest: Offsets | None = None
        self._until: Offsets | None = None  # the end when an available-now query began
        self._available_now = False
        self._triggered_at = float("-inf")
        self._noted: Offsets | None = None
        self._topic_ids: dict[str, UUID] = dict(self._options.topic_ids)
        self._brokers_or_none: Brokers | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Tasks only read; the driver's connections are not pickled.
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
        known = self._options.began
        if known is None:
            begun = self._brokers.resolve(self._options.starting, partitions, "starting")
        else:
            begun = {**self._brokers.earliest(at for at in partitions if at not in known), **known}
        # Spark does not store it: after a crash it would be looked up again, and `latest` would
        # have moved.
        self._note(begun, self._initial_note)
        return begun

    def _begun_before(self) -> Offsets | None:
        """The start of this query, if it was stopped before it finished its first batch."""
        if self._options.group is None or self._options.began is not None:
            return None
        partitions = self._brokers.partitions()
        found = self._brokers.committed(self._options.group, partitions)
        if len(found) < len(partitions) or any(
            note != self._initial_note for _, note in found.values()
        ):
            return None
        return {at: offset for at, (offset, _) in found.items()}

    @property
    def _initial_note(self) -> str:
        """Of a query with these options. A query that begins elsewhere, or reads other topics, is
        another one, and must not begin where this one did.
        """
        return f"{INITIAL} {self._options.start_digest}"

    def getDefaultReadLimit(self) -> ReadLimit:
        # Spark's limits cannot be combined: ours are applied below.
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._available_now = True

    def reportLatestOffset(self) -> dict[str, dict[str, int]] | None:
        return None if self._newest is None else to_json(self._newest)

    @one_line
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, dict[str, int]]:
        begun = from_json(start, "offset in the checkpoint")
        self._note(begun, self._initial_note if begun == self._initial else "")
        newest = self._available(begun)
        options = self._options
        if not self._available_now and self._delayed(begun, newest):
            return to_json(begun)
        if options.records_per_trigger_max is None and options.bytes_per_trigger_max is None:
            return to_json(newest)
        added = [at for at in newest if at not in begun]
        starts = {**begun, **self._brokers.earliest(added)}
        limits = [options.records_per_trigger_max]
        if options.bytes_per_trigger_max is not None:
            sizes = self._brokers.record_sizes(list(newest))
            limits.append(records_within(options.bytes_per_trigger_max, starts, newest, sizes))
        most = min((each for each in limits if each is not None), default=None)
        return to_json(newest if most is None else prorate(most, starts, newest))

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
        """A topic with this name may have been created again: its offsets stand for
        other records.
        """
        now = {name: id_ for name, id_ in self._brokers.topic_ids.items() if id_ != NO_TOPIC_ID}
        for name, id_ in now.items():
            if self._topic_ids.get(name, id_) != id_:
                _data_lost(self._options, f"topic {name!r} was deleted and created again")
        self._topic_ids |= now

    def _read_by(self, group: str, begun: Offsets, newest: Offsets) -> Offsets:
        """Limits the end to the other group's offsets, never below the start, in partitions that it
        knows.
        """
        done = self._brokers.committed(group, list(newest))
        return {
            at: max(min(end, done[at][0] if at in done else 0), begun.get(at, 0))
            for at, end in newest.items()
            if at in done or at in begun
        }

    def _delayed(self, begun: Offsets, newest: Offsets) -> bool:
        """Whether there are too few records for a trigger, and maxTriggerDelay has not passed."""
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
        ids = self._ids_of(stops)
        return [_task(options, each, ids.get(each.topic)) for each in pieces] or [TaskSlice(None)]

    def _ids_of(self, offsets: Offsets) -> Mapping[str, UUID]:
        """The ids of the topics that the offsets stand for. After a restart, Spark repeats a batch
        before it asks for new offsets.
        """
        if any(at.topic not in self._topic_ids for at in offsets):
            self._brokers.partitions()
            self._topic_ids = {**self._brokers.topic_ids, **self._topic_ids}
        return self._topic_ids

    def _ranges(self, starts: Offsets, stops: Offsets) -> list[OffsetRange]:
        options = self._options
        if gone := sorted(starts.keys() - stops.keys()):
            _data_lost(options, f"{gone[0]} no longer exists")
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
        """Commit the progress to the query's group. It only shows lag: failures are logged."""
        group = self._options.group
        if group is None or offsets == self._noted or not offsets:
            return
        if self._noted is not None and _behind(offsets, self._noted):
            return
        try:
            self._brokers.commit(group, offsets, note)
        except KafkaError as problem:
            if note == self._initial_note:
                raise
            _LOG.warning("progress was not committed: %s", problem)
            return
        self._noted = offsets


class BrokenReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Raises the error that prevented a reader, at the first call by Spark."""

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
