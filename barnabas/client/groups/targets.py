"""Where the offsets of a group may be set to: earliest, latest, an offset, a time, a list.

In: a word. Out: a Target; ValueError says what is wrong.
Not here: the offsets in a file (cli/groups/targets.py).
"""

from typing import NamedTuple

from barnabas.model.ids import TopicPartition
from barnabas.model.times import parse_time

UNDO_SUFFIX = ".before-seek"
BEGUN_SUFFIX = ".before-seek-begun"
KEPT_SUFFIXES = (UNDO_SUFFIX, BEGUN_SUFFIX)  # of the groups that hold saved offsets
_LONG_MAX = 2**63 - 1


class Target(NamedTuple):
    """One of the four is set."""

    name: str = ""
    offset: int | None = None
    time_ms: int | None = None
    places: dict[TopicPartition, int] | None = None


def parse_place(text: str) -> Target | None:
    """None if it is neither a name, an offset nor @MILLISECONDS."""
    if text in ("earliest", "latest"):
        return Target(name=text)
    if text.isascii() and text.isdigit():
        return Target(offset=checked_offset(text))
    if text.startswith("@"):
        return Target(time_ms=parse_time(text[1:]))
    return None


def checked_offset(value: object, about: str = "offset") -> int:
    text = str(value)
    if isinstance(value, bool) or not (text.isascii() and text.isdigit() and len(text) < 20):
        raise ValueError(f"{about} {text[:100]!r}: expected a number from 0 to {_LONG_MAX}")
    if int(text) > _LONG_MAX:
        raise ValueError(f"{about} {text[:100]!r}: expected at most {_LONG_MAX}")
    return int(text)
