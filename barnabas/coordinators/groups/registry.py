"""Which groups there are in one partition of __consumer_offsets, and what each of them is.

Always: `generations`, `consumers` and `offsets` are exactly what the log says, changed by `replay`
alone. A group in motion, with its members' timers, is made from them when first needed; it is
classic or new, as the log has it. One that only ever had offsets is a classic one without members.
Not here: the verbs (classic_verbs.py, consumer_verbs.py, offset_verbs.py).
"""

from collections.abc import Iterable
from typing import TypeAlias

from msgspec.structs import replace

from barnabas.coordinators.groups.chronicle import Chronicle
from barnabas.coordinators.groups.classic import ClassicGroup
from barnabas.coordinators.groups.classic_speakers import MixedGroup
from barnabas.coordinators.groups.consumer_records import EPOCH_KEY, ConsumerRecord
from barnabas.coordinators.groups.consumer_state import ConsumerState
from barnabas.coordinators.groups.limits import Limits
from barnabas.coordinators.groups.member import Caller, TimerKey
from barnabas.coordinators.groups.offsets import Offsets
from barnabas.coordinators.groups.records import (
    GroupMetadataValue,
    GroupRecord,
    OffsetRecord,
    Record,
)
from barnabas.coordinators.groups.story import Story
from barnabas.coordinators.groups.target import partitions_of
from barnabas.coordinators.groups.topics import NoTopics, Topics
from barnabas.coordinators.runtime import Answer, Outcome
from barnabas.coordinators.timers import Timers
from barnabas.model.errors import Code
from barnabas.wire.codec import Message

Group: TypeAlias = ClassicGroup | MixedGroup


class Registry:
    """Groups by id."""

    def __init__(
        self, limits: Limits, chronicle: Chronicle | None = None, topics: Topics | None = None
    ) -> None:
        self.limits = limits
        self.chronicle = chronicle or Chronicle()
        self.topics = topics or NoTopics()
        self.generations: dict[str, GroupMetadataValue] = {}
        self.consumers: dict[str, ConsumerState] = {}
        self.offsets = Offsets()
        self._groups: dict[str, Group] = {}
        self._timers: Timers[TimerKey] = Timers()

    def replay(self, record: Record) -> None:
        if isinstance(record, OffsetRecord):
            self.offsets.replay(record)
            if record.value is None and (group := self._groups.get(record.group)) is not None:
                self._drop_if_nothing(group)
            return
        group = self._groups.get(record.group)
        if isinstance(record, GroupRecord):
            self._replay_generation(record, group if isinstance(group, ClassicGroup) else None)
        else:
            self._replay_consumer(record, group if isinstance(group, MixedGroup) else None)

    def _replay_generation(self, record: GroupRecord, group: ClassicGroup | None) -> None:
        if record.value is None:
            self.generations.pop(record.group, None)
            if group is not None:
                del self._groups[record.group]
                group.end(Code.COORDINATOR_NOT_AVAILABLE)
        else:
            self.generations[record.group] = record.value
            if group is not None:
                group.replayed(record.value)

    def _replay_consumer(self, record: ConsumerRecord, group: MixedGroup | None) -> None:
        kept = self.consumers.get(record.group)
        before = 0 if kept is None else kept.weight
        if record.value is None and record.key == EPOCH_KEY:
            self.consumers.pop(record.group, None)
            self.limits.room.used -= before
            if group is not None and kept is not None:
                del self._groups[record.group]
                group.end(Code.COORDINATOR_NOT_AVAILABLE)
            return
        if kept is None:
            if record.value is None:
                return
            kept = self.consumers[record.group] = ConsumerState(record.group)
        if group is not None:
            group.kept = kept
        kept.replay(record)
        self.limits.room.used += kept.weight - before

    # Looking

    def groups(self) -> Iterable[Group]:
        """All of them, in the order of their names. To look at."""
        for group_id in sorted(self._ids()):
            group = self.group(group_id)
            if group is not None:
                yield group

    def live(self) -> list[str]:
        """The groups that have members."""
        return [id_ for id_, group in self._groups.items() if group.size]

    def group(self, group_id: str) -> Group | None:
        """To look at. Looking does not bring a group to life."""
        return self._groups.get(group_id) or self._remembered(group_id)

    # Inside

    def _ids(self) -> dict[str, None]:
        return dict.fromkeys(
            (*self._groups, *self.generations, *self.consumers, *self.offsets.by_group)
        )

    def _is_known(self, group_id: str) -> bool:
        return (
            group_id in self.generations
            or group_id in self.consumers
            or group_id in self.offsets.by_group
        )

    def _find(self, group_id: str) -> Group | None:
        group = self._groups.get(group_id)
        if group is None and self._is_known(group_id):
            group = self._revive(group_id)
        return group

    def _revive(self, group_id: str) -> Group:
        group = self._remembered(group_id)
        assert group is not None
        self._groups[group_id] = group
        return group

    def _remembered(self, group_id: str) -> Group | None:
        kept = self.consumers.get(group_id)
        if kept is not None:
            return self._new_consumer(kept)
        value = self.generations.get(group_id)
        if value is not None:
            return ClassicGroup.kept(group_id, value, self.limits, self._timers, self.chronicle)
        return self._new(group_id) if group_id in self.offsets.by_group else None

    def _new(self, group_id: str) -> ClassicGroup:
        story = Story(group=group_id, ledger=self.chronicle)
        return ClassicGroup(group_id, self.limits, self._timers, story)

    def _new_consumer(self, kept: ConsumerState, story: Story | None = None) -> MixedGroup:
        if story is None:
            shares = {
                member_id: tuple(partitions_of(target, self.topics))
                for member_id, target in kept.targets.items()
            }
            story = Story(shares, group=kept.id, ledger=self.chronicle)
        limits = self.limits.of_group(kept.id)
        return MixedGroup(kept, limits, self._timers, self.topics, story)

    def configured(self, group_id: str) -> None:
        """The group has other settings now. A running session ends as before, unless renewed."""
        group = self._groups.get(group_id)
        if isinstance(group, MixedGroup):
            group.limits = self.limits.of_group(group_id)

    def _take(self, group: ClassicGroup) -> Outcome[Record]:
        """Its outcome; a group that came to nothing leaves no trace."""
        outcome = group.take()
        if not outcome.records:
            self._drop_if_nothing(group)
        return outcome

    def _drop_if_nothing(self, group: Group) -> None:
        if group.is_idle and not self._is_known(group.id):
            self._groups.pop(group.id, None)


def reply(caller: Caller, response: Message) -> Outcome[Record]:
    return Outcome(answers=(Answer(caller.token, response),))


def and_reply(
    caller: Caller, response: Message, outcome: Outcome[Record] | None
) -> Outcome[Record]:
    if outcome is None:
        return reply(caller, response)
    return replace(outcome, answers=(Answer(caller.token, response), *outcome.answers))
