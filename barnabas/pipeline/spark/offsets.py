"""Offsets of partitions: as JSON, in ranges, shared out between triggers and tasks.

In: offsets by partition. Out: offsets by partition, ranges.
Always: as Spark's Kafka connector does it, to the row; JSON has its keys in order, because Spark
compares offsets as text.
Pure: whoever asks the brokers is in brokers.py.
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
    """Offsets or times by partition; `option` is named if it is something else."""
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


# --- how much of a trigger belongs to which partition ---


def prorate(limit: int, start: Mapping[TopicPartition, int], stop: Offsets) -> Offsets:
    """Of `limit` records a share for each partition, by how many wait in it.

    The smallest get one, so that none starves. A partition without a start is left alone.
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


# --- tasks ---


def split(
    ranges: Iterable[OffsetRange], tasks_min: int | None, records_max: int | None
) -> list[OffsetRange]:
    """The ranges that tasks read: none empty, none above `records_max`, about `tasks_min` or more.

    Large ranges are split and small ones are not, each in proportion to what it holds.
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
