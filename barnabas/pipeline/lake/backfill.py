"""Adds records of a range of time to a table, those that it does not have.

In: the spec of a lake, a range of time. Out: one commit with the rows, or none.
Always: each row is in the table once: rows whose place is in the table are left out, and a commit
of another backfill in between is refused, so the rows are compared again. Only records below the
offsets where the table ends are read: the pipeline itself adds the others. It also adds rows that
wait in its retry topic, so these are left out, too.
Not here: the order of the steps (batch_commit.py), the table at one moment (snapshot.py).
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from barnabas.pipeline.lake.batch_commit import Attempt, LakeTable, TableState, write_batch
from barnabas.pipeline.lake.data_files import read_data_files
from barnabas.pipeline.lake.lake import SESSION, shaped, table_of, table_offsets
from barnabas.pipeline.lake.pruning import Bound
from barnabas.pipeline.lake.snapshot import check_readable, snapshot_of
from barnabas.pipeline.run.rows import places
from barnabas.pipeline.run.spec import Spec
from barnabas.pipeline.run.spec_source import source_of
from barnabas.pipeline.spark.batch_identity import BatchIdentity, known_ids, partition_key
from barnabas.pipeline.spark.brokers import Brokers
from barnabas.pipeline.spark.offsets import Offsets, to_json
from barnabas.pipeline.spark.options import SourceOptions, source_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PLACE = ["_topic", "_partition", "_offset"]


def backfill_spec(spec: Spec) -> Spec:
    """Of the run: its rows are known in the table under a name of their own."""
    check_readable(spec)
    return replace(
        spec, name=f"{spec.name}.backfill", errors=replace(spec.errors, retry_topic=None)
    )


def backfill(
    spec: Spec, spark: "SparkSession", since_ms: int, until_ms: int, say: Callable[[str], None]
) -> int:
    """`spec`: of the pipeline. Returns how many rows were added."""
    named = backfill_spec(spec)
    given = _source(spec, since_ms)
    options = source_options(given, streaming=False)
    brokers = Brokers(options)
    partitions = brokers.partitions()
    ids = known_ids(brokers.topic_ids)
    start = brokers.resolve(options.starting, partitions, "starting")
    ends = table_offsets(spec, dict.fromkeys(partitions, 0), brokers.topic_ids)
    end = {at: max(start[at], ends[at]) for at in partitions}
    waiting = sum(end[at] - start[at] for at in partitions)
    if not waiting:
        say(f"{spec.name}: no records of that time are below the offsets where the table ends")
        return 0
    for name, value in SESSION.items():
        spark.conf.set(name, value)
    raw = _read(spark, given, start, end)
    if named.errors.dlq is not None and (bad := _bad_rows(raw, since_ms, until_ms)):
        say(f"{spec.name}: {bad} bad rows of that time are left out")
    rows = shaped(named, raw).where(_in_time("_ts", since_ms, until_ms))
    keys = [partition_key(at, ids) for at in partitions]
    retries = None
    if spec.errors.retry_topic is not None:
        retries = _RetryTopic(spec.errors.retry_topic, options)
        keys += retries.keys.values()
    bounds = {"_offset": Bound(min(start.values()), max(end.values()))}
    added = 0

    def missing(_: Offsets) -> "DataFrame":
        nonlocal added
        found = rows
        table = snapshot_of(spec, bounds, keys)
        if table is not None and table.files:
            names = [file.name for file in table.files]
            schema = rows.select(*_PLACE).schema
            there = read_data_files(spark, table.store, names, schema)
            found = rows.join(there, _PLACE, "left_anti").select(*rows.columns)
        if retries is not None:
            waiting = retries.waiting(spark, {} if table is None else table.done)
            found = found.join(waiting, _PLACE, "left_anti").select(*rows.columns)
        found = found.persist()
        added = found.count()
        return found

    if not missing({}).take(1):
        return 0
    target = BackfilledTable(table_of(named, spark))
    identity = BatchIdentity(f"backfill-{since_ms}-{until_ms}", 0, start, end, ids)
    write_batch(target, identity, rows.schema, missing)
    return added


class _RetryTopic:
    """The rows that wait there. A row that fails again is written there again before its batch is
    in the table: each waits above the offsets where the table ends, until it is in the table.
    """

    def __init__(self, topic: str, options: SourceOptions) -> None:
        self._topic = topic
        self._given = {f"kafka.{name}": value for name, value in options.client.items()}
        self._given |= {"subscribe": topic, "kafka.isolation.level": "read_committed"}
        self._brokers = Brokers(source_options(self._given, streaming=False))
        partitions = self._brokers.partitions()
        ids = known_ids(self._brokers.topic_ids)
        self.keys = {at: partition_key(at, ids) for at in partitions}

    def waiting(self, spark: "SparkSession", done: Mapping[str, int]) -> "DataFrame":
        """The places of the original records. `done`: where the table ends."""
        firsts = self._brokers.earliest(self.keys)
        ends = self._brokers.latest(self.keys, {})
        start = {at: max(done.get(key, 0), firsts[at]) for at, key in self.keys.items()}
        end = {at: max(ends[at], start[at]) for at in self.keys}
        rows = _read(spark, {**self._given, "includeHeaders": "true"}, start, end)
        return rows.select(*places(self._topic))


def _source(spec: Spec, since_ms: int) -> dict[str, str]:
    given = source_of(spec)
    del given["startingOffsets"]
    for name in [name for name in given if name.lower().endswith("pertrigger")]:
        del given[name]
    given.setdefault("kafka.isolation.level", "read_committed")
    # A partition may have no record that is so new.
    return {
        **given,
        "startingTimestamp": str(since_ms),
        "startingOffsetsByTimestampStrategy": "latest",
    }


def _read(spark: "SparkSession", given: dict[str, str], start: Offsets, end: Offsets) -> Any:
    import json

    exact = {name: value for name, value in given.items() if not name.startswith("starting")}
    exact["startingOffsets"] = json.dumps(to_json(start))
    exact["endingOffsets"] = json.dumps(to_json(end))
    return spark.read.format("barnabas").options(**exact).load()


def _bad_rows(raw: "DataFrame", since_ms: int, until_ms: int) -> int:
    if "error" not in raw.columns:
        return 0
    of_the_time = raw.where(_in_time("timestamp", since_ms, until_ms))
    return int(of_the_time.where("error is not null").count())


def _in_time(column: str, since_ms: int, until_ms: int) -> Any:
    """Times need not rise with offsets."""
    from pyspark.sql import functions as f

    since, until = (datetime.fromtimestamp(ms / 1000, UTC) for ms in (since_ms, until_ms))
    return (f.col(column) >= f.lit(since)) & (f.col(column) < f.lit(until))


class BackfilledTable:
    """A table whose rows, not its offsets, say what it has: offsets of an earlier backfill say
    nothing about another time.
    """

    def __init__(self, table: LakeTable) -> None:
        self._table = table
        self.name = table.name
        self.replaces = table.replaces

    def check(self, schema: Any) -> None:
        self._table.check(schema)

    def prepare(self, schema: Any) -> None:
        self._table.prepare(schema)

    def state(self, identity: BatchIdentity) -> TableState:
        return TableState(self._table.state(identity).version, {})

    def write_files(self, rows: Any, attempt: Attempt) -> Any:
        return self._table.write_files(rows, attempt)

    def commit(self, files: Any, attempt: Attempt) -> bool:
        return self._table.commit(files, attempt)

    def has_attempt(self, attempt: Attempt) -> bool:
        return self._table.has_attempt(attempt)

    def committed(self, attempt: Attempt) -> None:
        self._table.committed(attempt)

    def discard(self, attempt: Attempt) -> None:
        self._table.discard(attempt)
