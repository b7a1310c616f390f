"""Sample records: orders, clicks, sensors, or fields of one's own.

In: a seed, a number, and how many are poison, late or of one hot key. Out: key, value, timestamp.
Always: the same seed and number give the same record, on every machine; record N does not depend
on the records before it.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

START_MS = 1_767_225_600_000  # 2026-01-01, where the times of a run begin
LATE_MS_MAX = 600_000
_COUNTRIES = ("DE", "FR", "IT", "ES", "PL", "NL", "CN", "US", "JP", "BR")
_PAGES = ("/", "/search", "/product", "/cart", "/checkout", "/help")
_MASK = (1 << 64) - 1


class SampleRecord(NamedTuple):
    """`kind`: good, poison (not what the application expects) or late (an old timestamp)."""

    key: bytes
    value: bytes
    timestamp: int
    kind: str = "good"


class Chance:
    """Numbers from a seed and a number: splitmix64."""

    def __init__(self, seed: int, number: int) -> None:
        self._state = (seed * 0x9E3779B97F4A7C15 + number * 0xD1342543DE82EF95) & _MASK

    def bits(self) -> int:
        self._state = (self._state + 0x9E3779B97F4A7C15) & _MASK
        mixed = self._state
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        return mixed ^ (mixed >> 31)

    def below(self, limit: int) -> int:
        return self.bits() % limit

    def share(self) -> float:
        return (self.bits() >> 11) / (1 << 53)


Fields = dict[str, Any]
Make = Callable[[Chance, int, int], tuple[str, Fields]]


def _order(chance: Chance, number: int, keys: int) -> tuple[str, Fields]:
    customer = f"c{chance.below(keys)}"
    return customer, {
        "id": number,
        "customer": customer,
        "country": _COUNTRIES[chance.below(len(_COUNTRIES))],
        "amount": round(1 + chance.below(20_000) / 100, 2),
        "paid": chance.share() < 0.9,
    }


def _click(chance: Chance, number: int, keys: int) -> tuple[str, Fields]:
    user = f"u{chance.below(keys)}"
    return user, {
        "user": user,
        "page": _PAGES[min(chance.below(8), len(_PAGES) - 1)],
        "session": f"s{chance.below(keys * 3)}",
        "ms": 50 + chance.below(5_000),
    }


def _sensor(chance: Chance, number: int, keys: int) -> tuple[str, Fields]:
    sensor = f"t{chance.below(keys)}"
    return sensor, {
        "sensor": sensor,
        "celsius": round(15 + 10 * chance.share() + (number % 1440) / 200, 2),
        "battery": chance.below(101),
    }


KINDS: dict[str, Make] = {"orders": _order, "clicks": _click, "sensors": _sensor}


@dataclass(frozen=True, slots=True)
class SamplePlan:
    """`poison`, `late`, `hot_key`: shares of all records. `per_second`: of their timestamps."""

    make: Make
    seed: int = 1
    keys: int = 1_000
    per_second: float = 1_000.0
    poison: float = 0.0
    late: float = 0.0
    hot_key: float = 0.0
    start_ms: int = START_MS

    def sample(self, number: int) -> SampleRecord:
        chance = Chance(self.seed, number)
        fate, hot = chance.share(), chance.share()
        key, fields = self.make(chance, number, self.keys)
        if hot < self.hot_key:
            old, key = key, key[:1] + "0"
            fields = {name: key if value == old else value for name, value in fields.items()}
        timestamp = self.start_ms + int(number * 1000 / self.per_second)
        if fate < self.poison:
            return SampleRecord(key.encode(), b"poison %d" % number, timestamp, "poison")
        kind = "good"
        if fate < self.poison + self.late:
            timestamp -= 1 + chance.below(LATE_MS_MAX)
            kind = "late"
        value = json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()
        return SampleRecord(key.encode(), value, timestamp, kind)


def made_of(spec: Mapping[str, Any]) -> Make:
    """Fields of one's own: `{"key": "user", "fields": {"user": {"from": "u", "count": 10}, ...}}`.

    A field is a list to choose from, `{"min": 0, "max": 9}`, `{"from": "u", "count": 10}`, or a
    constant; `{"number": true}` is the number of the record.
    """
    fields = spec.get("fields")
    if not isinstance(fields, Mapping) or not fields:
        raise ValueError("expected `fields:` with a name and a rule each")
    key = str(spec.get("key", next(iter(fields))))
    if key not in fields:
        raise ValueError(f"key {key!r} is none of the fields {', '.join(map(str, fields))}")
    rules = {str(name): _rule(str(name), rule) for name, rule in fields.items()}

    def make(chance: Chance, number: int, keys: int) -> tuple[str, Fields]:
        made = {name: rule(chance, number) for name, rule in rules.items()}
        return str(made[key]), made

    return make


def _rule(name: str, rule: Any) -> Callable[[Chance, int], Any]:
    if isinstance(rule, list) and rule:
        return lambda chance, number: rule[chance.below(len(rule))]
    if not isinstance(rule, Mapping):
        return lambda chance, number: rule
    if rule.get("number"):
        return lambda chance, number: number
    if "from" in rule:
        text, count = str(rule["from"]), int(rule.get("count", 1_000))
        if count < 1:
            raise ValueError(f"field {name!r}: count must be 1 or more")
        return lambda chance, number: f"{text}{chance.below(count)}"
    try:
        low, high = rule["min"], rule["max"]
    except KeyError:
        raise ValueError(
            f"field {name!r}: expected min and max, from and count, or number"
        ) from None
    if low > high:
        raise ValueError(f"field {name!r}: min is above max")
    if isinstance(low, int) and isinstance(high, int):
        return lambda chance, number: low + chance.below(high - low + 1)
    return lambda chance, number: round(low + (high - low) * chance.share(), 3)
