"""Random histories of workers. SEEDS sets how many, FIRST_SEED the first; a failure names its seed.

All 10,000: SEEDS=10000 pytest -n 2 tests/client/workers/test_histories.py
"""

import os
from collections.abc import Mapping
from dataclasses import replace

import pytest

from barnabas.client.workers import window
from barnabas.client.workers.effects import Effect, SendLetter
from barnabas.client.workers.letters import Incoming
from barnabas.client.workers.policy import WINDOW_MAX, Policy
from barnabas.client.workers.share import RecordState, WindowPartition, WindowRecord
from barnabas.model.ids import TopicPartition
from tests.client.workers.histories import live
from tests.share import IN_FULL

SEEDS = int(os.environ.get("SEEDS", "80" if IN_FULL else "16"))
FIRST_SEED = int(os.environ.get("FIRST_SEED", "0"))
BLOCKS = 8
FOUND_FROM, FOUND_WITHIN = 86, 300  # from where the rarest faults are found soon


@pytest.mark.timeout(0)
@pytest.mark.parametrize("block", range(BLOCKS))
def test_no_history_breaks_a_promise(block: int) -> None:
    for seed in range(FIRST_SEED + block, FIRST_SEED + SEEDS, BLOCKS):
        try:
            live(seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error


class CommitsTheLast(window.Window):
    """Commits the end of what came, not of the finished prefix."""

    def _commit(self, share: WindowPartition) -> None:
        kept, share.entries = share.entries, type(share.entries)()
        super()._commit(share)
        share.entries = kept


class SendsAtOnce(window.Window):
    """Sends before its intent is committed."""

    def _intend(self, share: WindowPartition, entry: WindowRecord, now: int) -> None:
        super()._intend(share, entry, now)
        intent = share.outbox.intent
        if intent is not None and not share.sending and share.leaving is not None:
            self._send(share)


class ForgetsIntents(window.Window):
    """Handles again what the worker before it had decided about."""

    def given(self, at: TopicPartition, committed: int, metadata: str, now: int) -> list[Effect]:
        effects = super().given(at, committed, metadata, now)
        self._shares[at].outbox.intent = None
        return effects


class ForgetsTheGone(window.Window):
    """Does not say which records behind the committed offset are gone."""

    def sent(self, at: TopicPartition, term: int, now: int) -> list[Effect]:
        effects = super().sent(at, term, now)
        if at in self._shares:
            self._shares[at].outbox._gone.clear()
        return effects


class SendsUnderNewNumbers(window.Window):
    """A send without an answer is made again under another sequence number."""

    def _send(self, share: WindowPartition) -> None:
        super()._send(share)
        send = self._effects[-1]
        assert isinstance(send, SendLetter)
        self._term += 1
        identity = type(send.identity)(10**6 + id(self) + self._term, 0)
        self._effects[-1] = type(send)(
            send.at,
            send.term,
            send.offset,
            identity,
            send.sequence,
            send.to,
            send.timestamp,
            send.key,
            send.value,
            send.headers,
        )


class KeepsNoLanes(window.Window):
    """Starts a record before the one of the same key that came first."""

    def _admit(self, share: WindowPartition, record: Incoming, now: int) -> None:
        super()._admit(share, record, now)
        if share.entries and share.entries[-1].state is RecordState.BEHIND:
            self._turns.take(share.entries[-1], now)


class FinishesWhatFails(window.Window):
    """A record that fails while its partition goes away counts as finished."""

    def failed(
        self, entry: WindowRecord, cause: str, now: int, *, reject: bool = False
    ) -> list[Effect]:
        if entry.share.draining and entry.state is RecordState.RUNNING:
            return self.succeeded(entry, now)
        return super().failed(entry, cause, now, reject=reject)


class HoldsOn(window.Window):
    """Does not let go of a partition before its handlers have ended."""

    def _drain(self, share: WindowPartition, now: int) -> None:
        if not share.running:
            super()._drain(share, now)


class HoldsNoBound(window.Window):
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


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_the_histories_find_a_window_that(mutant: type[window.Window]) -> None:
    """Histories that find nothing wrong with these would prove nothing."""
    for seed in range(FOUND_FROM, FOUND_FROM + FOUND_WITHIN):
        try:
            live(seed, mutant)
        except (AssertionError, KeyError):
            return
    raise AssertionError(f"{FOUND_WITHIN} histories did not find: {mutant.__doc__}")
