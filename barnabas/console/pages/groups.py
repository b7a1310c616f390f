"""`/groups` and `/groups/G`: who is behind, why, and what happened."""

import shlex
from typing import Any

from barnabas.client.finding import Severity
from barnabas.client.groups import share_text
from barnabas.client.groups.diagnosis import diagnose
from barnabas.client.groups.report import GroupReport
from barnabas.client.groups.reporting import GroupSummary
from barnabas.client.groups.targets import KEPT_SUFFIXES
from barnabas.client.groups.text import (
    NO_HISTORY,
    PARTITION_COLUMNS,
    document,
    findings_document,
    headline,
    member_rows,
    partition_row,
    rebalance,
    summary_row,
    unread,
)
from barnabas.client.words import count
from barnabas.console import words
from barnabas.console.application import Asked
from barnabas.console.pages.listing import listed
from barnabas.console.view import View
from barnabas.model.words import duration

_PARTITIONS_SHOWN = 300
_REBALANCES_SHOWN = 12
_FAILURES_SHOWN = 50
_SOON_MS = 10_000


async def groups(asked: Asked) -> View:
    """From the sweep: members and lag of all groups cannot be asked for one page."""
    state = asked.state
    summaries = state.sweep.groups
    if not state.sweep.at_ms:
        listings = await state.admin.groups()
        summaries = [
            GroupSummary(one, 0, None) for one in listings if not one.group.endswith(KEPT_SUFFIXES)
        ]
    found = listed(
        asked,
        summaries,
        lambda one: one.listing.group,
        {
            "name": lambda one: one.listing.group,
            "-lag": lambda one: (one.lag or 0, one.listing.group),
            "-members": lambda one: (one.members, one.listing.group),
            "state": lambda one: (one.listing.state, one.listing.group),
        },
        "/groups",
        "-lag",
    )
    rows = [summary_row(one) for one in found.rows]
    behind = sum(bool(one.lag) for one in summaries)
    title = f"{count(found.total, 'group')}"
    title += f" of {found.all:,} match" if found.q else ""
    title += f", {behind} with unread records" if behind else ", nothing unread"
    return View(
        "groups",
        title,
        data={"listed": found, "rows": rows, "swept": state.sweep.at_ms},
        rows=rows,
        columns=["group", "state", "type", "members", "lag", "coordinator"],
        live={f"l{number}": words.number(row["lag"]) for number, row in enumerate(rows)},
        command="group ls",
    )


async def group(asked: Asked) -> View:
    (name,) = asked.names
    report = await asked.state.report(name)
    findings = diagnose(report)
    worst = findings[0] if findings else None
    title = headline(report)
    if worst is not None:  # the answer first: what is wrong
        what = " and ".join(one.name.replace("-", " ") for one in findings[:2])
        title = f"{words.text(name, 249)}: {what}; {unread(report)}"
    live = {
        "lag": words.number(report.lag),
        "oldest": duration(report.unread_ms) if report.lag and report.unread_ms else "-",
        "catch_up": catch_up(report),
        "state": report.state,
        "members": words.number(len(report.members)),
    }
    shown = sorted(report.partitions, key=lambda one: -one.lag)[:_PARTITIONS_SHOWN]
    shown.sort(key=lambda one: one.at)
    if report.shares:
        live["in_flight"] = words.number(sum(one.in_flight for one in report.shares))
        live["redelivered"] = share_text.redelivered_text(report)
    for number, one in enumerate(shown):
        live[f"c{number}"] = "none" if one.committed is None else words.number(one.committed)
        live[f"e{number}"] = words.number(one.end)
        live[f"l{number}"] = words.number(one.lag)
    return View(
        "group",
        title,
        data={
            "group": name,
            "report": report,
            "findings": findings,
            "worst": worst,
            "members": member_rows(report),
            "partitions": shown,
            "more_partitions": len(report.partitions) - len(shown),
            "lag_top": max((one.lag for one in shown), default=0),
            "lanes": lanes(report),
            "in_flight": share_text.by_partition(report),
            "oldest_text": share_text.oldest_text,
            "failures": [
                (failure.at_ms, share_text.failure_text(at, failure), failure.archived)
                for at, failure in share_text.failures(report)[:_FAILURES_SHOWN]
            ],
            "catch_up": partition_catch_up,
            "no_history": NO_HISTORY,
        },
        document={**document(report), "findings": findings_document(report, findings)["findings"]},
        rows=[partition_row(one) for one in report.partitions],
        columns=PARTITION_COLUMNS,
        live=live,
        outline=[f"{one.name}:{one.severity.value}" for one in findings]
        + [f"{one.at}" for one in shown]
        + [f"{one.id}:{len(one.owned)}" for one in report.members]
        + [f"{len(report.rebalances)}:{report.generation}"],
        command=f"group explain {shlex.quote(name)}",
        good=None if worst is None and report.lag else worst is None,
    )


def catch_up(report: GroupReport) -> str:
    if not report.lag:
        return "caught up"
    if report.catch_up_ms is not None:
        return f"about {duration(report.catch_up_ms)}"
    if 0 < report.unread_ms < _SOON_MS:  # read as it comes: the rest is always a little
        return "keeps up"
    if any(one.pace is not None for one in report.partitions):
        return "never"
    return "not known yet"


def partition_catch_up(one: Any) -> str:
    if not one.lag:
        return ""
    if one.catch_up_ms is not None:
        return duration(one.catch_up_ms)
    if one.unread_ms is not None and one.unread_ms < _SOON_MS:
        return ""
    return "never" if one.pace is not None and one.pace.ms >= 10_000 else "-"


def lanes(report: GroupReport) -> list[dict[str, Any]]:
    """The last rebalances, newest first: causes, and how long each phase took."""
    recent = report.rebalances[-_REBALANCES_SHOWN:]
    longest = max((max(0, one.join_ms) + max(0, one.sync_ms) for one in recent), default=0) or 1
    return [
        {
            "at_ms": one.began_ms,
            "generation": one.generation,
            "text": rebalance(one, report),
            "causes": [cause.text for cause in one.causes],
            "members": one.members,
            "under_way": one.under_way,
            "join_ms": max(0, one.join_ms),
            "sync_ms": max(0, one.sync_ms),
            "join_width": round(max(0, one.join_ms) * 200 / longest, 1),
            "sync_width": round(max(0, one.sync_ms) * 200 / longest, 1),
            "last": one.last_client or one.last_member,
            "last_after_ms": one.last_after_ms,
            "moves": [
                f"{move.topic}-{move.partition}: {_owner(move.before, report)} →"
                f" {_owner(move.after, report)}"
                for move in (one.moves or ())[:12]
            ],
            "more_moves": max(0, len(one.moves or ()) - 12) + one.more_moves,
            "failed": any(cause.kind.lower() in _FAILURES for cause in one.causes),
        }
        for one in reversed(recent)
    ]


_FAILURES = frozenset({"session_expired", "session_timeout", "expired", "poll_expired", "fenced"})


def _owner(member: str | None, report: GroupReport) -> str:
    return "nobody" if member is None else report.name_of(member)


def severity_class(severity: Severity) -> str:
    return "bad" if severity is Severity.PROBLEM else "warn"
