"""Where to start and stop: beginning, end, OFFSET, -N, s@TIME, e@TIME.

In: the words of -o. Out: what to ask the brokers for, and the offsets once they answered.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from barnabas.model.errors import Code, InvalidRequest
from barnabas.model.ids import TopicPartition
from barnabas.model.times import in_64_bits, parse_time

if TYPE_CHECKING:
    from barnabas.client.blocking.admin import Admin

BEGINNING = "beginning"
END = "end"


class OffsetRangeOption(NamedTuple):
    """Where to start: one of the four, or a time in ms. `stop_ms`: the first time not wanted."""

    start: str | int = BEGINNING
    start_ms: int | None = None
    stop_ms: int | None = None


def parse_range(words: Iterable[str]) -> OffsetRangeOption:
    """ValueError says what is wrong with a word."""
    found = OffsetRangeOption()
    for word in words:
        if word.startswith("s@"):
            found = found._replace(start_ms=parse_time(word[2:]))
        elif word.startswith("e@"):
            found = found._replace(stop_ms=parse_time(word[2:]))
        elif word in (BEGINNING, END):
            found = found._replace(start=word)
        elif word.removeprefix("-").isascii() and word.removeprefix("-").isdigit():
            found = found._replace(start=in_64_bits(word))
        else:
            raise ValueError(f"{word!r}: expected beginning, end, OFFSET, -N, s@TIME or e@TIME")
    return found


def resolve(
    admin: "Admin",
    partitions: Iterable[TopicPartition],
    range_: OffsetRangeOption,
    *,
    to_end: bool,
    within: bool = False,
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """The start offsets, and the stop offsets if there are any. `to_end`: stop at the current end.

    `within`: a start past the end is an error.
    """
    from barnabas.client.admin.admin import EARLIEST, LATEST

    partitions = list(partitions)
    needs_end = to_end or range_.stop_ms is not None or range_.start != BEGINNING
    earliest = _offsets(admin, partitions, EARLIEST)
    latest = _offsets(admin, partitions, LATEST) if needs_end or range_.start_ms is not None else {}
    if range_.start_ms is not None:
        at_time = _offsets(admin, partitions, range_.start_ms)
        starts = {at: at_time[at] if at_time[at] >= 0 else latest[at] for at in partitions}
    else:
        starts = {at: _start(range_.start, earliest[at], latest.get(at, 0)) for at in partitions}
        for at, start in starts.items():
            if within and start > max(latest.get(at, start), earliest[at]):
                raise InvalidRequest(
                    Code.OFFSET_OUT_OF_RANGE,
                    f"{at}: offset {start} is past the end, which is {latest[at]}",
                )
    if range_.stop_ms is not None:
        at_time = _offsets(admin, partitions, range_.stop_ms)
        stops = {at: at_time[at] if at_time[at] >= 0 else latest[at] for at in partitions}
    else:
        stops = dict(latest) if to_end else {}
    return starts, stops


def _start(start: str | int, earliest: int, latest: int) -> int:
    if start == BEGINNING:
        return earliest
    if start == END:
        return latest
    assert isinstance(start, int)
    return max(earliest, latest + start) if start < 0 else start


def _offsets(
    admin: "Admin", partitions: Iterable[TopicPartition], time_ms: int
) -> Mapping[TopicPartition, int]:
    found = admin.offsets(dict.fromkeys(partitions, time_ms))
    return {at: answer.offset for at, answer in found.items()}
