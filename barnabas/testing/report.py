"""What a failed test prints of its brokers: topics, groups, rebalances with causes, warnings."""

import json
from typing import TYPE_CHECKING

from barnabas.client.admin.admin import EARLIEST, LATEST
from barnabas.client.groups.diagnosis import diagnose
from barnabas.model.ids import TopicPartition
from barnabas.testing.groups import group_text

if TYPE_CHECKING:
    from barnabas.testing.kafka import Kafka

TOPICS_MAX = 20
GROUPS_MAX = 10
WARNINGS_MAX = 20
PAUSED = "event loop was blocked"  # as a paused broker and a clock that jumps look like


def report_of(kafka: "Kafka") -> str:
    """Never fails: a part that cannot be had says why."""
    parts = [f"--- kafka at {kafka.bootstrap_servers}"]
    for part in (_topics, _groups, _warnings):
        try:
            parts.append(part(kafka))
        except Exception as error:  # the test's own failure is what counts
            parts.append(f"{part.__name__.strip('_')}: not known: {error}")
    return "\n".join(part for part in parts if part)


def _topics(kafka: "Kafka") -> str:
    view = kafka.admin.topics()
    names = sorted(name for name in view.topics if not name.startswith("__"))
    lines = []
    for name in names[:TOPICS_MAX]:
        partitions = view.topics[name].partitions
        led = [TopicPartition(name, n) for n, each in enumerate(partitions) if each.leader >= 0]
        starts = kafka.admin.offsets(dict.fromkeys(led, EARLIEST))
        ends = kafka.admin.offsets(dict.fromkeys(led, LATEST))
        spans = [f"{at.partition}: {starts[at].offset} to {ends[at].offset}" for at in sorted(ends)]
        missing = len(partitions) - len(led)
        if missing:
            spans.append(f"{missing} without a leader")
        lines.append(f"topic {name!r}: {', '.join(spans)}")
    if len(names) > TOPICS_MAX:
        lines.append(f"and {len(names) - TOPICS_MAX} more topics")
    return "\n".join(lines) or "no topics"


def _groups(kafka: "Kafka") -> str:
    names = kafka.groups()
    texts = []
    for name in names[:GROUPS_MAX]:
        report = kafka.group(name)
        texts.append(group_text(report, diagnose(report)))
    if len(names) > GROUPS_MAX:
        texts.append(f"and {len(names) - GROUPS_MAX} more groups")
    return "\n".join(texts) or "no groups"


def _warnings(kafka: "Kafka") -> str:
    """The last lines of the brokers' logs that are warnings or errors."""
    found = []
    for line in kafka.log.splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if not isinstance(entry, dict) or entry.get("event") == PAUSED:
            continue
        if entry.get("level") in ("warning", "error"):
            values = {k: v for k, v in entry.items() if k not in ("time", "level", "event")}
            text = " ".join(f"{name}={value}" for name, value in values.items())
            found.append(f"{entry['level']}: {entry.get('event')} {text}".rstrip())
    return "\n".join(found[-WARNINGS_MAX:])
