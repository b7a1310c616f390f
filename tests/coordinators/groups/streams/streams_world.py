"""Heartbeats of streams groups against one shard in memory; topologies in a few words."""

from typing import Any

from barnabas.coordinators.groups.limits import GroupLimits
from barnabas.coordinators.groups.streams.group import StreamsGroup
from barnabas.model.errors import Code
from barnabas.wire.messages.streams_group_heartbeat import (
    CopartitionGroup,
    Endpoint,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from tests.coordinators.world import GROUP, Call, Cluster, World

Held = dict[str, list[int]]
"""By subtopology: partitions."""


def info(name: str, partitions: int = 0) -> TopicInfo:
    return TopicInfo(
        name=name,
        partitions=partitions,
        replication_factor=0,
        topic_configs=[KeyValue(key="cleanup.policy", value="compact")],
    )


def subtopology(
    id_: str,
    sources: list[str],
    *,
    changelogs: tuple[str, ...] = (),
    sinks: tuple[str, ...] = (),
    repartitions: dict[str, int] | None = None,
    together: bool = False,
) -> Subtopology:
    """`repartitions`: with their partitions, 0 for as many as needed. `together`: all that it reads
    is joined."""
    read = repartitions or {}
    joined = CopartitionGroup(
        source_topics=list(range(len(sources))),
        source_topic_regex=[],
        repartition_source_topics=list(range(len(read))),
    )
    return Subtopology(
        subtopology_id=id_,
        source_topics=sources,
        source_topic_regex=[],
        state_changelog_topics=[info(name) for name in changelogs],
        repartition_sink_topics=list(sinks),
        repartition_source_topics=[info(name, count) for name, count in read.items()],
        copartition_groups=[joined] if together else [],
    )


def topology(*parts: Subtopology, epoch: int = 0) -> Topology:
    return Topology(epoch=epoch, subtopologies=list(parts))


COUNT = topology(subtopology("0", ["t"], changelogs=("g-store-changelog",)))
"""A count: reads t, keeps a store."""


def tasks(held: Held | None) -> list[TaskIds] | None:
    if held is None:
        return None
    return [TaskIds(subtopology_id=id_, partitions=numbers) for id_, numbers in held.items()]


def world(topics: dict[str, int] | None = None, **limits: Any) -> World:
    """Topics: t with 4 partitions and the changelog of COUNT, unless others are named. Groups do
    not wait for more members unless a test says so."""
    options = {"streams_initial_rebalance_delay_ms": 0} | limits
    found = {"t": 4, "g-store-changelog": 4} if topics is None else topics
    return World(GroupLimits(**options), topics=Cluster(found))


def beat(
    w: World,
    member: str,
    epoch: int = 0,
    *,
    active: Held | None = None,
    standby: Held | None = None,
    of: Topology | None = None,
    process: str | None = None,
    endpoint: tuple[str, int] | None = None,
    knows: int = -1,
    group: str = GROUP,
    **more: Any,
) -> Call:
    """A heartbeat as on the wire."""
    owned = active is not None or standby is not None
    request = StreamsGroupHeartbeatRequest(
        group_id=group,
        member_id=member,
        member_epoch=epoch,
        endpoint_information_epoch=knows,
        topology=of,
        active_tasks=tasks(active or {}) if owned else None,
        standby_tasks=tasks(standby or {}) if owned else None,
        warmup_tasks=[] if owned else None,
        process_id=process,
        user_endpoint=None if endpoint is None else Endpoint(host=endpoint[0], port=endpoint[1]),
        **more,
    )
    return w.run(lambda shard, caller: shard.streams_heartbeat(request, caller, w.now))


def join(w: World, member: str, of: Topology = COUNT, **options: Any) -> Call:
    """Each member is a process of its own, unless it says otherwise."""
    more: dict[str, Any] = {"rebalance_timeout_ms": 60_000, "process": f"process of {member}"}
    more |= options
    return beat(w, member, 0, active={}, of=of, **more)


def streams_group(w: World) -> StreamsGroup:
    found = w.shard.group(GROUP)
    assert isinstance(found, StreamsGroup)
    return found


def active(call: Call) -> Held | None:
    """The active tasks in the response; None if it leaves them as they are."""
    assert call.code is Code.NONE, call.response
    found = call.response.active_tasks
    return None if found is None else {each.subtopology_id: each.partitions for each in found}


def standby(call: Call) -> Held | None:
    assert call.code is Code.NONE, call.response
    found = call.response.standby_tasks
    return None if found is None else {each.subtopology_id: each.partitions for each in found}


def statuses(call: Call) -> list[int]:
    assert call.code is Code.NONE, call.response
    return [each.status_code for each in call.response.status]
