"""`/delays` and `/delays/T`: records that wait for their time; which of them are late, and why."""

import shlex

from barnabas.client.admin.admin import Admin
from barnabas.client.delay.delay_rows import (
    PENDING_COLUMNS,
    SUMMARY_COLUMNS,
    late_records,
    pending_records,
    pending_row,
    summary_row,
    why_late,
)
from barnabas.client.delay.holding_reader import PendingRecord
from barnabas.client.delay.holding_topics import (
    HoldingTopic,
    find_holding_topic,
    ledger_of,
    marked_topics,
)
from barnabas.client.metadata_snapshot import MetadataSnapshot
from barnabas.client.tables import Row
from barnabas.client.words import count
from barnabas.console import words
from barnabas.console.application import Asked
from barnabas.console.pages.topics import found_topic
from barnabas.console.reading import reading_cluster
from barnabas.console.view import View
from barnabas.model.words import duration

_PARTITIONS_MAX = 2_000  # beyond this the options of all topics are not read
_TOPICS_MAX = 50
_READ_MAX = 2_000  # records of each partition
_SHOWN = 100
_FRESH_MS = 5_000  # tabs share a look
_COMMITTED = {"isolation.level": "read_committed"}


async def delays(asked: Asked) -> View:
    """All holding topics."""

    async def look() -> list[Row]:
        names = (await _names(asked))[:_TOPICS_MAX]
        return [(await _look(asked, name))[0] for name in names]

    rows: list[Row] = await asked.state.shared("delays", look, _FRESH_MS)
    pending, late = (sum(row[name] for row in rows) for name in ("pending", "late"))
    title = f"{count(pending, 'record')} waiting, {late:,} late" if rows else "No holding topics"
    return View(
        "delays",
        title,
        data={"rows": rows},
        rows=rows,
        columns=[*SUMMARY_COLUMNS, "late_by", "why"],
        outline=[f"{row['topic']}:{row['pending']}:{row['late']}" for row in rows],
        command="delay ls",
        good=not late,
    )


async def delayed_records(asked: Asked) -> View:
    """The records of one, those that are due first."""
    (name,) = asked.names
    await found_topic(asked, name)
    summary, rows = await _look(asked, name)
    title = f"{words.text(name, 249)}: {count(summary['pending'], 'record')} waiting"
    if summary["late"]:
        title += f", {summary['late']:,} late"
    return View(
        "delayed",
        title,
        data={"name": name, "rows": rows, "summary": summary},
        rows=rows,
        columns=list(PENDING_COLUMNS),
        outline=[row["at"] for row in rows],
        command=f"delay ls {shlex.quote(name)}",
        good=not summary["late"],
    )


async def _names(asked: Asked) -> list[str]:
    """Topics with a ledger beside them; in a cluster that is not too large also those that are
    marked, for which no delayer has run yet."""
    view = await asked.state.names()
    found = {name for name in view.topics if ledger_of(name) in view.topics}
    if sum(len(topic.partitions) for topic in view.topics.values()) <= _PARTITIONS_MAX:
        found.update(await marked_topics(asked.state.admin))
    return sorted(found)


async def _look(asked: Asked, name: str) -> tuple[Row, list[Row]]:
    """A holding topic in one row, and the rows of its first records."""
    mask = asked.options.mask
    with reading_cluster({**asked.options.settings, **_COMMITTED}) as cluster:
        holding = await find_holding_topic(Admin(cluster=cluster), name)
        pending = await pending_records(cluster, holding, _READ_MAX)
        now = cluster.net.wall_ms()
    late = late_records(pending, now)
    hidden = [one._replace(key=mask.key(one.key), value=mask.value(one.value)) for one in pending]
    summary = {
        **summary_row(name, pending, now),
        "late_by": duration(now - late[0].move.due) if late else None,
        "why": await _why(asked, holding, late) if late else None,
    }
    return summary, [pending_row(one) for one in hidden[:_SHOWN]]


async def _why(asked: Asked, holding: HoldingTopic, late: list[PendingRecord]) -> str:
    state = asked.state
    members = await state.shared("group members", state.admin.group_members, _FRESH_MS)
    view: MetadataSnapshot = await state.names()
    is_read = any(holding.name in member.topics for member in members)
    return why_late(holding.name, late, is_read=is_read, topics=view.topics)
