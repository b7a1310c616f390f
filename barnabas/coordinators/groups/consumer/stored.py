"""What the log has of one consumer group, and what follows from it.

In: records, in the order of the log. Out: members, targets, epochs, and counts over them.
Always: changed by `replay` alone; a partition has one owner, the member that got it last. Records
in an order that only compaction makes, or about members that are removed, do no harm.
Not here: which records are written (heartbeats.py, membership.py, step.py).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from barnabas.coordinators.groups.consumer.member import (
    NO_TARGET,
    NOTHING,
    ConsumerMember,
    Partition,
    Target,
    removal_records,
    target_of,
)
from barnabas.coordinators.groups.consumer.records import (
    CURRENT_KEY,
    EPOCH_KEY,
    MEMBER_KEY,
    PARTITIONS_KEY,
    REGEX_KEY,
    TARGET_EPOCH_KEY,
    TARGET_KEY,
    ConsumerRecord,
    CurrentValue,
    EpochValue,
    MemberValue,
    RegexValue,
    TargetEpochValue,
    TargetValue,
)
from barnabas.coordinators.groups.consumer.states import ConsumerGroupState, MemberState
from barnabas.coordinators.groups.memory import MEMBER_BYTES


@dataclass(slots=True)
class StoredConsumerGroup:
    """Members in the order in which they joined. The second block of fields is derived from the
    first."""

    id: str
    epoch: int = 0
    metadata_hash: int = 0
    target_epoch: int = 0
    targeted_wall_ms: int = 0
    members: dict[str, ConsumerMember] = field(default_factory=dict)
    targets: dict[str, Target] = field(default_factory=dict)
    regexes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    has_partitions_record: bool = False

    owners: dict[Partition, str] = field(default_factory=dict)
    instances: dict[str, str] = field(default_factory=dict)
    by_topic: dict[str, int] = field(default_factory=dict)  # subscribers by name
    by_regex: dict[str, int] = field(default_factory=dict)
    by_assignor: dict[str, int] = field(default_factory=dict)
    by_protocol: dict[str, int] = field(default_factory=dict)  # of classic members
    classic: int = 0
    bytes: int = 0  # about the memory of its members

    # Replay

    def replay(self, record: ConsumerRecord) -> None:
        key, value = record.key, record.value
        if key == MEMBER_KEY:
            self._replay_member(record.name, value)
        elif key == CURRENT_KEY:
            self._replay_current(record.name, value)
        elif key == TARGET_KEY:
            if isinstance(value, TargetValue):
                self.targets[record.name] = target_of(value)
            else:
                self.targets.pop(record.name, None)
        elif key == EPOCH_KEY:
            if isinstance(value, EpochValue):
                self.epoch = value.epoch
                self.metadata_hash = value.metadata_hash
        elif key == TARGET_EPOCH_KEY:
            self.target_epoch, self.targeted_wall_ms = -1, 0
            if isinstance(value, TargetEpochValue):
                self.target_epoch = value.assignment_epoch
                self.targeted_wall_ms = value.assignment_timestamp
        elif key == REGEX_KEY:
            if isinstance(value, RegexValue):
                self.regexes[record.name] = tuple(value.topics)
            else:
                self.regexes.pop(record.name, None)
        elif key == PARTITIONS_KEY:
            self.has_partitions_record = value is not None

    def _replay_member(self, member_id: str, value: object) -> None:
        member = self.members.get(member_id)
        if isinstance(value, MemberValue):
            self._put((member or ConsumerMember(member_id)).with_metadata(value), member)
        elif member is not None:
            self._release(member)
            del self.members[member_id]
            self._count(member, -1)

    def _replay_current(self, member_id: str, value: object) -> None:
        member = self.members.get(member_id)
        if isinstance(value, CurrentValue):
            self._put((member or ConsumerMember(member_id)).with_assignment(value), member)
        elif member is not None:
            emptied = member.moved(-1, MemberState.STABLE, NOTHING, NOTHING)
            self._put(emptied, member)

    def _put(self, member: ConsumerMember, before: ConsumerMember | None) -> None:
        if before is not None:
            self._count(before, -1)
            self._release(before)
        self.members[member.id] = member
        self._count(member, 1)
        for partition in member.partitions():
            self.owners[partition] = member.id

    def _release(self, member: ConsumerMember) -> None:
        for partition in member.partitions():
            if self.owners.get(partition) == member.id:
                del self.owners[partition]

    def _count(self, member: ConsumerMember, step: int) -> None:
        self.bytes += step * (MEMBER_BYTES + member.metadata_bytes())
        for topic in member.topics:
            _add(self.by_topic, topic, step)
        if member.regex:
            _add(self.by_regex, member.regex, step)
        if member.assignor is not None:
            _add(self.by_assignor, member.assignor, step)
        if member.classic is not None:
            self.classic += step
            for name, _ in member.classic.protocols:
                _add(self.by_protocol, name, step)
        if member.instance_id is not None:
            if step > 0:
                self.instances[member.instance_id] = member.id
            elif self.instances.get(member.instance_id) == member.id:
                del self.instances[member.instance_id]

    # Views

    @property
    def state(self) -> ConsumerGroupState:
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerGroupState.ASSIGNING
        settled = all(member.has_reached(self.target_epoch) for member in self.members.values())
        return ConsumerGroupState.STABLE if settled else ConsumerGroupState.RECONCILING

    def by_instance(self, instance_id: str | None) -> ConsumerMember | None:
        owner = None if instance_id is None else self.instances.get(instance_id)
        return None if owner is None else self.members[owner]

    def target(self, member_id: str) -> Target:
        return self.targets.get(member_id, NO_TARGET)

    def subscription(
        self, member: ConsumerMember, regexes: Mapping[str, tuple[str, ...]]
    ) -> tuple[str, ...]:
        """The topics it names, and those that its pattern matches."""
        matched = regexes.get(member.regex, ()) if member.regex else ()
        return tuple(dict.fromkeys((*member.topics, *matched))) if matched else member.topics

    def topics_without(
        self,
        removed: Iterable[ConsumerMember],
        added: ConsumerMember | None,
        regexes: Mapping[str, tuple[str, ...]],
    ) -> set[str]:
        """All subscribed topics, without the members `removed` and with the member `added`."""
        counts = dict(self.by_topic)
        for member in removed:
            for topic in member.topics:
                _add(counts, topic, -1)
        topics = set(counts)
        if added is not None:
            topics.update(added.topics)
        for matched in regexes.values():
            topics.update(matched)
        return topics

    def subscribed(self) -> frozenset[str]:
        return frozenset(self.topics_without((), None, self.regexes))

    def assignor(
        self, before: ConsumerMember | None, after: ConsumerMember | None, default: str
    ) -> str:
        """The assignor that most members ask for, with `after` in the place of `before`."""
        counts = dict(self.by_assignor)
        if before is not None and before.assignor is not None:
            _add(counts, before.assignor, -1)
        if after is not None and after.assignor is not None:
            _add(counts, after.assignor, 1)
        return max(counts, key=counts.__getitem__, default=default)

    def tombstones(self) -> list[ConsumerRecord]:
        """Delete the group, in the order that Kafka requires."""
        records = [
            ConsumerRecord(key, self.id, member_id, None)
            for key in (CURRENT_KEY, TARGET_KEY)
            for member_id in self.members
        ]
        records += (
            ConsumerRecord(TARGET_KEY, self.id, member_id, None)
            for member_id in self.targets
            if member_id not in self.members
        )
        records.append(ConsumerRecord(TARGET_EPOCH_KEY, self.id, "", None))
        records += (
            ConsumerRecord(MEMBER_KEY, self.id, member_id, None) for member_id in self.members
        )
        records += (ConsumerRecord(REGEX_KEY, self.id, regex, None) for regex in self.regexes)
        records.append(ConsumerRecord(PARTITIONS_KEY, self.id, "", None))
        records.append(ConsumerRecord(EPOCH_KEY, self.id, "", None))
        return records

    def removal(self, members: Iterable[ConsumerMember]) -> list[ConsumerRecord]:
        """Remove these members, and the patterns that only they had."""
        records: list[ConsumerRecord] = []
        left = dict(self.by_regex)
        for member in members:
            records += removal_records(self.id, member.id)
            if member.regex:
                _add(left, member.regex, -1)
        records += (
            ConsumerRecord(REGEX_KEY, self.id, regex, None)
            for regex in self.regexes
            if regex not in left
        )
        return records


def _add(counts: dict[str, int], name: str, step: int) -> None:
    count = counts.get(name, 0) + step
    if count > 0:
        counts[name] = count
    else:
        counts.pop(name, None)
