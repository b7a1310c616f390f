"""`/brokers`, `/events` and `/transactions`."""

import shlex

from barnabas.client.cluster_rows import broker_rows, event_row, health, reasons
from barnabas.client.tables import Row
from barnabas.client.transactions.report import TransactionsReport
from barnabas.client.transactions.text import held_row, list_rows, shown_row
from barnabas.client.transactions.transaction_rules import diagnose_transactions
from barnabas.client.words import count
from barnabas.console import words
from barnabas.console.application import Asked
from barnabas.console.cluster_state import ConsoleCluster
from barnabas.console.sweep import OPEN_STATES, TRANSACTIONS_MAX, transactions_report
from barnabas.console.view import View
from barnabas.system.machine import boot_id

_EVENTS_SHOWN = 200
_HISTORIES_MAX = 100
_FRESH_MS = 4_000


async def brokers(asked: Asked) -> View:
    state = asked.state
    view = await state.names()
    details = await state.brokers()
    rows = state.derived("brokers", lambda: broker_rows(view, details, boot_id()))
    problems = state.problems()
    why = reasons(details)
    for row in problems:
        row["reason"] = why.get((row["topic"], row["partition"]), "")
    disks = [
        {
            "broker": one.broker,
            "path": one.path,
            "problem": None if one.error is None else one.error.detail,
            "replicas": state.sweep.replicas[one.broker, one.path][0],
            "bytes": state.sweep.replicas[one.broker, one.path][1],
            "total": one.total_size,
            "free": one.usable_size,
            "used_part": 0 if one.total_size <= 0 else 1 - one.usable_size / one.total_size,
        }
        for one in state.sweep.log_dirs or ()
    ]
    live = {}
    for number, row in enumerate(rows):
        live[f"d{number}"] = (
            "-" if row["loop_delay_ms_p99"] is None else (f"{row['loop_delay_ms_p99']} ms")
        )
        live[f"f{number}"] = words.number(row["open_files"])
    down = sum(row["state"] in ("down", "silent") for row in rows)
    partitions = sum(len(topic.partitions) for topic in view.topics.values())
    title = f"{count(len(rows), 'broker')}"
    title += f", {down} down" if down else ", all up"
    title += f"; {health(problems, partitions)}"
    return View(
        "brokers",
        title,
        data={
            "rows": rows,
            "disks": disks,
            "problems": problems[:100],
            "swept": state.sweep.at_ms,
        },
        document={"brokers": rows, "log_dirs": disks, "problems": problems},
        rows=rows,
        columns=["broker", "address", "state", "epoch", "rack", "leads", "replicas"],
        live=live,
        outline=[f"{row['broker']}:{row['state']}:{row['leads']}" for row in rows]
        + [f"{row['topic']}-{row['partition']}:{row['problem']}" for row in problems[:100]],
        command="cluster brokers",
        good=not down and not problems,
    )


async def events(asked: Asked) -> View:
    topic = asked.query("topic")[:249]
    partition = asked.query("partition")[:10]
    found = await asked.state.shared("events", lambda: asked.state.admin.events(count=2_000))
    rows = [
        row
        for row in map(event_row, reversed(found or ()))
        if (not topic or row["topic"] == topic)
        and (not partition or str(row["partition"]) == partition)
    ]
    if found is None:
        title = "The controller is not Barnabas, and has no history"
    else:
        about = f" of {topic}{'-' + partition if partition else ''}" if topic else ""
        title = f"{count(len(rows), 'event')}{about} since the controller was elected"
    return View(
        "events",
        title,
        data={"rows": rows[:_EVENTS_SHOWN], "topic": topic, "partition": partition},
        rows=rows,
        columns=["time", "what", "where", "change", "cause"],
        outline=[str(len(rows)), *(f"{row['time']}{row['where']}" for row in rows[:1])],
        command="cluster events" + (f" -t {shlex.quote(topic)}" if topic else ""),
    )


async def _open(state: ConsoleCluster) -> tuple[list[Row], TransactionsReport]:
    admin = state.admin
    listed = (await admin.list_transactions(states=OPEN_STATES))[:TRANSACTIONS_MAX]
    described = await admin.describe_transactions(
        [each.transactional_id for each in listed],
        coordinators={each.transactional_id: each.coordinator for each in listed},
    )
    report = await transactions_report(state)
    histories = await admin.transaction_histories(list(described)[:_HISTORIES_MAX])
    return list_rows(described.values(), report, histories), report


async def transactions(asked: Asked) -> View:
    rows, report = await asked.state.shared("transactions", lambda: _open(asked.state), _FRESH_MS)
    findings = diagnose_transactions(report)
    held = [held_row(one, report) for one in report.held]
    title = f"{count(len(rows), 'open transaction')}"
    if held:
        title += f"; readers of committed records wait in {count(len(held), 'partition')}"
    else:
        title += "; no reader waits"
    return View(
        "transactions",
        title,
        data={"rows": [shown_row(row) for row in rows], "findings": findings, "held": held},
        document={"transactions": rows, "held": held},
        rows=rows,
        columns=["transactional_id", "state", "producer_id", "open_ms", "times_out_in_ms"],
        outline=[f"{row['transactional_id']}:{row['state']}" for row in rows]
        + [f"{row['topic']}-{row['partition']}" for row in held]
        + [finding.name for finding in findings],
        command="txn explain",
        good=not findings,
    )
