"""`/topics/T/records`: the newest, from an offset or a time, by key, text or header; tail; export.

All of it is in the address. A search is a stream that the page starts; without scripts, `plain=1`
reads for at most ten seconds and says what it did not read.
"""

import json
import shlex
import time
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlencode

from starlette.responses import Response, StreamingResponse

from barnabas.client.consumer.json_lines import to_json
from barnabas.client.consumer.message import RawMessage
from barnabas.client.metadata_snapshot import TopicMetadata
from barnabas.client.words import count
from barnabas.console import words
from barnabas.console.application import Asked
from barnabas.console.pages.topics import found_topic
from barnabas.console.reading import ROWS, Span, export, key_partition, newest, read_spans, tail
from barnabas.console.scanning import Hit, Scanned, Wanted, scan
from barnabas.console.values import decode_rows
from barnabas.console.view import View, csv_cell
from barnabas.model.errors import Code, InvalidRequest
from barnabas.model.ids import TopicPartition
from barnabas.model.times import iso_time, parse_time

_PLAIN_S = 10.0
_PLAIN_ROWS = 100
_CELL = 400
COLUMNS = ["partition", "offset", "timestamp", "key", "value"]


async def records(asked: Asked) -> View:
    (name,) = asked.names
    topic = await found_topic(asked, name)
    state = asked.state
    wanted = _wanted(asked)
    numbers = _partitions(asked, topic, wanted)
    bounds = await state.readable(TopicPartition(name, number) for number in numbers)
    count_wanted = max(1, asked.number("n", ROWS, 500))
    start_offset, since = asked.query("from"), asked.query("time")
    following = asked.query("tail") == "1"
    found: list[RawMessage] = []
    note, stream = "", ""
    if following:
        stream = f"{words.path('topics', name, 'tail')}?{_kept(asked)}"
        note = "Waiting for new records."
    elif not wanted.anything and asked.query("plain") != "1":
        stream = f"{words.path('topics', name, 'scan')}?{_kept(asked)}"
        note = "Looking for records, the newest first."
    elif not wanted.anything:
        found_rows, note = await _plain_scan(asked, await _spans(asked, bounds), wanted)
        return _view(asked, name, topic, found_rows, note, "", numbers, bounds)
    elif start_offset or since:
        spans = await _from(asked, bounds, count_wanted)
        found = (await read_spans(state.cluster, spans, count_wanted))[:count_wanted]
        note = f"From {'offset ' + start_offset if start_offset else since} on, oldest first."
    else:
        found = await newest(state, state.cluster, bounds, count_wanted)
        note = "The newest first."
        if len(numbers) > 8:
            note = f"The newest of each of {len(numbers)} partitions, newest first."
    rows = await _shown(asked, [_row(message) for message in found], wanted)
    return _view(asked, name, topic, rows, note, stream, numbers, bounds)


def _view(
    asked: Asked,
    name: str,
    topic: TopicMetadata,
    rows: list[dict[str, Any]],
    note: str,
    stream: str,
    numbers: list[int],
    bounds: dict[TopicPartition, Span],
) -> View:
    total = sum(end - start for start, end in bounds.values())
    where = f"partition {numbers[0]}" if len(numbers) == 1 else count(len(numbers), "partition")
    title = f"{words.text(name, 249)}: {count(total, 'record')} in {where}"
    if asked.query("key"):
        title = (
            f"{words.text(name, 249)}: records with the key {words.text(asked.query('key'), 60)}"
        )
    next_link = ""
    if rows and (asked.query("from") or asked.query("time")) and len(numbers) == 1:
        next_from = max(row["offset"] for row in rows) + 1
        next_link = f"?{_kept(asked, time='', **{'from': str(next_from)})}"
    return View(
        "records",
        title,
        data={
            "name": name,
            "topic": topic,
            "rows": rows,
            "note": note,
            "stream": stream,
            "hashed": bool(asked.query("key"))
            and not (asked.query("partition") or asked.query("everywhere")),
            "numbers": numbers,
            "query": {each: asked.query(each) for each in QUERY},
            "kept": _kept(asked),
            "plain": f"?{_kept(asked, plain='1')}",
            "times": _times(asked),
            "next_link": next_link,
            "cell": _CELL,
        },
        rows=[
            {name: _text(row[name]) if name in ("key", "value") else row[name] for name in COLUMNS}
            for row in rows
        ],
        columns=COLUMNS,
        command=_command(asked, name, numbers),
    )


def _command(asked: Asked, name: str, numbers: list[int]) -> str:
    if key := asked.query("key"):
        topic, text = name.replace('"', '""'), key.replace("'", "''")
        return "sql " + shlex.quote(f"from \"{topic}\" where key = '{text}'")
    start = asked.query("from") or f"-{ROWS}"
    command = f"consume {shlex.quote(name)} -o {shlex.quote(start)} -e"
    return command + (f" -p {numbers[0]}" if len(numbers) == 1 else "")


def _times(asked: Asked) -> list[tuple[str, str]]:
    """Links to records from some time ago on."""
    now_s = int(time.time())
    return [
        (label, f"?{_kept(asked, time=iso_time((now_s - ago_s) * 1000), **{'from': ''})}")
        for label, ago_s in (("minute", 60), ("hour", 3_600), ("day", 86_400), ("week", 604_800))
    ]


QUERY = ("partition", "from", "time", "key", "value", "header", "everywhere", "n", "tail")


def _kept(asked: Asked, **changes: str) -> str:
    now = {each: asked.query(each) for each in QUERY} | changes
    return urlencode({each: value for each, value in now.items() if value})


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode(errors="backslashreplace")


def _row(message: RawMessage) -> dict[str, Any]:
    return {
        "partition": message.partition,
        "offset": message.offset,
        "timestamp": message.timestamp,
        "key": message.key,
        "value": message.value,
        "headers": message.headers,
    }


async def _shown(asked: Asked, rows: list[dict[str, Any]], wanted: Wanted) -> list[dict[str, Any]]:
    return await decode_rows(asked.options.decode, rows, asked.options.mask, wanted.value)


def _hit_row(hit: Hit) -> dict[str, Any]:
    return {
        "partition": hit.partition,
        "offset": hit.offset,
        "timestamp": hit.timestamp_ms,
        "key": hit.key,
        "value": hit.value,
    }


def _wanted(asked: Asked) -> Wanted:
    key, value, header = asked.query("key"), asked.query("value"), asked.query("header")
    return Wanted(key.encode() if key else None, value.encode() if value else None, header or None)


def _partitions(asked: Asked, topic: TopicMetadata, wanted: Wanted) -> list[int]:
    """The one that is asked for, the one of the key, or all."""
    given = asked.query("partition")
    if given:
        number = asked.number("partition", 0, 2**31)
        if number >= len(topic.partitions):
            raise InvalidRequest(
                Code.UNKNOWN_TOPIC_OR_PARTITION,
                f"topic {topic.name!r} has no partition {number}: it has {len(topic.partitions)}",
            )
        return [number]
    if wanted.key is not None and asked.query("everywhere") != "1":
        return [key_partition(wanted.key, len(topic.partitions))]
    return [partition.number for partition in topic.partitions]


async def _from(
    asked: Asked, bounds: dict[TopicPartition, Span], rows: int
) -> dict[TopicPartition, Span]:
    """From an offset or a time on."""
    if asked.query("from"):
        start = asked.number("from", 0)
        return {
            at: (max(first, start), min(end, max(first, start) + rows))
            for at, (first, end) in bounds.items()
        }
    spans = await _spans(asked, bounds)
    return {at: (start, min(end, start + rows)) for at, (start, end) in spans.items()}


async def _spans(asked: Asked, bounds: dict[TopicPartition, Span]) -> dict[TopicPartition, Span]:
    """From an offset and a time on, to the ends."""
    start = asked.number("from", 0)
    spans = {at: (max(first, start), end) for at, (first, end) in bounds.items()}
    if not asked.query("time"):
        return spans
    starts = await asked.state.offsets(bounds, parse_time(asked.query("time")))
    return {
        at: (max(first, starts[at]), end)
        for at, (first, end) in spans.items()
        if starts.get(at, -1) >= 0
    }


async def _plain_scan(
    asked: Asked, spans: dict[TopicPartition, Span], wanted: Wanted
) -> tuple[list[dict[str, Any]], str]:
    rows: list[dict[str, Any]] = []
    last = Scanned(0, 0, [])
    deadline = time.monotonic() + _PLAIN_S
    async for last in scan(asked.options.settings, spans, wanted):
        rows += await _shown(asked, [_hit_row(hit) for hit in last.hits], wanted)
        if time.monotonic() > deadline or len(rows) >= _PLAIN_ROWS:
            break
    rows = rows[:_PLAIN_ROWS]
    left = last.of - last.records
    note = f"{count(len(rows), 'record')} found in {last.records:,} offsets"
    return rows, note + (f"; the {left:,} oldest offsets were not read" if left else "")


# --- streams ---


def _cells(topic: str, row: dict[str, Any]) -> dict[str, Any]:
    """A row of the table, as the page's script shows it: text only."""
    place = words.path("topics", topic, row["partition"], row["offset"])
    return {
        "cells": [
            {"text": str(row["partition"]), "class": "n"},
            {"text": f"{row['offset']:,}", "class": "n", "href": place},
            {"text": iso_time(row["timestamp"])},
            {"text": words.payload(row["key"], 100), "class": "key"},
            {"text": words.payload(row["value"], _CELL), "class": "value"},
        ]
    }


def _lines(items: AsyncIterator[dict[str, Any]]) -> Response:
    async def encoded() -> AsyncIterator[bytes]:
        async for item in items:
            yield json.dumps(item).encode() + b"\n"

    return StreamingResponse(encoded(), media_type="application/x-ndjson")


async def scan_stream(asked: Asked) -> Response:
    (name,) = asked.names
    topic = await found_topic(asked, name)
    wanted = _wanted(asked)
    numbers = _partitions(asked, topic, wanted)
    bounds = await asked.state.readable(TopicPartition(name, number) for number in numbers)
    spans = await _spans(asked, bounds)

    async def items() -> AsyncIterator[dict[str, Any]]:
        found = 0
        async for step in scan(asked.options.settings, spans, wanted):
            rows = await _shown(asked, [_hit_row(hit) for hit in step.hits], wanted)
            found += len(rows)
            for row in rows:
                yield _cells(name, row)
            share = 100 * step.records // max(1, step.of)
            yield {
                "progress": f"{count(found, 'record')} found; {step.records:,} of {step.of:,}"
                f" offsets read ({share} %)"
            }
        hint = "" if found or wanted.key is None else " A key is compared as a whole."
        yield {"progress": f"Done: {count(found, 'record')} found.{hint}"}

    return _lines(items())


def _matches(message: RawMessage, wanted: Wanted) -> bool:
    if wanted.key is not None and message.key != wanted.key:
        return False
    if wanted.header is not None:
        name, equals, value = wanted.header.partition("=")
        if not any(
            key == name and (not equals or given == value.encode())
            for key, given in message.headers
        ):
            return False
    return wanted.value is None or wanted.value in (message.value or b"")


async def tail_stream(asked: Asked) -> Response:
    (name,) = asked.names
    topic = await found_topic(asked, name)
    wanted = _wanted(asked)
    numbers = _partitions(asked, topic, wanted)
    bounds = await asked.state.readable(TopicPartition(name, number) for number in numbers)
    starts = {at: end for at, (_, end) in bounds.items()}

    async def items() -> AsyncIterator[dict[str, Any]]:
        seen = 0
        async for messages in tail(asked.options.settings, starts):
            rows = [_row(message) for message in messages if _matches(message, wanted)]
            rows = await _shown(asked, rows, wanted)
            seen += len(rows)
            for row in rows:
                yield _cells(name, row)
            yield {"progress": f"{count(seen, 'new record')}."}

    return _lines(items())


async def download(asked: Asked) -> Response:
    """All records that the page is about, as JSON lines that `produce -J` reads, or as CSV."""
    (name,) = asked.names
    if not asked.options.allow_export:
        raise InvalidRequest(Code.POLICY_VIOLATION, "this console was started with --no-export")
    topic = await found_topic(asked, name)
    wanted = _wanted(asked)
    numbers = _partitions(asked, topic, wanted)
    bounds = await asked.state.readable(TopicPartition(name, number) for number in numbers)
    spans = await _spans(asked, bounds)
    as_csv, mask = asked.query("as") == "csv", asked.options.mask

    async def body() -> AsyncIterator[bytes]:
        if as_csv:
            yield (",".join(COLUMNS) + "\n").encode()
        async for messages in export(asked.options.settings, spans):
            for message in messages if mask else ():
                message.key, message.value = mask.key(message.key), mask.value(message.value)
            matching = [message for message in messages if _matches(message, wanted)]
            yield b"".join(map(_csv_line if as_csv else to_json, matching))

    kind = "text/csv" if as_csv else "application/x-ndjson"
    file = f"{words.path(name)[1:]}.{'csv' if as_csv else 'jsonl'}"
    return StreamingResponse(
        body(), media_type=kind, headers={"content-disposition": f'attachment; filename="{file}"'}
    )


def _csv_line(message: RawMessage) -> bytes:
    import csv
    import io

    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(
        [
            message.partition,
            message.offset,
            message.timestamp,
            csv_cell(_text(message.key)),
            csv_cell(_text(message.value)),
        ]
    )
    return out.getvalue().encode()
