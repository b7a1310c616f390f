"""Translates offsets of a mirrored partition from source to target; kept in a topic, as records.

In: runs of copied records, and the records of that topic, which any program may have written. Out:
offsets of the target; records to write.
Always: a translated offset skips no record. If it cannot be exact, it is too low, never too high.
Pure: mirroring.py reads and writes the topic.

Keys are JSON, so that the topic can be compacted: ["run", CLUSTER, TOPIC, PARTITION, OFFSET],
["progress", CLUSTER, TOPIC, PARTITION], ["origin", CLUSTER, TOPIC], which has the ids of the topic
in both clusters too; and where offsets are identical ["sole", CLUSTER, TOPIC, PARTITION]. A record
without a value deletes the entry of its key.
"""

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from barnabas.model.ids import TopicPartition
from barnabas.pipeline.spark.offsets import Offsets
from barnabas.pipeline.spark.transaction_calls import SinkTransaction
from barnabas.wire.records import Record

TOPIC = "barnabas.mirrors"
_INT64_MAX = 2**63 - 1
_SIZE_MAX = 100_000
_CLUSTERS_MAX = 100
RUNS_MAX = 4_000
"""Of a partition. Each committed round ends a run, because its marker has an offset too."""


class TranslatedRun(NamedTuple):
    """`records` records: they took `span` offsets from `source` on, and are at `target`
    and after.
    """

    source: int
    span: int
    target: int
    records: int

    @property
    def exact(self) -> bool:
        return self.span == self.records

    def joined(self, later: "TranslatedRun") -> "TranslatedRun | None":
        """Both runs as one, if that loses no information."""
        follows = later.source == self.source + self.span
        if follows and self.exact and later.exact and later.target == self.target + self.records:
            records = self.records + later.records
            return TranslatedRun(self.source, self.span + later.span, self.target, records)
        return None

    def merged(self, later: "TranslatedRun") -> "TranslatedRun":
        """Both runs as one that is not exact: its offsets become that of its first record."""
        span = later.source + later.span - self.source
        return TranslatedRun(
            self.source, span, self.target, min(self.records + later.records, span - 1)
        )


class Copied(NamedTuple):
    """What a task has copied of one partition: all records before `position`."""

    at: TopicPartition
    position: int
    runs: list[TranslatedRun]
    records: int
    size: int
    transaction: SinkTransaction | None = None  # that has the records


class IdenticalProducer(NamedTuple):
    """The one producer that writes a partition whose offsets are identical, from `first` on."""

    producer_id: int
    epoch: int
    first: int


class TopicIds(NamedTuple):
    """The ids of a topic as text. A topic that was created again under its name has other ids."""

    source: str
    target: str


class Translation:
    """All translations of the mirrored topics of one source cluster."""

    def __init__(self, cluster: str) -> None:
        self.cluster = cluster
        self.identical = False
        self.progress: Offsets = {}
        self.soles: dict[TopicPartition, IdenticalProducer] = {}
        self.ids: dict[str, TopicIds] = {}
        self._runs: dict[TopicPartition, dict[int, TranslatedRun]] = {}
        self._sorted: dict[TopicPartition, list[int]] = {}

    def offset(self, at: TopicPartition, offset: int) -> int | None:
        """The offset where a reader continues in the target; None if nothing was copied yet."""
        if self.identical:
            reached = self.progress.get(at)
            return None if reached is None else min(offset, reached)
        runs = self._runs.get(at)
        if not runs:
            return None
        starts = self._sorted.get(at)
        if starts is None:
            starts = self._sorted[at] = sorted(runs)
        number = bisect_right(starts, offset) - 1
        if number < 0:
            return runs[starts[0]].target
        run = runs[starts[number]]
        if offset >= run.source + run.span:
            return run.target + run.records
        return run.target + (offset - run.source if run.exact else 0)

    def add(self, copied: Copied, now_ms: int) -> Iterator[Record]:
        """Add copied records. Returns the records to write to the topic."""
        runs = self._runs.setdefault(copied.at, {})
        changed: dict[int, TranslatedRun] = {}
        last = runs[max(runs)] if runs else None
        for run in copied.runs:
            joined = last.joined(run) if last is not None else None
            last = joined or run
            runs[last.source] = changed[last.source] = last
        self._sorted.pop(copied.at, None)
        self.progress[copied.at] = copied.position
        where = (self.cluster, copied.at.topic, copied.at.partition)
        if len(runs) > RUNS_MAX:
            for gone in _halve_older(runs, changed):
                yield _record(("run", *where, gone), None, now_ms)
        for run in changed.values():
            value = {"span": run.span, "target": run.target, "records": run.records}
            yield _record(("run", *where, run.source), value, now_ms)
        yield _record(("progress", *where), {"offset": copied.position}, now_ms)

    def claim(self, at: TopicPartition, sole: IdenticalProducer, now_ms: int) -> Record:
        """Add a producer. Returns the record to write to the topic."""
        self.soles[at] = sole
        key = ("sole", self.cluster, at.topic, at.partition)
        return _record(key, sole._asdict(), now_ms)

    def forget(self, topic: str, now_ms: int) -> Iterator[Record]:
        """Forget a topic. Returns the records to write to the topic."""
        self.ids.pop(topic, None)
        for at in [at for at in self.progress.keys() | self.soles.keys() if at.topic == topic]:
            where = (self.cluster, topic, at.partition)
            for source in self._runs.get(at, ()):
                yield _record(("run", *where, source), None, now_ms)
            for kind in ("progress", "sole"):
                yield _record((kind, *where), None, now_ms)
            self._drop(at)

    def _drop(self, at: TopicPartition) -> None:
        for known in (self.progress, self.soles, self._runs, self._sorted):
            known.pop(at, None)

    def _take(self, kind: str, rest: list[Any], value: dict[str, Any] | None) -> None:
        topic, partition = rest[:2]
        if not isinstance(topic, str) or not _whole(partition):
            return
        at = TopicPartition(topic, partition)
        if value is None:
            if kind == "progress":
                self._drop(at)
            elif kind == "run" and len(rest) == 3 and _whole(rest[2]):
                self._runs.get(at, {}).pop(rest[2], None)
                self._sorted.pop(at, None)
            return
        if kind == "progress" and _whole(value.get("offset")):
            self.progress[at] = value["offset"]
        elif kind == "sole":
            sole = IdenticalProducer(*(value.get(name, -1) for name in IdenticalProducer._fields))
            if all(_whole(number) for number in sole):
                self.soles[at] = sole
        elif kind == "run" and len(rest) == 3:
            run = TranslatedRun(
                rest[2], value.get("span", -1), value.get("target", -1), value.get("records", -1)
            )
            if all(_whole(number) for number in run) and 0 < run.records <= run.span:
                self._runs.setdefault(at, {})[run.source] = run
                self._sorted.pop(at, None)

    def _take_ids(self, topic: object, value: dict[str, Any]) -> None:
        ids = TopicIds(*(value.get(name, "") for name in TopicIds._fields))
        if isinstance(topic, str) and all(isinstance(id_, str) for id_ in ids):
            self.ids[topic] = ids


def _halve_older(
    runs: dict[int, TranslatedRun], changed: dict[int, TranslatedRun]
) -> Iterator[int]:
    """Merges pairs of the older half: the older, the less exact. Yields the runs that are gone."""
    older = sorted(runs)[: len(runs) // 2]
    for first, second in zip(older[::2], older[1::2], strict=False):
        runs[first] = changed[first] = runs[first].merged(runs.pop(second))
        changed.pop(second, None)
        yield second


class Origins:
    """The clusters that each topic of a cluster was mirrored from, directly or over
    other clusters.
    """

    def __init__(self) -> None:
        self._of: dict[str, dict[str, list[str]]] = {}

    def of(self, topic: str) -> list[str]:
        found = self._of.get(topic, {})
        return list(dict.fromkeys(name for through in found.values() for name in through))

    def _take(self, cluster: str, topic: object, value: dict[str, Any]) -> None:
        through = value.get("through")
        if isinstance(topic, str) and isinstance(through, list):
            names = [name for name in through[:_CLUSTERS_MAX] if isinstance(name, str)]
            self._of.setdefault(topic, {})[cluster] = names


def origin_record(
    cluster: str, topic: str, through: list[str], ids: TopicIds, now_ms: int
) -> Record:
    value = {"through": through, **ids._asdict()}
    return _record(("origin", cluster, topic), value, now_ms)


def take_in(records: Iterable[Record], translation: Translation, origins: Origins) -> None:
    """Apply records of the topic, oldest first. Records of another format are ignored."""
    for record in records:
        if record.key is None or len(record.key) + len(record.value or b"") > _SIZE_MAX:
            continue
        try:
            key, value = json.loads(record.key), json.loads(record.value or b"null")
        except (ValueError, RecursionError):
            continue
        if not isinstance(key, list) or len(key) < 3 or not isinstance(value, dict | None):
            continue
        kind, cluster, *rest = key
        if not isinstance(cluster, str):
            continue
        if kind == "origin":
            origins._take(cluster, rest[0], value or {})
            if cluster == translation.cluster:
                translation._take_ids(rest[0], value or {})
        elif cluster == translation.cluster and len(rest) >= 2:
            translation._take(kind, rest, value)


def _record(key: tuple[object, ...], value: Mapping[str, object] | None, now_ms: int) -> Record:
    text = None if value is None else json.dumps(value).encode()
    return Record(0, now_ms, json.dumps(key).encode(), text)


def _whole(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and 0 <= number <= _INT64_MAX
