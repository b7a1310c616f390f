"""Transactions as text for people, and as rows and documents for scripts."""

from collections.abc import Iterable, Mapping
from typing import Any

from barnabas.client.finding import Finding
from barnabas.client.tables import Row, table
from barnabas.client.transactions.report import (
    OpenTransaction,
    TransactionDescription,
    TransactionsReport,
    UnstablePartition,
)
from barnabas.client.transactions.transaction_rules import (
    OPEN_STATES,
    TWO_PHASE_TIMEOUT_MS,
    is_known,
    open_ms,
    times_out_in_ms,
    verdict_of,
)
from barnabas.client.words import count, listed
from barnabas.model.ids import TopicPartition
from barnabas.model.times import iso_time
from barnabas.model.words import duration, printable
from barnabas.wire.messages.describe_transaction_history import TransactionHistory

LIST_COLUMNS = (
    "transactional_id", "state", "open", "times_out", "partitions", "holds_back", "groups",
    "coordinator", "client",
)  # fmt: skip
CSV_COLUMNS = (
    "transactional_id", "state", "producer_id", "producer_epoch", "open_ms", "times_out_in_ms",
    "coordinator",
)  # fmt: skip
PARTITION_COLUMNS = ("topic", "partition", "start", "stable", "end", "hidden", "holds", "groups")


# Rows and documents


def held_by(report: TransactionsReport) -> dict[str, list[UnstablePartition]]:
    """By transactional id: the partitions whose readers wait for its transaction."""
    found: dict[str, list[UnstablePartition]] = {}
    for held in report.held:
        first = held.transactions[0] if held.transactions else None
        if first is not None and first.transactional_id is not None and is_known(first):
            found.setdefault(first.transactional_id, []).append(held)
    return found


def description_row(
    described: TransactionDescription,
    report: TransactionsReport,
    holds: Iterable[UnstablePartition],
) -> Row:
    """A transactional id, and the partitions that it holds back."""
    is_open = described.state in OPEN_STATES
    began_ms = described.started_ms if is_open else None
    out_in_ms = None
    if began_ms is not None and described.timeout_ms != TWO_PHASE_TIMEOUT_MS:
        out_in_ms = began_ms + described.timeout_ms - report.now_ms
    return {
        "transactional_id": described.transactional_id,
        "state": described.state,
        "producer_id": described.producer_id,
        "producer_epoch": described.producer_epoch,
        "coordinator": described.coordinator,
        "timeout_ms": described.timeout_ms,
        "started_ms": began_ms,
        "open_ms": None if began_ms is None else max(0, report.now_ms - began_ms),
        "times_out_in_ms": out_in_ms,
        "partitions": [list(at) for at in described.partitions],
        "holds_back": [held_row(held, report) for held in holds],
    }


def hanging_row(
    transaction: OpenTransaction, held: UnstablePartition, report: TransactionsReport
) -> Row:
    """A transaction in one partition that no coordinator will end, or knows."""
    return {
        "transactional_id": transaction.transactional_id,
        "state": verdict_of(transaction, report).name.lower(),
        "producer_id": transaction.producer.producer_id,
        "producer_epoch": transaction.producer.producer_epoch,
        "coordinator": None,
        "timeout_ms": None,
        "started_ms": transaction.began_ms,
        "open_ms": open_ms(transaction, report.now_ms),
        "times_out_in_ms": None,
        "partitions": [list(transaction.at)],
        "holds_back": [held_row(held, report)] if held.transactions[0] == transaction else [],
        "client": None,
    }


def held_row(held: UnstablePartition, report: TransactionsReport) -> Row:
    return {
        "topic": held.at.topic,
        "partition": held.at.partition,
        "stable": held.stable,
        "end": held.end,
        "hidden": held.hidden,
        "groups": [each._asdict() for each in held.groups],
        "readers": [each._asdict() for each in held.readers],
        "transactions": [
            {
                "transactional_id": one.transactional_id,
                "producer_id": one.producer.producer_id,
                "producer_epoch": one.producer.producer_epoch,
                "start": one.start_offset,
                "open_ms": open_ms(one, report.now_ms),
                "times_out_in_ms": times_out_in_ms(one, report.now_ms),
                "verdict": verdict_of(one, report).name.lower(),
            }
            for one in held.transactions
        ],
    }


def list_rows(
    described: Iterable[TransactionDescription],
    report: TransactionsReport,
    histories: Mapping[str, TransactionHistory],
) -> list[Row]:
    """The oldest first; transactional ids without a transaction last."""
    holds = held_by(report)
    rows = [
        {
            **description_row(each, report, holds.get(each.transactional_id, ())),
            "client": _client(histories.get(each.transactional_id)),
        }
        for each in described
    ]
    rows += [
        hanging_row(one, held, report)
        for held in report.held
        for one in held.transactions
        if not is_known(one)
    ]
    return sorted(rows, key=lambda row: (-(row["open_ms"] or 0), row["transactional_id"] or ""))


def findings_document(report: TransactionsReport, findings: list[Finding]) -> dict[str, Any]:
    return {
        "looked_at": report.looked_at,
        "now_ms": report.now_ms,
        "held": [held_row(held, report) for held in report.held],
        "findings": [
            {
                "name": finding.name,
                "severity": finding.severity.value,
                "text": finding.text,
                "remedy": finding.remedy,
            }
            for finding in findings
        ],
    }


# For people


def shown_row(row: Row) -> Row:
    """A row of `ls` in words."""
    client = row.get("client")
    return {
        **row,
        "transactional_id": "-" if row["transactional_id"] is None else row["transactional_id"],
        "open": "" if row["open_ms"] is None else duration(row["open_ms"]),
        "times_out": _times_out(row),
        "partitions": listed(TopicPartition(*at) for at in row["partitions"])
        if row["partitions"]
        else "",
        "holds_back": listed(
            f"{TopicPartition(each['topic'], each['partition'])} ({each['hidden']})"
            for each in row["holds_back"]
        )
        if row["holds_back"]
        else "",
        "groups": _group_names(row["holds_back"]),
        "coordinator": "-" if row["coordinator"] is None else row["coordinator"],
        "client": "" if client is None else f"{client['client_id']} at {client['host']}",
    }


def _times_out(row: Row) -> str:
    if row["open_ms"] is None:
        return ""
    if row["times_out_in_ms"] is None:
        return "never"
    left_ms = row["times_out_in_ms"]
    return f"in {duration(left_ms)}" if left_ms > 0 else f"{duration(-left_ms)} ago"


def _group_names(held: Iterable[Row]) -> str:
    names: dict[str, None] = {}
    for each in held:
        names |= dict.fromkeys(one["group"] for one in each["groups"] if one["at_stable"])
        names |= dict.fromkeys(one["group"] for one in each["readers"] if one["group"])
    return listed(names) if names else ""


def description(
    described: TransactionDescription,
    report: TransactionsReport,
    coordinator: str,
    history: TransactionHistory | None,
) -> str:
    """The output of `describe`."""
    row = description_row(described, report, ())
    facts = [
        ("transactional id", described.transactional_id),
        ("state", described.state),
        ("producer", _producer(described, history)),
        ("coordinator", coordinator),
        ("timeout", _timeout(described)),
    ]
    if row["open_ms"] is not None:
        facts.append(
            ("open", f"for {duration(row['open_ms'])}, since {iso_time(row['started_ms'])}")
        )
        facts.append(("times out", _times_out(row)))
    width = max(len(name) for name, _ in facts)
    text = "".join(f"{name.ljust(width)}  {printable(value)}\n" for name, value in facts)
    if described.partitions:
        held = {each.at: each for each in report.held}
        rows = [_partition_row(at, described, held.get(at)) for at in described.partitions]
        text += "\n" + table(rows, PARTITION_COLUMNS)
    return text + _aborts(history)


def _producer(described: TransactionDescription, history: TransactionHistory | None) -> str:
    text = f"id {described.producer_id}, epoch {described.producer_epoch}"
    if history is not None and history.client_host:
        text += f", client {history.client_id!r} at {history.client_host.removeprefix('/')}"
    return text


def _aborts(history: TransactionHistory | None) -> str:
    """The last aborts with their causes, the oldest first; nothing if the broker keeps none."""
    if history is None or not history.aborts:
        return ""
    text = "\nlast aborts\n"
    for abort in reversed(history.aborts):
        text += f"{iso_time(abort.at_ms)}  {printable(abort.text)}"
        if abort.open_ms >= 0:
            text += f"; open for {duration(abort.open_ms)}, in"
            text += f" {count(abort.partitions, 'partition')}"
        text += "\n"
    return text


def _client(history: TransactionHistory | None) -> Row | None:
    """Who initialised the id last; None if that is not known."""
    if history is None or not history.client_host:
        return None
    return {"client_id": history.client_id, "host": history.client_host.removeprefix("/")}


def history_document(history: TransactionHistory | None) -> dict[str, Any]:
    """`client` and `aborts` are None if the broker is not Barnabas."""
    if history is None:
        return {"client": None, "aborts": None}
    return {
        "client": _client(history),
        "aborts": [
            {
                "at_ms": abort.at_ms,
                "kind": abort.kind.lower(),
                "text": abort.text,
                "client_id": abort.client_id,
                "host": abort.client_host.removeprefix("/"),
                "producer_id": abort.producer_id,
                "producer_epoch": abort.producer_epoch,
                "open_ms": None if abort.open_ms < 0 else abort.open_ms,
                "partitions": None if abort.partitions < 0 else abort.partitions,
            }
            for abort in history.aborts
        ],
    }


def _timeout(described: TransactionDescription) -> str:
    if described.timeout_ms == TWO_PHASE_TIMEOUT_MS:
        return "none: another system decides how it ends"
    return duration(described.timeout_ms)


def _partition_row(
    at: TopicPartition, described: TransactionDescription, held: UnstablePartition | None
) -> Row:
    row: Row = {"topic": at.topic, "partition": at.partition}
    if held is None:
        return row
    id_ = described.transactional_id
    own = [one for one in held.transactions if one.transactional_id == id_ and is_known(one)]
    names = [each.group for each in held.groups if each.at_stable]
    return {
        **row,
        "start": own[0].start_offset if own else None,
        "stable": held.stable,
        "end": held.end,
        "hidden": held.hidden,
        "holds": "yes" if own and held.transactions[0] == own[0] else "no",
        "groups": listed(names) if names else "",
    }


def headline(report: TransactionsReport) -> str:
    """The report in one line."""
    looked_at = count(report.looked_at, "partition")
    if not report.held:
        return f"no reader waits: {looked_at} looked at, no transaction is open"
    hidden = sum(each.hidden for each in report.held)
    return (
        f"{len(report.held)} of {looked_at} with open transactions,"
        f" {count(hidden, 'offset')} after the last stable offset"
    )


def findings_text(report: TransactionsReport, findings: list[Finding]) -> str:
    """The output of `explain`."""
    from textwrap import fill

    text = headline(report) + "\n"
    if report.held and not findings:
        text += "nothing is wrong: all of them are younger than a second\n"
    for finding in findings:
        text += f"\n{finding.severity.value}: {finding.name}\n"
        text += fill(printable(finding.text) + ".", 96, initial_indent="  ",
                     subsequent_indent="  ") + "\n"  # fmt: skip
        text += fill(printable(finding.remedy) + ".", 96, initial_indent="  remedy: ",
                     subsequent_indent=" " * 10, break_on_hyphens=False) + "\n"  # fmt: skip
    return text
