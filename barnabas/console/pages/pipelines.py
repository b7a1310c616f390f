"""`/pipelines` and `/pipelines/N`: topic → query → table, letters, and whether the counts agree."""

import asyncio
import re
import shlex
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

from barnabas.client.groups.report import GroupReport, PartitionReport
from barnabas.client.words import count
from barnabas.client.workers.dead_letters import DeadLetters, Filter
from barnabas.config.option import nearest
from barnabas.console import words
from barnabas.console.application import Asked
from barnabas.console.reading import reading_cluster
from barnabas.console.view import View
from barnabas.model.errors import Code, InvalidRequest, KafkaError

_LETTERS_MAX = 20_000  # read to count those of one pipeline
_LETTERS_MS = 10_000
_RECORD = re.compile(r"([a-zA-Z0-9._-]{1,249})-(\d{1,9}), offset (\d{1,18})")
_COLUMNS = [
    "name", "kind", "state", "group", "records", "read", "waiting", "rows", "batches", "table_rows"
]  # fmt: skip


async def pipelines(asked: Asked) -> View:
    entries = await asyncio.to_thread(asked.options.pipelines)
    rows = [await _flow(asked, entry) for entry in entries]
    rows.sort(key=lambda row: (row["state"] != "running", row["name"]))
    running = sum(row["state"] == "running" for row in rows)
    broken = [row for row in rows if row["state"] in ("failed", "killed")]
    title = f"{count(running, 'pipeline')} running"
    if broken:
        title += f", {len(broken)} failed"
    if not rows:
        title = "No pipeline runs or ran on this machine"
    return View(
        "pipelines",
        title,
        data={"rows": rows},
        rows=rows,
        columns=_COLUMNS,
        live={f"w{number}": f"{row['waiting']:,}" for number, row in enumerate(rows)
              if row["waiting"] is not None},
        outline=[f"{row['name']}:{row['state']}:{row['error']}" for row in rows],
        command="pipeline ls -a",
        remote=False,
        good=None if not rows else not broken,
    )  # fmt: skip


async def pipeline(asked: Asked) -> View:
    """One pipeline, with its letters and retries: in = out + letters + waiting."""
    (name,) = asked.names
    entries = await asyncio.to_thread(asked.options.pipelines)
    by_name = {entry["name"]: entry for entry in entries}
    if name not in by_name:
        hint = nearest(name, by_name)
        raise InvalidRequest(
            Code.RESOURCE_NOT_FOUND, f"no pipeline {name[:200]!r} runs or ran here{hint}"
        )
    row = await _flow(asked, by_name[name])
    row |= await _letters(asked, row)
    row["sum"] = _sum(row)
    title = f"{words.text(name, 120)} {_said(row)}"
    live = {
        each: words.number(row[each]) for each in ("records", "read", "waiting", "table_rows")
        if row[each] is not None
    }  # fmt: skip
    return View(
        "pipeline",
        title,
        data={"row": row, "phases": _phases(row), "failed_at": _record_page(row["error"])},
        document=row,
        rows=[row],
        columns=[*_COLUMNS, "letters", "retries_waiting"],
        live=live,
        outline=[row["state"], str(row["error"]), str(sorted(row["alerts"])), str(row["letters"])],
        command=f"pipeline explain {shlex.quote(name)}",
        remote=False,
        good=row["state"] == "running" and not row["alerts"] and not row["letters"],
    )


def _said(row: dict[str, Any]) -> str:
    if row["state"] in ("failed", "killed"):
        return "has failed" if row["state"] == "failed" else "was killed"
    if row["state"] != "running":
        return "has ended"
    parts = ["runs"]
    if row["waiting"] is not None:
        parts.append(f"{count(row['waiting'], 'record')} waiting" if row["waiting"] else "all read")
    if row["letters"]:
        parts.append(count(row["letters"], "dead letter"))
    return ", ".join(parts)


def _ours(report: GroupReport, entry: dict[str, Any]) -> list[PartitionReport]:
    """Of the topics that it reads, without its own retry topic."""
    return [one for one in report.partitions if one.at.topic != entry.get("retry_topic")]


async def _flow(asked: Asked, entry: dict[str, Any]) -> dict[str, Any]:
    """The pipeline's own numbers beside those of its group in this cluster."""
    try:
        report: GroupReport | None = await asked.state.report(entry["group"])
    except KafkaError:  # another cluster's, or it has committed nothing yet
        report = None
    row = {
        "table_rows": None,
        "alerts": {},
        "reads": [],
        "retry_topic": None,
        "dlq": None,
        "target": None,
        "row_per_record": True,
        **entry,
        "records": None,
        "read": None,
        "waiting": None,
        "written": None,
        "retries_waiting": None,
        "adds_up": None,
        "topics": entry.get("reads") or [],
    }
    if report is not None and report.partitions:
        ours = _ours(report, entry)
        starts, ends = sum(one.start for one in ours), sum(one.end for one in ours)
        committed = sum(_position(one) for one in ours)
        row |= {
            "records": ends - starts,
            "read": committed - starts,
            "waiting": ends - committed,
            "written": ends,
            "adds_up": (committed - starts) + sum(one.lag for one in ours) == ends - starts,
            "topics": sorted({one.at.topic for one in ours}),
            "retries_waiting": sum(one.lag for one in report.partitions) - ends + committed,
        }
    return row


def _position(one: PartitionReport) -> int:
    return one.start if one.committed is None else max(one.committed, one.start)


async def _letters(asked: Asked, row: dict[str, Any]) -> dict[str, Any]:
    """How many letters are this pipeline's; others may write to the same topic."""
    topic = row["dlq"]
    if topic is None or topic not in (await asked.state.names()).topics:
        return {"letters": None if topic is None else 0, "more_letters": False}

    async def look() -> int:
        found = 0
        with reading_cluster(asked.options.settings) as cluster:
            wanted = Filter(group=row["group"])
            async with aclosing(DeadLetters(cluster).letters(topic, wanted)) as letters:
                async for _ in letters:
                    found += 1
                    if found >= _LETTERS_MAX:
                        break
        return found

    found = await asked.state.shared(f"letters of {row['group']}", look, _LETTERS_MS)
    return {"letters": found, "more_letters": found >= _LETTERS_MAX}


def _sum(row: dict[str, Any]) -> dict[str, int] | None:
    """Records written = rows + letters + waiting, if the pipeline makes one row of each record."""
    known = row["table_rows"], row["written"], row["waiting"]
    if None in known or row["more_letters"] or not row["row_per_record"]:
        return None
    parts = {
        "rows": row["table_rows"],
        "letters": row["letters"] or 0,
        "retries": row["retries_waiting"] or 0,
        "waiting": row["waiting"],
    }
    return {"written": row["written"], **parts, "differ": row["written"] - sum(parts.values())}


def _phases(row: dict[str, Any]) -> list[dict[str, Any]]:
    """Where the time of the last batch went."""
    phases: dict[str, int] = row.get("phases_ms") or {}
    whole = max(sum(phases.values()), 1)
    return [
        {"name": name, "ms": ms, "width": round(ms * 160 / whole, 1)}
        for name, ms in sorted(phases.items(), key=lambda each: -each[1])
    ]


def _record_page(error: str | None) -> str:
    """Of the record that an error names."""
    found: Sequence[str] = match.groups() if (match := _RECORD.search(error or "")) else ()
    return words.path("topics", *found) if found else ""
