"""One member of a share group: its subscription, its epoch, its partitions.

In: records of the log, the next step of the member. Out: the member after it, and its records.
Always: an immutable value; the log has every one that was ever in force.
Not here: how a member gets from one value to the next (heartbeats.py).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias
from uuid import UUID

from barnabas.coordinators.groups.share.records import (
    SHARE_CURRENT_KEY,
    SHARE_MEMBER_KEY,
    SHARE_TARGET_KEY,
    ShareCurrentValue,
    SharedPartitions,
    ShareGroupRecord,
    ShareMemberValue,
    ShareTargetValue,
)

JOINING = 0  # the epoch of a member that joins or rejoins
LEAVING = -1
_STABLE = 0  # the only state of a member in the log: nothing is revoked

ShareTarget: TypeAlias = Mapping[UUID, tuple[int, ...]]
"""By topic: partitions in ascending order."""
NO_PARTITIONS: ShareTarget = {}


@dataclass(frozen=True, slots=True)
class ShareMember:
    """`topics` are sorted."""

    id: str
    epoch: int = JOINING
    previous_epoch: int = -1
    rack: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()
    assigned: ShareTarget = field(default_factory=dict)

    def moved(self, epoch: int, assigned: ShareTarget) -> "ShareMember":
        """The member at another epoch; its previous epoch is kept, because the reply may be
        lost."""
        return replace(self, epoch=epoch, previous_epoch=self.epoch, assigned=assigned)

    def metadata_bytes(self) -> int:
        """The memory for its names."""
        names = (self.id, self.rack or "", self.client_id, *self.topics)
        return sum(map(len, names))

    # Records

    def with_metadata(self, value: ShareMemberValue) -> "ShareMember":
        return replace(
            self,
            rack=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topics=tuple(sorted(set(value.subscribed_topic_names))),
        )

    def with_assignment(self, value: ShareCurrentValue) -> "ShareMember":
        return replace(
            self,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            assigned=partitions_by_topic(value.assigned_partitions),
        )

    def metadata_record(self, group: str) -> ShareGroupRecord:
        """Its client and its subscription."""
        value = ShareMemberValue(
            rack_id=self.rack,
            client_id=self.client_id,
            client_host=self.client_host,
            subscribed_topic_names=list(self.topics),
        )
        return ShareGroupRecord(SHARE_MEMBER_KEY, group, self.id, value)

    def assignment_record(self, group: str) -> ShareGroupRecord:
        """Its epoch and its partitions."""
        value = ShareCurrentValue(
            member_epoch=self.epoch,
            previous_member_epoch=self.previous_epoch,
            state=_STABLE,
            assigned_partitions=_shared(self.assigned),
        )
        return ShareGroupRecord(SHARE_CURRENT_KEY, group, self.id, value)


def removal_records(group: str, member_id: str) -> list[ShareGroupRecord]:
    """Remove a member and everything about it, in the order that Kafka requires."""
    keys = (SHARE_CURRENT_KEY, SHARE_TARGET_KEY, SHARE_MEMBER_KEY)
    return [ShareGroupRecord(key, group, member_id, None) for key in keys]


def target_record(group: str, member_id: str, target: ShareTarget) -> ShareGroupRecord:
    value = ShareTargetValue(topic_partitions=_shared(target))
    return ShareGroupRecord(SHARE_TARGET_KEY, group, member_id, value)


def partitions_by_topic(topics: Iterable[SharedPartitions]) -> ShareTarget:
    return {topic.topic_id: tuple(sorted(set(topic.partitions))) for topic in topics}


def _shared(partitions: ShareTarget) -> list[SharedPartitions]:
    return [
        SharedPartitions(topic_id=topic_id, partitions=list(numbers))
        for topic_id, numbers in partitions.items()
    ]
