"""The states of a classic group, and the legal transitions between them.

                 first member joins
       +-------+ ------------------> +--------------------+
       | EMPTY |                     | PREPARING          | <--------------+
       +-------+ <------------------ | (join phase)       | <---+          |
                 all members are     +--------------------+     |          |
                 gone: generation+1    |                        |          |
                                       | all joined, or timeout:|          |
                                       | generation + 1         |          |
                                       v                        |          |
                                     +--------------------+     |          |
                                     | COMPLETING         | ----+          |
                                     | (sync phase)       |  a member      |
                                     +--------------------+  joins, leaves |
                                       |                     or is late    |
                                       | the leader's assignment           |
                                       | is in the log                     |
                                       v                                   |
                                     +--------------------+                |
                                     | STABLE             | ---------------+
                                     +--------------------+

    Any state -> DEAD: the group was deleted, became a consumer group, or this broker no longer
    coordinates it.

What a state accepts, besides JoinGroup and LeaveGroup, which every state but DEAD accepts:

    EMPTY       OffsetCommit without a member (generation -1)
    PREPARING   Heartbeat and SyncGroup are answered REBALANCE_IN_PROGRESS; OffsetCommit of the
                last generation is accepted
    COMPLETING  SyncGroup waits for the leader; OffsetCommit is answered REBALANCE_IN_PROGRESS
    STABLE      Heartbeat, OffsetCommit; SyncGroup is answered at once

In: nothing. Out: the enum, and an assertion on each transition.
Always: a state is entered only from one of its predecessors.
Not here: when a group changes its state (rebalance.py).
"""

from enum import Enum


class ClassicGroupState(Enum):
    """The value is the name that Kafka's tools show."""

    EMPTY = "Empty"  # no members; it may have offsets
    PREPARING = "PreparingRebalance"  # members are asked to join again
    COMPLETING = "CompletingRebalance"  # there is a generation, but no assignment yet
    STABLE = "Stable"  # the assignment is in the log
    DEAD = "Dead"  # deleted, or coordinated elsewhere


PREDECESSORS: dict[ClassicGroupState, tuple[ClassicGroupState, ...]] = {
    ClassicGroupState.EMPTY: (ClassicGroupState.PREPARING,),
    ClassicGroupState.PREPARING: (
        ClassicGroupState.EMPTY,
        ClassicGroupState.COMPLETING,
        ClassicGroupState.STABLE,
    ),
    ClassicGroupState.COMPLETING: (ClassicGroupState.PREPARING,),
    ClassicGroupState.STABLE: (ClassicGroupState.COMPLETING,),
    ClassicGroupState.DEAD: (
        ClassicGroupState.EMPTY,
        ClassicGroupState.PREPARING,
        ClassicGroupState.COMPLETING,
        ClassicGroupState.STABLE,
    ),
}


def check_transition(group: str, before: ClassicGroupState, after: ClassicGroupState) -> None:
    """An illegal transition is a bug of the coordinator; no request can cause one."""
    assert before in PREDECESSORS[after], (
        f"group {group!r} cannot go from {before.value} to {after.value}"
    )
