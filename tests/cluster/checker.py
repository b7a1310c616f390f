"""Holds a history of sends and polls against the logs, in the manner of Jepsen's Kafka workload.

In: what producers sent and were told, what consumers were given, what the logs have, in any order
of arrival that keeps the order of each producer and of each consumer. Out: anomalies, each a kind
and a line for people.
Always: a producer numbers its records per partition from 0. Nothing is said about a send whose
outcome is unknown but that it is not there twice.
Pure: no cluster is needed to try it (test_checker.py).

| kind | what it means |
|---|---|
| lost write | acknowledged, and not in the log |
| unseen | acknowledged, and given to no consumer that read past it |
| duplicate | one record at two offsets |
| inconsistent offset | two records at one offset, reported by different processes |
| nonmonotonic send | a producer's records, acknowledged in order, are out of order in the log |
| nonmonotonic poll | a consumer was given an offset again, or an earlier one, in one assignment |
| poll skip | a consumer was given an offset further on than the next, in one assignment |
| lost commit | a consumer that was assigned again began below what it had committed |
| changed log | an offset that had been read has another record now, or none |
| hole | offsets of the log that nothing has, though nothing was deleted |
| unknown record | in the log, and sent by nobody |
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

SHOWN_MAX = 5

Place = tuple[str, int]
"""A topic's name and the number of a partition."""


class Mark(NamedTuple):
    """What a record says of itself: who sent it, and as which of its records in the partition."""

    producer: str
    number: int


class Anomaly(NamedTuple):
    kind: str
    detail: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.detail}"


class _Reading:
    """How far one consumer has come in one partition, within one assignment."""

    __slots__ = ("assignment", "offset")

    def __init__(self, assignment: int, offset: int) -> None:
        self.assignment = assignment
        self.offset = offset


class PartitionHistory:
    """One partition: what was told of it. Each verb notes at once what it can tell by itself."""

    def __init__(self, place: Place, idempotent: frozenset[str]) -> None:
        self.place = place
        self._idempotent = idempotent
        self._sent: Counter[str] = Counter()  # how many, by producer
        self._acknowledged: dict[Mark, int] = {}
        self._said: dict[int, Mark] = {}  # by offset: of acknowledgements and polls
        self._acknowledged_to = -1
        self._readings: dict[str, _Reading] = {}
        self._committed: dict[str, int] = {}
        self._polled: set[int] = set()
        self._polled_to = -1
        self._log: list[Mark] = []
        self.anomalies: list[Anomaly] = []

    @property
    def acknowledged_to(self) -> int:
        """The highest offset that was acknowledged; -1: none."""
        return self._acknowledged_to

    @property
    def log_end(self) -> int:
        return len(self._log)

    @property
    def acknowledged_count(self) -> int:
        return len(self._acknowledged)

    def sent(self, producer: str) -> Mark:
        """Its next record here. Its outcome is unknown until it is told."""
        mark = Mark(producer, self._sent[producer])
        self._sent[producer] += 1
        return mark

    def acknowledged(self, mark: Mark, offset: int) -> None:
        """At -1: it is somewhere, so long before the answer that nobody knows where."""
        before = self._acknowledged.setdefault(mark, offset)
        self._acknowledged_to = max(self._acknowledged_to, offset)
        if before != offset:
            self._found("duplicate", f"{_name(mark)} acknowledged at {before} and at {offset}")
        if offset >= 0:
            self._says(offset, mark, "acknowledged")

    def polled(self, consumer: str, assignment: int, offset: int, mark: Mark) -> None:
        """A record given to a consumer; `assignment` counts up when it was assigned again."""
        self._says(offset, mark, f"polled by {consumer}")
        self._polled.add(offset)
        self._polled_to = max(self._polled_to, offset)
        reading = self._readings.get(consumer)
        if reading is None or reading.assignment != assignment:
            committed = self._committed.get(consumer, 0)
            if offset < committed:
                self._found("lost commit", f"{consumer} committed {committed}, began at {offset}")
            self._readings[consumer] = _Reading(assignment, offset)
            return
        if offset <= reading.offset:
            self._found(
                "nonmonotonic poll", f"{consumer} was given {offset} after {reading.offset}"
            )
        elif offset != reading.offset + 1:
            self._found("poll skip", f"{consumer} was given {offset} after {reading.offset}")
        reading.offset = offset

    def committed(self, consumer: str, offset: int) -> None:
        """It was told that it will go on from here; a consumer is the only member of its group."""
        self._committed[consumer] = max(self._committed.get(consumer, 0), offset)

    def read_to(self, consumer: str) -> int:
        """The offset that a consumer was given last; -1: none."""
        reading = self._readings.get(consumer)
        return -1 if reading is None else reading.offset

    def logged(self, first: int, marks: Sequence[Mark]) -> None:
        """What the log has from an offset on. Read again and again: what is there stays there."""
        for offset, mark in enumerate(marks, first):
            if offset > len(self._log):
                self._found("hole", f"offset {offset} follows {len(self._log) - 1}")
                return
            if offset == len(self._log):
                self._log.append(mark)
            elif self._log[offset] != mark:
                was = _name(self._log[offset])
                self._found("changed log", f"offset {offset} was {was} and is {_name(mark)}")

    def ends_at(self, end: int, due: int | None = None) -> None:
        """The log was read to its end. `due`: the last offset acknowledged before, if not all."""
        if end < len(self._log):
            self._found("changed log", f"it ended at {len(self._log)} and ends at {end}")
        due = self._acknowledged_to if due is None else due
        if due >= end:
            mark = self._said[due]
            self._found("lost write", f"{_name(mark)} at {due}, the log ends at {end}")

    def check(self) -> list[Anomaly]:
        """Once all is read: everything that only the whole can tell, and what was noted before."""
        self._check_offsets()
        self._check_records()
        self._check_polls()
        return self.anomalies

    def _check_offsets(self) -> None:
        for offset, mark in sorted(self._said.items()):
            if offset >= len(self._log):
                if mark not in self._acknowledged:
                    self._found("changed log", f"offset {offset}, {_name(mark)}, was polled once")
                else:
                    self._found("lost write", f"{_name(mark)} at {offset}")
            elif self._log[offset] != mark:
                has = _name(self._log[offset])
                self._found(
                    "inconsistent offset",
                    f"{offset} was said to be {_name(mark)}, the log has {has}",
                )

    def _check_records(self) -> None:
        last: dict[str, Mark] = {}
        at: dict[Mark, int] = {}
        for offset, mark in enumerate(self._log):
            if mark.number >= self._sent[mark.producer]:
                self._found("unknown record", f"{_name(mark)} at {offset}")
                continue
            if mark in at:
                if mark.producer in self._idempotent:
                    self._found("duplicate", f"{_name(mark)} at {at[mark]} and at {offset}")
                continue
            at[mark] = offset
            before = last.get(mark.producer)
            if before is not None and mark.number < before.number:
                self._found(
                    "nonmonotonic send", f"{_name(mark)} at {offset}, behind {_name(before)}"
                )
            last[mark.producer] = mark
        for mark, offset in self._acknowledged.items():
            if mark not in at:
                self._found("lost write", f"{_name(mark)}, acknowledged at {offset}")

    def _check_polls(self) -> None:
        unseen = [
            offset
            for offset in self._acknowledged.values()
            if 0 <= offset < self._polled_to and offset not in self._polled
        ]
        for offset in sorted(unseen)[:SHOWN_MAX]:
            self._found("unseen", f"offset {offset}; consumers have come to {self._polled_to}")

    def _says(self, offset: int, mark: Mark, who: str) -> None:
        other = self._said.setdefault(offset, mark)
        if other != mark:
            self._found("inconsistent offset", f"{offset} is {_name(other)}; {_name(mark)} {who}")

    def _found(self, kind: str, detail: str) -> None:
        self.anomalies.append(Anomaly(kind, f"{self.place[0]}-{self.place[1]}: {detail}"))


class History:
    """All partitions of one run."""

    def __init__(self, places: Iterable[Place], idempotent: Iterable[str] = ()) -> None:
        """`idempotent`: the producers of whom no record may be there twice."""
        names = frozenset(idempotent)
        self.partitions: Mapping[Place, PartitionHistory] = {
            place: PartitionHistory(place, names) for place in places
        }

    def __getitem__(self, place: Place) -> PartitionHistory:
        return self.partitions[place]

    @property
    def acknowledged_count(self) -> int:
        return sum(each.acknowledged_count for each in self.partitions.values())

    @property
    def anomalies(self) -> list[Anomaly]:
        """Those that are known before the end."""
        return [anomaly for each in self.partitions.values() for anomaly in each.anomalies]

    def check(self) -> list[Anomaly]:
        return list(
            dict.fromkeys(anomaly for each in self.partitions.values() for anomaly in each.check())
        )


def _name(mark: Mark) -> str:
    return f"{mark.producer} #{mark.number}"
