"""Random histories of a delayer, and faults that they must find. SEEDS sets how many."""

import os
from collections.abc import Iterable, Mapping
from heapq import heappush

import pytest

from barnabas.client.delay.delay_ledger import MovedOffsets
from barnabas.client.delay.delayed_record import Cancellation, HoldingEntry
from barnabas.client.delay.schedule import (
    DelayEffect,
    DelaySchedule,
    MoveFailure,
    PlannedMove,
)
from tests.client.delay.delay_histories import BrokenPromise, live
from tests.share import IN_FULL, run_seeds

SEEDS = int(os.environ.get("SEEDS", "400" if IN_FULL else "60"))
FIRST_SEED = int(os.environ.get("FIRST_SEED", "0"))
BLOCKS = 4
FOUND_WITHIN = 100


@pytest.mark.timeout(0)
@pytest.mark.parametrize("block", range(BLOCKS))
def test_no_history_breaks_a_promise(block: int) -> None:
    run_seeds(live, range(FIRST_SEED + block, FIRST_SEED + SEEDS, BLOCKS))


class ForgetsTheLedger(DelaySchedule):
    """Delivers again what an earlier delayer has moved behind `low`."""

    def read(self, entries: Iterable[HoldingEntry], position: int) -> None:
        self._moved = MovedOffsets()
        super().read(entries, position)


class ForgetsTheLedgerTooEarly(DelaySchedule):
    """After the first read."""

    def read(self, entries: Iterable[HoldingEntry], position: int) -> None:
        super().read(entries, position)
        self._moved = MovedOffsets()


class LowIsThePosition(DelaySchedule):
    """Says that everything it has read is decided."""

    def _low_after(self, moved: set[int]) -> int:
        return self.position


class LowIsTheLastMoved(DelaySchedule):
    """Says that everything before the last record that it moves is decided."""

    def _low_after(self, moved: set[int]) -> int:
        return max(moved) + 1


class DeliversEarly(DelaySchedule):
    """By one millisecond."""

    def advance(self, now: int) -> list[DelayEffect]:
        return super().advance(now + 1)


class DeliversInTheOrderOfOffsets(DelaySchedule):
    """Of those that are due."""

    def _chosen(self, now: int) -> list[PlannedMove]:
        return sorted(super()._chosen(now), key=lambda move: move.offset)


class DeliversBeforeItHasReadAll(DelaySchedule):
    """A cancellation, or a record that is due earlier, may be further on."""

    @property
    def loaded(self) -> bool:
        return True


class LosesWhatWasAborted(DelaySchedule):
    """After an abort, the records of the transaction are not tried again."""

    def aborted(self, number: int, failures: Mapping[int, MoveFailure], now: int) -> None:
        if failures:
            super().aborted(number, failures, now)
        else:
            self.committed(number)


class CountsWhatWasAborted(DelaySchedule):
    """An abort leaves `low` where the transaction would have put it, and nothing in the heap."""

    def aborted(self, number: int, failures: Mapping[int, MoveFailure], now: int) -> None:
        self._landed(number)


class WritesAgainWhatWasCommitted(DelaySchedule):
    """The last record of a transaction is in the next one, too."""

    def committed(self, number: int) -> None:
        flight = self._in_flight
        super().committed(number)
        if flight is not None and flight.moves[-1].due > 0:
            self._pending[flight.moves[-1].offset] = flight.moves[-1]
            heappush(self._heap, flight.moves[-1])


class IgnoresCancellations(DelaySchedule):
    """Of records that are due soon."""

    def _cancel(self, offset: int) -> None:
        return None


class ForgetsCancellationsInFlight(DelaySchedule):
    """After an abort, a record that was cancelled meanwhile is delivered."""

    def aborted(self, number: int, failures: Mapping[int, MoveFailure], now: int) -> None:
        flight = self._in_flight
        assert flight is not None
        for move in flight.moves:
            self._pending[move.offset] = move
        super().aborted(number, failures, now)


class CancelsWhatIsBesideIt(DelaySchedule):
    """The record before the one that is named."""

    def _cancel(self, offset: int) -> None:
        super()._cancel(offset - 1)


class BlamesAllOfABatch(DelaySchedule):
    """One record that is too large makes dead letters of its neighbours."""

    def _again(
        self, move: PlannedMove, failure: MoveFailure | None, now: int, *, alone: bool
    ) -> None:
        super()._again(move, failure, now, alone=True)


class NeverGoesAlone(DelaySchedule):
    """Sends records that may be refused together, again and again."""

    def _again(
        self, move: PlannedMove, failure: MoveFailure | None, now: int, *, alone: bool
    ) -> None:
        super()._again(move, failure, now, alone=alone)
        self._suspects.clear()


class WaitsForASickTopic(DelaySchedule):
    """One topic without a leader holds up all others."""

    def _hold(self, move: PlannedMove, now: int) -> None:
        self._retry_at = now + 500
        heappush(self._heap, move)


class ReadsBatchesTwice(DelaySchedule):
    """An entry that was read before is taken again."""

    def read(self, entries: Iterable[HoldingEntry], position: int) -> None:
        entries = list(entries)
        super().read(entries, position)
        for entry in entries[:1]:
            if not isinstance(entry, Cancellation) and entry.offset not in self._pending:
                self.position = entry.offset
                super().read([entry], position)


class ForgetsHeldRecords(DelaySchedule):
    """When a topic can be written again."""

    def _release(self, now: int) -> None:
        for topic, hold in list(self._holds.items()):
            if hold.until <= now:
                del self._holds[topic]


FAULTS = DelaySchedule.__subclasses__()


@pytest.mark.timeout(0)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda each: each.__name__)
def test_histories_find_the_fault(fault: type[DelaySchedule]) -> None:
    for seed in range(FOUND_WITHIN):
        try:
            live(seed, fault)
        except (BrokenPromise, AssertionError, KeyError):
            return
    raise AssertionError(f"{fault.__name__} was not found in {FOUND_WITHIN} histories")
