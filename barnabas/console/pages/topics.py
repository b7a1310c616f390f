"""`/topics` and `/topics/T`: which, how big, how fast, who leads, who reads."""

import re
import shlex
from typing import Any

from barnabas.client.cluster_rows import event_row
from barnabas.client.metadata_snapshot import TopicMetadata
from barnabas.client.words import count
from barnabas.config.option import nearest
from barnabas.config.resolve import ConfigSource
from barnabas.console import charts, words
from barnabas.console.application import Asked
from barnabas.console.pages.listing import listed
from barnabas.console.view import View
from barnabas.model.errors import Code, InvalidRequest, KafkaError
from barnabas.model.ids import TopicPartition

_PARTITIONS_SHOWN = 200
_READERS_SHOWN = 50
_EVENTS_SHOWN = 20
_TAG = re.compile(r"</?[a-zA-Z][^<>]{0,200}>")
_SOURCES = {int(source): source.name.lower().replace("_", " ") for source in ConfigSource}


async def topics(asked: Asked) -> View:
    state = asked.state
    view = await state.names()
    sweep = state.sweep
    internal = asked.query("internal") == "1"
    every = [topic for topic in view.topics.values() if internal or not topic.is_internal]

    found = listed(
        asked,
        every,
        lambda topic: topic.name,
        {
            "name": lambda topic: topic.name,
            "-partitions": lambda topic: (len(topic.partitions), topic.name),
            "-records": lambda topic: (sweep.records.get(topic.name, 0), topic.name),
            "-size": lambda topic: (sweep.bytes.get(topic.name, 0), topic.name),
            "-readers": lambda topic: (sweep.readers.get(topic.name, 0), topic.name),
            "-rate": lambda topic: (sweep.last_rate(topic.name), topic.name),
        },
        "/topics",
        "name",
    )
    places = [
        TopicPartition(topic.name, partition.number)
        for topic in found.rows
        for partition in topic.partitions[:_PARTITIONS_SHOWN]
    ]
    bounds = await state.bounds(places)
    rows: list[dict[str, Any]] = []
    live: dict[str, str] = {}
    for number, topic in enumerate(found.rows):
        mine = [bounds.get(TopicPartition(topic.name, p.number)) for p in topic.partitions]
        known = [each for each in mine if each is not None]
        rows.append(
            {
                "topic": topic.name,
                "partitions": len(topic.partitions),
                "replicas": max((len(p.replicas) for p in topic.partitions), default=0),
                "internal": topic.is_internal,
                "records": sum(end - start for start, end in known),
                "rate": sweep.last_rate(topic.name),
                "bytes": sweep.bytes.get(topic.name),
                "groups": sweep.readers.get(topic.name, 0) if sweep.at_ms else None,
                "problems": sum(
                    p.leader not in view.brokers or len(p.in_sync) < len(p.replicas)
                    for p in topic.partitions
                ),
            }
        )
        live[f"r{number}"] = words.number(rows[-1]["records"])
    title = count(found.total, "topic") + (f" of {found.all:,} match" if found.q else "")
    return View(
        "topics",
        title,
        data={"listed": found, "rows": rows, "internal": internal, "swept": sweep.at_ms},
        rows=rows,
        columns=["topic", "partitions", "replicas", "records", "rate", "bytes", "groups",
                 "problems"],
        live=live,
        command="topic ls",
    )  # fmt: skip


async def found_topic(asked: Asked, name: str) -> TopicMetadata:
    """From fresh metadata; the error names the nearest topic."""
    state = asked.state
    view = await state.names()
    if name not in view.topics:
        view = await state.names(fresh=True)
    if name not in view.topics:
        if name in view.errors:
            raise view.errors[name]
        hint = nearest(name, view.topics)
        raise InvalidRequest(
            Code.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name[:249]!r} does not exist{hint}"
        )
    return view.topics[name]


async def topic(asked: Asked) -> View:
    (name,) = asked.names
    state = asked.state
    found = await found_topic(asked, name)
    view = await state.names()
    page = max(1, asked.number("page", 1, 100_000))
    pages = max(1, -(-len(found.partitions) // _PARTITIONS_SHOWN))
    page = min(page, pages)
    all_at = [TopicPartition(name, p.number) for p in found.partitions]
    bounds = await state.bounds(all_at)
    shown = found.partitions[(page - 1) * _PARTITIONS_SHOWN : page * _PARTITIONS_SHOWN]
    led = [p.number for p in shown if p.leader in view.brokers]
    try:
        logs = await state.admin.describe_logs(name, led) if led else {}
    except KafkaError:
        logs = {}
    rows: list[dict[str, Any]] = []
    live: dict[str, str] = {}
    for number, partition in enumerate(shown):
        start, end = bounds.get(TopicPartition(name, partition.number), (None, None))
        log = logs.get(partition.number)
        lags = []
        if log is not None and len(log.replicas) > 1:
            leader_end = log.replicas[0].end
            lags = [
                f"{each.broker}: {max(0, leader_end - each.end) if each.end >= 0 else '?'}"
                for each in log.replicas[1:]
            ]
        rows.append(
            {
                "topic": name,
                "partition": partition.number,
                "leader": partition.leader,
                "epoch": partition.leader_epoch,
                "replicas": partition.replicas,
                "in_sync": partition.in_sync,
                "start": start,
                "end": end,
                "replica_lag": lags,
                "bytes": None if log is None else log.bytes,
                "segments": None if log is None else log.segments,
                "compaction": "" if log is None or log.dirty_bytes < 0 else log.cleaning,
                "offline": partition.leader not in view.brokers,
                "under_replicated": len(partition.in_sync) < len(partition.replicas),
            }
        )
        live[f"e{number}"] = words.number(end)
        live[f"g{number}"] = ", ".join(lags)
    sizes = [float(end - start) for at in all_at for start, end in [bounds.get(at, (0, 0))]]
    records = int(sum(sizes))
    readers = await _readers(asked, name, bounds)
    events = await _events(asked, name)
    since = _leading_since(events, found)
    for row in rows:
        row["leading_since_ms"] = since.get(row["partition"])
    rates = state.sweep.topic_rates(name)
    live |= {
        "records": words.number(records),
        "rate": words.rate(rates[-1] if rates else None),
        "points": charts.points(rates),
    }
    bad = sum(row["offline"] or row["under_replicated"] for row in rows)
    title = f"{words.text(name, 249)}: {count(records, 'record')} in " + count(
        len(found.partitions), "partition"
    )
    if bad:
        title += f", {bad} not healthy"
    return View(
        "topic",
        title,
        data={
            "topic": found,
            "rows": rows,
            "page": page,
            "pages": pages,
            "cells": charts.heat_cells([str(p.number) for p in found.partitions], sizes),
            "readers": readers[:_READERS_SHOWN],
            "more_readers": max(0, len(readers) - _READERS_SHOWN),
            "has_logs": bool(logs),
            "events": events[:_EVENTS_SHOWN],
            "has_since": bool(since),
            "replicated": any(row["replica_lag"] for row in rows),
            "compacted": any(row["compaction"] for row in rows),
        },
        rows=rows,
        columns=["partition", "leader", "epoch", "replicas", "in_sync", "start", "end", "bytes"],
        live=live,
        outline=[f"{row['leader']}:{row['epoch']}:{row['in_sync']}" for row in rows],
        command=f"topic describe {shlex.quote(name)}",
        good=not bad,
    )


async def _readers(
    asked: Asked, name: str, bounds: dict[TopicPartition, tuple[int, int]]
) -> list[dict[str, Any]]:
    """Groups that have committed offsets in the topic, of those that the sweep knows."""
    found = []
    for group, committed in (await asked.state.group_offsets()).items():
        mine = {at: each for at, each in committed.items() if at.topic == name}
        if mine:
            lag = sum(
                max(0, bounds[at][1] - max(each.offset, bounds[at][0]))
                for at, each in mine.items()
                if at in bounds
            )
            found.append({"group": group, "lag": lag, "partitions": len(mine)})
    return sorted(found, key=lambda row: -row["lag"])


async def _events(asked: Asked, name: str) -> list[dict[str, Any]]:
    """The last elections and changes of in-sync sets of the topic, newest first."""
    try:
        events = await asked.state.shared("events", lambda: asked.state.admin.events(count=2_000))
    except KafkaError:
        return []
    mine = [event_row(event) for event in events or () if event.topic == name]
    return mine[::-1]


def _leading_since(events: list[dict[str, Any]], topic: TopicMetadata) -> dict[int, int]:
    """By partition: when its leader was elected, as far back as the controller remembers."""
    leaders = {p.number: (p.leader, p.leader_epoch) for p in topic.partitions}
    found: dict[int, int] = {}
    for event in events:  # newest first: the oldest of the same epoch is the election
        mine = event["leader"], event["leader_epoch"]
        if mine == leaders.get(event["partition"]):
            found[event["partition"]] = event["time_ms"]
        elif event["partition"] is None and event["what"] == "topic created":
            found |= {number: event["time_ms"] for number in leaders if leaders[number][1] == 0}
    return found


async def config(asked: Asked) -> View:
    (name,) = asked.names
    await found_topic(asked, name)
    options = await asked.state.admin.topic_options(name, documentation=True)
    everything = asked.query("all") == "1"
    rows = [
        {
            "name": option.name,
            "value": option.value,
            "means": words.option_value(option.name, option.value),
            "source": _SOURCES.get(option.source, str(option.source)),
            "doc": _TAG.sub("", option.documentation or ""),  # Apache Kafka's has HTML
        }
        for option in options
        if everything or option.source != ConfigSource.DEFAULT
    ]
    set_here = sum(row["source"] == "dynamic topic" for row in rows)
    return View(
        "config",
        f"{words.text(name, 249)}: {count(set_here, 'option')} set for this topic",
        data={"name": name, "rows": rows, "everything": everything},
        rows=rows,
        columns=["name", "value", "source", "doc"],
        command=f"topic config {shlex.quote(name)}{' --all' if everything else ''}",
    )
