"""What the log has of one share group, and what follows from it.

In: records, in the order of the log. Out: members, targets, epochs, partitions with state.
Always: changed by `replay` alone. Records in an order that only compaction makes, or about members
that are removed, do no harm.
Not here: which records are written (heartbeats.py, operations.py).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from barnabas.coordinators.groups.memory import MEMBER_BYTES
from barnabas.coordinators.groups.share.member import (
    NO_PARTITIONS,
    ShareMember,
    ShareTarget,
    partitions_by_topic,
)
from barnabas.coordinators.groups.share.records import (
    SHARE_CURRENT_KEY,
    SHARE_EPOCH_KEY,
    SHARE_MEMBER_KEY,
    SHARE_STATE_KEY,
    SHARE_TARGET_EPOCH_KEY,
    SHARE_TARGET_KEY,
    ShareCurrentValue,
    ShareEpochValue,
    ShareGroupRecord,
    ShareMemberValue,
    ShareStateValue,
    ShareTargetEpochValue,
    ShareTargetValue,
)
from barnabas.coordinators.groups.share.state_partitions import (
    InitializedPartitions,
    from_value,
)


class ShareGroupState(Enum):
    """The value is the name that Kafka's tools show."""

    EMPTY = "Empty"
    STABLE = "Stable"


@dataclass(slots=True)
class StoredShareGroup:
    """Members in the order in which they joined. `by_topic` and `bytes` follow from them."""

    id: str
    epoch: int = 0
    metadata_hash: int = 0
    target_epoch: int = 0
    targeted_wall_ms: int = 0
    members: dict[str, ShareMember] = field(default_factory=dict)
    targets: dict[str, ShareTarget] = field(default_factory=dict)
    states: InitializedPartitions = field(default_factory=InitializedPartitions)
    has_states: bool = False
    by_topic: dict[str, int] = field(default_factory=dict)  # subscribers by name
    bytes: int = 0  # about the memory of its members

    def replay(self, record: ShareGroupRecord) -> None:
        key, value = record.key, record.value
        if key == SHARE_MEMBER_KEY:
            self._replay_member(record.name, value)
        elif key == SHARE_CURRENT_KEY:
            self._replay_current(record.name, value)
        elif key == SHARE_TARGET_KEY:
            if isinstance(value, ShareTargetValue):
                self.targets[record.name] = partitions_by_topic(value.topic_partitions)
            else:
                self.targets.pop(record.name, None)
        elif key == SHARE_EPOCH_KEY:
            if isinstance(value, ShareEpochValue):
                self.epoch = value.epoch
                self.metadata_hash = value.metadata_hash
        elif key == SHARE_TARGET_EPOCH_KEY:
            self.target_epoch, self.targeted_wall_ms = -1, 0
            if isinstance(value, ShareTargetEpochValue):
                self.target_epoch = value.assignment_epoch
                self.targeted_wall_ms = value.assignment_timestamp
        elif key == SHARE_STATE_KEY:
            self.has_states = isinstance(value, ShareStateValue)
            self.states = (
                from_value(value) if isinstance(value, ShareStateValue) else InitializedPartitions()
            )

    def _replay_member(self, member_id: str, value: object) -> None:
        member = self.members.get(member_id)
        if isinstance(value, ShareMemberValue):
            self._put((member or ShareMember(member_id)).with_metadata(value), member)
        elif member is not None:
            del self.members[member_id]
            self._count(member, -1)

    def _replay_current(self, member_id: str, value: object) -> None:
        member = self.members.get(member_id)
        if isinstance(value, ShareCurrentValue):
            self._put((member or ShareMember(member_id)).with_assignment(value), member)
        elif member is not None:
            self._put(member.moved(-1, NO_PARTITIONS), member)

    def _put(self, member: ShareMember, before: ShareMember | None) -> None:
        if before is not None:
            self._count(before, -1)
        self.members[member.id] = member
        self._count(member, 1)

    def _count(self, member: ShareMember, step: int) -> None:
        self.bytes += step * (MEMBER_BYTES + member.metadata_bytes())
        for topic in member.topics:
            count = self.by_topic.get(topic, 0) + step
            if count > 0:
                self.by_topic[topic] = count
            else:
                self.by_topic.pop(topic, None)

    # Views

    @property
    def state(self) -> ShareGroupState:
        return ShareGroupState.STABLE if self.members else ShareGroupState.EMPTY

    def topics_with(
        self, before: ShareMember | None = None, after: ShareMember | None = None
    ) -> set[str]:
        """All subscribed topics, with `after` in the place of `before`."""
        topics = set(self.by_topic)
        if before is not None:
            topics.difference_update(name for name in before.topics if self.by_topic[name] <= 1)
        if after is not None:
            topics.update(after.topics)
        return topics

    def tombstones(self) -> list[ShareGroupRecord]:
        """Delete the group, in the order that Kafka requires."""
        names = dict.fromkeys((*self.members, *self.targets))
        return [
            *_deleted(SHARE_CURRENT_KEY, self.id, self.members),
            *_deleted(SHARE_TARGET_KEY, self.id, names),
            ShareGroupRecord(SHARE_TARGET_EPOCH_KEY, self.id, "", None),
            *_deleted(SHARE_MEMBER_KEY, self.id, self.members),
            ShareGroupRecord(SHARE_STATE_KEY, self.id, "", None),
            ShareGroupRecord(SHARE_EPOCH_KEY, self.id, "", None),
        ]


def _deleted(key: int, group: str, names: Iterable[str]) -> list[ShareGroupRecord]:
    return [ShareGroupRecord(key, group, name, None) for name in names]
