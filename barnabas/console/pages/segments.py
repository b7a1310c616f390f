"""`/topics/T/log`: the segments of the logs of a topic, and whether they are compacted."""

import shlex
from typing import Any

from barnabas.client.segment_rows import COLUMNS, segment_rows
from barnabas.client.words import count
from barnabas.console import words
from barnabas.console.application import Asked
from barnabas.console.pages.topics import found_topic
from barnabas.console.view import View
from barnabas.model.errors import Code, InvalidRequest

_PARTITIONS_SHOWN = 50
_SEGMENTS_SHOWN = 100  # of one partition, if one is asked for


async def segments(asked: Asked) -> View:
    (name,) = asked.names
    topic = await found_topic(asked, name)
    brokers = (await asked.state.names()).brokers
    given = asked.query("partition")
    wanted = [p.number for p in topic.partitions if p.leader in brokers]
    if given:
        number = asked.number("partition", 0, 2**31)
        if number >= len(topic.partitions):
            raise InvalidRequest(
                Code.UNKNOWN_TOPIC_OR_PARTITION,
                f"topic {name!r} has no partition {number}: it has {len(topic.partitions)}",
            )
        wanted = [number]
    shown = wanted[:_PARTITIONS_SHOWN]
    each_max = _SEGMENTS_SHOWN if given else max(3, _SEGMENTS_SHOWN // max(1, len(shown)))
    logs = await asked.state.admin.describe_logs(name, shown, segments_max=1_000) if shown else {}
    rows: list[dict[str, Any]] = []
    for at in sorted(logs):
        rows += segment_rows(name, logs[at])[-each_max:][::-1]
    largest = max((row["bytes"] for row in rows), default=0)
    many = sum(log.segments for log in logs.values())
    size = sum(log.bytes for log in logs.values())
    where = f"partition {shown[0]}" if len(shown) == 1 else count(len(shown), "partition")
    title = f"{words.text(name, 249)}: {count(many, 'segment')} with {words.size(size)} in {where}"
    if not logs:
        title = f"{words.text(name, 249)}: these brokers do not report segments"
    return View(
        "segments",
        title,
        data={
            "name": name,
            "rows": rows,
            "logs": [logs[at] for at in sorted(logs)],
            "left_out": many - len(rows),
            "more_partitions": len(wanted) - len(shown),
            "partition": given,
            "largest": largest,
            "compacted": any(log.dirty_bytes >= 0 for log in logs.values()),
        },
        rows=rows,
        columns=COLUMNS,
        command=f"topic segments {shlex.quote(name)}" + (f" -p {given}" if given else ""),
    )
