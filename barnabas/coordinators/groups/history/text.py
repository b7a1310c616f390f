"""Describes the causes of a rebalance in sentences.

In: causes and entries of a history. Out: text for the log, the command line and the API.
Always: topics beyond a few are counted, not listed.
Not here: what is recorded (rebalance_history.py).
"""

from barnabas.coordinators.groups.history.rebalance_history import (
    CauseKind,
    RebalanceCause,
    RebalanceEntry,
)
from barnabas.model.words import duration, short_member

TOPICS_SHOWN_MAX = 5
PROBLEMS = frozenset(
    {
        CauseKind.LATE_HEARTBEAT,
        CauseKind.LATE_POLL,
        CauseKind.LATE_JOIN,
        CauseKind.LATE_SYNC,
        CauseKind.LATE_REVOKE,
        CauseKind.FENCED,
        CauseKind.NOT_STORED,
        CauseKind.OVER_CAPACITY,
    }
)
"""Causes that are logged as warnings."""
_LATE = {
    CauseKind.LATE_HEARTBEAT: "sent no heartbeat for {waited}; its session timeout is {allowed}",
    CauseKind.LATE_POLL: "did not poll within its max.poll.interval.ms of {allowed}, and left",
    CauseKind.LATE_JOIN: "did not join again within {waited}; its rebalance timeout is {allowed}",
    CauseKind.LATE_SYNC: "did not ask for its assignment within {waited}",
    CauseKind.LATE_REVOKE: "did not release its partitions within {waited};"
    " its rebalance timeout is {allowed}",
    CauseKind.RETURNED: "came back after {waited}, on the connection on which it had left",
}


def member_text(cause: RebalanceCause) -> str:
    """The client id, the start of the member id, and the host."""
    named = short_member(cause.member, cause.client)
    instance = f", instance {cause.instance}" if cause.instance else ""
    host = f" at {cause.host.removeprefix('/')}" if cause.host else ""
    return f"{named}{instance}{host}"


def cause_text(cause: RebalanceCause) -> str:
    """One cause as a sentence, without its full stop."""
    pattern = _LATE.get(cause.kind)
    text = cause.kind.value
    if pattern is not None:
        text = pattern.format(waited=duration(cause.waited_ms), allowed=duration(cause.allowed_ms))
    if cause.member:
        text = f"{member_text(cause)} {text}"
    if cause.topics_added:
        text += f", added {_list(cause.topics_added)}"
    if cause.topics_dropped:
        text += f", dropped {_list(cause.topics_dropped)}"
    return f"{text}: {cause.reason}" if cause.reason else text


def reason_text(entry: RebalanceEntry) -> str:
    """The first cause of a rebalance, and how many more there were."""
    if not entry.causes:
        return "the cause is not known"
    others = len(entry.causes) - 1 + entry.more_causes
    return cause_text(entry.causes[0]) + (f", and {others} more" if others else "")


def _list(topics: tuple[str, ...]) -> str:
    shown = ", ".join(topics[:TOPICS_SHOWN_MAX])
    more = len(topics) - TOPICS_SHOWN_MAX
    return f"{shown} and {more} more" if more > 0 else shown
