"""Decides what a ShareGroupHeartbeat does: joining, taking the target, staying alive.

In: heartbeats, the time. Out: records, responses, partitions whose state must be initialized.
Always: a heartbeat that changes nothing costs the same in a group of any size. A member that
waits for its first partitions is asked for its next heartbeat soon.
Not here: leaving, deadlines and offsets (operations.py).
"""

from dataclasses import replace
from typing import NamedTuple
from uuid import UUID

from barnabas.coordinators.caller import Caller
from barnabas.coordinators.groups.history.rebalance_history import (
    CauseKind,
    RebalanceCause,
    difference,
)
from barnabas.coordinators.groups.share.group import ASSIGNOR, ShareGroup
from barnabas.coordinators.groups.share.member import (
    JOINING,
    ShareMember,
    ShareTarget,
    target_record,
)
from barnabas.coordinators.groups.share.records import (
    SHARE_EPOCH_KEY,
    SHARE_TARGET_EPOCH_KEY,
    ShareEpochValue,
    ShareGroupRecord,
    ShareTargetEpochValue,
)
from barnabas.coordinators.groups.share.state_partitions import (
    InitializedPartitions,
    NamedPartitions,
    SharePartitionId,
)
from barnabas.coordinators.groups.share.target import (
    keys_of,
    make_targets,
    wait_ms,
    without_state,
)
from barnabas.coordinators.groups.topics import metadata_hash
from barnabas.coordinators.runtime import Now
from barnabas.model.errors import Code, Fenced, InvalidRequest, Retriable
from barnabas.wire.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

WAITING_INTERVAL_MS = 50  # while state is being initialized; then as long as it has taken so far
INITIALIZE_RETRY_MS = 30_000  # without any answer


class StateInitialization(NamedTuple):
    """Partitions whose state the share coordinator is to initialize."""

    group: str
    epoch: int
    keys: tuple[SharePartitionId, ...]


class HeartbeatResult(NamedTuple):
    records: list[ShareGroupRecord]
    response: ShareGroupHeartbeatResponse
    initialize: StateInitialization | None


def unchanged(
    group: ShareGroup, request: ShareGroupHeartbeatRequest, now: Now
) -> ShareGroupHeartbeatResponse | None:
    """The response to a heartbeat that changes nothing; None if it may change something."""
    stored = group.stored
    member = stored.members.get(request.member_id)
    if member is None:
        return None
    changes_nothing = (
        request.member_epoch == member.epoch == stored.epoch == stored.target_epoch
        and request.subscribed_topic_names is None
        and request.rack_id is None
        and not group.topics_stale
        and not group.waits
    )
    if not changes_nothing:
        return None
    group.heard(member.id, now)
    return ShareGroupHeartbeatResponse(
        error_code=0,
        member_id=member.id,
        member_epoch=member.epoch,
        heartbeat_interval_ms=group.limits.share_heartbeat_interval_ms,
    )


def heartbeat(
    group: ShareGroup, request: ShareGroupHeartbeatRequest, caller: Caller, now: Now
) -> HeartbeatResult:
    """Raises a KafkaError when it is refused."""
    began = _admitted(group, request)
    stored, records = group.stored, list[ShareGroupRecord]()
    is_new = began.id not in stored.members
    names = request.subscribed_topic_names
    member = replace(
        began,
        rack=request.rack_id or began.rack,
        client_id=caller.client_id,
        client_host=caller.client_host,
        topics=began.topics if names is None else tuple(sorted(set(names))),
    )
    _check_growth(group, member, began, is_new=is_new)
    if member != began or is_new:
        records.append(member.metadata_record(group.id))
    topics = stored.topics_with(None if is_new else began, member)
    resubscribed = is_new or member.topics != began.topics
    epoch = stored.epoch
    digest = stored.metadata_hash
    if resubscribed or group.topics_stale:
        digest = metadata_hash(topics, group.topics_port)
    bumped = resubscribed or digest != stored.metadata_hash
    if bumped:
        epoch += 1
        records.append(epoch_record(group.id, epoch, digest))
    missing = {}
    if bumped or group.topics_stale or group.waits:
        missing = without_state(topics, stored.states, group.topics_port)
    group.waits = bool(missing)
    begun = _initialize(group, epoch, missing, records, now)
    target_epoch, targets = stored.target_epoch, None
    if target_epoch < epoch and not wait_ms(stored, group.limits, now):
        others = [each for each in stored.members.values() if each.id != member.id]
        targets = make_targets(stored, (*others, member), stored.states, group.topics_port)
        records += target_records(group, targets, epoch, now)
        target_epoch = epoch
    member = _reconciled(group, member, targets, target_epoch, resubscribed=bumped)
    if member.epoch != began.epoch or member.assigned != began.assigned or is_new:
        records.append(member.assignment_record(group.id))
    group.topics_stale = False
    group.heard(member.id, now)
    group.sessions.connected(member.id, caller.connection)
    _report(group, began, member, is_new, bumped, resubscribed, now)
    if targets is not None:
        report_targets(group, targets, epoch, now)
    if member.epoch == target_epoch:
        _report_reached(group, member, now)
    # A member at its previous epoch has missed the last reply, and with it its assignment.
    gets_all = names is not None or request.member_epoch != began.epoch
    gets_all |= request.member_epoch == JOINING
    response = ShareGroupHeartbeatResponse(
        error_code=0,
        member_id=member.id,
        member_epoch=member.epoch,
        heartbeat_interval_ms=_interval_ms(group, epoch > target_epoch, now),
        assignment=_assignment(member.assigned)
        if gets_all or member.assigned != began.assigned
        else None,
    )
    return HeartbeatResult(records, response, begun)


def _admitted(group: ShareGroup, request: ShareGroupHeartbeatRequest) -> ShareMember:
    """The member that sent the request, if it may send it."""
    member = group.stored.members.get(request.member_id)
    epoch = request.member_epoch
    if member is None:
        limit = group.limits.share_members_max
        if group.size >= limit:
            raise InvalidRequest(
                Code.GROUP_MAX_SIZE_REACHED,
                f"share group {group.id!r} has {limit} members, as many as group.share.max.size"
                " allows",
            )
        if epoch != JOINING:
            raise InvalidRequest(
                Code.UNKNOWN_MEMBER_ID,
                f"{request.member_id!r} is not a member of group {group.id!r}; it must join",
            )
        if group.altered:
            raise Retriable(
                Code.COORDINATOR_NOT_AVAILABLE,
                f"the offsets of share group {group.id!r} are being changed; try again",
            )
        return ShareMember(request.member_id)
    if epoch not in (JOINING, member.epoch, member.previous_epoch) or epoch > member.epoch:
        raise Fenced(
            Code.FENCED_MEMBER_EPOCH,
            f"member {member.id!r} is at epoch {member.epoch}, not {epoch}; it must give up its"
            " partitions and rejoin",
        )
    return member


def _check_growth(
    group: ShareGroup, member: ShareMember, before: ShareMember, *, is_new: bool
) -> None:
    size = member.metadata_bytes() - (0 if is_new else before.metadata_bytes())
    if size > 0 and group.limits.memory.lacks(size):
        raise Retriable(
            Code.COORDINATOR_NOT_AVAILABLE,
            "the members of all groups together use all the memory that this broker has for "
            "them; try again later",
        )


def _initialize(
    group: ShareGroup,
    epoch: int,
    missing: dict[UUID, NamedPartitions],
    records: list[ShareGroupRecord],
    now: Now,
) -> StateInitialization | None:
    """Ask for the state of partitions that have none, unless that is under way."""
    if not missing or now.ms < group.retry_ms:
        return None
    keys = [
        key
        for key in keys_of(missing)
        if key not in group.asked or now.ms - group.asked[key] >= INITIALIZE_RETRY_MS
    ]
    if not keys:
        return None
    group.asked.update(dict.fromkeys(keys, now.ms))
    after = group.stored.states.begin(missing)
    if after != group.stored.states:
        records.append(after.record(group.id))
    return StateInitialization(group.id, epoch, tuple(keys))


def _reconciled(
    group: ShareGroup,
    member: ShareMember,
    targets: dict[str, ShareTarget] | None,
    target_epoch: int,
    *,
    resubscribed: bool,
) -> ShareMember:
    """The member takes its target at once: nobody has to release anything."""
    if member.epoch == target_epoch and not resubscribed:
        return member
    target = (group.stored.targets if targets is None else targets).get(member.id, {})
    subscribed = frozenset(member.topics)
    assigned = {
        topic_id: partitions
        for topic_id, partitions in target.items()
        if group.topics_port.name_of(topic_id) in subscribed
    }
    if member.epoch == target_epoch:
        return replace(member, assigned=assigned)
    return member.moved(target_epoch, assigned)


def _interval_ms(group: ShareGroup, target_is_due: bool, now: Now) -> int:
    interval_ms = group.limits.share_heartbeat_interval_ms
    waits_ms = []
    if group.asked:
        waits_ms.append(now.ms - min(group.asked.values()))
    if group.waits and group.retry_ms > now.ms:
        waits_ms.append(group.retry_ms - now.ms)
    if target_is_due:
        waits_ms.append(wait_ms(group.stored, group.limits, now))
    return min(interval_ms, max(WAITING_INTERVAL_MS, *waits_ms)) if waits_ms else interval_ms


def _assignment(assigned: ShareTarget) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=list(partitions))
            for topic_id, partitions in assigned.items()
        ]
    )


# Records of the group


def epoch_record(group_id: str, epoch: int, digest: int) -> ShareGroupRecord:
    value = ShareEpochValue(epoch=epoch, metadata_hash=digest)
    return ShareGroupRecord(SHARE_EPOCH_KEY, group_id, "", value)


def target_records(
    group: ShareGroup, targets: dict[str, ShareTarget], epoch: int, now: Now
) -> list[ShareGroupRecord]:
    records = [
        target_record(group.id, member_id, target)
        for member_id, target in targets.items()
        if target != group.stored.targets.get(member_id)
    ]
    value = ShareTargetEpochValue(assignment_epoch=epoch, assignment_timestamp=now.wall_ms)
    records.append(ShareGroupRecord(SHARE_TARGET_EPOCH_KEY, group.id, "", value))
    return records


# History


def cause_of(group: ShareGroup, kind: CauseKind, member: ShareMember) -> RebalanceCause:
    connection = group.sessions.connection(member.id)
    return RebalanceCause(
        kind, member.id, member.client_id, member.client_host, connection=connection
    )


def _report(
    group: ShareGroup,
    began: ShareMember,
    member: ShareMember,
    is_new: bool,
    bumped: bool,
    resubscribed: bool,
    now: Now,
) -> None:
    if is_new:
        group.history.happened(cause_of(group, CauseKind.JOINED, member), now)
    elif resubscribed:
        cause = cause_of(group, CauseKind.RESUBSCRIBED, member)
        added, dropped = difference(began.topics, member.topics)
        cause = replace(cause, topics_added=added, topics_dropped=dropped)
        group.history.happened(cause, now)
    elif bumped:
        group.history.happened(RebalanceCause(CauseKind.PARTITIONS_CHANGED), now)


def report_targets(
    group: ShareGroup, targets: dict[str, ShareTarget], epoch: int, now: Now
) -> None:
    """A new assignment; it is finished when all members have taken theirs."""
    group.behind = dict.fromkeys(targets)
    group.history.joined(epoch, len(targets), ASSIGNOR, None, now)


def _report_reached(group: ShareGroup, member: ShareMember, now: Now) -> None:
    if member.id not in group.behind:
        return
    del group.behind[member.id]
    group.history.arrived(member.id, member.client_id, member.client_host, now)
    if not group.behind:
        group.history.assigned({}, now)  # no moves: a partition has several members


def states_after(group: ShareGroup, keys: tuple[SharePartitionId, ...]) -> InitializedPartitions:
    """The group's partitions with state, these among them."""
    return group.stored.states.finish(keys, group.topics_port.name_of)
