"""Turns a group with members from the classic protocol to the consumer protocol, and back.

In: the group. Out: records that end the one and begin the other.
Always: members keep their partitions, as far as they are known; a partition that two members claim
goes to the first. A group that cannot be turned (another protocol type, an assignor's own data) is
refused.
Not here: whether the policy allows it (consumer/operations.py).
"""

from collections.abc import Iterable, Sequence
from uuid import UUID

from barnabas.assignment import CLIENT_ASSIGNORS
from barnabas.coordinators.groups.classic.group import ClassicGroup
from barnabas.coordinators.groups.classic.member import ClassicMember
from barnabas.coordinators.groups.classic.states import ClassicGroupState
from barnabas.coordinators.groups.consumer.member import (
    ClassicSide,
    ConsumerMember,
    Target,
    target_record,
)
from barnabas.coordinators.groups.consumer.records import (
    EPOCH_KEY,
    TARGET_EPOCH_KEY,
    ConsumerRecord,
    EpochValue,
    TargetEpochValue,
)
from barnabas.coordinators.groups.consumer.stored import StoredConsumerGroup
from barnabas.coordinators.groups.consumer.target import as_consumer_protocol
from barnabas.coordinators.groups.records import (
    GroupMetadataValue,
    GroupRecord,
    MemberMetadata,
    Record,
)
from barnabas.coordinators.groups.subscription import CONSUMER, subscription_of, version_of
from barnabas.coordinators.groups.topics import TopicsPort, metadata_hash
from barnabas.coordinators.runtime import Now
from barnabas.model.errors import Code, InvalidRequest, KafkaError
from barnabas.wire.messages.consumer_protocol import ConsumerProtocolAssignment


def upgrade(group: ClassicGroup, topics: TopicsPort) -> list[ConsumerRecord]:
    """Each member gets the group's generation as its epoch. A rebalance that is under way goes on:
    the group's epoch is then ahead of its targets."""
    epoch = group.generation + (group.state is not ClassicGroupState.STABLE)
    taken: set[tuple[UUID, int]] = set()
    members = []
    names: set[str] = set()
    for classic in group.members.by_id.values():
        member = _upgraded(classic, group, taken, topics)
        members.append(member)
        names.update(member.topics)
    records = [member.metadata_record(group.id) for member in members]
    value = EpochValue(epoch=epoch, metadata_hash=metadata_hash(names, topics))
    records.append(ConsumerRecord(EPOCH_KEY, group.id, "", value))
    for member in members:
        target = {t: tuple(sorted(held)) for t, held in member.assigned.items()}
        records.append(target_record(group.id, member.id, target))
    targets = TargetEpochValue(assignment_epoch=group.generation)
    records.append(ConsumerRecord(TARGET_EPOCH_KEY, group.id, "", targets))
    records += (member.assignment_record(group.id) for member in members)
    return records


def _upgraded(
    member: ClassicMember, group: ClassicGroup, taken: set[tuple[UUID, int]], topics: TopicsPort
) -> ConsumerMember:
    subscription = subscription_of(member.protocols.get(group.protocol or "", b""))
    if subscription is None:
        # The first join phase is not over: no protocol has been chosen.
        subscription = subscription_of(next(iter(member.protocols.values()), b""))
    if subscription is None:
        raise _not_possible(group.id, f"the subscription of {member.id!r} cannot be read")
    held: dict[UUID, dict[int, int]] = {}
    for topic_id, partitions in _assigned(member, group, topics).items():
        mine = [p for p in partitions if (topic_id, p) not in taken]
        taken.update((topic_id, p) for p in mine)
        if mine:
            held[topic_id] = dict.fromkeys(mine, group.generation)
    return ConsumerMember(
        member.id,
        epoch=group.generation,
        previous_epoch=group.generation,
        instance_id=member.instance_id,
        rack=subscription.rack_id or None,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        client_id=member.client_id,
        client_host=member.client_host,
        topics=tuple(sorted(set(subscription.topics))),
        assigned=held,
        classic=ClassicSide(member.session_timeout_ms, tuple(member.protocols.items())),
    )


def _assigned(
    member: ClassicMember, group: ClassicGroup, topics: TopicsPort
) -> dict[UUID, list[int]]:
    if not member.assignment:
        return {}
    version = min(max(version_of(member.assignment), 0), 3)
    try:
        given = ConsumerProtocolAssignment.decode(member.assignment, version, 2)
    except KafkaError:
        raise _not_possible(group.id, f"the assignment of {member.id!r} cannot be read") from None
    if given.user_data and group.protocol not in CLIENT_ASSIGNORS:
        # librdkafka sends user data with the known assignors too, which do not need it.
        raise _not_possible(group.id, "its assignor stores its own data in the assignments")
    return {
        found.topic_id: sorted(set(topic.partitions))
        for topic in given.assigned_partitions
        if (found := topics.find(topic.topic)) is not None
    }


def _not_possible(group_id: str, why: str) -> InvalidRequest:
    return InvalidRequest(
        Code.GROUP_ID_NOT_FOUND,
        f"group {group_id!r} cannot change to the consumer protocol while it has members: {why}",
    )


def downgrade(
    stored: StoredConsumerGroup, leaving: Iterable[ConsumerMember], topics: TopicsPort, now: Now
) -> tuple[list[Record], GroupMetadataValue]:
    """All members that stay use the classic protocol: their targets become a generation."""
    gone = {member.id for member in leaving}
    members = [member for member in stored.members.values() if member.id not in gone]
    sides = {member.id: dict(member.classic.protocols) for member in members if member.classic}
    protocol = _vote(list(sides.values())) if members else None
    value = GroupMetadataValue(
        protocol_type=CONSUMER,
        generation=stored.epoch,
        protocol=protocol,
        leader=members[0].id if members else None,
        current_state_timestamp=now.wall_ms,
        members=[
            _downgraded(member, sides[member.id][protocol or ""], stored.target(member.id), topics)
            for member in members
        ],
    )
    records: list[Record] = [*stored.tombstones(), GroupRecord(stored.id, value)]
    return records, value


def _vote(sides: Sequence[dict[str, bytes]]) -> str:
    """Each member votes for its first choice among the protocols that all support."""
    votes: dict[str, int] = {}
    for side in sides:
        choice = next(name for name in side if all(name in other for other in sides))
        votes[choice] = votes.get(choice, 0) + 1
    return max(votes, key=votes.__getitem__)


def _downgraded(
    member: ConsumerMember, subscription: bytes, target: Target, topics: TopicsPort
) -> MemberMetadata:
    assert member.classic is not None
    return MemberMetadata(
        member_id=member.id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=member.classic.session_timeout_ms,
        subscription=subscription,
        assignment=as_consumer_protocol(target, topics, version_of(subscription)),
    )
