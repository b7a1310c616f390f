"""Where `group seek` may go: earliest, latest, OFFSET, TIME, or the offsets in a file.

In: the word after --to. Out: a Target; ValueError says what is wrong.
"""

import csv
import json
import os
import sys
from collections.abc import Iterator
from typing import Any

from barnabas.client.groups.targets import Target, checked_offset, parse_place
from barnabas.model.ids import TopicPartition
from barnabas.model.times import parse_time

FILE_BYTES_MAX = 64 << 20
_OFFSET_NAMES = ("offset", "committed")


def parse_target(text: str, group: str) -> Target:
    """`group`: the group whose lines are used in a file with several groups."""
    if (place := parse_place(text)) is not None:
        return place
    if text == "-" or os.path.isfile(text):
        return Target(places=_in_file(text, group))
    try:
        return Target(time_ms=parse_time(text))
    except ValueError:
        raise ValueError(
            f"{text[:100]!r}: expected earliest, latest, OFFSET, a time as 2026-01-31T12:00:00 or"
            " @MILLISECONDS, or a file that is there"
        ) from None


def _in_file(path: str, group: str) -> dict[TopicPartition, int]:
    if path == "-":
        data = sys.stdin.buffer.read(FILE_BYTES_MAX + 1)
    else:
        with open(path, "rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    name = "standard input" if path == "-" else path
    if len(data) > FILE_BYTES_MAX:
        raise ValueError(f"{name}: larger than {FILE_BYTES_MAX >> 20} MB")
    try:
        return read_places(data.decode("utf-8-sig"), group)
    except UnicodeDecodeError as problem:
        raise ValueError(f"{name}: byte {problem.start} is not UTF-8") from None
    except ValueError as problem:
        raise ValueError(f"{name}: {problem}") from None


def read_places(text: str, group: str) -> dict[TopicPartition, int]:
    """CSV as kafka-consumer-groups exports it, or with a header; JSON as `describe` writes it."""
    rows = _json_rows(text) if text.lstrip()[:1] in ("[", "{") else _csv_rows(text)
    places: dict[TopicPartition, int] = {}
    for number, row in rows:
        if row.get("group", group) not in (group, ""):
            continue
        offset = next((row[name] for name in _OFFSET_NAMES if row.get(name) is not None), None)
        topic, partition = row.get("topic"), row.get("partition")
        if offset in (None, "") and topic is not None:
            continue  # nothing was committed there
        if not isinstance(topic, str) or not topic:
            raise ValueError(f"{number}: no topic")
        at = TopicPartition(topic, checked_offset(partition, f"{number}: partition"))
        if at in places:
            raise ValueError(f"{number}: {at} is there twice")
        places[at] = checked_offset(offset, f"{number}: offset")
    if not places:
        raise ValueError(f"no offsets for group {group!r} in it")
    return places


def _csv_rows(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    names: list[str] | None = None
    for number, cells in enumerate(csv.reader(text.splitlines()), 1):
        if not any(cells):
            continue
        if names is None:
            lowered = [cell.strip().lower() for cell in cells]
            if "topic" in lowered and "partition" in lowered:
                names = lowered
                continue
            names = ["group", "topic", "partition", "offset"][-max(3, len(cells)) :]
        if len(cells) != len(names):
            raise ValueError(f"line {number}: {len(cells)} columns, expected {','.join(names)}")
        yield f"line {number}", dict(zip(names, (cell.strip() for cell in cells), strict=True))


def _json_rows(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        try:
            found = [json.loads(line) for line in text.splitlines() if line.strip()]
        except (ValueError, RecursionError) as problem:
            raise ValueError(f"neither JSON nor JSON lines ({problem})") from None
    if isinstance(found, dict):
        found = found.get("partitions", [found])
    if not isinstance(found, list) or not all(isinstance(row, dict) for row in found):
        raise ValueError("expected a list of objects with topic, partition and offset")
    for number, row in enumerate(found, 1):
        yield f"entry {number}", row
