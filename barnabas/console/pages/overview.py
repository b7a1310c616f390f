"""`/`: is anything wrong, and why."""

from typing import Any

from barnabas.client.cluster_rows import broker_rows, counts, reasons
from barnabas.client.finding import Finding, Severity
from barnabas.client.words import count
from barnabas.console import charts, words
from barnabas.console.application import Asked
from barnabas.console.view import View
from barnabas.system.machine import boot_id

_SHOWN = 20


async def overview(asked: Asked) -> View:
    state = asked.state
    view = await state.names()
    details = await state.brokers()
    problems = state.problems()
    why = reasons(details)
    for row in problems:
        row["reason"] = why.get((row["topic"], row["partition"]), "")
    sweep = state.sweep
    findings = [
        {
            "group": group,
            "name": finding.name,
            "severity": finding.severity.value,
            "text": finding.text,
            "remedy": finding.remedy,
        }
        for group, finding in sorted(
            _once(sweep.findings), key=lambda pair: pair[1].severity is not Severity.PROBLEM
        )
    ]
    topics, partitions = state.derived("counts", lambda: counts(view))
    brokers = state.derived("brokers", lambda: broker_rows(view, details, boot_id()))
    down = [row for row in brokers if row["state"] in ("down", "silent")]
    offline = sum(row["problem"] == "offline" for row in problems)
    title = _title(down, offline, len(problems) - offline, findings, bool(sweep.at_ms))
    rates = sweep.total_rates()
    behind = sorted((one for one in sweep.groups if one.lag), key=lambda one: -(one.lag or 0))
    live = {
        "rate": words.rate(rates[-1] if rates else None),
        "records": words.number(sum(sweep.records.values()) if sweep.at_ms else None),
        "lag": words.number(sum(one.lag or 0 for one in sweep.groups) if sweep.at_ms else None),
        "problems": words.number(len(problems)),
        "findings": words.number(len(findings)),
        "points": charts.points(rates),
        "letters": words.number(sweep.letters if sweep.at_ms else None),
        "swept": words.ago(sweep.at_ms) if sweep.at_ms else "not yet",
    }
    document: dict[str, Any] = {
        "cluster": view.cluster_id,
        "controller": view.controller_id,
        "brokers": brokers,
        "topics": topics,
        "partitions": partitions,
        "problems": problems,
        "findings": findings,
        "swept_ms": sweep.at_ms,
    }
    return View(
        "overview",
        title,
        data={
            "brokers": brokers,
            "topics": topics,
            "partitions": partitions,
            "groups": len(sweep.groups) if sweep.at_ms else None,
            "problems": problems[:_SHOWN],
            "more_problems": max(0, len(problems) - _SHOWN),
            "findings": findings,
            "behind": behind[:8],
            "problem": state.problem,
            "state": state,
        },
        document=document,
        rows=findings,
        columns=["group", "name", "severity", "text", "remedy"],
        live=live,
        outline=[
            str(bool(sweep.at_ms)),
            *(f"{row['topic']}-{row['partition']}" for row in problems),
            *(f"{each['group']}:{each['name']}" for each in findings),
        ],
        command="status",
        good=_good(down or problems or findings, bool(sweep.at_ms)),
    )


def _once(findings: list[tuple[str, Finding]]) -> list[tuple[str, Finding]]:
    """What is found about the cluster is not repeated for each of its groups."""
    everywhere = {finding.name for group, finding in findings if not group}
    return [each for each in findings if not each[0] or each[1].name not in everywhere]


def _good(wrong: list[Any], swept: bool) -> bool | None:
    """None while groups have not been examined: nothing is known to be wrong yet."""
    return False if wrong else True if swept else None


def _title(
    down: list[Any], offline: int, under: int, findings: list[dict[str, Any]], swept: bool
) -> str:
    parts = []
    if down:
        parts.append(f"{count(len(down), 'broker')} down")
    if offline:
        parts.append(f"{count(offline, 'partition')} offline")
    if under:
        parts.append(f"{count(under, 'partition')} under-replicated")
    groups = {finding["group"] for finding in findings if finding["group"]}
    if len(groups) == 1:
        first = next(finding for finding in findings if finding["group"])
        what = first["name"].replace("_", " ").replace("-", " ")
        parts.append(f"Group {first['group']}: {what}")
    elif groups:
        parts.append(f"{count(len(groups), 'group')} have problems")
    if any(not finding["group"] for finding in findings):
        parts.append("transactions hold readers back")
    if parts:
        return ", ".join(parts)
    return "Nothing is wrong" if swept else "All partitions have leaders; groups are being examined"
