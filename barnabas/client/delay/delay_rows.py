"""Pending records of holding topics as rows, for the command line and the console.

In: pending records, time (ms since 1970). Out: rows; and why records are late.
Written over `Net`, like all flows.
"""

from collections.abc import Iterable, Mapping, Sequence

from barnabas.client.cluster import ClusterClient
from barnabas.client.delay.delayed_record import HoldingRules
from barnabas.client.delay.holding_reader import HoldingReader, PendingRecord
from barnabas.client.delay.holding_topics import HoldingTopic
from barnabas.client.metadata_snapshot import TopicMetadata
from barnabas.client.tables import Row
from barnabas.model.times import iso_time

LATE_MS = 10_000
PENDING_COLUMNS = ("at", "due", "to", "key", "value", "state")
SUMMARY_COLUMNS = ("topic", "pending", "late", "next_due", "last_due")
_SHOWN_MAX = 40
_NO_LEADER = -1


async def pending_records(
    cluster: ClusterClient, holding: HoldingTopic, read_max: int | None = None
) -> list[PendingRecord]:
    """In the order in which they are due. `read_max`: records that are read of each partition."""
    reader = HoldingReader(cluster)
    rules = HoldingRules(holding.reserved, 2**62)  # only the delayer knows its --days-max
    found: list[PendingRecord] = []
    for partition in range(holding.partitions):
        found += await reader.pending(holding, partition, rules, read_max)
    return sorted(found, key=lambda one: (one.move.due, one.partition, one.move.offset))


def late_records(pending: Iterable[PendingRecord], now: int) -> list[PendingRecord]:
    return [one for one in pending if 0 <= one.move.due < now - LATE_MS]


def summary_row(topic: str, pending: Sequence[PendingRecord], now: int) -> Row:
    dues = [one.move.due for one in pending if one.move.due >= 0]
    return {
        "topic": topic,
        "pending": len(pending),
        "late": len(late_records(pending, now)),
        "next_due": iso_time(dues[0]) if dues else None,
        "last_due": iso_time(dues[-1]) if dues else None,
    }


def pending_row(one: PendingRecord) -> Row:
    move = one.move
    states = ("pending", "to be cancelled", f"dead letter: {move.cause}")
    return {
        "at": f"{one.partition}:{move.offset}",
        "partition": one.partition,
        "offset": move.offset,
        "due": iso_time(move.due) if move.due >= 0 else None,
        "to": move.topic or None,
        "key": _text(one.key),
        "value": _text(one.value),
        "state": states[move.outcome],
    }


def why_late(
    holding: str,
    late: Iterable[PendingRecord],
    *,
    is_read: bool,
    topics: Mapping[str, TopicMetadata],
) -> str:
    """`is_read`: whether a member of a group has the holding topic."""
    if not is_read:
        return f"no delayer reads it: run `barnabas delay run {holding}`"
    for target in sorted({one.move.topic for one in late}):
        if target not in topics:
            return f"topic {target} does not exist"
        without = [p.number for p in topics[target].partitions if p.leader == _NO_LEADER]
        if without:
            numbers = ", ".join(map(str, without[:5]))
            return f"topic {target} has no leader for partition {numbers}"
    return "a delayer reads it: its log says what it waits for"


def _text(value: bytes | None) -> str | None:
    """The beginning, printable."""
    if value is None:
        return None
    line = "".join(c if c.isprintable() else "·" for c in value.decode(errors="backslashreplace"))
    return line if len(line) <= _SHOWN_MAX else f"{line[: _SHOWN_MAX - 1]}…"
