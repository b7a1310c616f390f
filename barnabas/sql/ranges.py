"""The offsets that a query has to read.

In: conditions on partition, offset, timestamp and key; the first and end offset of each partition.
Out: a range per partition. Always: a range may be too large, never too small.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

from barnabas.client.producer.accumulator import murmur2
from barnabas.sql.statement import Condition

Span = tuple[int, int]


def wanted_partitions(partitions: Sequence[int], conditions: Sequence[Condition]) -> list[int]:
    """By `partition` and, as producers hash that hash like Java's, by `key =`."""
    found = list(partitions)
    for each in conditions:
        if each.column == "partition" and isinstance(each.value, int):
            found = [number for number in found if _holds(number, each)]
        if each.column == "key" and each.operator == "=" and isinstance(each.value, str):
            hashed = (murmur2(each.value.encode()) & 0x7FFF_FFFF) % max(1, len(partitions))
            found = [number for number in found if number == hashed]
    return found


def by_offset(span: Span, conditions: Sequence[Condition]) -> Span:
    start, stop = span
    for each in conditions:
        if each.column != "offset" or not isinstance(each.value, int):
            continue
        if each.operator in ("=", ">=", ">"):
            start = max(start, each.value + (each.operator == ">"))
        if each.operator in ("=", "<=", "<"):
            stop = min(stop, each.value + (each.operator != "<"))
    return (start, max(start, stop))


def since_ms(conditions: Sequence[Condition]) -> int | None:
    """No record before this time is wanted."""
    times = [
        int(each.value.timestamp() * 1000)
        for each in conditions
        if each.column == "timestamp"
        and each.operator in ("=", ">", ">=")
        and isinstance(each.value, datetime)
    ]
    return max(times, default=None)


def newest(spans: Mapping[int, Span], records: int) -> dict[int, Span]:
    """At most so many offsets, the newest of each partition."""
    total = sum(stop - start for start, stop in spans.values())
    if total <= records:
        return dict(spans)
    share = records / total
    return {
        number: (max(start, stop - int((stop - start) * share)), stop)
        for number, (start, stop) in spans.items()
    }


def _holds(number: int, condition: Condition) -> bool:
    value = int(condition.value)
    holds = {
        "=": number == value,
        "<": number < value,
        ">": number > value,
        "<=": number <= value,
        ">=": number >= value,
    }
    return holds[condition.operator]
