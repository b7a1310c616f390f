"""Decides which members a consumer group has: leaving, deadlines, limits; and who may commit.

In: requests to leave, deadlines, commits (whether they are allowed). Out: records, errors, members
that must be removed.
Always: a member is removed that is silent for its session timeout, or does not release partitions
within its rebalance timeout.
Not here: joining (heartbeats.py), removing members, which may turn the group into a classic one
(operations.py).
"""

from collections.abc import Iterable
from dataclasses import replace

from barnabas.coordinators.groups.consumer.causes import cause_of
from barnabas.coordinators.groups.consumer.group import ConsumerGroup
from barnabas.coordinators.groups.consumer.member import AWAY, ConsumerMember
from barnabas.coordinators.groups.consumer.records import EPOCH_KEY, ConsumerRecord, EpochValue
from barnabas.coordinators.groups.consumer.states import MemberState
from barnabas.coordinators.groups.history.rebalance_history import CauseKind
from barnabas.coordinators.groups.timer_keys import JOIN, REVOKE, SYNC, TARGET
from barnabas.coordinators.groups.topics import metadata_hash
from barnabas.coordinators.runtime import Now
from barnabas.model.errors import Code, Fenced, InvalidRequest, Retriable
from barnabas.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

COMMIT_WITH_EPOCH_SINCE = 9  # of OffsetCommit

_LATE = {
    REVOKE: CauseKind.LATE_REVOKE,
    JOIN: CauseKind.LATE_JOIN,
    SYNC: CauseKind.LATE_SYNC,
}


def expired(group: ConsumerGroup, kind: str, member_id: str, now: Now) -> ConsumerMember | None:
    """A timer has fired: the member that must be removed, if it must."""
    member = group.stored.members.get(member_id)
    if member is None or member_id not in group.sessions or kind == TARGET:
        return None
    if kind == REVOKE and member.state is not MemberState.UNREVOKED:
        return None
    allowed_ms = waited_ms = max(0, member.rebalance_timeout_ms)
    late = _LATE.get(kind)
    if late is None:
        late = CauseKind.LATE_HEARTBEAT
        allowed_ms = group.session_ms(member)
        waited_ms = group.sessions.silent_ms(member_id, now)
    cause = cause_of(group, late, member)
    group.history.happened(replace(cause, waited_ms=waited_ms, allowed_ms=allowed_ms), now)
    return member


# Leaving


def leaving(group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest) -> ConsumerMember:
    """The member that leaves with this heartbeat."""
    instance = request.instance_id
    if instance is None:
        member = group.stored.members.get(request.member_id)
    else:
        member = group.stored.by_instance(instance)
        if member is not None and member.id != request.member_id:
            raise fenced_instance(member, request.member_id, instance)
    if member is None:
        raise InvalidRequest(
            Code.UNKNOWN_MEMBER_ID,
            f"{request.member_id!r} is not a member of group {group.id!r}",
        )
    return member


def away(group: ConsumerGroup, member: ConsumerMember) -> list[ConsumerRecord]:
    """A static member leaves for a while: it keeps its partitions until its session ends."""
    held = {t: dict.fromkeys(partitions, 0) for t, partitions in member.assigned.items()}
    gone_away = replace(member, epoch=AWAY, assigned=held, revoking={})
    if member.id in group.sessions:
        group.sessions.stop_timer(REVOKE, member.id)
    return [gone_away.assignment_record(group.id)]


def remove(group: ConsumerGroup, members: list[ConsumerMember]) -> list[ConsumerRecord]:
    """Remove members; the group has a new epoch."""
    stored = group.stored
    records = stored.removal(members)
    removed = {record.name for record in records}
    regexes = {r: t for r, t in stored.regexes.items() if r not in removed}
    names = stored.topics_without(members, None, regexes)
    digest = metadata_hash(names, group.topics_port)
    value = EpochValue(epoch=stored.epoch + 1, metadata_hash=digest)
    records.append(ConsumerRecord(EPOCH_KEY, group.id, "", value))
    for member in members:
        group.drop_member(member.id)
    return records


# Offsets


def check_commit(
    group: ConsumerGroup,
    member_id: str,
    epoch: int,
    version: int,
    topics: Iterable[tuple[str, int]],
) -> Code:
    """May these offsets be committed? An older epoch may commit partitions that the member has
    owned since. An older generation may not: a classic member gives up all partitions to rejoin."""
    stored = group.stored
    if epoch < 0 and not stored.members:
        return Code.NONE
    member = stored.members.get(member_id)
    if member is None:
        return Code.UNKNOWN_MEMBER_ID
    if member.classic is None and version < COMMIT_WITH_EPOCH_SINCE:
        return Code.UNSUPPORTED_VERSION
    if epoch == member.epoch:
        return Code.NONE
    stale = _stale(member)
    if epoch > member.epoch or member.classic is not None:
        return stale
    for name, partition in topics:
        topic = group.topics_port.find(name)
        since = None if topic is None else member.held_since(topic.topic_id, partition)
        if since is None or epoch < since:
            return stale
    return Code.NONE


def check_fetch(group: ConsumerGroup, member_id: str | None, epoch: int) -> Code:
    """May this client fetch committed offsets? None and -1: a program outside the group."""
    if member_id is None and epoch < 0:
        return Code.NONE
    member = group.stored.members.get(member_id or "")
    if member is None:
        return Code.UNKNOWN_MEMBER_ID
    return Code.NONE if epoch == member.epoch else _stale(member)


def _stale(member: ConsumerMember) -> Code:
    return Code.STALE_MEMBER_EPOCH if member.classic is None else Code.ILLEGAL_GENERATION


# Limits


def check_new_member(group: ConsumerGroup, size: int = 0) -> None:
    """`size`: of the new member's metadata."""
    limit = group.limits.consumer_members_max
    if len(group.stored.members) >= limit:
        raise InvalidRequest(
            Code.GROUP_MAX_SIZE_REACHED,
            f"group {group.id!r} has {limit} members, as many as group.consumer.max.size allows",
        )
    check_growth(group, max(size, 1))


def check_growth(group: ConsumerGroup, size: int) -> None:
    """`size`: by how much a member's metadata grows."""
    if size > 0 and group.limits.memory.lacks(size):
        raise Retriable(
            Code.COORDINATOR_NOT_AVAILABLE,
            "the members of all groups together use all the memory that this broker has for "
            "them; try again later",
        )


def fenced_instance(holder: ConsumerMember, member_id: str, instance: str) -> Fenced:
    return Fenced(
        Code.FENCED_INSTANCE_ID,
        f"instance id {instance!r} belongs to member {holder.id!r} now, not to {member_id!r}",
    )
