"""Where `group seek` may go: earliest, latest, OFFSET, TIME, or the offsets in a file.

In: the word after --to. Out: a Target; ValueError says what is wrong.
"""

import csv
import json
import os
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

from barnabas.cli.offsets import parse_time
from barnabas.model.ids import TopicPartition

FILE_BYTES_MAX = 64 << 20
_LONG_MAX = 2**63 - 1
_OFFSET_NAMES = ("offset", "committed")


class Target(NamedTuple):
    """One of the four is set."""

    name: str = ""
    offset: int | None = None
    time_ms: int | None = None
    places: dict[TopicPartition, int] | None = None


def parse_target(text: str, group: str) -> Target:
    """`group`: whose lines count in a file about several groups."""
    if text in ("earliest", "latest"):
        return Target(name=text)
    if text.isascii() and text.isdigit():
        return Target(offset=_offset(text))
    if text.startswith("@"):
        return Target(time_ms=parse_time(text[1:]))
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
        at = TopicPartition(topic, _offset(partition, f"{number}: partition"))
        if at in places:
            raise ValueError(f"{number}: {at} is there twice")
        places[at] = _offset(offset, f"{number}: offset")
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


def _offset(value: object, about: str = "offset") -> int:
    text = str(value)
    if isinstance(value, bool) or not (text.isascii() and text.isdigit() and len(text) < 20):
        raise ValueError(f"{about} {text[:100]!r}: expected a number from 0 to {_LONG_MAX}")
    if int(text) > _LONG_MAX:
        raise ValueError(f"{about} {text[:100]!r}: expected at most {_LONG_MAX}")
    return int(text)
