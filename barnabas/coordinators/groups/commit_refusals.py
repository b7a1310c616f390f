"""Says why the offsets of a member were not committed, and what its owner can do.

In: the group's story, the refusal, the member. Out: text for a log.
Not here: the decision (offset_verbs.py).
"""

from barnabas.coordinators.groups.story import Cause, Kind, Story
from barnabas.coordinators.groups.words import in_words
from barnabas.model.errors import Code

_GONE = frozenset(
    {
        Kind.LATE_HEARTBEAT,
        Kind.LATE_POLL,
        Kind.LATE_JOIN,
        Kind.LATE_SYNC,
        Kind.LATE_REVOKE,
        Kind.LEFT,
        Kind.OVER_CAPACITY,
    }
)
_OTHERS = "its partitions may belong to other members"
_POLL = "it must poll to join again, and reads on from the last commit"
_REMEDY = {
    Kind.LATE_HEARTBEAT: "raise session.timeout.ms, or find out why the client was paused",
    Kind.LATE_POLL: "raise max.poll.interval.ms, lower max.poll.records, or handle records faster",
    Kind.LATE_JOIN: "raise max.poll.interval.ms, or handle records faster",
    Kind.LATE_REVOKE: "raise max.poll.interval.ms, or finish faster when partitions are revoked",
    Kind.OVER_CAPACITY: "raise group.max.size",
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


def why_refused(code: Code, story: Story | None, member_id: str) -> str:
    cause = None if story is None else _removal(story, member_id)
    if code is not Code.UNKNOWN_MEMBER_ID or cause is None:
        return _TEXTS[code]
    remedy = _REMEDY.get(cause.kind)
    text = f"{in_words(cause)}; {_OTHERS}; {_POLL}"
    return text if remedy is None else f"{text}; {remedy}"


def _removal(story: Story, member_id: str) -> Cause | None:
    """The last one by which the member went."""
    chapters = list(story.chapters)
    if story.under_way is not None:
        chapters.append(story.under_way)
    for chapter in reversed(chapters):
        for cause in reversed(chapter.causes):
            if cause.member == member_id and cause.kind in _GONE:
                return cause
    return None
