"""Filters on topic, partition, offset and timestamp, turned into less to read.

In: Spark's filters, ranges. Out: narrower ranges.
Always: Spark applies every filter again, so that what is left in too much does no harm; nothing
that a filter lets pass is left out.
Pure, but for the offsets of a time, which whoever calls looks up.
"""

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from barnabas.pipeline.spark.offsets import OffsetRange

_PUSHDOWN_WORKER = "pyspark.sql.worker.data_source_pushdown_filters"
_INT64_MAX = 2**63 - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def asked_for() -> bool:
    """Spark refuses readers that take filters unless its configuration allows them."""
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return _PUSHDOWN_WORKER in sys.modules or getattr(main, "name", "") == _PUSHDOWN_WORKER


@dataclass(frozen=True)
class PushedFilters:
    """What all filters together let pass, where that can be said."""

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    partition_min: int = 0
    partition_max: int = _INT64_MAX
    offset_min: int = 0
    offset_max: int = _INT64_MAX
    time_min: int | None = None

    def range(self, whole: OffsetRange) -> OffsetRange:
        """Empty if nothing of it passes."""
        named = self.topics is None or whole.topic in self.topics
        listed = self.partitions is None or whole.partition in self.partitions
        if not (named and listed and self.partition_min <= whole.partition <= self.partition_max):
            return whole._replace(stop=whole.start)
        start = max(whole.start, self.offset_min)
        stop = min(whole.stop, self.offset_max + 1)
        return whole._replace(start=min(start, whole.stop), stop=max(min(start, whole.stop), stop))


def narrow(filters: Iterable[Any]) -> PushedFilters:
    """Of Spark's filters, all of which must hold."""
    found = PushedFilters()
    for each in filters:
        attribute = getattr(each, "attribute", None)
        value = getattr(each, "value", None)
        if not isinstance(attribute, tuple) or len(attribute) != 1 or value is None:
            continue
        kind = type(each).__name__
        if attribute[0] == "topic":
            found = _topic(found, kind, value)
        elif attribute[0] == "partition":
            found = _partition(found, kind, value)
        elif attribute[0] == "offset":
            found = _offset(found, kind, value)
        elif attribute[0] == "timestamp":
            found = _time(found, kind, value)
    return found


def _with(found: PushedFilters, **changes: Any) -> PushedFilters:
    return PushedFilters(**{**found.__dict__, **changes})


def _topic(found: PushedFilters, kind: str, value: Any) -> PushedFilters:
    if kind in ("EqualTo", "EqualNullSafe") and isinstance(value, str):
        names = frozenset([value])
    elif kind == "In":
        names = frozenset(name for name in value if isinstance(name, str))
    else:
        return found
    return _with(found, topics=names if found.topics is None else found.topics & names)


def _partition(found: PushedFilters, kind: str, value: Any) -> PushedFilters:
    if kind == "In":
        numbers = frozenset(number for number in value if isinstance(number, int))
        known = numbers if found.partitions is None else found.partitions & numbers
        return _with(found, partitions=known)
    low, high = _bounds(kind, value)
    return _with(
        found,
        partition_min=max(found.partition_min, low),
        partition_max=min(found.partition_max, high),
    )


def _offset(found: PushedFilters, kind: str, value: Any) -> PushedFilters:
    if kind == "In":
        numbers = [number for number in value if isinstance(number, int)]
        low, high = (min(numbers), max(numbers)) if numbers else (0, -1)
    else:
        low, high = _bounds(kind, value)
    return _with(
        found, offset_min=max(found.offset_min, low), offset_max=min(found.offset_max, high)
    )


def _bounds(kind: str, value: Any) -> tuple[int, int]:
    """The least and the most that pass."""
    if isinstance(value, int) and not isinstance(value, bool):
        if kind in ("EqualTo", "EqualNullSafe"):
            return value, value
        if kind == "GreaterThan":
            return value + 1, _INT64_MAX
        if kind == "GreaterThanOrEqual":
            return value, _INT64_MAX
        if kind == "LessThan":
            return 0, value - 1
        if kind == "LessThanOrEqual":
            return 0, value
    return 0, _INT64_MAX


def _time(found: PushedFilters, kind: str, value: Any) -> PushedFilters:
    """Only from when on: times need not rise with offsets, so that a last one says nothing."""
    if kind not in ("EqualTo", "EqualNullSafe", "GreaterThan", "GreaterThanOrEqual"):
        return found
    if not isinstance(value, datetime):
        return found
    moment = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    since = moment - _EPOCH
    micros = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    # A record's milliseconds pass from here on.
    least = micros // 1000 + 1 if kind == "GreaterThan" else -(-micros // 1000)
    if found.time_min is not None:
        least = max(least, found.time_min)
    return _with(found, time_min=least)
