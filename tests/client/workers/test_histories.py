"""Random histories of workers. SEEDS sets how many, FIRST_SEED the first; a failure names its seed.

All 10,000: SEEDS=10000 pytest -n 2 tests/client/workers/test_histories.py
"""

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from barnabas.client.workers.dead_letter_headers import Incoming
from barnabas.client.workers.policy import WINDOW_MAX, Policy
from barnabas.client.workers.window.at_least_once import AtLeastOnce
from barnabas.client.workers.window.effects import Effect, SendLetter
from barnabas.client.workers.window.outbox import LetterProducer
from barnabas.client.workers.window.window import Window
from barnabas.client.workers.window.window_partition import (
    RecordState,
    WindowPartition,
    WindowRecord,
)
from barnabas.client.workers.window.window_state import IntentSender, WindowState
from barnabas.model.ids import TopicPartition
from tests.client.workers.histories import live
from tests.share import IN_FULL, run_seeds, share_of

SEEDS = int(os.environ.get("SEEDS", "80" if IN_FULL else "8"))
FIRST_SEED = int(os.environ.get("FIRST_SEED", "0"))
BLOCKS = 8
FOUND_FROM, FOUND_WITHIN = 86, 300  # from where the rarest faults are found soon


@pytest.mark.timeout(0)
@pytest.mark.parametrize("block", range(BLOCKS))
def test_no_history_breaks_a_promise(block: int) -> None:
    run_seeds(live, range(FIRST_SEED + block, FIRST_SEED + SEEDS, BLOCKS))


class CommitsTheLast(AtLeastOnce):
    """Commits the end of what came, not of the finished prefix."""

    def _commit(self, share: WindowPartition) -> None:
        kept, share.entries = share.entries, type(share.entries)()
        super()._commit(share)
        share.entries = kept


class SendsAtOnce(AtLeastOnce):
    """Sends before its intent is committed."""

    def _intend(self, share: WindowPartition, entry: WindowRecord, now: int) -> None:
        super()._intend(share, entry, now)
        intent = share.outbox.intent
        if intent is not None and not share.sending and share.leaving is not None:
            self.letters.send(share)


class ForgetsIntents(Window[AtLeastOnce]):
    """Handles again what the worker before it had decided about."""

    def given(self, at: TopicPartition, committed: int, metadata: str, now: int) -> list[Effect]:
        effects = super().given(at, committed, metadata, now)
        self._shares[at].outbox.intent = None
        return effects


class ForgetsTheGone(AtLeastOnce):
    """Does not say which records behind the committed offset are gone."""

    def _commit(self, share: WindowPartition) -> None:
        share.outbox.gone.clear()
        super()._commit(share)


class SendsUnderNewNumbers(AtLeastOnce):
    """A send without an answer is made again under another sequence number."""

    def __init__(self, state: WindowState) -> None:
        super().__init__(state)
        self.letters = _NewNumbers(state)


class _NewNumbers(IntentSender):
    sends = 0

    def send(self, share: WindowPartition) -> None:
        super().send(share)
        send = self._state.effects[-1]
        assert isinstance(send, SendLetter)
        self.sends += 1
        identity = LetterProducer(10**6 + id(self) + self.sends, 0)
        self._state.effects[-1] = replace(send, identity=identity)


class KeepsNoLanes(Window[AtLeastOnce]):
    """Starts a record before the one of the same key that came first."""

    def _admit(self, share: WindowPartition, record: Incoming, now: int) -> None:
        super()._admit(share, record, now)
        if share.entries and share.entries[-1].state is RecordState.BEHIND:
            self._calls.take(share.entries[-1], now)


class FinishesWhatFails(Window[AtLeastOnce]):
    """A record that fails while its partition goes away counts as finished."""

    def failed(
        self, entry: WindowRecord, cause: str, now: int, *, reject: bool = False
    ) -> list[Effect]:
        if entry.share.draining and entry.state is RecordState.RUNNING:
            return self.succeeded(entry, now)
        return super().failed(entry, cause, now, reject=reject)


class HoldsOn(WindowState):
    """Does not let go of a partition before its handlers have ended."""

    def _drain(self, share: WindowPartition, now: int) -> None:
        if not share.running:
            super()._drain(share, now)


class HoldsNoBound(WindowState):
    """Takes all that comes, however many are under way."""

    def __init__(self, policy: Policy, partitions: Mapping[str, int]) -> None:
        super().__init__(replace(policy, window=WINDOW_MAX), partitions)


MUTANTS = [
    CommitsTheLast,
    SendsAtOnce,
    ForgetsIntents,
    ForgetsTheGone,
    SendsUnderNewNumbers,
    KeepsNoLanes,
    FinishesWhatFails,
    HoldsOn,
    HoldsNoBound,
]


def window_with(mutant: type, policy: Policy, counts: dict[str, int]) -> Window[Any]:
    """A window, one of whose parts is wrong."""
    state = mutant(policy, counts) if issubclass(mutant, WindowState) else None
    state = state or WindowState(policy, counts)
    commits = mutant(state) if issubclass(mutant, AtLeastOnce) else AtLeastOnce(state)
    whole = mutant if issubclass(mutant, Window) else Window
    window: Window[Any] = whole(state, commits)
    return window


@pytest.mark.parametrize("mutant", share_of(MUTANTS), ids=lambda mutant: mutant.__name__)
def test_the_histories_find_a_window_that(mutant: type) -> None:
    """Histories that find nothing wrong with these would prove nothing."""
    make = partial(window_with, mutant)
    for seed in range(FOUND_FROM, FOUND_FROM + FOUND_WITHIN):
        try:
            live(seed, make)
        except (AssertionError, KeyError):
            return
    raise AssertionError(f"{FOUND_WITHIN} histories did not find: {mutant.__doc__}")
