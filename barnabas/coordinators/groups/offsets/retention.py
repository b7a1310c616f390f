"""Deletes offsets that are past their retention, and groups that have nothing left.

In: the time. Out: tombstones.
Always: one call looks at a bounded number of groups; the rest follow after a short pause, so that
requests do not wait for all of them.
Not here: which offsets of a group are past their retention (store.py).
"""

from itertools import islice

from barnabas.coordinators.groups.classic.states import ClassicGroupState
from barnabas.coordinators.groups.consumer.group import ConsumerGroup
from barnabas.coordinators.groups.records import Record
from barnabas.coordinators.groups.share.group import ShareGroup
from barnabas.coordinators.groups.state import ShardState
from barnabas.coordinators.runtime import Now, Outcome

GROUPS_PER_SLICE = 500
RECORDS_PER_SLICE = 1_000
SLICE_PAUSE_MS = 10


def check(state: ShardState, now: Now) -> Outcome[Record]:
    """Look at the next slice of groups."""
    if not state.retention_queue:
        state.retention_queue = list(state.ids())
    queue = state.retention_queue
    records: list[Record] = []
    for _ in range(min(len(queue), GROUPS_PER_SLICE)):
        group_id = queue.pop()
        expired = _expired(state, group_id, now)
        records += expired[:RECORDS_PER_SLICE]
        if len(expired) > RECORDS_PER_SLICE:
            queue.append(group_id)  # the group has more
        if len(records) >= RECORDS_PER_SLICE:
            break
    pause_ms = SLICE_PAUSE_MS if queue else state.limits.offsets_retention_check_ms
    state.timers.set(state.retention_timer, now.ms + pause_ms)
    return Outcome(tuple(records), divisible=True)


def postpone(state: ShardState, now: Now) -> None:
    """The log accepts no records now: try again at the next regular check."""
    state.retention_queue.clear()
    state.timers.set(state.retention_timer, now.ms + state.limits.offsets_retention_check_ms)


def _expired(state: ShardState, group_id: str, now: Now) -> list[Record]:
    """Tombstones for one group. More than a slice of them: the group may have even more.

    The retention of an empty classic group begins when it became empty, of others at each commit.
    """
    group = state.look(group_id)
    if group is None or isinstance(group, ShareGroup):
        return []
    subscribed: frozenset[str] = frozenset()
    emptied_ms = -1
    if isinstance(group, ConsumerGroup) or group.type == "streams":
        subscribed = group.topics
    elif group.state not in (ClassicGroupState.EMPTY, ClassicGroupState.STABLE):
        return []
    elif group.state is ClassicGroupState.STABLE:
        if group.topics is None:
            return []
        subscribed = group.topics
    elif group.members.protocol_type is not None:
        emptied_ms = group.since_wall_ms
    retention_ms = state.limits.offsets_retention_ms
    expired = state.offsets.expired(group_id, retention_ms, emptied_ms, subscribed, now.wall_ms)
    pending = bool(state.pending) and state.pending.has_group(group_id)
    if pending:  # they may take effect at any moment, and so may their group
        expired = (
            each
            for each in expired
            if not state.pending.is_pending(each.group, each.topic, each.partition)
        )
    records: list[Record] = [*islice(expired, RECORDS_PER_SLICE + 1)]
    is_stored = any(
        group_id in stored for stored in (state.generations, state.consumers, state.streams)
    )
    if pending:
        return records
    if group.is_idle and is_stored and len(records) == state.offsets.count(group_id):
        records += state.group_tombstones(group_id)
    return records
