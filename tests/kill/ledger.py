"""What producers were promised, held against what the log has.

In: acknowledgements, and the records of partitions in the order of their offsets.
Out: nothing, or Violation that says what is missing, doubled or out of place.
Always: every producer numbers its records per partition from 0, so that the log itself shows
a loss (a gap) and a repeat (a number again), acknowledged or not.
"""

import threading
from typing import NamedTuple

PREVIEW = 20


class Violation(AssertionError):
    """A promise was broken."""


class Mark(NamedTuple):
    """The value of a record: who wrote it, and its number in its partition."""

    producer: str
    number: int

    def encode(self) -> bytes:
        return f"{self.producer} {self.number}".encode()

    @staticmethod
    def decode(value: bytes | None) -> "Mark":
        producer, _, number = (value or b"").rstrip(b".").decode().rpartition(" ")
        return Mark(producer, int(number))


class PartitionLedger:
    """One partition."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.log: list[Mark] = []  # by offset, as far as it was read
        self._next: dict[str, int] = {}
        self._due: dict[int, Mark] = {}  # acknowledged, not read back yet
        self._lock = threading.Lock()

    def acknowledged(self, offset: int, mark: Mark) -> None:
        with self._lock:
            if offset >= len(self.log):
                other = self._due.setdefault(offset, mark)
            else:
                other = self.log[offset]
            if other != mark:
                raise Violation(f"{self.name} offset {offset}: {mark} acknowledged, {other} there")

    def found(self, offset: int, mark: Mark) -> None:
        """The next record of the log."""
        with self._lock:
            if offset != len(self.log):
                raise Violation(f"{self.name}: offset {offset} follows {len(self.log) - 1}")
            due = self._due.pop(offset, mark)
            if due != mark:
                raise Violation(f"{self.name} offset {offset}: {due} acknowledged, {mark} there")
            expected = self._next.get(mark.producer, 0)
            if mark.number != expected:
                what = "again" if mark.number < expected else f"where {expected} was next"
                raise Violation(f"{self.name} offset {offset}: {mark} {what}")
            self._next[mark.producer] = expected + 1
            self.log.append(mark)

    def check_read(self, end: int) -> None:
        """Everything acknowledged before `end` was learned must have been below it."""
        with self._lock:
            missing = {offset: mark for offset, mark in self._due.items() if offset < end}
        if missing:
            shown = list(missing.items())[:PREVIEW]
            raise Violation(f"{self.name}: {len(missing)} acknowledged, not there: {shown}")

    @property
    def due_last(self) -> int:
        """The highest acknowledged offset not read back; -1 if there is none."""
        with self._lock:
            return max(self._due, default=-1)

    def check_complete(self, written: dict[str, int]) -> None:
        """Once all is quiet: exactly what was written, no more and no less."""
        if self._due:
            raise Violation(f"{self.name}: acknowledged, not there: {list(self._due.items())[:20]}")
        found = {producer: count for producer, count in self._next.items() if count}
        expected = {producer: count for producer, count in written.items() if count}
        if found != expected:
            raise Violation(f"{self.name}: written {expected}, in the log {found}")

    def check_again(self, offset: int, mark: Mark) -> None:
        """A record read a second time."""
        if self.log[offset] != mark:
            raise Violation(f"{self.name} offset {offset}: {self.log[offset]} became {mark}")
