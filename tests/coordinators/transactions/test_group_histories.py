"""Random histories of group commits. HISTORIES sets how many; a failure names its seed."""

import os
from collections.abc import Callable
from typing import Any

import pytest

from barnabas.coordinators import runtime
from barnabas.coordinators.runtime import Outcome
from barnabas.coordinators.transactions import ending, group_commit, shard
from barnabas.coordinators.transactions.decision import Identity
from barnabas.coordinators.transactions.group_commit import GroupDecision
from barnabas.coordinators.transactions.shard import TransactionShard
from barnabas.coordinators.transactions.states import TransactionState
from barnabas.model.errors import Code
from tests.coordinators.transactions.group_histories import live
from tests.share import IN_FULL, share_of

HISTORIES = int(os.environ.get("HISTORIES", "2000" if IN_FULL else "20"))
SEEDS_TO_FIND_A_BUG = 400
Patch = pytest.MonkeyPatch


def test_no_history_writes_a_row_twice_or_leaves_one_out() -> None:
    for seed in range(HISTORIES):
        try:
            live(seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error


def a_batch_is_committed_as_often_as_it_is_asked_for(patch: Patch) -> None:
    real = group_commit.decide
    patch.setattr(shard, "decide", lambda asked, last, *rest: real(asked, None, *rest))


def a_batch_is_known_by_its_number_alone(patch: Patch) -> None:
    def decide(asked: Any, last: Any, *rest: Any) -> GroupDecision:
        if last is not None and asked.batch <= last.number:
            return GroupDecision(Code.NONE, already=True)
        return real(asked, last, *rest)

    real = group_commit.decide
    patch.setattr(shard, "decide", decide)


def an_older_batch_counts_as_committed(patch: Patch) -> None:
    def decide(asked: Any, last: Any, *rest: Any) -> GroupDecision:
        if last is not None and asked.batch < last.number:
            return GroupDecision(Code.NONE, already=True)
        return real(asked, last, *rest)

    real = group_commit.decide
    patch.setattr(shard, "decide", decide)


def the_epoch_of_a_task_does_not_matter(patch: Patch) -> None:
    def is_open(found: Any, producer: Any) -> bool:
        return found is not None and found.state is TransactionState.ONGOING

    patch.setattr(group_commit, "_is_open", is_open)
    patch.setattr(group_commit, "end", lambda f, p, *rest: ending.end(f, _now(f), *rest))


def _now(found: Any) -> Any:
    return Identity(found.producer_id, found.producer_epoch)


def what_is_not_open_is_left_out(patch: Patch) -> None:
    def commit(asked: Any, transactions: Any, *rest: Any) -> GroupDecision:
        named = {
            id_: producer
            for id_, producer in asked.transactions.items()
            if group_commit._is_open(transactions.get(id_), producer)
        }
        return real(asked._replace(transactions=named), transactions, *rest)

    real = group_commit._commit
    patch.setattr(group_commit, "_commit", commit)


def the_records_of_a_decision_are_written_one_by_one(patch: Patch) -> None:
    real = TransactionShard.end_group

    def end_group(self: TransactionShard, *rest: Any) -> Outcome[Any]:
        found = real(self, *rest)
        return Outcome(found.records, found.answers, divisible=True)

    patch.setattr(TransactionShard, "end_group", end_group)
    patch.setattr(runtime, "BATCH_RECORDS", 1)


def the_batch_is_not_in_the_log(patch: Patch) -> None:
    real = TransactionShard.end_group

    def end_group(self: TransactionShard, *rest: Any) -> Outcome[Any]:
        found = real(self, *rest)
        kept = tuple(
            r for r in found.records if not isinstance(r, group_commit.TransactionGroupRecord)
        )
        for record in found.records:
            if isinstance(record, group_commit.TransactionGroupRecord):
                self.table.replay_group(record)
        return Outcome(kept, found.answers)

    patch.setattr(TransactionShard, "end_group", end_group)


def another_coordinator_does_not_read_groups_back(patch: Patch) -> None:
    real = TransactionShard.loaded

    def loaded(self: TransactionShard, now: Any) -> None:
        self.table.groups.clear()
        real(self, now)

    patch.setattr(TransactionShard, "loaded", loaded)


def the_answer_leaves_before_the_decision_is_committed(patch: Patch) -> None:
    real = TransactionShard.end_group

    def end_group(self: TransactionShard, *rest: Any) -> Outcome[Any]:
        found = real(self, *rest)
        return Outcome(found.records, found.answers, at_once=True)

    patch.setattr(TransactionShard, "end_group", end_group)


def a_repeated_batch_stays_open(patch: Patch) -> None:
    patch.setattr(group_commit, "_aborted", lambda *_: ())


def a_repeated_batch_is_committed_with_the_first(patch: Patch) -> None:
    def decide(asked: Any, last: Any, transactions: Any, *rest: Any) -> GroupDecision:
        found = real(asked, last, transactions, *rest)
        return real(asked, None, transactions, *rest) if found.already else found

    real = group_commit.decide
    patch.setattr(shard, "decide", decide)


BUGS: list[Callable[[Patch], None]] = [
    a_batch_is_committed_as_often_as_it_is_asked_for,
    a_batch_is_known_by_its_number_alone,
    an_older_batch_counts_as_committed,
    the_epoch_of_a_task_does_not_matter,
    what_is_not_open_is_left_out,
    the_records_of_a_decision_are_written_one_by_one,
    the_batch_is_not_in_the_log,
    another_coordinator_does_not_read_groups_back,
    the_answer_leaves_before_the_decision_is_committed,
    a_repeated_batch_stays_open,
    a_repeated_batch_is_committed_with_the_first,
]


@pytest.mark.parametrize("bug", share_of(BUGS), ids=lambda bug: bug.__name__)
def test_a_planted_bug_is_found(bug: Callable[[Patch], None], monkeypatch: Patch) -> None:
    bug(monkeypatch)
    for seed in range(SEEDS_TO_FIND_A_BUG):
        try:
            live(seed)
        except Exception:
            return
    pytest.fail(f"{SEEDS_TO_FIND_A_BUG} histories did not find it")
