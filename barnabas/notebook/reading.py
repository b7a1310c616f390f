"""The records of a topic, and which of them `last=` means. Needs no other package.

In: a topic and "1h", 100 or None. Out: offsets, or messages that show themselves.
Not here: the same as an Arrow table (tables.py).
"""

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from barnabas.client.admin.admin import EARLIEST, LATEST
from barnabas.client.consumer.message import RawMessage
from barnabas.config.option import invalid
from barnabas.model.ids import TopicPartition
from barnabas.model.times import iso_time
from barnabas.notebook.shown import table
from barnabas.sync import Admin, PartitionConsumer

READ_S_MAX = 30.0
ROWS_SHOWN = 50
COLUMNS = ("time", "partition", "offset", "key", "value")
_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)")

Settings = Mapping[str, str]


class RecordSpan(NamedTuple):
    """`end` is the offset after the last one."""

    start: int
    end: int


class RecordList(list[RawMessage]):
    """Messages, the oldest first. In a notebook, a table of the newest."""

    def _repr_html_(self) -> str:
        title = f"{len(self)} records" + (", the newest" if len(self) > ROWS_SHOWN else "")
        return table(title, COLUMNS, [cells(each) for each in self[: -ROWS_SHOWN - 1 : -1]])


def cells(message: RawMessage) -> tuple[object, ...]:
    """The row of a message, in the order of COLUMNS."""
    moment = iso_time(message.timestamp)
    return moment, message.partition, message.offset, message.key, message.value


def span_ms(text: str) -> int:
    """10s, 5min, 1h, 2d in milliseconds."""
    found = _SPAN.fullmatch(text.strip())
    if found is None or found[2] not in _UNITS_MS:
        raise invalid(f"last={text!r}: expected a time as 10s, 5min, 1h or 2d, or a number")
    return int(float(found[1]) * _UNITS_MS[found[2]])


def record_spans(
    admin: Admin, topic: str, last: str | int | None
) -> dict[TopicPartition, RecordSpan]:
    """The offsets to read, of partitions that have any: all, those of the last hour ("1h"), or the
    last N of each partition."""
    wanted = [TopicPartition(topic, n) for n in range(len(admin.topic(topic).partitions))]
    first = admin.offsets(dict.fromkeys(wanted, EARLIEST))
    ends = admin.offsets(dict.fromkeys(wanted, LATEST))
    starts = {at: found.offset for at, found in first.items()}
    if isinstance(last, str):
        since = int(time.time() * 1000) - span_ms(last)
        by_time = admin.offsets(dict.fromkeys(wanted, since))
        # Negative: no record is so new.
        starts = {at: by_time[at].offset if by_time[at].offset >= 0 else ends[at].offset
                  for at in wanted}  # fmt: skip
    elif last is not None:
        starts = {at: max(starts[at], ends[at].offset - last) for at in wanted}
    return {
        at: RecordSpan(starts[at], ends[at].offset) for at in wanted if starts[at] < ends[at].offset
    }


@contextmanager
def open_reader(
    settings: Settings, spans: Mapping[TopicPartition, RecordSpan]
) -> "Iterator[PartitionConsumer[bytes | None, bytes | None]]":
    """A consumer of these records, which ends after them."""
    with PartitionConsumer(spans, dict(settings), auto_offset_reset="earliest") as consumer:
        for at, span in spans.items():
            consumer.seek(at, span.start)
        consumer.stop_at({at: span.end for at, span in spans.items()})
        yield consumer


def read_records(
    admin: Admin, settings: Settings, topic: str, last: str | int | None
) -> RecordList:
    """By time; those of equal times by partition and offset."""
    spans = record_spans(admin, topic, last)
    found = RecordList()
    if spans:
        with open_reader(settings, spans) as consumer:
            while not consumer.finished():
                batch = consumer.getmany(timeout=READ_S_MAX)
                if not batch and not consumer.finished():
                    raise TimeoutError(f"{topic}: no record within {READ_S_MAX:.0f} s")
                found += batch
    found.sort(key=lambda message: (message.timestamp, message.partition, message.offset))
    return found
