"""Deletions of offsets that could not be written when their topic was deleted.

In: topics, each with the end of the shard's log when it was deleted; the log while it is loaded.
Out: the tombstones that are still to be written.
Always: offsets committed after that end belong to a later topic of the same name, and stay.
Not here: what is stored across restarts (broker/catalog.py).
"""

from collections.abc import Iterator

from barnabas.coordinators.groups.records import OffsetRecord
from barnabas.coordinators.groups.shard import GroupShard
from barnabas.log.config import INT64_MAX

RECORDS_PER_SLICE = 1_000


class PendingOffsetDeletions:
    """The pending deletions of one shard."""

    def __init__(self) -> None:
        self.ends: dict[str, int] = {}
        self.next_end = INT64_MAX  # where something is to be dropped next, while reading
        self.written = True  # all tombstones so far
        self._passed: dict[str, int] = {}
        self._dropped: dict[OffsetRecord, None] = {}

    def add(self, topic: str, end: int) -> None:
        self.ends[topic] = end
        self._look_ahead()

    def reached(self, offset: int, shard: GroupShard) -> Iterator[None]:
        """The log below `offset` has been replayed. Yields between slices of work."""
        for topic, end in tuple(self.ends.items()):
            if end <= offset and self._passed.get(topic) != end:
                self._passed[topic] = end
                for records in shard.offsets.of_topic(topic, RECORDS_PER_SLICE):
                    for record in records:
                        shard.replay(record)
                        self._dropped[record] = None
                    yield
        self._look_ahead()

    def tombstones(self, shard: GroupShard) -> Iterator[tuple[OffsetRecord, ...]]:
        """In slices, each tombstone once; none for offsets that were committed again."""
        find = shard.offsets.find
        left = [
            each for each in self._dropped if find(each.group, each.topic, each.partition) is None
        ]
        self._dropped.clear()
        for start in range(0, len(left), RECORDS_PER_SLICE):
            yield tuple(left[start : start + RECORDS_PER_SLICE])

    @property
    def over(self) -> bool:
        return self._passed == self.ends and not self._dropped

    def _look_ahead(self) -> None:
        self.next_end = min(
            (end for topic, end in self.ends.items() if self._passed.get(topic) != end),
            default=INT64_MAX,
        )
