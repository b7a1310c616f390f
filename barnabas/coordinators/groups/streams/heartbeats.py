"""Decides what a StreamsGroupHeartbeat does: joining, moving to the target, staying alive.

In: heartbeats, the time. Out: records, responses; the topics to create are in the group.
Always: a heartbeat that changes nothing costs the same in a group of any size. A member that waits
for something that comes soon is asked for its next heartbeat soon; one that waits for a person (a
source topic) is not, because Kafka Streams gives up after two intervals.
Not here: leaving and deadlines (operations.py), the step of one member (reconcile.py).
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from barnabas.coordinators.caller import Caller
from barnabas.coordinators.groups.consumer.states import MemberState
from barnabas.coordinators.groups.streams.causes import report_step
from barnabas.coordinators.groups.streams.endpoints import partitions_by_endpoint
from barnabas.coordinators.groups.streams.group import StreamsGroup
from barnabas.coordinators.groups.streams.member import JOINING, StreamsMember, UserEndpoint
from barnabas.coordinators.groups.streams.records import StreamsGroupRecord
from barnabas.coordinators.groups.streams.step import StreamsStep
from barnabas.coordinators.groups.streams.tasks import HeldTasks, OwnedTasks, listed_ids
from barnabas.coordinators.groups.streams.topics import ConfiguredTopology
from barnabas.coordinators.groups.streams.topology import recorded
from barnabas.coordinators.runtime import Now
from barnabas.model.errors import Code, Fenced, InvalidRequest, Retriable
from barnabas.wire.messages.streams_group_heartbeat import (
    EndpointToPartitions,
    Status,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    TaskIds,
)


def unchanged(
    group: StreamsGroup, request: StreamsGroupHeartbeatRequest, now: Now
) -> StreamsGroupHeartbeatResponse | None:
    """The response to a heartbeat that changes nothing; None if it may change something."""
    stored = group.stored
    member = stored.members.get(request.member_id)
    if member is None or stored.topology is None:
        return None
    changes_nothing = (
        request.member_epoch == member.epoch == stored.epoch == stored.target_epoch
        and member.state is MemberState.STABLE
        and request.topology is None
        and request.active_tasks is None
        and request.process_id is None
        and request.user_endpoint is None
        and request.client_tags is None
        and request.rack_id is None
        and request.rebalance_timeout_ms == -1
        and request.endpoint_information_epoch == group.endpoint_epoch
        and not request.shutdown_application
        and group.shutdown_by is None
        and not group.topics_stale
        and group.configured is not None
        and group.configured.is_ready
        and member.id in group.informed
        and member.topology_epoch == stored.topology.epoch
        and stored.standbys == group.limits.streams_num_standby_replicas
    )
    if not changes_nothing:
        return None
    group.heard(member.id, now)
    return _response(group, member, group.limits.streams_heartbeat_interval_ms, [])


def heartbeat(
    group: StreamsGroup, request: StreamsGroupHeartbeatRequest, caller: Caller, now: Now
) -> tuple[list[StreamsGroupRecord], StreamsGroupHeartbeatResponse]:
    """Raises a KafkaError when it is refused."""
    owned = owned_by(request)
    began = _admitted(group, request, owned)
    described = _described(began, request, caller)
    _check_memory(group, request, began, described)
    step = StreamsStep(group, began, described)
    topology = step.take_topology(request.topology)
    configured = step.configure(topology)
    _check_owned(configured, owned)
    step.bump(configured)
    step.gather(now)
    step.retarget(configured, now)
    step.reconcile(owned)
    response = _finish(group, step, request, owned, now)
    group.sessions.connected(described.id, caller.connection)
    return step.records, response


def _finish(
    group: StreamsGroup,
    step: StreamsStep,
    request: StreamsGroupHeartbeatRequest,
    owned: OwnedTasks | None,
    now: Now,
) -> StreamsGroupHeartbeatResponse:
    """The timers, the history, and the response."""
    member, began = step.member, step.began
    group.topics_stale = False
    group.heard(member.id, now)
    if member.state is not began.state or member.revoking != began.revoking:
        group.watch_revocation(member, now)
    if request.shutdown_application:
        group.shutdown_by = member.id
    report_step(group, step, now)
    step.note_problems(now)
    changed = member.assigned != began.assigned
    # A member that says other tasks than it has, or that is at its previous epoch, has missed the
    # last reply, and with it its tasks.
    missed = request.member_epoch != began.epoch or (
        owned is not None and not owned.is_all_of(member.assigned)
    )
    if member.endpoint is not None and (changed or step.described):
        group.endpoint_epoch += 1
        group.informed.clear()
    knows = request.endpoint_information_epoch == group.endpoint_epoch
    endpoints = None
    if not knows or member.id not in group.informed:
        group.informed.add(member.id)
        members = {**group.stored.members, member.id: member}
        endpoints = partitions_by_endpoint(group, members.values())
    gets_tasks = request.member_epoch == JOINING or changed or missed
    return _response(
        group,
        member,
        step.interval_ms(now),
        step.statuses,
        member.assigned if gets_tasks else None,
        endpoints,
    )


# Who may send a heartbeat


def _admitted(
    group: StreamsGroup, request: StreamsGroupHeartbeatRequest, owned: OwnedTasks | None
) -> StreamsMember:
    member, epoch = group.stored.members.get(request.member_id), request.member_epoch
    if member is None:
        if epoch != JOINING:
            raise InvalidRequest(
                Code.UNKNOWN_MEMBER_ID,
                f"{request.member_id!r} is not a member of group {group.id!r}; it must join",
            )
        limit = group.limits.streams_members_max
        if group.size >= limit:
            raise InvalidRequest(
                Code.GROUP_MAX_SIZE_REACHED,
                f"streams group {group.id!r} has {limit} members, as many as"
                " group.streams.max.size allows",
            )
        return StreamsMember(request.member_id)
    # A member that missed the last response is one epoch behind, and owns no task that was not
    # assigned to it.
    missed_one = (
        epoch == member.previous_epoch
        and epoch < member.epoch
        and owned is not None
        and owned.is_within(member.assigned)
    )
    if epoch not in (JOINING, member.epoch) and not missed_one:
        raise Fenced(
            Code.FENCED_MEMBER_EPOCH,
            f"member {member.id!r} is at epoch {member.epoch}, not {epoch}; it must release its"
            " tasks and rejoin",
        )
    return member


def _described(
    began: StreamsMember, request: StreamsGroupHeartbeatRequest, caller: Caller
) -> StreamsMember:
    """Fields that the request leaves out stay as they were."""
    endpoint, tags = request.user_endpoint, request.client_tags
    timeout = request.rebalance_timeout_ms
    return replace(
        began,
        rack=request.rack_id or began.rack,
        rebalance_timeout_ms=began.rebalance_timeout_ms if timeout == -1 else timeout,
        client_id=caller.client_id,
        client_host=caller.client_host,
        topology_epoch=began.topology_epoch if request.topology is None else request.topology.epoch,
        process_id=began.process_id if request.process_id is None else request.process_id,
        endpoint=began.endpoint if endpoint is None else UserEndpoint(endpoint.host, endpoint.port),
        tags=began.tags if tags is None else tuple(sorted({t.key: t.value for t in tags}.items())),
    )


def _check_memory(
    group: StreamsGroup,
    request: StreamsGroupHeartbeatRequest,
    began: StreamsMember,
    described: StreamsMember,
) -> None:
    grows = described.metadata_bytes()
    limit = group.limits.member_metadata_bytes_max
    if grows > limit:
        raise InvalidRequest(
            Code.INVALID_REQUEST,
            f"the names and tags of the member have {grows} characters; at most {limit} are"
            " allowed",
        )
    if began.id in group.stored.members:
        grows -= began.metadata_bytes()
    if group.stored.topology is None and request.topology is not None:
        grows += len(recorded(request.topology).encode(0))
    if grows > 0 and group.limits.memory.lacks(grows):
        raise Retriable(
            Code.COORDINATOR_NOT_AVAILABLE,
            "the members of all groups together use all the memory that this broker has for "
            "them; try again later",
        )


def owned_by(request: StreamsGroupHeartbeatRequest) -> OwnedTasks | None:
    """The tasks that the member says it owns; None when it does not say."""
    if request.member_epoch == JOINING:
        return OwnedTasks()
    if request.active_tasks is None or request.standby_tasks is None:
        return None
    return OwnedTasks(listed_ids(request.active_tasks), listed_ids(request.standby_tasks))


def _check_owned(configured: ConfiguredTopology, owned: OwnedTasks | None) -> None:
    if owned is None or not configured.is_ready:
        return
    for task in (*owned.active, *owned.standby):
        part = configured.subtopologies.get(task.subtopology)
        if part is None or not 0 <= task.partition < part.tasks:
            raise InvalidRequest(
                Code.INVALID_REQUEST,
                f"the topology has no task {task.subtopology[:100]}_{task.partition}",
            )


# Responses


def _response(
    group: StreamsGroup,
    member: StreamsMember,
    interval_ms: int,
    statuses: list[Status],
    tasks: HeldTasks | None = None,
    endpoints: list[EndpointToPartitions] | None = None,
) -> StreamsGroupHeartbeatResponse:
    return StreamsGroupHeartbeatResponse(
        error_code=0,
        member_id=member.id,
        member_epoch=member.epoch,
        heartbeat_interval_ms=interval_ms,
        acceptable_recovery_lag=0,
        task_offset_interval_ms=0,
        status=statuses,
        active_tasks=None if tasks is None else _listed(tasks.active),
        standby_tasks=None if tasks is None else _listed(tasks.standby),
        warmup_tasks=None if tasks is None else [],
        endpoint_information_epoch=group.endpoint_epoch,
        partitions_by_user_endpoint=endpoints,
    )


def _listed(tasks: Mapping[str, Iterable[int]]) -> list[TaskIds]:
    return [
        TaskIds(subtopology_id=subtopology, partitions=list(partitions))
        for subtopology, partitions in tasks.items()
    ]
