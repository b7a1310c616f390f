"""Computes the target of every member of a streams group, and when the next one may be computed.

In: the members, the tasks of each subtopology, the number of standby tasks. Out: new targets.
Always: nothing is assigned while a topic is missing.
Not here: how the tasks are distributed (assignment/sticky_tasks.py).
"""

from collections.abc import Iterable

from barnabas.assignment.sticky_tasks import (
    SubtopologyTasks,
    TaskMember,
    assign_sticky_tasks,
)
from barnabas.coordinators.groups.limits import GroupLimits
from barnabas.coordinators.groups.streams.group import StreamsGroup
from barnabas.coordinators.groups.streams.member import StreamsMember
from barnabas.coordinators.groups.streams.stored import StoredStreamsGroup
from barnabas.coordinators.groups.streams.tasks import (
    NO_TARGET,
    TargetOfTasks,
    by_subtopology,
    ids,
)
from barnabas.coordinators.groups.streams.topics import ConfiguredTopology
from barnabas.coordinators.runtime import Now

ASSIGNOR = "sticky"


def make_targets(
    stored: StoredStreamsGroup,
    members: Iterable[StreamsMember],
    configured: ConfiguredTopology,
    standbys: int,
) -> dict[str, TargetOfTasks]:
    if not configured.is_ready:
        return {member.id: NO_TARGET for member in members}
    asked = []
    for member in members:
        before = stored.target(member.id)
        active, standby = tuple(ids(before.active)), tuple(ids(before.standby))
        asked.append(TaskMember(member.id, member.process_id, active, standby))
    subtopologies = {
        id_: SubtopologyTasks(each.tasks, bool(each.state_changelog_topics))
        for id_, each in configured.subtopologies.items()
    }
    return {
        member_id: TargetOfTasks(by_subtopology(tasks.active), by_subtopology(tasks.standby))
        for member_id, tasks in assign_sticky_tasks(asked, subtopologies, standbys).items()
    }


def wait_ms(stored: StoredStreamsGroup, limits: GroupLimits, now: Now) -> int:
    """How long until the next target may be computed. Targets without a task do not delay the
    first that has some, nor does a clock that was set back."""
    if not stored.targeted_wall_ms or not any(stored.targets.values()):
        return 0
    elapsed_ms = now.wall_ms - stored.targeted_wall_ms
    left_ms = limits.streams_assignment_interval_ms - elapsed_ms
    return left_ms if elapsed_ms >= 0 and left_ms > 0 else 0


def gathering_ms(group: StreamsGroup, now: Now) -> int:
    """How long the first members still wait for others."""
    if group.gathering is None:
        return 0
    began_ms, last_ms = group.gathering
    limits = group.limits
    end_ms = began_ms + limits.streams_initial_rebalance_delay_ms
    if limits.streams_join_pause_ms:
        end_ms = min(end_ms, last_ms + limits.streams_join_pause_ms)
    return max(0, end_ms - now.ms)
