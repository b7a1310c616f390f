"""Decides when a target assignment may be computed: new groups wait for more members first.

In: members that join a new group, the time. Out: how long to wait.
Always: a new group waits until no member has joined for a short pause, and no longer than the
interval between assignments. Later targets are at least that interval apart.
Not here: the answers to members that wait (heartbeats.py).
"""

from barnabas.coordinators.groups.consumer.group import ConsumerGroup
from barnabas.coordinators.groups.consumer.step import wait_ms as interval_wait_ms
from barnabas.coordinators.runtime import Now


def begin(group: ConsumerGroup, now: Now) -> bool:
    """Is this the first member of a group that waits for more? Then the wait begins."""
    limits = group.limits
    pause_ms = min(limits.consumer_join_pause_ms, limits.consumer_assignment_interval_ms)
    if group.stored.members or not pause_ms:
        return False
    group.gathering = (now.ms, now.ms)
    return True


def wait_ms(group: ConsumerGroup, now: Now) -> int:
    """How long until a target may be computed."""
    if group.gathering is None:
        return interval_wait_ms(group.stored, group.limits, now)
    began_ms, last_ms = group.gathering
    end_ms = min(
        last_ms + group.limits.consumer_join_pause_ms,
        began_ms + group.limits.consumer_assignment_interval_ms,
    )
    return max(0, end_ms - now.ms)
