"""Decides how many partitions internal topics have, which topics are missing, and the tasks.

In: a topology, the topics that exist. Out: the tasks of each subtopology, the internal topics to
create, or what is wrong.
Always: a repartition topic without a number has as many partitions as the largest source of the
subtopology that writes it; a changelog as many as its subtopology has tasks; copartitioned topics
equally many.
Not here: who creates the topics (broker/groups/internal_topics.py).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from heapq import heappop, heappush
from typing import NamedTuple

from barnabas.coordinators.groups.streams.records import RecordedSubtopology, RecordedTopicInfo
from barnabas.coordinators.groups.streams.topology import (
    StreamsTopology,
    invalid_topology,
    source_topics,
)
from barnabas.coordinators.groups.topics import TopicsPort

TASKS_MAX = 50_000  # of one group
NAMES_SHOWN = 3
DETAIL_CHARS_MAX = 1_000  # of the text of a status


class StreamsStatus(IntEnum):
    """What a member should know of its group. The value is the one in the response."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


class TopicProblem(NamedTuple):
    """Why nothing can be assigned."""

    status: StreamsStatus
    detail: str


class _Wrong(Exception):
    """Topics with the wrong number of partitions."""


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """`replication_factor` 0: the broker's default."""

    name: str
    partitions: int
    replication_factor: int
    settings: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ConfiguredSubtopology:
    tasks: int
    source_topics: tuple[str, ...]
    repartition_sink_topics: tuple[str, ...]
    repartition_source_topics: Mapping[str, InternalTopic]
    state_changelog_topics: Mapping[str, InternalTopic]


@dataclass(frozen=True, slots=True)
class ConfiguredTopology:
    """Without a problem, tasks can be assigned. `missing`: internal topics to create."""

    epoch: int
    subtopologies: Mapping[str, ConfiguredSubtopology] = field(default_factory=dict)
    missing: tuple[InternalTopic, ...] = ()
    problem: TopicProblem | None = None

    @property
    def is_ready(self) -> bool:
        return self.problem is None


def configure(topology: StreamsTopology, topics: TopicsPort) -> ConfiguredTopology:
    """STREAMS_INVALID_TOPOLOGY if the numbers of partitions cannot be determined."""
    parts = topology.subtopologies.values()
    absent = sorted(
        {name for each in parts for name in each.source_topics if topics.find(name) is None}
    )
    if absent:
        detail = f"source topics are missing: {summary(absent)}"
        problem = TopicProblem(StreamsStatus.MISSING_SOURCE_TOPICS, detail)
        return ConfiguredTopology(topology.epoch, problem=problem)
    try:
        configured = _configured(topology, topics)
        missing = _missing(configured.values(), topics)
    except _Wrong as wrong:
        problem = TopicProblem(StreamsStatus.INCORRECTLY_PARTITIONED_TOPICS, str(wrong))
        return ConfiguredTopology(topology.epoch, problem=problem)
    lacks: TopicProblem | None = None
    if missing:
        detail = f"internal topics are missing: {summary(sorted(t.name for t in missing))}"
        lacks = TopicProblem(StreamsStatus.MISSING_INTERNAL_TOPICS, detail)
    return ConfiguredTopology(topology.epoch, configured, missing, lacks)


def _configured(topology: StreamsTopology, topics: TopicsPort) -> dict[str, ConfiguredSubtopology]:
    parts = topology.subtopologies
    counts = _Counts(topics)
    _count_repartition_topics(parts.values(), counts)
    fixed = {
        topic.name
        for each in parts.values()
        for topic in each.repartition_source_topics
        if topic.partitions
    }
    for each in parts.values():
        repartitions = [topic.name for topic in each.repartition_source_topics]
        for group in each.copartition_groups:
            _copartition(
                [each.source_topics[index] for index in group.source_topics],
                [repartitions[index] for index in group.repartition_source_topics],
                fixed,
                counts,
            )
    tasks = {id_: max(map(counts.of, source_topics(each))) for id_, each in parts.items()}
    if sum(tasks.values()) > TASKS_MAX:
        raise invalid_topology(
            f"{sum(tasks.values())} tasks; at most {TASKS_MAX} are allowed in one group"
        )
    for id_, each in parts.items():
        counts.decided.update((t.name, tasks[id_]) for t in each.state_changelog_topics)
    return {
        id_: ConfiguredSubtopology(
            tasks[id_],
            tuple(sorted(each.source_topics)),
            tuple(sorted(each.repartition_sink_topics)),
            _internal(each.repartition_source_topics, counts),
            _internal(each.state_changelog_topics, counts),
        )
        for id_, each in parts.items()
    }


class _Counts:
    """Partitions by topic: of those that exist as they are, of others as decided."""

    def __init__(self, topics: TopicsPort) -> None:
        self._topics = topics
        self.decided: dict[str, int] = {}

    def find(self, name: str) -> int | None:
        topic = self._topics.find(name)
        return self.decided.get(name) if topic is None else topic.partitions

    def used(self, name: str) -> int | None:
        """As decided, also of one that exists."""
        return self.decided.get(name) or self.find(name)

    def of(self, name: str) -> int:
        count = self.find(name)
        if count is None:
            raise invalid_topology(f"repartition topic {name}: no subtopology writes to it")
        return count


def _count_repartition_topics(parts: Iterable[RecordedSubtopology], counts: _Counts) -> None:
    """Looks at each topic of a subtopology once, whatever the order of the subtopologies."""
    decided = counts.decided
    for each in parts:
        decided.update(
            (t.name, t.partitions) for t in each.repartition_source_topics if t.partitions
        )
    writers = [each for each in parts if each.repartition_sink_topics]
    sources = [set(source_topics(each)) for each in writers]
    unknown = [{name for name in names if counts.used(name) is None} for names in sources]
    readers: dict[str, list[int]] = {}
    for index, names in enumerate(unknown):
        for name in names:
            readers.setdefault(name, []).append(index)
    # In rounds, each in the order of the writers.
    ready = [(0, index) for index, names in enumerate(unknown) if not names]
    partly = [index for index, names in enumerate(unknown) if len(names) < len(sources[index])]
    left = set(range(len(writers)))
    turn = 0
    while left:
        if ready:
            turn, index = heappop(ready)
        elif partly:  # a topic that is read where it is written: the other sources decide
            index = heappop(partly)
        else:
            raise invalid_topology(
                "the partitions of repartition topics cannot be determined: there is a loop"
                " between subtopologies without any source topic"
            )
        if index not in left:
            continue
        left.remove(index)
        most = max(count for name in sources[index] if (count := counts.used(name)) is not None)
        for name in writers[index].repartition_sink_topics:
            decided.setdefault(name, most)
            for reader in readers.pop(name, ()):
                unknown[reader].remove(name)
                heappush(partly, reader)
                if not unknown[reader]:
                    heappush(ready, (turn + (reader <= index), reader))


def _copartition(
    sources: list[str], repartitions: list[str], fixed: set[str], counts: _Counts
) -> None:
    """All topics of the group get equally many partitions, or it is wrong."""
    rigid = sources or [name for name in repartitions if name in fixed]
    numbers = {name: counts.of(name) for name in sorted({*rigid})}
    if len(set(numbers.values())) > 1:
        listed = summary([f"{name} has {count}" for name, count in numbers.items()])
        raise _Wrong(f"topics that are joined must have equally many partitions: {listed}")
    if numbers:
        decided = next(iter(numbers.values()))
    else:
        decided = max((counts.of(name) for name in repartitions), default=0)
    for name in repartitions:
        if name in fixed and counts.of(name) != decided:
            raise _Wrong(
                f"repartition topic {name} has {counts.of(name)} partitions, the topics that it is"
                f" joined with have {decided}"
            )
        counts.decided[name] = decided


def _internal(infos: Iterable[RecordedTopicInfo], counts: _Counts) -> dict[str, InternalTopic]:
    return {
        info.name: InternalTopic(
            info.name,
            info.partitions or counts.decided.get(info.name) or counts.of(info.name),
            max(0, info.replication_factor),
            {setting.key: setting.value for setting in info.topic_configs},
        )
        for info in infos
    }


def _missing(
    parts: Iterable[ConfiguredSubtopology], topics: TopicsPort
) -> tuple[InternalTopic, ...]:
    missing: dict[str, InternalTopic] = {}
    for each in parts:
        for part in (each.repartition_source_topics, each.state_changelog_topics):
            for name, wanted in part.items():
                found = topics.find(name)
                if found is None:
                    missing[name] = wanted
                elif found.partitions != wanted.partitions:
                    raise _Wrong(
                        f"internal topic {name} has {found.partitions} partitions; expected"
                        f" {wanted.partitions}"
                    )
    return tuple(missing.values())


def summary(names: list[str]) -> str:
    shown = ", ".join(names[:NAMES_SHOWN])
    more = len(names) - NAMES_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown
