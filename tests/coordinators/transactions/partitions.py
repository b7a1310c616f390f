"""Data partitions for histories: the rules of a leader, over a list instead of a log.

In: batches and markers. Out: codes, as the leader of a partition would answer them.
The parts are those of the broker (guards, open transactions); what is modelled is the order in
which a leader asks them.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from barnabas.log.transactions.open_transactions import OpenTransactions
from barnabas.log.transactions.verification import VerificationGuard, VerificationGuards
from barnabas.model.errors import Code

WINDOW = 5


class Entry(NamedTuple):
    """A record, or with `commit` a marker."""

    producer_id: int
    epoch: int
    record: str
    commit: bool | None = None


@dataclass
class Known:
    """Of one producer."""

    epoch: int
    sequence: int = -1
    coordinator_epoch: int = -1
    is_open: bool = False
    seen: list[int] = field(default_factory=list)

    def moved_to(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.epoch, self.sequence = epoch, -1
            self.seen.clear()


class PartitionModel:
    """Everything that is appended is committed at once."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.entries: list[Entry] = []
        self.producers: dict[int, Known] = {}
        self.open = OpenTransactions()
        self.guards = VerificationGuards()
        self.term = 0  # of its leader
        self.stable = 0

    def lead_elsewhere(self) -> None:
        self.term += 1
        self.guards = VerificationGuards()

    def is_open_at(self, producer_id: int, epoch: int) -> bool:
        known = self.producers.get(producer_id)
        return known is not None and known.is_open and known.epoch == epoch

    def before_append(
        self, producer_id: int, epoch: int, sequence: int, *, has_version_2: bool
    ) -> VerificationGuard | Code | None:
        """None: append without asking. A guard: ask the coordinator. A code: refused."""
        known = self.producers.get(producer_id)
        if known is not None and epoch < known.epoch:
            return Code.INVALID_PRODUCER_EPOCH
        if self.is_open_at(producer_id, epoch):
            return None
        return self.guards.require(producer_id, epoch, sequence, has_version_2=has_version_2)

    def append(
        self,
        producer_id: int,
        epoch: int,
        sequence: int,
        record: str,
        guard: VerificationGuard | None,
    ) -> Code:
        known = self.producers.get(producer_id)
        if known is not None and known.epoch == epoch and sequence in known.seen:
            return Code.NONE
        if known is not None and epoch < known.epoch:
            return Code.INVALID_PRODUCER_EPOCH
        if not self.is_open_at(producer_id, epoch):
            if not self.guards.is_good(producer_id, guard):
                return Code.INVALID_TXN_STATE
            assert guard is not None
            if sequence > guard.lowest_sequence:
                return Code.OUT_OF_ORDER_SEQUENCE_NUMBER
        expected = 0 if known is None or known.epoch != epoch else known.sequence + 1
        if (known is not None or guard is not None) and sequence != expected:
            return Code.OUT_OF_ORDER_SEQUENCE_NUMBER
        if known is None:
            known = self.producers[producer_id] = Known(epoch)
        known.moved_to(epoch)
        known.sequence = sequence
        known.seen = [*known.seen[1 - WINDOW :], sequence]
        known.is_open = True
        self.guards.appended(producer_id)
        self.open.begin(producer_id, len(self.entries))
        self.entries.append(Entry(producer_id, epoch, record))
        return Code.NONE

    def end(
        self, producer_id: int, epoch: int, coordinator_epoch: int, commit: bool, version: int
    ) -> Code:
        known = self.producers.get(producer_id)
        if known is not None:
            repeated = epoch == known.epoch and not known.is_open
            stale = epoch < known.epoch or (version >= 2 and epoch == known.epoch and not repeated)
            if stale:
                return Code.INVALID_PRODUCER_EPOCH
            if coordinator_epoch < known.coordinator_epoch:
                return Code.TRANSACTION_COORDINATOR_FENCED
        else:
            known = self.producers[producer_id] = Known(epoch)
        known.moved_to(epoch)
        known.coordinator_epoch = coordinator_epoch
        known.is_open = False
        self.guards.ended(producer_id, epoch)
        self.open.end(producer_id, len(self.entries))
        self.entries.append(Entry(producer_id, epoch, "", commit))
        return Code.NONE

    def check_stable(self) -> None:
        """What readers get to see from now on is decided."""
        stable = self.open.last_stable_offset(len(self.entries), 0)
        assert stable >= self.stable, f"partition {self.number}: the stable offset went back"
        for offset in range(self.stable, stable):
            entry = self.entries[offset]
            decided = entry.commit is not None or any(
                after.commit is not None and after.producer_id == entry.producer_id
                for after in self.entries[offset:]
            )
            assert decided, f"partition {self.number}: {entry.record} is seen and undecided"
        self.stable = stable

    def visible(self) -> list[str]:
        """What a reader of committed records has seen by now."""
        pending: dict[int, list[tuple[int, str]]] = {}
        committed: list[tuple[int, str]] = []
        for offset, entry in enumerate(self.entries[: self.stable]):
            if entry.commit is None:
                pending.setdefault(entry.producer_id, []).append((offset, entry.record))
            elif entry.commit:
                committed += pending.pop(entry.producer_id, [])
            else:
                pending.pop(entry.producer_id, None)
        return [record for _, record in sorted(committed)]
