"""Every message at every version, and instances of them to try."""

from functools import cache
from typing import Any
from uuid import UUID

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from barnabas.model.errors import Code
from barnabas.wire.apis import APIS
from barnabas.wire.codec import ProtocolMessage, Struct
from barnabas.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from barnabas.wire.plan import FieldKind, PlannedField, plan_of
from tests.share import IN_FULL

few = settings(
    max_examples=15 if IN_FULL else 3,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.large_base_example],
)

MESSAGES: list[type[ProtocolMessage]] = [
    *(message for api in APIS.values() for message in (api.request, api.response)),
    ConsumerProtocolSubscription,
    ConsumerProtocolAssignment,
]


def _versions(message: type[ProtocolMessage]) -> list[int]:
    """All, or the last; of requests, which anybody may send, the last in each of the two ways to
    write a message."""
    every = range(message.version_min, message.version_max + 1)
    ends = [every[-1]]
    if message.__name__.endswith("Request"):
        ends.append(message.flexible_from - 1)
    return [version for version in every if IN_FULL or version in ends]


CASES = [(message, version) for message in MESSAGES for version in _versions(message)]


def case_name(value: object) -> str:
    return value.__name__ if isinstance(value, type) else f"v{value}"


_TEXT = st.one_of(st.text("aé日𝄞-", max_size=6), st.just("long " * 40))
_BYTES = st.one_of(st.binary(max_size=9), st.just(bytes(300)))
_INTEGERS = {
    format_: st.one_of(st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1), st.just(-1))
    for format_, bits in (("b", 8), ("h", 16), ("i", 32), ("q", 64))
}
_FIXED: dict[str, SearchStrategy[Any]] = {
    **_INTEGERS,
    "H": st.integers(0, 2**16 - 1),
    "d": st.floats(allow_nan=False),
    "?": st.booleans(),
    "16s": st.one_of(st.just(UUID(int=0)), st.uuids()),
}
_CODES = st.sampled_from([int(code) for code in Code])
_PRESENT_TIMES = st.integers(0, 2**41)  # what other implementations take as times
_TIMES = st.one_of(st.just(-1), _PRESENT_TIMES)
_NEVER_ABSENT = (  # kio refuses the -1 that Kafka does send
    "transaction_start_time_ms", "issue_timestamp_ms", "expiry_timestamp_ms", "max_timestamp_ms",
    "issue_timestamp", "expiry_timestamp",
)  # fmt: skip


def _values(kind: FieldKind, version: int, flexible: bool) -> SearchStrategy[Any]:
    if kind.shape == "fixed":
        return _FIXED[kind.format]
    made: SearchStrategy[Any]
    if kind.shape == "struct":
        assert kind.struct is not None
        made = instances(kind.struct, version, flexible)
    elif kind.shape == "array":
        assert kind.element is not None
        made = st.lists(_values(kind.element, version, flexible), max_size=2)
    else:
        made = _TEXT if kind.shape == "str" else _BYTES
    return st.one_of(st.none(), made) if kind.nullable else made


def _field_values(field: PlannedField, version: int, flexible: bool) -> SearchStrategy[Any]:
    if field.kind.format == "h" and field.name.endswith("error_code"):
        values: SearchStrategy[Any] = _CODES
    elif field.name in _NEVER_ABSENT:
        values = _PRESENT_TIMES
    elif field.kind.format == "q" and ("timestamp" in field.name or field.name.endswith("_ms")):
        values = _TIMES
    else:
        values = _values(field.kind, version, flexible)
    if field.tag is not None:
        return st.one_of(st.just(field.default), values)
    return values


@cache
def instances(cls: type[Struct], version: int, flexible: bool) -> SearchStrategy[Any]:
    """Instances that only use what the version has."""
    fields = [field for field in plan_of(cls, version, flexible) if field.present]
    return st.builds(cls, **{f.name: _field_values(f, version, flexible) for f in fields})


def messages(cls: type[ProtocolMessage], version: int) -> SearchStrategy[Any]:
    return instances(cls, version, version >= cls.flexible_from)
