"""Which records of a holding partition have been moved, according to the records of its ledger.

In: records of one ledger partition, in the order of their offsets. Out: the offsets that were
moved, and the lowest offset that was not decided yet.
Always: a ledger record is written in the transaction that moves its records; records of another
topic with this name (another id), and records of other programs, are ignored.
Not here: reading and writing it (holding_reader.py, move_writer.py).
Why a topic of its own: docs/adr/0051.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from enum import IntEnum
from itertools import chain

import msgspec

_VERSION = 1
_INT64_MAX = 0x7FFF_FFFF_FFFF_FFFF


class DelayOutcome(IntEnum):
    """What became of a record."""

    DELIVERED = 0
    CANCELLED = 1
    DEAD_LETTER = 2


class LedgerRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """One transaction. The lists hold runs of offsets: first, length, first, length, and so on."""

    barnabas: int
    topic_id: str
    low: int  # all records before this offset are decided
    delivered: list[int] = []
    cancelled: list[int] = []
    dead: list[int] = []

    def runs(self) -> Iterator[tuple[int, int]]:
        """First offset, and the one after the last."""
        for numbers in (self.delivered, self.cancelled, self.dead):
            for first, length in zip(numbers[::2], numbers[1::2], strict=True):
                yield first, first + length

    def outcome(self, offset: int) -> DelayOutcome | None:
        for outcome, numbers in enumerate((self.delivered, self.cancelled, self.dead)):
            for first, length in zip(numbers[::2], numbers[1::2], strict=True):
                if first <= offset < first + length:
                    return DelayOutcome(outcome)
        return None


def ledger_record(topic_id: str, low: int, moved: Iterable[tuple[int, DelayOutcome]]) -> bytes:
    offsets: dict[DelayOutcome, list[int]] = {outcome: [] for outcome in DelayOutcome}
    for offset, outcome in moved:
        offsets[outcome].append(offset)
    return msgspec.json.encode(
        LedgerRecord(_VERSION, topic_id, low, *(_runs(offsets[each]) for each in DelayOutcome))
    )


def read_ledger_record(value: bytes | None, topic_id: str) -> LedgerRecord | None:
    """None: not a record of this ledger."""
    try:
        record = msgspec.json.decode(value or b"", type=LedgerRecord)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    lists = (record.delivered, record.cancelled, record.dead)
    fits = (
        record.barnabas == _VERSION
        and record.topic_id == topic_id
        and 0 <= record.low <= _INT64_MAX
        and all(len(numbers) % 2 == 0 for numbers in lists)
        and all(0 <= number <= _INT64_MAX for number in chain.from_iterable(lists))
    )
    return record if fits else None


class MovedOffsets:
    """The moved records of one partition, as sorted runs."""

    def __init__(self, records: Iterable[LedgerRecord] = ()) -> None:
        found = list(records)
        self.low = max((record.low for record in found), default=0)
        self._firsts: list[int] = []
        self._stops: list[int] = []
        runs = (run for record in found for run in record.runs() if run[1] > self.low)
        for first, stop in sorted(runs):
            if self._stops and first <= self._stops[-1]:
                self._stops[-1] = max(self._stops[-1], stop)
            else:
                self._firsts.append(first)
                self._stops.append(stop)

    @property
    def end(self) -> int:
        """No record at or after this offset was moved."""
        return max(self.low, self._stops[-1] if self._stops else 0)

    def __contains__(self, offset: int) -> bool:
        if offset < self.low:
            return True
        index = bisect_right(self._firsts, offset) - 1
        return index >= 0 and offset < self._stops[index]


def _runs(offsets: list[int]) -> list[int]:
    runs: list[int] = []
    for offset in sorted(offsets):
        if runs and offset == runs[-2] + runs[-1]:
            runs[-1] += 1
        else:
            runs += [offset, 1]
    return runs
