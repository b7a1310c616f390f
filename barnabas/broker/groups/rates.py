"""How quickly groups read and producers write, partition by partition, over the last minute.

In: from time to time, committed offsets and end offsets. Out: records per time.
Always: bounded in partitions; taking a sample never touches a disk.
Why not the last two commits: a client commits in bursts, every five seconds by default.
"""

from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

from barnabas.broker.topic import Topics
from barnabas.coordinators.groups.offsets.store import CommittedOffsets
from barnabas.coordinators.runtime import Now

SAMPLE_MS = 10_000
SAMPLES = 6
PARTITIONS_MAX = 5_000

Place = tuple[str, str, int]
"""Group, topic, partition."""


class Sample(NamedTuple):
    at_ms: int
    offsets: dict[Place, tuple[int, int]]  # committed, end


class Rate(NamedTuple):
    """Records read and written within `ms`."""

    ms: int
    consumed: int
    produced: int


class GroupRates:
    """The last samples."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._samples: deque[Sample] = deque(maxlen=SAMPLES)

    def sample(self, groups: Iterable[tuple[str, CommittedOffsets]], now: Now) -> None:
        places = (
            (group, topic, partition, value.offset)
            for group, offsets in groups
            for topic, partition, value in offsets.of_group(group)
        )
        found: dict[Place, tuple[int, int]] = {}
        for group, topic, partition, committed in islice(places, PARTITIONS_MAX):
            end = end_offset(self._topics, topic, partition)
            if end is not None:
                found[group, topic, partition] = (committed, end)
        self._samples.append(Sample(now.ms, found))

    def of(self, place: Place, committed: int, end: int, now: Now) -> Rate | None:
        """Since the oldest sample of it; None before there is one, and after a seek."""
        for sample in self._samples:
            before = sample.offsets.get(place)
            if before is not None:
                if committed < before[0] or end < before[1]:
                    return None
                return Rate(now.ms - sample.at_ms, committed - before[0], end - before[1])
        return None


def end_offset(topics: Topics, topic: str, partition: int) -> int | None:
    """The offset that readers of a partition reach; None if it is not on this broker."""
    found = topics.get(topic)
    if found is None or not 0 <= partition < len(found.partitions):
        return None
    there = found.partitions[partition]
    if there.log_directory is None and not there.failure:
        return None
    return there.log.high_watermark if there.delay is None else there.delay.end()
