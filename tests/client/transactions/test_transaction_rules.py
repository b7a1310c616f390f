"""What is said of an open transaction, by what the leader and the coordinator know of it."""

from dataclasses import replace
from typing import Any

import pytest

from barnabas.client.finding import Severity
from barnabas.client.transactions.report import (
    ActiveProducer,
    OpenTransaction,
    ReadingGroup,
    TransactionDescription,
    TransactionsReport,
    UnstablePartition,
    WaitingReader,
)
from barnabas.client.transactions.transaction_rules import (
    TWO_PHASE_TIMEOUT_MS,
    Verdict,
    diagnose_transactions,
    verdict_of,
)
from barnabas.model.ids import TopicPartition

NOW_MS = 1_700_000_000_000
AT = TopicPartition("orders", 0)
PRODUCER = ActiveProducer(7, 3, -1, 10, NOW_MS - 1_000, 120)


def described(**given: Any) -> TransactionDescription:
    known = TransactionDescription("billing-1", "Ongoing", 7, 3, 60_000, NOW_MS - 42_000, (AT,), 2)
    return known._replace(**given)


def opened(known: TransactionDescription | None, **given: Any) -> OpenTransaction:
    return OpenTransaction(AT, PRODUCER, 120, known, **{"began_ms": NOW_MS - 42_000, **given})


def report(*transactions: OpenTransaction, **given: Any) -> TransactionsReport:
    held = UnstablePartition(AT, 120, 165, 1, transactions)
    return TransactionsReport(**{"held": (held,), "looked_at": 3, "now_ms": NOW_MS, **given})


VERDICTS = [
    (described(), Verdict.ONGOING),
    (described(started_ms=NOW_MS - 70_000), Verdict.ONGOING),  # it is looked for every 10 s
    (described(started_ms=NOW_MS - 90_000), Verdict.OVERDUE),
    (described(timeout_ms=TWO_PHASE_TIMEOUT_MS), Verdict.NEVER_TIMES_OUT),
    (described(state="PrepareCommit"), Verdict.COMMITTING),
    (described(state="PrepareAbort"), Verdict.ABORTING),
    (described(state="PrepareEpochFence"), Verdict.ABORTING),
    (described(state="CompleteAbort", partitions=()), Verdict.HANGING),
    (described(partitions=(TopicPartition("orders", 1),)), Verdict.HANGING),
    (None, Verdict.HANGING),
]


@pytest.mark.parametrize(("known", "verdict"), VERDICTS)
def test_the_coordinator_says_what_will_end_a_transaction(
    known: TransactionDescription | None, verdict: Verdict
) -> None:
    transaction = opened(known)
    assert verdict_of(transaction, report(transaction)) is verdict


def test_a_transaction_does_not_hang_as_long_as_its_coordinator_may_be_away() -> None:
    transaction = opened(None)
    away = report(transaction, without_leader=(4,))
    assert verdict_of(transaction, away) is Verdict.UNKNOWN
    (finding,) = diagnose_transactions(away)
    assert finding.name == "unknown-coordinator"
    assert "txn abort" not in finding.remedy


def test_an_open_transaction_is_named_with_its_age_its_timeout_and_the_command() -> None:
    (finding,) = diagnose_transactions(report(opened(described())))
    assert (finding.name, finding.severity) == ("open-transaction", Severity.WARNING)
    assert finding.text == (
        "transactional id 'billing-1' (producer id 7, epoch 3) has a transaction open for 42 s."
        " Consumers with isolation.level=read_committed wait at the last stable offset of orders-0"
        " (120); 45 later offsets are hidden from them. It times out in 18 s"
    )
    assert finding.remedy.endswith("abort it: `barnabas txn abort billing-1`")


def test_a_hanging_transaction_is_a_problem_and_ended_in_its_partition() -> None:
    (finding,) = diagnose_transactions(report(opened(None)))
    assert (finding.name, finding.severity) == ("hanging-transaction", Severity.PROBLEM)
    assert "no coordinator knows producer id 7" in finding.text
    assert finding.remedy == "abort it: `barnabas txn abort --hanging orders:0`"


def test_nobody_is_advised_to_abort_a_transaction_that_is_decided() -> None:
    (finding,) = diagnose_transactions(report(opened(described(state="PrepareCommit"))))
    assert finding.name == "marker-pending"
    assert "txn abort" not in finding.remedy
    assert "broker 2" in finding.remedy


def test_a_young_transaction_is_no_finding() -> None:
    young = opened(described(), began_ms=NOW_MS - 900)
    assert diagnose_transactions(report(young)) == []
    assert len(diagnose_transactions(report(young), open_ms_min=500)) == 1


def test_a_transaction_over_several_partitions_is_one_finding() -> None:
    other = TopicPartition("orders", 1)
    known = described(partitions=(AT, other))
    first, second = opened(known), replace(opened(known), at=other, start_offset=5)
    held = (
        UnstablePartition(AT, 120, 165, 1, (first,)),
        UnstablePartition(other, 5, 6, 2, (second, replace(first, at=other))),
    )
    (finding,) = diagnose_transactions(replace(report(), held=held))
    assert "orders-0 (120) and orders-1 (5)" in finding.text
    assert "46 later offsets" in finding.text
    assert "(1 more transaction open there)" in finding.text


def test_groups_that_have_read_everything_before_it_are_named() -> None:
    (held,) = report(opened(described())).held
    groups = (
        ReadingGroup("audit", 120, True),
        ReadingGroup("behind", 90, False),
        ReadingGroup("uncommitted", 165, False),
    )
    (finding,) = diagnose_transactions(replace(report(), held=(replace(held, groups=groups),)))
    assert "Group audit has read everything before" in finding.text
    assert "behind" not in finding.text


def test_a_consumer_that_was_seen_to_wait_makes_its_group_certain() -> None:
    (held,) = report(opened(described())).held
    groups = (ReadingGroup("audit", 120, True), ReadingGroup("billing", 120, True))
    readers = (WaitingReader("a-1", "10.0.0.7", "audit"), WaitingReader("spark", "10.0.0.9"))
    waiting = replace(held, groups=groups, readers=readers)
    (finding,) = diagnose_transactions(replace(report(), held=(waiting,)))
    assert "Group audit waits ('a-1' at 10.0.0.7). Consumer 'spark' at 10.0.0.9 waits." in (
        finding.text
    )
    assert "Group billing has read everything before; it waits if" in finding.text


def test_without_an_open_transaction_the_marker_is_not_replicated() -> None:
    assert [finding.name for finding in diagnose_transactions(report())] == [
        "marker-not-replicated"
    ]
    (held,) = report().held
    (finding,) = diagnose_transactions(
        replace(report(), held=(replace(held, producers_known=False),))
    )
    assert "The broker cannot report which one" in finding.text


def test_a_name_is_quoted_for_the_shell() -> None:
    odd = opened(described(transactional_id="a b; rm"))
    (finding,) = diagnose_transactions(report(odd))
    assert finding.remedy.endswith("`barnabas txn abort 'a b; rm'`")
