"""The nodes of consumer groups without a coordinator, and their contents: as in Kafka 0.8.

In and out: plain values and the bytes of a node.
Always: `ids` and `owners` are ephemeral, `offsets` persist; an offset is that of the next record.
"""

import json
from collections.abc import Sequence

from barnabas.model.errors import Code, Corrupt
from barnabas.model.ids import TopicPartition

CONSUMERS = "/consumers"


def ids(group: str) -> str:
    """A node for each member."""
    return f"{CONSUMERS}/{group}/ids"


def member(group: str, member_id: str) -> str:
    return f"{ids(group)}/{member_id}"


def owners(group: str, topic: str) -> str:
    """A node for each partition that a member reads."""
    return f"{CONSUMERS}/{group}/owners/{topic}"


def owner(group: str, at: TopicPartition) -> str:
    return f"{owners(group, at.topic)}/{at.partition}"


def offsets(group: str, topic: str) -> str:
    return f"{CONSUMERS}/{group}/offsets/{topic}"


def offset(group: str, at: TopicPartition) -> str:
    return f"{offsets(group, at.topic)}/{at.partition}"


def member_data(topics: Sequence[str], wall_ms: int) -> bytes:
    """The topics a member reads, and since when it is a member."""
    fields = {
        "version": 1,
        "subscription": dict.fromkeys(topics, 1),
        "pattern": "static",
        "timestamp": str(wall_ms),
    }
    return json.dumps(fields, separators=(",", ":")).encode()


def read_member(path: str, data: bytes) -> tuple[str, ...]:
    """The topics of a member. A member that subscribes by a pattern is not supported."""
    try:
        fields = json.loads(data)
        topics, pattern = fields["subscription"], fields["pattern"]
    except (ValueError, KeyError, TypeError, RecursionError) as problem:
        raise _corrupt(path, repr(problem)) from None
    if pattern != "static" or not isinstance(topics, dict):
        raise _corrupt(
            path, f"expected topics by name, found {str(topics)[:100]} ({pattern!s:.20})"
        )
    return tuple(topics)


def offset_data(offset: int) -> bytes:
    return b"%d" % offset


def read_offset(path: str, data: bytes) -> int:
    if not data.isdigit() or len(data) > _DIGITS_MAX:
        raise _corrupt(path, f"{data[:40]!r} is not an offset")
    return int(data)


_DIGITS_MAX = 19


def _corrupt(path: str, detail: str) -> Corrupt:
    return Corrupt(f"keeper node {path} cannot be read: {detail}", Code.UNKNOWN_SERVER_ERROR)
