"""The states of a member of a consumer group, and of the group; the legal transitions.

A member moves towards its target assignment, one heartbeat at a time:

      joins with epoch 0
              |
              v        the target has changed; nothing to release
         +----------+  and all its partitions are free: next epoch
    +--> |  STABLE  | ------------------------------+
    |    +----------+ <-----------------------------+
    |      |      ^
    |      |      | it has released them, and all partitions of its target are free: next epoch
    |      v      |
    |    +-----------+  must release partitions that are not in its target; its epoch stays
    |    | UNREVOKED |  until the member says that it no longer owns them. After its rebalance
    |    +-----------+  timeout it is removed.
    |      |      ^
    |      |      | the target has changed again
    |      v      |
    |    +------------+  is at the target's epoch, and waits for partitions that other members
    +--- | UNRELEASED |  have not released. It gets each of them as soon as it is free.
         +------------+

    UNKNOWN: the log has a state that this version does not know. The member must rejoin without
    partitions, and is then STABLE or UNRELEASED.

    Any state -> removed: it leaves (epoch -1), its session ends, or a deadline passes.
    A static member that leaves with epoch -2 keeps its state and its partitions until its session
    ends, or until a member with its instance id joins.

What a member may do does not depend on its state but on its epoch: a heartbeat must have the
member's epoch (or the one before, if the answer was lost); an OffsetCommit may have an older epoch
for partitions that the member has owned since.

The state of the group follows from the epochs; nothing sets it:

    EMPTY -> ASSIGNING     a member joins: the group's epoch is ahead of the target assignment
    ASSIGNING -> RECONCILING     there is a target assignment; members move towards it
    RECONCILING -> STABLE  every member has reached it
    any -> ASSIGNING       a member joins, leaves or resubscribes, or topics change
    any -> EMPTY           the last member is removed

In: nothing. Out: the enums, and an assertion on each transition of a member.
Always: a member is UNREVOKED if and only if it has partitions to release.
Not here: which state comes next (reconcile.py).
"""

from enum import Enum, IntEnum


class MemberState(IntEnum):
    """How far a member is on its way to its target. The value is the one in the log."""

    STABLE = 0
    UNREVOKED = 1
    UNRELEASED = 2
    UNKNOWN = 127


PREDECESSORS: dict[MemberState, tuple[MemberState, ...]] = {
    MemberState.STABLE: tuple(MemberState),
    MemberState.UNREVOKED: (MemberState.STABLE, MemberState.UNREVOKED, MemberState.UNRELEASED),
    MemberState.UNRELEASED: tuple(MemberState),
    MemberState.UNKNOWN: (),  # it is read from the log, never entered
}


def check_transition(
    member: str, before: MemberState, after: MemberState, *, has_revocations: bool
) -> None:
    """An illegal transition is a bug of the coordinator; no request can cause one."""
    assert before in PREDECESSORS[after], (
        f"member {member!r} cannot go from {before.name} to {after.name}"
    )
    assert has_revocations == (after is MemberState.UNREVOKED), (
        f"member {member!r} goes to {after.name} "
        f"{'with' if has_revocations else 'without'} partitions to release"
    )


class ConsumerGroupState(Enum):
    """The value is the name that Kafka's tools show."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
