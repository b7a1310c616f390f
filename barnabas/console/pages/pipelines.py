"""`/pipelines`: topic → query → table, and whether the counts agree."""

import asyncio
from typing import Any

from barnabas.client.groups.report import GroupReport
from barnabas.client.words import count
from barnabas.console.application import Asked
from barnabas.console.view import View
from barnabas.model.errors import KafkaError


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
        columns=["name", "kind", "state", "group", "records", "read", "waiting", "rows", "batches",
                 "table_rows"],
        live={f"w{number}": f"{row['waiting']:,}" for number, row in enumerate(rows)
              if row["waiting"] is not None},
        command="pipeline ls -a",
        good=None if not rows else not broken,
    )  # fmt: skip


async def _flow(asked: Asked, entry: dict[str, Any]) -> dict[str, Any]:
    """The pipeline's own numbers beside those of its group in this cluster."""
    try:
        report: GroupReport | None = await asked.state.report(entry["group"])
    except KafkaError:  # another cluster's, or it has committed nothing yet
        report = None
    row = {
        "table_rows": None,
        "alerts": {},
        **entry,
        "records": None,
        "read": None,
        "waiting": None,
        "adds_up": None,
        "topics": [],
    }
    if report is not None and report.partitions:
        starts = sum(one.start for one in report.partitions)
        ends = sum(one.end for one in report.partitions)
        committed = sum(
            one.start if one.committed is None else max(one.committed, one.start)
            for one in report.partitions
        )
        row |= {
            "records": ends - starts,
            "read": committed - starts,
            "waiting": ends - committed,
            "adds_up": (committed - starts) + report.lag == ends - starts,
            "topics": sorted(report.topic_partitions),
        }
    return row
