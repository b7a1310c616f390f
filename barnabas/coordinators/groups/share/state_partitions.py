"""Which partitions of a share group have state at the share coordinator (record 15).

In: partitions that are to have state, that have it, that are to lose it. Out: the value after it.
Always: immutable; a partition is assigned only if it is initialized. A topic that is initialized
again is no longer being deleted.
Not here: the state itself (coordinators/share/).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias
from uuid import UUID

from barnabas.coordinators.groups.share.records import (
    SHARE_STATE_KEY,
    ShareGroupRecord,
    ShareStateValue,
    StatePartitions,
    StateTopic,
)

SharePartitionId: TypeAlias = tuple[UUID, int]
"""Topic id and partition."""


class NamedPartitions(NamedTuple):
    """The name of a topic, and some of its partitions."""

    topic: str
    partitions: frozenset[int]


ByTopic: TypeAlias = Mapping[UUID, NamedPartitions]


@dataclass(frozen=True, slots=True)
class InitializedPartitions:
    """By topic id. `deleting`: the names of topics whose state is being deleted."""

    initializing: ByTopic = field(default_factory=dict)
    initialized: ByTopic = field(default_factory=dict)
    deleting: Mapping[UUID, str] = field(default_factory=dict)

    def has(self, topic_id: UUID, partition: int) -> bool:
        found = self.initialized.get(topic_id)
        return found is not None and partition in found.partitions

    def of_topic(self, topic_id: UUID) -> frozenset[int]:
        found = self.initialized.get(topic_id)
        return frozenset() if found is None else found.partitions

    def keys(self) -> list[SharePartitionId]:
        """All that may have state."""
        return sorted(
            {
                (topic_id, number)
                for part in (self.initializing, self.initialized)
                for topic_id, named in part.items()
                for number in named.partitions
            },
            key=_order,
        )

    # Changes

    def begin(self, asked: ByTopic) -> "InitializedPartitions":
        """These are about to have state. Those that have it keep it until then."""
        initializing = dict(self.initializing)
        for topic_id, named in asked.items():
            before = initializing.get(topic_id)
            more = named.partitions - self.of_topic(topic_id)
            if before is not None:
                more |= before.partitions
            if more:
                initializing[topic_id] = NamedPartitions(named.topic, more)
        deleting = {id_: name for id_, name in self.deleting.items() if id_ not in asked}
        return InitializedPartitions(initializing, self.initialized, deleting)

    def finish(
        self, keys: Iterable[SharePartitionId], name_of: Callable[[UUID], str | None]
    ) -> "InitializedPartitions":
        """These have state."""
        initialized = dict(self.initialized)
        done: dict[UUID, set[int]] = {}
        for topic_id, number in keys:
            done.setdefault(topic_id, set()).add(number)
        for topic_id, numbers in done.items():
            known = initialized.get(topic_id) or self.initializing.get(topic_id)
            name = known.topic if known is not None else name_of(topic_id)
            if name is None:
                continue  # the topic was deleted meanwhile
            before = self.of_topic(topic_id)
            initialized[topic_id] = NamedPartitions(name, before | numbers)
        return InitializedPartitions(_less(self.initializing, done), initialized, self.deleting)

    def begin_deletion(self, topic_ids: Iterable[UUID] | None = None) -> "InitializedPartitions":
        """The state of these topics, or of all, is about to be deleted."""
        names = {
            id_: named.topic for part in (self.initializing, self.initialized)
            for id_, named in part.items()
        }  # fmt: skip
        chosen = names if topic_ids is None else {i: names[i] for i in topic_ids if i in names}
        return InitializedPartitions(
            {i: named for i, named in self.initializing.items() if i not in chosen},
            {i: named for i, named in self.initialized.items() if i not in chosen},
            {**self.deleting, **chosen},
        )

    def without(self, topic_ids: Iterable[UUID]) -> "InitializedPartitions":
        """Nothing is known of these topics: they were deleted, or their state was."""
        gone = frozenset(topic_ids)
        return InitializedPartitions(
            {i: named for i, named in self.initializing.items() if i not in gone},
            {i: named for i, named in self.initialized.items() if i not in gone},
            {i: name for i, name in self.deleting.items() if i not in gone},
        )

    def topics(self) -> dict[UUID, str]:
        names = {i: n.topic for i, n in (*self.initializing.items(), *self.initialized.items())}
        return {**self.deleting, **names}

    # Records

    def record(self, group: str) -> ShareGroupRecord:
        value = ShareStateValue(
            initializing_topics=_named(self.initializing),
            initialized_topics=_named(self.initialized),
            deleting_topics=[
                StateTopic(topic_id=topic_id, topic_name=name)
                for topic_id, name in self.deleting.items()
            ],
        )
        return ShareGroupRecord(SHARE_STATE_KEY, group, "", value)


def from_value(value: ShareStateValue) -> InitializedPartitions:
    return InitializedPartitions(
        _by_topic(value.initializing_topics),
        _by_topic(value.initialized_topics),
        {topic.topic_id: topic.topic_name for topic in value.deleting_topics},
    )


def _by_topic(topics: Iterable[StatePartitions]) -> ByTopic:
    return {t.topic_id: NamedPartitions(t.topic_name, frozenset(t.partitions)) for t in topics}


def _named(part: ByTopic) -> list[StatePartitions]:
    return [
        StatePartitions(
            topic_id=topic_id, topic_name=named.topic, partitions=sorted(named.partitions)
        )
        for topic_id, named in part.items()
    ]


def _less(part: ByTopic, done: Mapping[UUID, set[int]]) -> ByTopic:
    left = {
        topic_id: NamedPartitions(named.topic, named.partitions - done.get(topic_id, set()))
        for topic_id, named in part.items()
    }
    return {topic_id: named for topic_id, named in left.items() if named.partitions}


def _order(key: SharePartitionId) -> tuple[int, int]:
    return key[0].int, key[1]
