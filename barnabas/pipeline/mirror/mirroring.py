"""Mirrors topics, their options and partitions, and the offsets of groups to another cluster.

In: two clusters, and the topics. Out: rounds; each copies the records that existed when it began.
Always: progress is written to the target after the records, with the translation of their offsets
in the same batch, so a mirror continues where it stopped: no record is lost. The records and the
progress of a round are committed together (round_commits.py); without that, records whose progress
was not written before a crash are copied again. A topic is never mirrored back to a cluster that
it came from.
Not here: copying (copying.py), which may run anywhere; Spark (pipeline/run/running.py).
"""

import logging
import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from barnabas.client.admin.admin import EARLIEST, LATEST
from barnabas.client.blocking.admin import Admin
from barnabas.client.blocking.net import run
from barnabas.client.consumer.offset_lookup import Committed
from barnabas.client.metadata_snapshot import TopicMetadata
from barnabas.model.errors import KafkaError
from barnabas.model.ids import NO_TOPIC_ID, TopicPartition
from barnabas.pipeline.errors import DataLoss, PipelineError
from barnabas.pipeline.mirror.copying import BYTES_MAX, CopyTask, copy_range
from barnabas.pipeline.mirror.identical import Identical
from barnabas.pipeline.mirror.round_commits import RoundCommits
from barnabas.pipeline.mirror.target_topics import STATE, create, own_options, state_records
from barnabas.pipeline.mirror.translation import (
    TOPIC,
    Copied,
    Origins,
    TopicIds,
    Translation,
    origin_record,
    take_in,
)
from barnabas.pipeline.spark.brokers import commit_offsets, look_again, opened
from barnabas.pipeline.spark.offsets import OffsetRange, Offsets
from barnabas.pipeline.spark.sending import BatchSender
from barnabas.wire.records import Record, encode_batch

_LOG = logging.getLogger(__name__)
_STATE_RECORDS_MAX = 5_000  # of one batch
OPTIONS_EVERY_S = 30.0  # two requests for each topic
Copy = Callable[[Sequence[CopyTask]], Iterable[Copied]]


@dataclass
class Round:
    """The result of one round."""

    topics: list[str] = field(default_factory=list)
    created: list[str] = field(default_factory=list)
    records: int = 0
    size: int = 0
    groups: int = 0
    behind: int = 0  # offsets not copied yet, of those that existed when the round began
    notes: list[str] = field(default_factory=list)


def copy_here(tasks: Sequence[CopyTask]) -> Iterable[Copied]:
    """Copies without Spark, one range after the other."""
    return map(copy_range, tasks)


def mirror(
    source: dict[str, str],
    target: dict[str, str],
    *,
    name: str,
    topics: Sequence[str] = (),
    pattern: str | None = None,
    identical: bool = False,
    once: bool = True,
    copy: Copy = copy_here,
) -> Round:
    """Copy all records that exist now. `source` and `target`: client options. `once`: False copies
    at least once, without transactions.
    """
    mirroring = Mirroring(
        source, target, name=name, topics=topics, pattern=pattern, identical=identical, once=once
    )
    done = mirroring.round(copy)
    while done.behind:
        further = mirroring.round(copy)
        if not further.records and further.behind >= done.behind:
            raise PipelineError(f"mirror {name!r}: {done.behind} offsets cannot be read; try again")
        further.records += done.records
        further.size += done.size
        further.created = done.created + further.created
        done = further
    return done


class Mirroring:
    """One mirror between two clusters."""

    def __init__(
        self,
        source: dict[str, str],
        target: dict[str, str],
        *,
        name: str,
        topics: Sequence[str] = (),
        pattern: str | None = None,
        identical: bool = False,
        once: bool = True,
        bytes_max: int = BYTES_MAX,
    ) -> None:
        self._name = name
        self._topics = list(topics)
        self._pattern = re.compile(pattern) if pattern is not None else None
        self._bytes_max = bytes_max
        committed = {**source, "isolation.level": "read_committed"}
        self._source_client = tuple(sorted(committed.items()))
        self._target_client = tuple(sorted(target.items()))
        self._source, self._target = opened(committed), opened(target)
        self._from, self._to = Admin(cluster=self._source), Admin(cluster=self._target)
        source_id = self._from.cluster().id or source["bootstrap.servers"]
        self._target_id = self._to.cluster().id or target["bootstrap.servers"]
        if source_id == self._target_id:
            raise PipelineError(
                f"mirror {name!r}: source and target are the same cluster, {source_id}: use"
                " another target"
            )
        self._translation = Translation(source_id)
        self._identical: Identical | None = None
        if identical:
            self._identical = Identical(
                self._target, self._to, self._translation, self._write_state
            )
        self._once = RoundCommits(self._target, name) if once and not identical else None
        self._loaded = False
        self._options_at_s = float("-inf")
        self._noted_origins: dict[str, list[str]] = {}
        self._ids: dict[str, TopicIds] = {}

    def plan(self) -> tuple[list[TopicMetadata], list[str]]:
        """The topics to mirror, and those of them that the target does not have.
        Changes nothing.
        """
        chosen = self._chosen()
        self._check_no_loop(chosen)
        there = self._to.topics().topics
        return chosen, [topic.name for topic in chosen if topic.name not in there]

    def round(self, copy: Copy = copy_here) -> Round:
        """Copy the records that exist now, or as many as the tasks may copy."""
        chosen, missing = self.plan()
        done = Round(topics=[topic.name for topic in chosen], created=missing)
        self._make_state_topic()
        self._load()
        self._make_topics(chosen, missing, done)
        self._check_still_the_same(chosen, done)
        ranges = self._ranges(chosen, done)
        if self._once is not None and any(each.size for each in ranges):
            self._loaded = not self._once.begin() and self._loaded
            if not self._loaded:
                self._load()
                ranges = self._ranges(chosen, done)
        tasks = self._tasks(ranges)
        copied = list(copy(tasks)) if tasks else []
        self._note(chosen, copied)
        stops = {each.at: each.stop for each in ranges}
        if self._identical is not None:
            self._identical.reached(list(stops), tasks)
        progress = self._translation.progress
        done.records = sum(each.records for each in copied)
        done.size = sum(each.size for each in copied)
        done.behind = sum(max(stops[each.at] - progress[each.at], 0) for each in copied)
        self._tell_lag(stops)
        self._move_groups(stops, done)
        return done

    def _load(self) -> None:
        """Read the progress, unless it is known."""
        if self._loaded:
            return
        if self._identical is None:
            self._translation = Translation(self._translation.cluster)
        take_in(state_records(self._target), self._translation, Origins())
        self._loaded = True

    def _tasks(self, ranges: list[OffsetRange]) -> list[CopyTask]:
        todo = [each for each in ranges if each.size]
        return [
            CopyTask(
                each,
                self._source_client,
                self._target_client,
                self._bytes_max,
                self._translation.soles.get(each.at),
                None if self._once is None else self._once.task(number),
            )
            for number, each in enumerate(todo)
        ]

    # --- topics ---

    def _chosen(self) -> list[TopicMetadata]:
        known = self._from.topics().topics
        if self._pattern is not None:
            names = [name for name in known if self._pattern.search(name) and name != TOPIC]
            return [known[name] for name in sorted(names) if not known[name].is_internal]
        for name in self._topics:
            if name not in known:
                raise PipelineError(f"topic {name!r} does not exist in the source: create it")
            if known[name].is_internal or name == TOPIC:
                raise PipelineError(f"topic {name!r} is internal: it is not mirrored")
        return [known[name] for name in self._topics]

    def _check_no_loop(self, chosen: list[TopicMetadata]) -> None:
        origins = Origins()
        take_in(state_records(self._source), Translation(""), origins)
        for topic in chosen:
            through = origins.of(topic.name)
            if self._target_id in through:
                raise PipelineError(
                    f"topic {topic.name!r} came to the source from the target"
                    f" ({self._target_id}): mirrored back, its records would be copied in a circle;"
                    " remove it from the source's topics"
                )
            self._noted_origins[topic.name] = [self._translation.cluster, *through]

    def _make_state_topic(self) -> None:
        if TOPIC not in self._to.topics().topics:
            create(self._to, TOPIC, 1, {"cleanup.policy": "compact"})

    def _make_topics(self, chosen: list[TopicMetadata], missing: list[str], done: Round) -> None:
        there = self._to.topics().topics
        now_s = time.monotonic()
        is_due = now_s - self._options_at_s >= OPTIONS_EVERY_S
        self._options_at_s = now_s if is_due else self._options_at_s
        for topic in chosen:
            is_new, count = topic.name in missing, len(topic.partitions)
            if not is_new and len(there[topic.name].partitions) < count:
                self._to.create_partitions(topic.name, count)
            if not is_new and not is_due:
                continue
            wanted = own_options(self._from, topic.name)
            if self._identical is not None:
                self._identical.check_topic(topic.name, wanted)
            if is_new:
                create(self._to, topic.name, count, wanted)
                continue
            found = own_options(self._to, topic.name)
            if found != wanted:
                try:
                    self._to.alter_topic(
                        topic.name, put=wanted, reset=sorted(found.keys() - wanted.keys())
                    )
                except KafkaError as problem:
                    done.notes.append(f"options of {topic.name!r} differ: {problem.detail}")
        look_again(self._source)
        look_again(self._target)

    def _check_still_the_same(self, chosen: list[TopicMetadata], done: Round) -> None:
        """A topic that was deleted and created again has the same name but other records."""
        there = self._to.topics().topics
        for topic in chosen:
            copy = there.get(topic.name)  # brokers may not know a new topic yet
            now = TopicIds(_text(topic.id), "" if copy is None else _text(copy.id))
            noted = self._translation.ids.get(topic.name, now)
            if noted.target and now.target and noted.target != now.target:
                done.notes.append(f"{topic.name} is new in the target: it is copied from the start")
                self._write_state(list(self._translation.forget(topic.name, _now_ms())))
            elif noted.source and now.source and noted.source != now.source:
                raise DataLoss(
                    f"topic {topic.name!r} was deleted and created again in the source: delete it"
                    " in"
                    " the target too; the mirror then copies it from the start"
                )
            self._ids[topic.name] = now

    # --- records ---

    def _ranges(self, chosen: list[TopicMetadata], done: Round) -> list[OffsetRange]:
        partitions = [TopicPartition(t.name, p.number) for t in chosen for p in t.partitions]
        firsts = self._from.offsets(dict.fromkeys(partitions, EARLIEST))
        lasts = self._from.offsets(dict.fromkeys(partitions, LATEST), committed_only=True)
        starts = self._starts(
            {at: firsts[at].offset for at in partitions},
            {at: lasts[at].offset for at in partitions},
        )
        ranges = []
        for at in partitions:
            first, stop = firsts[at].offset, lasts[at].offset
            start = starts.get(at, first)
            if start > stop:
                raise DataLoss(
                    f"{at} ends at offset {stop} in the source, but {start} offsets were copied:"
                    " was"
                    " it created again? Delete it in the target too; the mirror then copies it"
                    " from the start"
                )
            if start < first:
                if self._identical is not None and start < stop:
                    raise PipelineError(
                        f"{at}: offsets {start} to {first} were deleted before the copy: identical"
                        " offsets cannot be kept; delete the topic in the target and start again"
                    )
                done.notes.append(f"{at}: offsets {start} to {first} were deleted before the copy")
                start = first
            ranges.append(OffsetRange(at.topic, at.partition, start, stop))
        return ranges

    def _starts(self, firsts: Offsets, lasts: Offsets) -> Offsets:
        if self._identical is not None:
            return self._identical.starts(firsts, lasts)
        if same := sorted(self._translation.soles.keys() & firsts.keys()):
            raise PipelineError(
                f"{same[0]} was mirrored with identical offsets: set sink.offsets to identical"
            )
        return self._translation.progress

    def _note(self, chosen: list[TopicMetadata], copied: list[Copied]) -> None:
        """Writes the progress. Records are copied once their progress is written."""
        now_ms = _now_ms()
        cluster = self._translation.cluster
        if copied:
            records = []
            for name in (topic.name for topic in chosen):
                through, ids = self._noted_origins[name], self._ids[name]
                self._translation.ids[name] = ids
                records.append(origin_record(cluster, name, through, ids, now_ms))
            for each in copied:
                records += self._translation.add(each, now_ms)
            # Until all is committed, the translation has what the target may never have.
            self._loaded = False
            self._write_state(records, self._once)
            if self._once is not None:
                self._once.commit(each.transaction for each in copied)
            self._loaded = True

    def _write_state(self, records: Sequence[Record], once: RoundCommits | None = None) -> None:
        sender = BatchSender(self._target)
        if once is not None:
            once.join(sender)
        sender.identify()
        for begin in range(0, len(records), _STATE_RECORDS_MAX):
            part = records[begin : begin + _STATE_RECORDS_MAX]
            batch = encode_batch(
                [Record(n, r.timestamp, r.key, r.value) for n, r in enumerate(part)]
            )
            sender.send([sender.adopt(STATE, batch, -1, 0)])
        sender.flush()

    def _tell_lag(self, mirrored: Iterable[TopicPartition]) -> None:
        """Commits the progress to a group of the source, which only shows lag: failures
        are logged.
        """
        progress = self._translation.progress
        reached = {at: progress[at] for at in mirrored if at in progress}
        try:
            if reached:
                run(commit_offsets(self._source, self._name, reached, ""))
        except KafkaError as problem:
            _LOG.warning(
                "progress was not committed in the source, so lag is not shown: %s", problem
            )

    # --- groups ---

    def _move_groups(self, mirrored: dict[TopicPartition, int], done: Round) -> None:
        """Moves the group's offsets forward, never back, and only if the group has no members."""
        names = [each.group for each in self._from.groups() if each.group != self._name]
        reached = self._from.groups_offsets(names) if names else {}
        already = self._to.groups_offsets(names) if names else {}
        for group, offsets in reached.items():
            moves = {}
            for at, committed in offsets.items():
                if at not in mirrored:
                    continue
                offset = self._translation.offset(at, committed.offset)
                before = already.get(group, {}).get(at)
                if offset is not None and (before is None or before.offset < offset):
                    moves[at] = Committed(offset, metadata=committed.metadata)
            if not moves:
                continue
            try:
                self._to.alter_group_offsets(group, moves)
                done.groups += 1
            except KafkaError as problem:
                done.notes.append(f"group {group!r} was not moved: {problem.detail}")


def _now_ms() -> int:
    return int(time.time() * 1000)


def _text(id_: UUID) -> str:
    """The id of the topic; nothing if the broker is too old to have topic ids."""
    return "" if id_ == NO_TOPIC_ID else str(id_)
