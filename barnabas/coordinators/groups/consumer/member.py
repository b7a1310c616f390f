"""One member of a consumer group: its subscription, its partitions, those it must release.

In: records of the log, the next step of the member. Out: the member after it, and its records.
Always: an immutable value; the log has every one that was ever in force.
Not here: how a member gets from one value to the next (reconcile.py), the states (states.py).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias
from uuid import UUID

from barnabas.coordinators.groups.consumer.records import (
    CURRENT_KEY,
    MEMBER_KEY,
    TARGET_KEY,
    ClassicMetadata,
    ClassicProtocol,
    ConsumerRecord,
    CurrentPartitions,
    CurrentValue,
    MemberValue,
    TargetPartitions,
    TargetValue,
)
from barnabas.coordinators.groups.consumer.states import MemberState, check_transition

JOINING = 0  # the epoch of a member that joins or rejoins
LEAVING = -1
AWAY = -2  # a static member has left and will be back

Partition: TypeAlias = tuple[UUID, int]
Holdings: TypeAlias = Mapping[UUID, Mapping[int, int]]
"""By topic and partition: the epoch of the group since which a member has had it."""
Target: TypeAlias = Mapping[UUID, tuple[int, ...]]
"""By topic: the partitions that a member is to own, in ascending order."""
NOTHING: Holdings = {}
NO_TARGET: Target = {}


class ClassicSide(NamedTuple):
    """The part that only a member of the classic protocol has. Protocols: best first."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    """`topics` are sorted. `regex` is "" where there is none."""

    id: str
    epoch: int = JOINING
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()
    regex: str = ""
    assignor: str | None = None
    assigned: Holdings = field(default_factory=dict)
    revoking: Holdings = field(default_factory=dict)
    classic: ClassicSide | None = None

    def has_reached(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == epoch

    def moved(
        self, epoch: int, state: MemberState, assigned: Holdings, revoking: Holdings
    ) -> "ConsumerMember":
        """The member after its next step; its previous epoch is kept."""
        check_transition(self.id, self.state, state, has_revocations=bool(revoking))
        return replace(
            self,
            epoch=epoch,
            previous_epoch=self.epoch,
            state=state,
            assigned=assigned,
            revoking=revoking,
        )

    def partitions(self) -> Iterable[Partition]:
        """All partitions that no other member may have yet."""
        for holdings in (self.assigned, self.revoking):
            for topic_id, partitions in holdings.items():
                for partition in partitions:
                    yield topic_id, partition

    def metadata_bytes(self) -> int:
        """The memory for its names and its metadata."""
        names = (self.id, self.instance_id or "", self.rack or "", self.client_id, self.regex)
        size = sum(map(len, names)) + sum(map(len, self.topics))
        if self.classic is not None:
            size += sum(len(name) + len(metadata) for name, metadata in self.classic.protocols)
        return size

    def held_since(self, topic_id: UUID, partition: int) -> int | None:
        for holdings in (self.assigned, self.revoking):
            since = holdings.get(topic_id, {}).get(partition)
            if since is not None:
                return since
        return None

    # Records

    def with_metadata(self, value: MemberValue) -> "ConsumerMember":
        classic = None
        metadata = value.classic_member_metadata
        if metadata is not None and metadata.supported_protocols:
            classic = ClassicSide(
                metadata.session_timeout_ms,
                tuple((each.name, bytes(each.metadata)) for each in metadata.supported_protocols),
            )
        return replace(
            self,
            instance_id=value.instance_id,
            rack=value.rack_id,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            client_id=value.client_id,
            client_host=value.client_host,
            topics=tuple(sorted(set(value.subscribed_topic_names))),
            regex=value.subscribed_topic_regex or "",
            assignor=value.server_assignor,
            classic=classic,
        )

    def with_assignment(self, value: CurrentValue) -> "ConsumerMember":
        known = value.state in MemberState._value2member_map_
        return replace(
            self,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=MemberState(value.state) if known else MemberState.UNKNOWN,
            assigned=_holdings(value.assigned_partitions, value.member_epoch),
            revoking=_holdings(value.partitions_pending_revocation, value.member_epoch),
        )

    def metadata_record(self, group: str) -> ConsumerRecord:
        """Its client and its subscription."""
        classic = None
        if self.classic is not None:
            classic = ClassicMetadata(
                session_timeout_ms=self.classic.session_timeout_ms,
                supported_protocols=[
                    ClassicProtocol(name=name, metadata=metadata)
                    for name, metadata in self.classic.protocols
                ],
            )
        value = MemberValue(
            instance_id=self.instance_id,
            rack_id=self.rack,
            client_id=self.client_id,
            client_host=self.client_host,
            subscribed_topic_names=list(self.topics),
            subscribed_topic_regex=self.regex,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            server_assignor=self.assignor,
            classic_member_metadata=classic,
        )
        return ConsumerRecord(MEMBER_KEY, group, self.id, value)

    def assignment_record(self, group: str) -> ConsumerRecord:
        """Its epoch and its partitions."""
        value = CurrentValue(
            member_epoch=self.epoch,
            previous_member_epoch=self.previous_epoch,
            state=self.state,
            assigned_partitions=_current(self.assigned),
            partitions_pending_revocation=_current(self.revoking),
        )
        return ConsumerRecord(CURRENT_KEY, group, self.id, value)


def removal_records(group: str, member_id: str) -> list[ConsumerRecord]:
    """Remove a member and everything about it, in the order that Kafka requires."""
    return [
        ConsumerRecord(key, group, member_id, None) for key in (CURRENT_KEY, TARGET_KEY, MEMBER_KEY)
    ]


def target_record(group: str, member_id: str, target: Target) -> ConsumerRecord:
    value = TargetValue(
        topic_partitions=[
            TargetPartitions(topic_id=topic_id, partitions=list(partitions))
            for topic_id, partitions in target.items()
        ]
    )
    return ConsumerRecord(TARGET_KEY, group, member_id, value)


def target_of(value: TargetValue) -> Target:
    return {
        topic.topic_id: tuple(sorted(set(topic.partitions))) for topic in value.topic_partitions
    }


def _holdings(topics: list[CurrentPartitions], epoch: int) -> Holdings:
    """Where the record has no epoch for each partition, the member's epoch is taken."""
    held: dict[UUID, dict[int, int]] = {}
    for topic in topics:
        epochs = topic.assignment_epochs
        if epochs is None or len(epochs) != len(topic.partitions):
            epochs = [max(epoch, 0)] * len(topic.partitions)
        held[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
    return held


def _current(holdings: Holdings) -> list[CurrentPartitions]:
    return [
        CurrentPartitions(
            topic_id=topic_id,
            partitions=list(partitions),
            assignment_epochs=list(partitions.values()),
        )
        for topic_id, partitions in holdings.items()
    ]
