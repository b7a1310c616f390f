"""Offsets of partitions: as JSON, in ranges, divided between triggers and tasks.

In: offsets by partition. Out: offsets by partition, ranges.
Always: the same results as Spark's Kafka connector, to the row; JSON keys are sorted, because Spark
compares offsets as text.
Pure: brokers.py sends the requests.
"""

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from barnabas.model.ids import TopicPartition
from barnabas.pipeline.errors import OptionError

EARLIEST = -2
LATEST = -1
_INT64_MAX = 2**63 - 1
_PARTITION_MAX = 2**31 - 1

Offsets = dict[TopicPartition, int]


class OffsetRange(NamedTuple):
    """Records of one partition, from `start` to before `stop`."""

    topic: str
    partition: int
    start: int
    stop: int

    @property
    def at(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def size(self) -> int:
        return self.stop - self.start


# --- JSON ---


def to_json(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """Spark's form: {"topic": {"0": 23}}, in order."""
    found: dict[str, dict[str, int]] = {}
    for at in sorted(offsets):
        found.setdefault(at.topic, {})[str(at.partition)] = offsets[at]
    return found


def from_json(document: object, option: str) -> Offsets:
    """Offsets or times by partition. The error for another text names `option`."""
    offsets: Offsets = {}
    if not isinstance(document, dict):
        raise _expected(option, '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}', document)
    for topic, partitions in document.items():
        if not isinstance(partitions, dict):
            raise _expected(option, '{"topicA":{"0":23,"1":-1}}', document)
        for number, value in partitions.items():
            if not _is_whole(value) or not number.isdecimal() or int(number) > _PARTITION_MAX:
                raise _expected(option, '{"topicA":{"0":23,"1":-1}}', document)
            offsets[TopicPartition(topic, int(number))] = value
    return offsets


def partitions_from_json(document: object, option: str) -> list[TopicPartition]:
    """Spark's form: {"topicA": [0, 1]}."""
    found: dict[TopicPartition, None] = {}
    if not isinstance(document, dict):
        raise _expected(option, '{"topicA":[0,1],"topicB":[2,4]}', document)
    for topic, numbers in document.items():
        if not isinstance(numbers, list) or not all(
            _is_whole(number) and 0 <= number <= _PARTITION_MAX for number in numbers
        ):
            raise _expected(option, '{"topicA":[0,1],"topicB":[2,4]}', document)
        found.update(dict.fromkeys(TopicPartition(topic, number) for number in numbers))
    return list(found)


def parse(text: str, option: str, example: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        raise _expected(option, example, text) from None


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _INT64_MAX


def _expected(option: str, example: str, got: Any) -> OptionError:
    said = got if isinstance(got, str) else json.dumps(got)
    return OptionError(f"{option}: expected e.g. {example}, got {said[:200]}")


# --- how many records of a trigger come from which partition ---


def prorate(limit: int, start: Mapping[TopicPartition, int], stop: Offsets) -> Offsets:
    """Divides `limit` records between the partitions, in proportion to their unread records.

    Each partition gets at least one record. A partition without a start is left out.
    """
    sizes = {at: end - start[at] for at, end in stop.items() if at in start and end > start[at]}
    total = float(sum(sizes.values()))
    if total < 1:
        return dict(stop)
    shares: Offsets = {}
    for at, end in stop.items():
        size = sizes.get(at)
        if size is None:
            shares[at] = end
            continue
        share = limit * (size / total)
        count = math.ceil(share) if share < 1 else math.floor(share)
        shares[at] = min(end, start[at] + count)
    return shares


def records_within(
    bytes_max: int,
    start: Mapping[TopicPartition, int],
    stop: Offsets,
    sizes: Mapping[TopicPartition, float],
) -> int | None:
    """How many of the unread records have `bytes_max` bytes; None: all of them. `sizes`: of a
    record, on average.
    """
    unread = {at: max(end - start[at], 0) for at, end in stop.items() if at in start}
    size = sum(count * sizes.get(at, 0) for at, count in unread.items())
    if size <= bytes_max:
        return None
    return max(1, int(sum(unread.values()) * bytes_max / size))


# --- tasks ---


def split(
    ranges: Iterable[OffsetRange], tasks_min: int | None, records_max: int | None
) -> list[OffsetRange]:
    """The ranges that tasks read: none empty, none above `records_max`, about `tasks_min` or more.

    Large ranges are split in proportion to their size; small ranges are not split.
    """
    parts = [each for each in ranges if each.size > 0]
    if records_max is not None:
        parts = [piece for each in parts for piece in _pieces(each, -(-each.size // records_max))]
    if tasks_min is None or len(parts) >= tasks_min:
        return parts
    total = sum(each.size for each in parts)
    whole = {each for each in parts if _share(each.size, total, tasks_min) == 1}
    rest = total - sum(each.size for each in whole)
    for_rest = max(tasks_min - len(whole), 1)
    divided: list[OffsetRange] = []
    for each in parts:
        count = 1 if each in whole else _share(each.size, rest, for_rest)
        divided += _pieces(each, count)
    return [each for each in divided if each.size > 0]


def _share(size: int, total: int, tasks: int) -> int:
    return max(math.floor(size / total * tasks + 0.5), 1)


def _pieces(whole: OffsetRange, count: int) -> list[OffsetRange]:
    pieces = []
    start = whole.start
    for number in range(count):
        stop = start + (whole.stop - start) // (count - number)
        pieces.append(whole._replace(start=start, stop=stop))
        start = stop
    return pieces
