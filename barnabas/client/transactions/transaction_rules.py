"""Judges open transactions: what will end each, why readers wait, and what to do.

In: a report. Out: a verdict for a transaction; findings, the worst first.
Always: pure; a transaction is called hanging only if every coordinator could be asked. A decided
transaction is never to be aborted: its commit may be what was decided.
Not here: gathering the report (reporting.py), showing findings (cli/).
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from enum import Enum
from shlex import quote

from barnabas.client.finding import Finding, Severity, problem, warning
from barnabas.client.transactions.report import (
    OpenTransaction,
    TransactionsReport,
    UnstablePartition,
    WaitingReader,
)
from barnabas.client.words import count, listed
from barnabas.model.words import duration

OPEN_MS_MIN = 1_000  # younger transactions are ordinary work
OVERDUE_MS = 20_000  # the coordinator looks for overdue transactions every ten seconds
TWO_PHASE_TIMEOUT_MS = 0x7FFF_FFFF
OPEN_STATES = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")
_ORDER = {Severity.PROBLEM: 0, Severity.WARNING: 1}


class Verdict(Enum):
    """What will end a transaction."""

    ONGOING = "its producer, or its timeout"
    OVERDUE = "its timeout has passed, and it is still open"
    NEVER_TIMES_OUT = "its producer; it has no timeout"
    COMMITTING = "its commit is decided; the marker is not written yet"
    ABORTING = "its abort is decided; the marker is not written yet"
    HANGING = "nothing: no coordinator knows it"
    UNKNOWN = "not known: not all coordinators can be asked"


def is_known(transaction: OpenTransaction) -> bool:
    """Whether its coordinator will write a marker into the partition."""
    if transaction.described is None:
        return False
    partitions = transaction.described.partitions  # sorted, and there may be thousands
    index = bisect_left(partitions, transaction.at)
    return partitions[index : index + 1] == (transaction.at,)


def verdict_of(transaction: OpenTransaction, report: TransactionsReport) -> Verdict:
    described = transaction.described
    if described is None or not is_known(transaction):
        # An id that is listed has its coordinator; the others may be where nobody coordinates.
        unsure = described is None and report.without_leader
        return Verdict.UNKNOWN if unsure else Verdict.HANGING
    if described.state == "PrepareCommit":
        return Verdict.COMMITTING
    if described.state in ("PrepareAbort", "PrepareEpochFence"):
        return Verdict.ABORTING
    if described.timeout_ms == TWO_PHASE_TIMEOUT_MS:
        return Verdict.NEVER_TIMES_OUT
    left_ms = times_out_in_ms(transaction, report.now_ms)
    if left_ms is not None and left_ms < -OVERDUE_MS:
        return Verdict.OVERDUE
    return Verdict.ONGOING


def open_ms(transaction: OpenTransaction, now_ms: int) -> int | None:
    """For how long it is open."""
    return None if transaction.began_ms is None else max(0, now_ms - transaction.began_ms)


def times_out_in_ms(transaction: OpenTransaction, now_ms: int) -> int | None:
    """Negative if the time is over; None if no coordinator will end it."""
    described = transaction.described
    if described is None or described.started_ms is None or not is_known(transaction):
        return None
    if described.timeout_ms == TWO_PHASE_TIMEOUT_MS:
        return None
    return described.started_ms + described.timeout_ms - now_ms


def holders(report: TransactionsReport) -> list[tuple[OpenTransaction, list[UnstablePartition]]]:
    """The transactions that readers wait for, each with the partitions that it holds back."""
    found: dict[tuple[object, ...], tuple[OpenTransaction, list[UnstablePartition]]] = {}
    for held in report.held:
        if held.transactions:
            first = held.transactions[0]
            # A hanging transaction is ended partition by partition.
            key: tuple[object, ...] = (first.producer.producer_id, first.producer.producer_epoch)
            if not is_known(first):
                key = (*key, held.at)
            found.setdefault(key, (first, []))[1].append(held)
    return list(found.values())


def diagnose_transactions(
    report: TransactionsReport, open_ms_min: int = OPEN_MS_MIN
) -> list[Finding]:
    """The findings about a report, the worst first."""
    found: list[Finding] = []
    for transaction, held in holders(report):
        age_ms = open_ms(transaction, report.now_ms)
        if age_ms is None or age_ms >= open_ms_min:
            found.append(_finding(transaction, held, report))
    found += _without_transaction(report)
    return sorted(found, key=lambda finding: _ORDER[finding.severity])


def _finding(
    transaction: OpenTransaction, held: list[UnstablePartition], report: TransactionsReport
) -> Finding:
    verdict = verdict_of(transaction, report)
    waits = _waits(held)
    match verdict:
        case Verdict.HANGING:
            return problem(
                "hanging-transaction",
                f"{described_briefly(transaction, report)}, and nothing will end it:"
                f" {_why_hanging(transaction)}. {waits}",
                f"abort it: {abort_command(transaction)}",
            )
        case Verdict.UNKNOWN:
            return problem(
                "unknown-coordinator",
                f"{described_briefly(transaction, report)}. {waits}. No broker coordinates"
                f" {count(len(report.without_leader), 'partition')} of __transaction_state"
                f" ({listed(report.without_leader)}), so the transactional id is not known",
                "bring the leaders of __transaction_state back (`barnabas status`), then ask again",
            )
        case Verdict.COMMITTING | Verdict.ABORTING:
            return _markers_pending(transaction, held, report, verdict)
        case Verdict.OVERDUE:
            return _overdue(transaction, report, waits)
        case Verdict.NEVER_TIMES_OUT:
            return warning(
                "no-timeout",
                f"{described_briefly(transaction, report)}, and has no timeout: another system"
                f" decides whether it is committed. {waits}",
                "finish it in the system that began it. Only if that is gone for good, abort it:"
                f" {abort_command(transaction)}",
            )
    left_ms = times_out_in_ms(transaction, report.now_ms)
    soon = "soon" if left_ms is None or left_ms <= 0 else f"in {duration(left_ms)}"
    return warning(
        "open-transaction",
        f"{described_briefly(transaction, report)}. {waits}. It times out {soon}",
        "commit or abort it in its producer, or wait for the timeout. If the producer is gone,"
        f" abort it: {abort_command(transaction)}",
    )


def _markers_pending(
    transaction: OpenTransaction,
    held: list[UnstablePartition],
    report: TransactionsReport,
    verdict: Verdict,
) -> Finding:
    assert transaction.described is not None
    what = "commit" if verdict is Verdict.COMMITTING else "abort"
    leaders = listed(dict.fromkeys(f"broker {each.leader}" for each in held))
    return warning(
        "marker-pending",
        f"{named(transaction)}: its {what} is decided, but {listed(each.at for each in held)} has"
        f" no marker yet. {_waits(held)}",
        f"wait: its coordinator, broker {transaction.described.coordinator}, sends the markers"
        f" again until they are written. If it lasts, see the logs of that broker and of {leaders}",
    )


def _overdue(transaction: OpenTransaction, report: TransactionsReport, waits: str) -> Finding:
    described = transaction.described
    assert described is not None
    return problem(
        "overdue-transaction",
        f"{described_briefly(transaction, report)}, although its timeout is"
        f" {duration(described.timeout_ms)}: its coordinator has not aborted it. {waits}",
        f"see in the log of broker {described.coordinator}, its coordinator, why it does not; then"
        f" abort it: {abort_command(transaction)}",
    )


def _without_transaction(report: TransactionsReport) -> Iterator[Finding]:
    silent = [each for each in report.held if not each.producers_known]
    if silent:
        yield warning(
            "open-transaction",
            f"a transaction is open. {_waits(silent)}. The broker cannot report which one: it is"
            " older than Apache Kafka 3.0",
            "commit or abort the transactions of the producers of this topic, or wait until they"
            " time out",
        )
    ended = [each for each in report.held if each.producers_known and not each.transactions]
    if ended:
        yield warning(
            "marker-not-replicated",
            f"no transaction is open, but the last marker is not on all in-sync replicas yet."
            f" {_waits(ended)}",
            "see whether the followers keep up: `barnabas status`",
        )


def named(transaction: OpenTransaction) -> str:
    """The transactional id and the producer, for the start of a sentence."""
    producer = transaction.producer
    who = f"producer id {producer.producer_id}, epoch {producer.producer_epoch}"
    if transaction.described is None:
        return who
    return f"transactional id {transaction.described.transactional_id!r} ({who})"


def described_briefly(transaction: OpenTransaction, report: TransactionsReport) -> str:
    age_ms = open_ms(transaction, report.now_ms)
    since = "" if age_ms is None else f" for {duration(age_ms)}"
    return f"{named(transaction)} has a transaction open{since}"


def _why_hanging(transaction: OpenTransaction) -> str:
    if transaction.described is None:
        return f"no coordinator knows producer id {transaction.producer.producer_id}"
    return (
        f"the coordinator of {transaction.described.transactional_id!r} does not have"
        f" {transaction.at} in a transaction (its state is {transaction.described.state})"
    )


def _waits(held: Iterable[UnstablePartition]) -> str:
    """Where readers wait, and which groups are there."""
    held = list(held)
    places = listed(f"{each.at} ({each.stable})" for each in held)
    hidden = sum(each.hidden for each in held)
    text = (
        f"Consumers with isolation.level=read_committed wait at the last stable offset of {places};"
        f" {count(hidden, 'later offset')} {'is' if hidden == 1 else 'are'} hidden from them"
    )
    behind = sum(len(each.transactions[1:]) for each in held)
    if behind:
        text += f" ({count(behind, 'more transaction')} open there)"
    return text + _groups(held)


def _groups(held: list[UnstablePartition]) -> str:
    """Who waits for certain; who does under a condition."""
    readers = [reader for partition in held for reader in partition.readers]
    certain: dict[str, dict[str, None]] = {}
    for reader in readers:
        if reader.group is not None:
            certain.setdefault(reader.group, {})[_consumer(reader)] = None
    text = "".join(
        f". Group {group} waits ({listed(consumers)})" for group, consumers in certain.items()
    )
    alone = dict.fromkeys(_consumer(reader) for reader in readers if reader.group is None)
    if alone:
        one = len(alone) == 1
        text += f". {'Consumer' if one else 'Consumers'} {listed(alone)}"
        text += f" {'waits' if one else 'wait'}"
    at_stable = dict.fromkeys(
        each.group for partition in held for each in partition.groups if each.at_stable
    )
    unsure = [group for group in at_stable if group not in certain]
    if unsure:
        one = len(unsure) == 1
        text += (
            f". {'Group' if one else 'Groups'} {listed(unsure)} {'has' if one else 'have'} read"
            f" everything before; {'it waits' if one else 'they wait'} if"
            f" {'its' if one else 'their'} members read committed records only"
        )
    return text


def _consumer(reader: WaitingReader) -> str:
    return f"{reader.client!r} at {reader.host}"


def abort_command(transaction: OpenTransaction) -> str:
    """What to type."""
    if transaction.described is None or not is_known(transaction):
        place = quote(f"{transaction.at.topic}:{transaction.at.partition}")
        return f"`barnabas txn abort --hanging {place}`"
    return f"`barnabas txn abort {quote(transaction.described.transactional_id)}`"
