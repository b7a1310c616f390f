"""The headers of a record in a holding topic: when it is due, and which topic it is for.

In: headers, not trusted. Out: an entry of the schedule.
Always: a record that cannot be delivered has a cause that names the header, the value and the
remedy.
"""

from sys import intern
from typing import NamedTuple

from barnabas.model.errors import InvalidRequest
from barnabas.model.ids import check_topic_name
from barnabas.wire.record_loops import Headers

DELIVER_AT = "deliver-at"
DELIVER_TO = "deliver-to"
DELIVER_CANCEL = "deliver-cancel"
DELIVERED_FROM = "barnabas.delivered-from"

DAY_MS = 86_400_000
_OURS = frozenset({DELIVER_AT, DELIVER_TO, DELIVER_CANCEL, DELIVERED_FROM})
_NUMBER_SIZE_MAX = 19
_INT64_MAX = 0x7FFF_FFFF_FFFF_FFFF
_SHOWN_MAX = 50


class DelayedRecord(NamedTuple):
    """It is due at this time (ms since 1970). `size`: bytes, about."""

    due: int
    offset: int
    target: str
    size: int


class Cancellation(NamedTuple):
    """The record at `cancelled` is not delivered."""

    offset: int
    cancelled: int


class UnusableRecord(NamedTuple):
    """It goes to the dead-letter topic."""

    offset: int
    cause: str
    size: int


HoldingEntry = DelayedRecord | Cancellation | UnusableRecord


class HoldingRules(NamedTuple):
    """`reserved`: topics that are no targets: the holding topic, its ledger, its dead letters."""

    reserved: frozenset[str]
    delay_ms_max: int


def entry_of(
    offset: int, headers: Headers, size: int, rules: HoldingRules, now: int
) -> HoldingEntry:
    """`now`: ms since 1970."""
    found = {name: value for name, value in headers if name in _OURS}
    try:
        if DELIVER_CANCEL in found:
            return Cancellation(offset, _number(DELIVER_CANCEL, found[DELIVER_CANCEL], "an offset"))
        due = _due(found, rules, now)
        return DelayedRecord(due, offset, _target(found, rules), size)
    except ValueError as problem:
        return UnusableRecord(offset, str(problem), size)


def delivered_headers(headers: Headers, origin: str) -> Headers:
    """Of the record in its target: those of the sender, and the record's place in the holding
    topic.
    """
    kept = tuple(header for header in headers if header[0] not in _OURS)
    return (*kept, (DELIVERED_FROM, origin.encode()))


def _due(found: dict[str, bytes | None], rules: HoldingRules, now: int) -> int:
    if DELIVER_AT not in found:
        raise ValueError(f"the record has no header {DELIVER_AT}")
    due = _number(DELIVER_AT, found[DELIVER_AT], "a time in milliseconds since 1970")
    if due > now + rules.delay_ms_max:
        days = rules.delay_ms_max // DAY_MS
        raise ValueError(f"{DELIVER_AT} = {due} is more than {days} days ahead (--days-max)")
    return due


def _target(found: dict[str, bytes | None], rules: HoldingRules) -> str:
    value = found.get(DELIVER_TO)
    if value is None:
        raise ValueError(f"the record has no header {DELIVER_TO} with the name of a topic")
    try:
        target = check_topic_name(value.decode())
    except (UnicodeDecodeError, InvalidRequest):
        raise ValueError(f"{DELIVER_TO} = {_shown(value)} is not the name of a topic") from None
    if target in rules.reserved:
        raise ValueError(f"{DELIVER_TO} = {target} is a topic of the delayer itself")
    if target.startswith("__"):
        raise ValueError(f"{DELIVER_TO} = {target} is an internal topic")
    return intern(target)  # a million records have few targets


def _number(name: str, value: bytes | None, meaning: str) -> int:
    # isdigit of bytes: ASCII digits only, so no sign, no space, no underscore.
    if value is not None and value.isdigit() and len(value) <= _NUMBER_SIZE_MAX:
        number = int(value)
        if number <= _INT64_MAX:
            return number
    raise ValueError(f"{name} = {_shown(value)} is not {meaning}, written in decimal digits")


def _shown(value: bytes | None) -> str:
    if value is None:
        return "null"
    return repr(value[:_SHOWN_MAX].decode(errors="backslashreplace"))
