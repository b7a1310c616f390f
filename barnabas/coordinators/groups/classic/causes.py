"""Reports to the history of a classic group what its members did.

In: a group, a member, what happened. Out: causes and notes in the group's history.
Always: texts that clients send are cut to a bounded length.
Not here: the history itself (history/rebalance_history.py).
"""

from barnabas.coordinators.groups.classic.group import ClassicGroup
from barnabas.coordinators.groups.classic.member import ClassicMember
from barnabas.coordinators.groups.history.rebalance_history import CauseKind, RebalanceCause
from barnabas.coordinators.runtime import Now

REASON_CHARS_MAX = 255


def cause_of(
    kind: CauseKind,
    member: ClassicMember,
    reason: str | None,
    added: tuple[str, ...] = (),
    dropped: tuple[str, ...] = (),
) -> RebalanceCause:
    """`added` and `dropped`: topics of the member's subscription."""
    return RebalanceCause(
        kind,
        member.id,
        member.client_id,
        member.client_host,
        (reason or "")[:REASON_CHARS_MAX],
        allowed_ms=member.rebalance_timeout_ms,
        topics_added=added,
        topics_dropped=dropped,
        instance=member.instance_id or "",
        connection=member.connection,
    )


def report_late(
    group: ClassicGroup,
    kind: CauseKind,
    member: ClassicMember,
    waited_ms: int,
    allowed_ms: int,
    now: Now,
) -> None:
    """The member missed a deadline."""
    cause = RebalanceCause(
        kind,
        member.id,
        member.client_id,
        member.client_host,
        waited_ms=waited_ms,
        allowed_ms=allowed_ms,
        instance=member.instance_id or "",
        connection=member.connection,
    )
    group.history.happened(cause, now)


def report_fenced(group: ClassicGroup, member_id: str, instance_id: str | None, now: Now) -> None:
    """A member that was replaced still sends requests: two programs share one instance id."""
    holder = group.members.by_instance(instance_id)
    if holder is not None:
        cause = RebalanceCause(
            CauseKind.FENCED, member_id, holder.client_id, "", instance=instance_id or ""
        )
        group.history.noted(cause, now)
