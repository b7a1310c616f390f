"""Counts what became of deliveries, and remembers the last causes.

In: what a share partition has decided. Out: counts, and the last failures with their causes.
Always: bounded, whatever happens in a share partition.
"""

from collections import deque
from enum import StrEnum
from typing import NamedTuple

CAUSES_MAX = 16


class DeliveryCause(StrEnum):
    """Why a record is not delivered successfully."""

    RELEASED = "released"
    EXPIRED = "expired"
    SESSION_ENDED = "session-ended"
    REJECTED = "rejected"
    LIMIT = "delivery-limit"


class DeliveryFailure(NamedTuple):
    """One range that failed; `archived`: it is not delivered again."""

    wall_ms: int
    cause: DeliveryCause
    first: int
    last: int
    attempts: int
    member: str
    archived: bool


class DeliveryStatistics:
    """Of one share partition, since this broker leads it."""

    __slots__ = ("acquired", "counts", "failures", "redelivered")

    def __init__(self) -> None:
        self.acquired = 0
        self.redelivered = 0
        self.counts = dict.fromkeys(
            ("accepted", "released", "rejected", "expired", "session-ended", "gaps", "renewed",
             "archived"),
            0,
        )  # fmt: skip
        self.failures: deque[DeliveryFailure] = deque(maxlen=CAUSES_MAX)

    def add(self, other: "DeliveryStatistics") -> None:
        """The counts of another share partition too; not its failures."""
        self.acquired += other.acquired
        self.redelivered += other.redelivered
        for name, records in other.counts.items():
            self.counts[name] += records

    def delivered(self, records: int, count: int) -> None:
        self.acquired += records
        if count > 1:
            self.redelivered += records

    def failed(self, failure: DeliveryFailure) -> None:
        self.counts[failure.cause] += failure.last - failure.first + 1
        if failure.archived:
            self.counts["archived"] += failure.last - failure.first + 1
        self.failures.append(failure)
