"""Says why the offsets of a member were not committed, and what its owner can do.

In: the group's rebalance history, the refusal, the member. Out: text for a log.
Not here: the decision (operations.py).
"""

from barnabas.coordinators.groups.history.rebalance_history import (
    CauseKind,
    RebalanceCause,
    RebalanceHistory,
)
from barnabas.coordinators.groups.history.text import cause_text
from barnabas.model.errors import Code

_GONE = frozenset(
    {
        CauseKind.LATE_HEARTBEAT,
        CauseKind.LATE_POLL,
        CauseKind.LATE_JOIN,
        CauseKind.LATE_SYNC,
        CauseKind.LATE_REVOKE,
        CauseKind.LEFT,
        CauseKind.OVER_CAPACITY,
    }
)
_OTHERS = "its partitions may belong to other members"
_POLL = "it must poll to join again, and reads on from the last commit"
_REMEDY = {
    CauseKind.LATE_HEARTBEAT: "raise session.timeout.ms, or find out why the client was paused",
    CauseKind.LATE_POLL: "raise max.poll.interval.ms, lower max.poll.records, or handle records"
    " faster",
    CauseKind.LATE_JOIN: "raise max.poll.interval.ms, or handle records faster",
    CauseKind.LATE_REVOKE: "raise max.poll.interval.ms, or finish faster when partitions are"
    " revoked",
    CauseKind.OVER_CAPACITY: "raise group.max.size",
}
_TEXTS: dict[Code, str] = {
    Code.UNKNOWN_MEMBER_ID: "the group has no such member: it left, or was removed because it sent"
    " no heartbeat within session.timeout.ms or did not poll within max.poll.interval.ms;"
    f" {_OTHERS}; {_POLL}",
    Code.ILLEGAL_GENERATION: "the group has rebalanced since the member joined;"
    f" {_OTHERS}; {_POLL}",
    Code.FENCED_MEMBER_EPOCH: "the group has rebalanced since the member joined;"
    f" {_OTHERS}; {_POLL}",
    Code.STALE_MEMBER_EPOCH: "the member does not know its new epoch yet; it must commit again"
    " after its next heartbeat",
    Code.REBALANCE_IN_PROGRESS: "the group is rebalancing; the member must poll, and may commit"
    " when it has its new assignment",
    Code.FENCED_INSTANCE_ID: "another client has joined with the same group.instance.id; give each"
    " client its own",
    Code.GROUP_ID_NOT_FOUND: "there is no such group; the member must poll to join it",
}
CODES = frozenset(_TEXTS)
"""Refusals that depend on who commits, not on what."""


def why_refused(code: Code, history: RebalanceHistory | None, member_id: str) -> str:
    cause = None if history is None else _removal(history, member_id)
    if code is not Code.UNKNOWN_MEMBER_ID or cause is None:
        return _TEXTS[code]
    remedy = _REMEDY.get(cause.kind)
    text = f"{cause_text(cause)}; {_OTHERS}; {_POLL}"
    return text if remedy is None else f"{text}; {remedy}"


def _removal(history: RebalanceHistory, member_id: str) -> RebalanceCause | None:
    """The last one by which the member went."""
    entries = list(history.entries)
    if history.under_way is not None:
        entries.append(history.under_way)
    for entry in reversed(entries):
        for cause in reversed(entry.causes):
            if cause.member == member_id and cause.kind in _GONE:
                return cause
    return None
