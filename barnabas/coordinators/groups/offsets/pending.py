"""Offsets that were committed in transactions which are still open.

In: offset records of transactions, markers, plain commits and tombstones, in the order of the log.
Out: the offsets that a commit marker makes valid; whether an offset is pending.
Always: a pending offset takes effect with its commit marker, unless a later record of the same
partition took effect before; a tombstone drops it. All of it follows from the log.
Not here: committed offsets (store.py), who may commit (operations.py).
"""

from collections.abc import Iterator
from typing import NamedTuple

from barnabas.coordinators.groups.records import OffsetCommitValue, OffsetRecord

Key = tuple[str, str, int]
"""Group, topic, partition."""


class _Pending(NamedTuple):
    number: int  # in the order of the log
    value: OffsetCommitValue


class PendingOffsets:
    """By producer id. Changed by the replay of records and markers alone."""

    def __init__(self) -> None:
        self._by_producer: dict[int, dict[Key, _Pending]] = {}
        self._producers: dict[Key, set[int]] = {}  # that have the offset pending
        self._superseded: dict[Key, int] = {}  # a later record took effect: its number
        self._count = 0

    def __bool__(self) -> bool:
        return bool(self._producers)

    def replay(self, record: OffsetRecord, producer_id: int) -> None:
        """A record of a transaction."""
        if record.value is None:
            return
        key = (record.group, record.topic, record.partition)
        self._count += 1
        pending = self._by_producer.setdefault(producer_id, {})
        pending[key] = _Pending(self._count, record.value)
        self._producers.setdefault(key, set()).add(producer_id)

    def committed(self, record: OffsetRecord) -> None:
        """A record outside transactions. To be called only while offsets are pending."""
        key = (record.group, record.topic, record.partition)
        if key not in self._producers:
            return
        if record.value is not None:
            self._count += 1
            self._superseded[key] = self._count
            return
        for producer_id in tuple(self._producers[key]):
            del self._by_producer[producer_id][key]
            self._drop(key, producer_id)

    def end(self, producer_id: int, *, commit: bool) -> Iterator[OffsetRecord]:
        """A marker: the offsets that are committed by it."""
        for key, (number, value) in self._by_producer.pop(producer_id, {}).items():
            takes_effect = commit and number > self._superseded.get(key, 0)
            self._drop(key, producer_id)
            if takes_effect:
                if key in self._producers:
                    self._superseded[key] = number
                yield OffsetRecord(*key, value)

    def is_pending(self, group: str, topic: str, partition: int) -> bool:
        return (group, topic, partition) in self._producers

    def of_group(self, group: str) -> list[Key]:
        return [key for key in self._producers if key[0] == group]

    def groups(self) -> dict[str, None]:
        return dict.fromkeys(key[0] for key in self._producers)

    def has_group(self, group: str) -> bool:
        return any(key[0] == group for key in self._producers)

    def producers_of(self, group: str) -> dict[int, int]:
        """Producers with pending offsets of the group, and how many."""
        found: dict[int, int] = {}
        for key, producers in self._producers.items():
            if key[0] == group:
                for producer_id in producers:
                    found[producer_id] = found.get(producer_id, 0) + 1
        return found

    def _drop(self, key: Key, producer_id: int) -> None:
        producers = self._producers[key]
        producers.discard(producer_id)
        if not producers:
            del self._producers[key]
            self._superseded.pop(key, None)
