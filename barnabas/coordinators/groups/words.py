"""Says in words what a story says in fields."""

from barnabas.coordinators.groups.story import Cause, Chapter, Kind
from barnabas.model.words import duration, short_member

TOPICS_SHOWN_MAX = 5
TROUBLES = frozenset(
    {
        Kind.LATE_HEARTBEAT,
        Kind.LATE_POLL,
        Kind.LATE_JOIN,
        Kind.LATE_SYNC,
        Kind.LATE_REVOKE,
        Kind.FENCED,
        Kind.NOT_STORED,
        Kind.OVER_CAPACITY,
    }
)
"""What nobody would have wished for."""
_LATE = {
    Kind.LATE_HEARTBEAT: "sent no heartbeat for {waited}; its session timeout is {allowed}",
    Kind.LATE_POLL: "did not poll within its max.poll.interval.ms of {allowed}, and left",
    Kind.LATE_JOIN: "did not join again within {waited}; its rebalance timeout is {allowed}",
    Kind.LATE_SYNC: "did not ask for its assignment within {waited}",
    Kind.LATE_REVOKE: "did not give up its partitions within {waited};"
    " its rebalance timeout is {allowed}",
    Kind.RETURNED: "came back after {waited}, on the connection on which it had left",
}


def who(cause: Cause) -> str:
    """The client by its name, a little of its member id, and where it runs."""
    named = short_member(cause.member, cause.client)
    instance = f", instance {cause.instance}" if cause.instance else ""
    host = f" at {cause.host.removeprefix('/')}" if cause.host else ""
    return f"{named}{instance}{host}"


def in_words(cause: Cause) -> str:
    """One cause, as a sentence without its full stop."""
    pattern = _LATE.get(cause.kind)
    text = cause.kind.value
    if pattern is not None:
        text = pattern.format(waited=duration(cause.waited_ms), allowed=duration(cause.allowed_ms))
    if cause.member:
        text = f"{who(cause)} {text}"
    if cause.topics_added:
        text += f", added {_list(cause.topics_added)}"
    if cause.topics_dropped:
        text += f", dropped {_list(cause.topics_dropped)}"
    return f"{text}: {cause.reason}" if cause.reason else text


def why(chapter: Chapter) -> str:
    """What set a chapter off, and how much else there was."""
    if not chapter.causes:
        return "the cause is not known"
    others = len(chapter.causes) - 1 + chapter.more_causes
    return in_words(chapter.causes[0]) + (f", and {others} more" if others else "")


def not_consumer_group(group_id: str, *, exists: bool) -> str:
    """Why a request of the consumer protocol finds no group."""
    name = repr(group_id[:300])
    if exists:
        return f"group {name} uses the classic protocol; this request is of the consumer protocol"
    return f"there is no group {name}"


def _list(topics: tuple[str, ...]) -> str:
    shown = ", ".join(topics[:TOPICS_SHOWN_MAX])
    more = len(topics) - TOPICS_SHOWN_MAX
    return f"{shown} and {more} more" if more > 0 else shown
