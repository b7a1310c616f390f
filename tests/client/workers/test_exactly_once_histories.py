"""Random histories of workers that write exactly once. SEEDS sets how many, FIRST_SEED the first.

All 10,000: SEEDS=10000 pytest -n 2 tests/client/workers/test_exactly_once_histories.py
"""

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from barnabas.client.workers.policy import WINDOW_MAX, Policy
from barnabas.client.workers.window.effects import Effect
from barnabas.client.workers.window.exactly_once import AbortCause, ExactlyOnce
from barnabas.client.workers.window.window import Window
from barnabas.client.workers.window.window_partition import (
    CommitContent,
    RecordState,
    WindowPartition,
    WindowRecord,
)
from barnabas.client.workers.window.window_state import WindowState
from barnabas.model.ids import TopicPartition
from tests.client.workers.exactly_once_histories import live
from tests.client.workers.transactional_worker import TransactionalWorker, Writing
from tests.share import IN_FULL, run_seeds, share_of

SEEDS = int(os.environ.get("SEEDS", "80" if IN_FULL else "8"))
FIRST_SEED = int(os.environ.get("FIRST_SEED", "0"))
BLOCKS = 8
FOUND_WITHIN = 200
# From where a fault is found soon.
FOUND_FROM, FOUND_FROM_SEED = 900, {"WritesWhatWasLost": 19, "HoldsOn": 2}


@pytest.mark.timeout(0)
@pytest.mark.parametrize("block", range(BLOCKS))
def test_no_history_breaks_a_promise(block: int) -> None:
    run_seeds(live, range(FIRST_SEED + block, FIRST_SEED + SEEDS, BLOCKS))


class NamesNoneBehind(ExactlyOnce):
    """Writes results of records behind an unfinished one, and does not say so in the commit."""

    def _chosen(self, only: set[WindowRecord] | None) -> Any:
        open_ = super()._chosen(only)
        for share, finished in list(open_.finished.items()):
            content = CommitContent(finished.content.offset, "", finished.content.intent)
            open_.finished[share] = finished._replace(content=content)
        return open_


class ForgetsTheGone(Window[ExactlyOnce]):
    """Handles again what an earlier worker has written behind the committed offset."""

    def given(self, at: TopicPartition, committed: int, metadata: str, now: int) -> list[Effect]:
        effects = super().given(at, committed, metadata, now)
        self._shares[at].outbox.gone = []
        return effects


class ForgetsIntents(Window[ExactlyOnce]):
    """Handles again what a worker that is at least once had decided about."""

    def given(self, at: TopicPartition, committed: int, metadata: str, now: int) -> list[Effect]:
        effects = super().given(at, committed, metadata, now)
        self._shares[at].outbox.intent = None
        return effects


class CommitsTheLast(ExactlyOnce):
    """Commits the end of what came."""

    def _chosen(self, only: set[WindowRecord] | None) -> Any:
        open_ = super()._chosen(only)
        for share, finished in list(open_.finished.items()):
            content = CommitContent(share.position, "", finished.content.intent)
            open_.finished[share] = finished._replace(content=content)
        return open_


class ForgetsWhatWasAborted(ExactlyOnce):
    """After an abort, records of the transaction count as written."""

    def aborted(self, number: int, cause: AbortCause, detail: str, now: int, **how: Any) -> Any:
        if cause is AbortCause.PASSING:
            return self.committed(number, now)
        return super().aborted(number, cause, detail, now, **how)


class WritesAgainWhatWasWritten(ExactlyOnce):
    """Records of a committed transaction are in the next one, too."""

    def committed(self, number: int, now: int) -> list[Effect]:
        open_ = self._open
        if open_ is not None and len(open_.entries) > 1:
            return super().aborted(number, AbortCause.PASSING, "", now)
        return super().committed(number, now)


class WritesWhatWasLost(ExactlyOnce):
    """Results of a partition that another worker has are written when it comes back."""

    def __init__(self, state: WindowState) -> None:
        super().__init__(state)
        self._kept: dict[TopicPartition, list[WindowRecord]] = {}

    def _forget_dropped(self) -> None:
        for share in [one for one in self._handled if not self._state.is_current(one)]:
            self._kept.setdefault(share.at, []).extend(self._handled.pop(share))
        for at, entries in list(self._kept.items()):
            back = self._state.shares.get(at)
            if back is not None:
                del self._kept[at]
                for entry in entries:
                    entry.state = RecordState.HANDLED
                self._handled.setdefault(back, []).extend(entries)


class WritesInTheOrderOfTheirEnds(ExactlyOnce):
    """After an abort, later records of a lane are written first."""

    def _chosen(self, only: set[WindowRecord] | None) -> Any:
        open_ = super()._chosen(only)
        if self._number % 2:
            open_.entries.reverse()
        return open_


class BlamesTheFirst(ExactlyOnce):
    """Of a transaction that is refused, the first record is given up."""

    def _search(self, open_: Any, entries: Any, culprit: Any, detail: str, now: int) -> None:
        culprit = culprit or next(iter(entries), None)
        super()._search(open_, entries, culprit, detail, now)


class NeverSearches(ExactlyOnce):
    """Writes what was refused again and again."""

    def _search(self, open_: Any, entries: Any, culprit: Any, detail: str, now: int) -> None:
        self._not_before = now + 500


class HoldsOn(ExactlyOnce):
    """Never releases a partition whose transaction was aborted."""

    def is_settled(self, share: WindowPartition, now: int, *, late: bool) -> bool:
        if not late and not self._handled.get(share):
            return super().is_settled(share, now, late=late)
        share.drain_until = now + 60_000
        return False


class HoldsNoBound(WindowState):
    """Takes all that comes, however many wait for a transaction."""

    def __init__(self, policy: Policy, partitions: Mapping[str, int]) -> None:
        super().__init__(replace(policy, window=WINDOW_MAX), partitions)


MUTANTS = [
    NamesNoneBehind,
    ForgetsTheGone,
    ForgetsIntents,
    CommitsTheLast,
    ForgetsWhatWasAborted,
    WritesAgainWhatWasWritten,
    WritesWhatWasLost,
    WritesInTheOrderOfTheirEnds,
    BlamesTheFirst,
    NeverSearches,
    HoldsOn,
    HoldsNoBound,
]


def window_with(mutant: type, policy: Policy, counts: dict[str, int]) -> Window[Any]:
    """A window, one of whose parts is wrong."""
    state = mutant(policy, counts) if issubclass(mutant, WindowState) else None
    state = state or WindowState(policy, counts)
    commits = mutant(state) if issubclass(mutant, ExactlyOnce) else ExactlyOnce(state)
    whole = mutant if issubclass(mutant, Window) else Window
    window: Window[Any] = whole(state, commits)
    return window


def seeds_for(mutant: type) -> range:
    first = FOUND_FROM_SEED.get(mutant.__name__, FOUND_FROM)
    return range(first, first + FOUND_WITHIN)


@pytest.mark.parametrize("mutant", share_of(MUTANTS), ids=lambda mutant: mutant.__name__)
def test_the_histories_find_a_window_that(mutant: type) -> None:
    """Histories that find nothing wrong with these would prove nothing."""
    make = partial(window_with, mutant)
    for seed in seeds_for(mutant):
        try:
            live(seed, make)
        except (AssertionError, KeyError):
            return
    raise AssertionError(f"{FOUND_WITHIN} histories did not find: {mutant.__doc__}")


class TakesTheGenerationLate(Writing):
    """Commits offsets as the member that the worker is by then."""

    def commit_offsets(self) -> None:
        if self.worker.member is not None:
            self.member, self.generation = self.worker.member, self.worker.epoch
        super().commit_offsets()


class TakesSilenceForAnAbort(Writing):
    """A commit without an answer is taken for an abort."""

    def end(self, *, commit: bool) -> None:
        super().end(commit=commit)
        if commit:
            self.worker.after(600, self.give_up)

    def give_up(self) -> None:
        self.told(AbortCause.PASSING)  # nothing happens if it was answered


class EndsBeforeTheOffsets(Writing):
    """Commits the transaction although the offsets were refused."""

    def abort(self, cause: AbortCause) -> None:
        if cause is AbortCause.PASSING and not self.batches and not self.ending:
            self.end(commit=True)
        else:
            super().abort(cause)


@pytest.mark.parametrize(
    "mutant",
    share_of([TakesSilenceForAnAbort, TakesTheGenerationLate, EndsBeforeTheOffsets]),
    ids=lambda mutant: mutant.__name__,
)
def test_the_histories_find_a_driver_that(
    mutant: type[Writing], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TransactionalWorker, "writing", mutant)
    for seed in seeds_for(mutant):
        try:
            live(seed)
        except (AssertionError, KeyError):
            return
    raise AssertionError(f"{FOUND_WITHIN} histories did not find: {mutant.__doc__}")
