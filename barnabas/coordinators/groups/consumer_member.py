"""One member of a group of the new protocol: what it wants, what it has, what it must give up.

Always: a value that never changes; the log has every one that was ever in force.
Not here: how a member gets from one to the next (reconcile.py).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import NamedTuple, TypeAlias
from uuid import UUID

from barnabas.coordinators.groups.consumer_records import (
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

JOINING = 0  # the epoch of a member that (re)joins
LEAVING = -1
AWAY = -2  # a static member has left, and will be back

Partition: TypeAlias = tuple[UUID, int]
Holdings: TypeAlias = Mapping[UUID, Mapping[int, int]]
"""By topic and partition: since which epoch of the group a member has had it."""
Target: TypeAlias = Mapping[UUID, tuple[int, ...]]
"""By topic: what a member shall own, in ascending order."""
NOTHING: Holdings = {}
NO_TARGET: Target = {}


class Standing(IntEnum):
    """How far a member has come with its target. The value is what the log has."""

    STABLE = 0  # it has all that it shall have, as far as its epoch goes
    UNREVOKED = 1  # it was told to give partitions up, and has not said that it did
    UNRELEASED = 2  # it waits for partitions that others have not given up
    UNKNOWN = 127


class ClassicSide(NamedTuple):
    """Of a member that speaks the classic protocol: its protocols, best first."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    """`topics` are sorted. `regex` is "" where there is none."""

    id: str
    epoch: int = JOINING
    previous_epoch: int = -1
    standing: Standing = Standing.STABLE
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
        return self.standing is Standing.STABLE and self.epoch == epoch

    def moved(
        self, epoch: int, standing: Standing, assigned: Holdings, revoking: Holdings
    ) -> "ConsumerMember":
        """At a new point of its way; the epoch it comes from is remembered."""
        return replace(
            self,
            epoch=epoch,
            previous_epoch=self.epoch,
            standing=standing,
            assigned=assigned,
            revoking=revoking,
        )

    def holds(self) -> Iterable[Partition]:
        """Everything that nobody else may have yet."""
        for holdings in (self.assigned, self.revoking):
            for topic_id, partitions in holdings.items():
                for partition in partitions:
                    yield topic_id, partition

    def brings(self) -> int:
        """The length of all that it says of itself."""
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

    # The log

    def told_by(self, value: MemberValue) -> "ConsumerMember":
        classic = None
        told = value.classic_member_metadata
        if told is not None and told.supported_protocols:
            classic = ClassicSide(
                told.session_timeout_ms,
                tuple((each.name, bytes(each.metadata)) for each in told.supported_protocols),
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

    def placed_by(self, value: CurrentValue) -> "ConsumerMember":
        known = value.state in Standing._value2member_map_
        return replace(
            self,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            standing=Standing(value.state) if known else Standing.UNKNOWN,
            assigned=_holdings(value.assigned_partitions, value.member_epoch),
            revoking=_holdings(value.partitions_pending_revocation, value.member_epoch),
        )

    def wants(self, group: str) -> ConsumerRecord:
        """For the log: who it is and what it subscribes to."""
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

    def stands(self, group: str) -> ConsumerRecord:
        """For the log: what it has."""
        value = CurrentValue(
            member_epoch=self.epoch,
            previous_member_epoch=self.previous_epoch,
            state=self.standing,
            assigned_partitions=_kept(self.assigned),
            partitions_pending_revocation=_kept(self.revoking),
        )
        return ConsumerRecord(CURRENT_KEY, group, self.id, value)


def gone(group: str, member_id: str) -> list[ConsumerRecord]:
    """For the log: a member and all that was about it, in the order that Kafka wants."""
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
    """Epochs that were not kept, or not for each, count from the member's own."""
    held: dict[UUID, dict[int, int]] = {}
    for topic in topics:
        epochs = topic.assignment_epochs
        if epochs is None or len(epochs) != len(topic.partitions):
            epochs = [max(epoch, 0)] * len(topic.partitions)
        held[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
    return held


def _kept(holdings: Holdings) -> list[CurrentPartitions]:
    return [
        CurrentPartitions(
            topic_id=topic_id,
            partitions=list(partitions),
            assignment_epochs=list(partitions.values()),
        )
        for topic_id, partitions in holdings.items()
    ]
