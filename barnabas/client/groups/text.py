"""A group as text for people, and as rows and documents for scripts."""

from typing import Any

from barnabas.client.finding import Finding
from barnabas.client.groups import share_text
from barnabas.client.groups.report import (
    CLASSIC,
    STREAMS,
    GroupReport,
    MemberReport,
    PartitionReport,
)
from barnabas.client.groups.reporting import GroupSummary
from barnabas.client.tables import Row, table
from barnabas.client.words import count, listed
from barnabas.model.times import iso_time
from barnabas.model.words import duration, printable
from barnabas.wire.messages.describe_group_history import GroupHistoryRebalance

REBALANCES_SHOWN = 5
MOVES_SHOWN = 4
PACE_MS_MIN = 10_000  # clients commit in bursts: a shorter interval may have missed one
PARTITION_COLUMNS = ("topic", "partition", "committed", "end", "lag", "lag_ms", "catch_up_ms")
NO_HISTORY = (
    "This broker keeps no history of its groups: late members, joins and leaves, and the causes of"
    " rebalances are not known."
)


UNKNOWN_LAG = "unknown: no members, and nothing committed in a topic that is there"


def headline(report: GroupReport) -> str:
    """The group in one line."""
    generation = "" if report.generation is None else f", generation {report.generation}"
    return (
        f"{printable(report.group)}: {report.state}{generation},"
        f" {count(len(report.members), 'member')},"
        f" {count(len(report.partitions), 'partition')}, {unread(report)}"
    )


def unread(report: GroupReport) -> str:
    """How far behind the group is."""
    behind = f"lag {UNKNOWN_LAG}" if report.is_unknown else "nothing unread"
    if report.lag:
        behind = f"{count(report.lag, 'record')} unread{_no_commit_yet(report)}"
        if report.unread_ms:
            behind += f", the oldest for {duration(report.unread_ms)}"
    return behind


def description(report: GroupReport, offsets_in: str = "") -> str:
    """The whole report, for people. `offsets_in`: the partition with its offsets, and why."""
    facts = [
        ("group", report.group),
        ("state", _state(report)),
        ("protocol", f"{report.type}{', ' + report.assignor if report.assignor else ''}"),
        ("coordinator", report.coordinator),
        *([("offsets", offsets_in)] if offsets_in else []),
        ("lag", _lag(report)),
        *share_text.facts(report),
    ]
    width = max(len(name) for name, _ in facts)
    parts = ["".join(f"{name.ljust(width)}  {printable(value)}\n" for name, value in facts)]
    if report.members:
        parts.append(table(member_rows(report), ["member", "client", "host", "owns"]))
    if report.partitions:
        columns = ["topic", "partition", "committed", "end", "lag", "behind", "catch_up", "owner"]
        if report.committed_lag < report.lag:
            columns[4:5] = ["stable", "lag", "committed_lag"]
        if report.shares:
            columns[-2:] = share_text.COLUMNS
        parts.append(table([_shown(p, report) for p in report.partitions], columns))
    if failed := share_text.failure_lines(report):
        parts.append(failed)
    if report.rebalances:
        parts.append("last rebalances\n" + _before_the_history(report) + rebalances(report))
    elif not report.has_history:
        parts.append(NO_HISTORY + "\n")
    elif before := _before_the_history(report):
        parts.append(before)
    return "\n".join(parts)


def _before_the_history(report: GroupReport) -> str:
    """A line where the history starts, because the broker was restarted."""
    if report.history_since_ms is None or len(report.rebalances) >= REBALANCES_SHOWN:
        return ""
    first = report.rebalances[0].generation if report.rebalances else (report.generation or 0) + 1
    if first <= 1:
        return ""
    return (
        f"{iso_time(report.history_since_ms)}  the broker started; it knows nothing from before\n"
    )


def rebalances(report: GroupReport) -> str:
    return "".join(
        f"{iso_time(entry.began_ms)}  {rebalance(entry, report)}\n"
        for entry in report.rebalances[-REBALANCES_SHOWN:]
    )


def rebalance(entry: GroupHistoryRebalance, report: GroupReport) -> str:
    """Generation, causes, times and moves, in one line."""
    return printable(_rebalance(entry, report))


def _rebalance(entry: GroupHistoryRebalance, report: GroupReport) -> str:
    causes = [cause.text for cause in entry.causes]
    why = listed(causes, 3) if causes else "for an unknown cause"
    if entry.under_way:
        return f"in progress: {why}"
    phases = f"join {duration(max(0, entry.join_ms))}"
    if entry.sync_ms >= 0:
        phases += f", sync {duration(entry.sync_ms)}"
    else:
        phases += ", overtaken by the next"
    head = f"generation {entry.generation}, {count(entry.members, 'member')} ({phases}): {why}"
    return head + _moved(entry, report)


def _moved(entry: GroupHistoryRebalance, report: GroupReport) -> str:
    if not entry.moves:
        return ""

    def name(id_: str | None) -> str:
        return "nobody" if id_ is None else report.name_of(id_)

    moves = [
        f"{move.topic}-{move.partition} from {name(move.before)} to {name(move.after)}"
        for move in entry.moves[:MOVES_SHOWN]
    ]
    more = len(entry.moves) - len(moves) + entry.more_moves
    return f"; moved {', '.join(moves)}" + (f" and {more} more" if more else "")


def findings_text(report: GroupReport, findings: list[Finding]) -> str:
    """The output of `explain`."""
    if not findings:
        text = f"nothing is wrong with {headline(report)}\n"
    else:
        text = headline(report) + "\n"
        for finding in findings:
            text += f"\n{finding.severity.value}: {finding.name}\n"
            text += _wrapped(finding.text) + _wrapped(finding.remedy, "remedy: ")
    return text if report.has_history else f"{text}\n{NO_HISTORY}\n"


def _wrapped(text: str, label: str = "") -> str:
    from textwrap import fill

    indent = " " * (2 + len(label))
    return (
        fill(printable(text) + ".", 96, initial_indent=f"  {label}", subsequent_indent=indent)
        + "\n"
    )


# Rows and documents


def partition_row(partition: PartitionReport) -> Row:
    return {
        "topic": partition.at.topic,
        "partition": partition.at.partition,
        "committed": partition.committed,
        "start": partition.start,
        "end": partition.end,
        "lag": partition.lag,
        "stable": partition.stable,
        "committed_lag": partition.committed_lag,
        "lag_ms": partition.unread_ms,
        "catch_up_ms": partition.catch_up_ms,
        "member": partition.owner,
        "metadata": partition.metadata,
        "committed_ago_ms": partition.committed_ago_ms,
        "pace": None if partition.pace is None else partition.pace._asdict(),
    }


def summary_row(summary: GroupSummary) -> Row:
    """A group in a list."""
    return {
        "group": summary.listing.group,
        "state": summary.listing.state,
        "type": summary.listing.type,
        "members": summary.members,
        "lag": summary.lag,
        "coordinator": summary.listing.coordinator,
        "protocol_type": summary.listing.protocol_type,
    }


def member_rows(report: GroupReport) -> list[Row]:
    return [
        {
            "member": member.id,
            "client": member.client,
            "host": member.host.removeprefix("/"),
            "instance": member.instance,
            "topics": list(member.topics),
            "owns": listed(member.owned, 8) if member.owned else "nothing",
            "partitions": [list(at) for at in member.owned],
            "session_timeout_ms": member.session_timeout_ms,
            "rebalance_timeout_ms": member.rebalance_timeout_ms,
            "silent_ms": member.silent_ms,
            **({"tasks": _tasks_by_role(member)} if report.type == STREAMS else {}),
        }
        for member in report.members
    ]


def _tasks_by_role(member: MemberReport) -> dict[str, list[str]]:
    roles: dict[str, list[str]] = {}
    for task in member.tasks:
        roles.setdefault(task.role, []).append(str(task))
    return roles


def document(report: GroupReport) -> dict[str, Any]:
    return {
        "group": report.group,
        "state": report.state,
        "type": report.type,
        "assignor": report.assignor,
        "generation": report.generation,
        "coordinator": report.coordinator,
        "lag": report.lag,
        "committed_lag": report.committed_lag,
        "reads_committed": True if report.reads_committed else None,
        "lag_max": report.lag_max,
        "lag_known": not report.is_unknown and not report.no_commit_yet,
        "no_commit_yet": [list(partition.at) for partition in report.no_commit_yet],
        "lag_ms": report.unread_ms,
        "catch_up_ms": report.catch_up_ms,
        "members": [
            {name: value for name, value in row.items() if name != "owns"}
            for row in member_rows(report)
        ],
        "partitions": [partition_row(each) for each in report.partitions],
        **({"in_flight": share_text.documents(report)} if report.shares else {}),
        **(
            {"subtopologies": [part._asdict() for part in report.subtopologies]}
            if report.type == STREAMS
            else {}
        ),
        "has_history": report.has_history,
        "history_since_ms": report.history_since_ms,
        "rebalances": [rebalance_document(entry) for entry in report.rebalances],
        "notes": [
            {"at_ms": note.at_ms, "times": note.times, "kind": note.cause.kind.lower(),
             "text": note.cause.text}
            for note in report.notes
        ],
    }  # fmt: skip


def rebalance_document(entry: GroupHistoryRebalance) -> dict[str, Any]:
    return {
        "began_ms": entry.began_ms,
        "generation": entry.generation,
        "members": entry.members,
        "assignor": entry.protocol,
        "leader": entry.leader,
        "under_way": entry.under_way,
        "join_ms": entry.join_ms,
        "sync_ms": entry.sync_ms,
        "last": {
            "member": entry.last_member,
            "client": entry.last_client,
            "after_ms": entry.last_after_ms,
        },
        "causes": [
            {
                "kind": cause.kind.lower(),
                "text": cause.text,
                "member": cause.member_id,
                "client": cause.client_id,
                "host": cause.client_host.removeprefix("/"),
                "instance": cause.instance_id or None,
                "waited_ms": cause.waited_ms,
                "allowed_ms": cause.allowed_ms,
                "connected": cause.alive,
            }
            for cause in entry.causes
        ],
        "more_causes": entry.more_causes,
        "moves": None
        if entry.moves is None
        else [
            {
                "topic": move.topic,
                "partition": move.partition,
                "before": move.before,
                "after": move.after,
            }
            for move in entry.moves
        ],
    }


def findings_document(report: GroupReport, findings: list[Finding]) -> dict[str, Any]:
    return {
        "group": report.group,
        "state": report.state,
        "lag": report.lag,
        "has_history": report.has_history,
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


def _state(report: GroupReport) -> str:
    if report.generation is None:
        return report.state
    what = "generation" if report.type == CLASSIC else "epoch"
    return f"{report.state}, {what} {report.generation}"


def _lag(report: GroupReport) -> str:
    if report.is_unknown:
        return UNKNOWN_LAG
    if not report.lag:
        return "none"
    text = count(report.lag, "record") + _no_commit_yet(report)
    if report.committed_lag < report.lag:
        if report.reads_committed:
            text += f"; {report.committed_lag} for its members, which read committed records only"
        else:
            text += f"; {report.committed_lag} if its members read committed records only"
    if report.unread_ms:
        text += f", the oldest unread for {duration(report.unread_ms)}"
    if report.catch_up_ms:
        text += f"; caught up in about {duration(report.catch_up_ms)} at this pace"
    return text


def _no_commit_yet(report: GroupReport) -> str:
    """The part of the lag in partitions without a committed offset."""
    lag = sum(partition.lag for partition in report.no_commit_yet)
    if not lag:
        return ""
    return " (no commit yet)" if lag == report.lag else f" ({lag} of them with no commit yet)"


def _committed(partition: PartitionReport) -> str | int:
    if partition.committed is not None:
        return partition.committed
    return "no commit yet" if partition.no_commit_yet else "-"


def _shown(partition: PartitionReport, report: GroupReport) -> Row:
    catch_up = ""
    if partition.lag and partition.catch_up_ms is not None:
        catch_up = duration(partition.catch_up_ms)
    elif partition.lag and partition.pace is not None and partition.pace.ms >= PACE_MS_MIN:
        catch_up = "never"
    return {
        "topic": partition.at.topic,
        "partition": partition.at.partition,
        "committed": _committed(partition),
        "end": partition.end,
        "stable": partition.stable,
        "lag": partition.lag,
        "committed_lag": partition.committed_lag,
        "behind": duration(partition.unread_ms) if partition.lag and partition.unread_ms else "",
        "catch_up": catch_up,
        "owner": "" if partition.owner is None else report.name_of(partition.owner),
        **share_text.columns(report, partition.at),
    }
