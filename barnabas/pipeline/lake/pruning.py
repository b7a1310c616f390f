"""Which files and rows of a table a query can need, by its filters.

In: Spark's filters. Out: the lowest and the highest value of a column that pass.
Always: every row that passes the filters is within the bounds. Other rows may be too: Spark applies
every filter again. Pure.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

PRUNED = ("_topic", "_partition", "_offset", "_ts")
_TYPES = {"_topic": str, "_partition": int, "_offset": int, "_ts": datetime}


class Bound(NamedTuple):
    """Both ends are included; None: no limit."""

    low: Any = None
    high: Any = None

    def within(self, low: Any, high: Any) -> "Bound":
        lows = [each for each in (self.low, low) if each is not None]
        highs = [each for each in (self.high, high) if each is not None]
        return Bound(max(lows, default=None), min(highs, default=None))

    def may_overlap(self, low: Any, high: Any) -> bool:
        """Whether values from `low` to `high` may pass. None: unknown."""
        if self.high is not None and low is not None and low > self.high:
            return False
        return not (self.low is not None and high is not None and high < self.low)


Bounds = Mapping[str, Bound]


def bounds_of(filters: Iterable[Any]) -> dict[str, Bound]:
    """The bounds of the columns that all filters leave."""
    found: dict[str, Bound] = {}
    for each in filters:
        attribute = getattr(each, "attribute", None)
        if not isinstance(attribute, tuple) or len(attribute) != 1 or attribute[0] not in _TYPES:
            continue
        name = attribute[0]
        low, high = _ends(type(each).__name__, getattr(each, "value", None), _TYPES[name])
        if low is not None or high is not None:
            found[name] = found.get(name, Bound()).within(low, high)
    return found


def _ends(kind: str, value: Any, type_: type) -> tuple[Any, Any]:
    if kind == "In":
        values = [_typed(each, type_) for each in value]
        if not values or None in values:
            return None, None
        return min(values), max(values)
    value = _typed(value, type_)
    if kind in ("EqualTo", "EqualNullSafe"):
        return value, value
    if kind in ("GreaterThan", "GreaterThanOrEqual"):
        return value, None
    if kind in ("LessThan", "LessThanOrEqual"):
        return None, value
    return None, None


def _typed(value: Any, type_: type) -> Any:
    if not isinstance(value, type_) or isinstance(value, bool):
        return None
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    return value


def renamed(filters: Iterable[Any]) -> list[Any]:
    """Filters on columns of a table, as filters on columns of the source."""
    names = {"_topic": "topic", "_partition": "partition", "_offset": "offset", "_ts": "timestamp"}
    found = []
    for each in filters:
        attribute = getattr(each, "attribute", None)
        value = getattr(each, "value", None)  # IsNotNull, which Spark adds to others, has none
        if value is None or not isinstance(attribute, tuple) or len(attribute) != 1:
            continue
        if attribute[0] in names:
            found.append(type(each)((names[attribute[0]],), value))
    return found
