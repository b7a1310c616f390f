"""The state of one share partition, offset by offset, as the records of __share_group_state say.

In: records, in the order of the log. Out: what is stored of each offset, and what changed.
Always: written for reading, not for speed, and without the code that brokers merge ranges with.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from barnabas.coordinators.share.keys import StateKey
from barnabas.coordinators.share.records import (
    ShareRecord,
    SnapshotRecord,
    StateTombstone,
    UpdateRecord,
)
from barnabas.coordinators.share.state_batches import DeliveryState, StateBatch

FINISHED = (DeliveryState.ACKNOWLEDGED, DeliveryState.ARCHIVED)


class Delivery(NamedTuple):
    """Of one offset. The larger one wins, as in Kafka."""

    attempts: int
    state: int

    @property
    def finished(self) -> bool:
        return self.state in FINISHED


Change = tuple[int, Delivery]
"""An offset, and what is stored of it now."""


class StoredShare:
    """One share partition."""

    def __init__(self) -> None:
        self.state_epoch = 0
        self.leader_epoch = 0
        self.start = -1
        self.offsets: dict[int, Delivery] = {}  # at or above the start
        self.ever_finished: set[int] = set()  # in this state epoch

    def is_finished(self, offset: int) -> bool:
        if offset < self.start:
            return True
        found = self.offsets.get(offset)
        return found is not None and found.finished

    def snapshot(self, record: SnapshotRecord) -> list[Change]:
        if record.state_epoch > self.state_epoch:
            self.ever_finished.clear()
        self.state_epoch = max(self.state_epoch, record.state_epoch)
        self.leader_epoch = max(self.leader_epoch, record.leader_epoch)
        before, self.offsets = self.offsets, {}
        self.start = record.start_offset
        self._merge(record.batches)
        return [
            (offset, each) for offset, each in self.offsets.items() if before.get(offset) != each
        ]

    def update(self, record: UpdateRecord) -> list[Change]:
        self.leader_epoch = max(self.leader_epoch, record.leader_epoch)
        if record.start_offset >= 0:
            self.start = record.start_offset
        changed = self._merge(record.batches)
        for offset in [each for each in self.offsets if each < self.start]:
            del self.offsets[offset]
        return changed

    def _merge(self, batches: Iterable[StateBatch]) -> list[Change]:
        changed: list[Change] = []
        for offset, found in flat(batches):
            if offset >= self.start and found > self.offsets.get(offset, (-1, -1)):
                self.offsets[offset] = found
                changed.append((offset, found))
                if found.finished:
                    self.ever_finished.add(offset)
        return changed


class StoredShares:
    """All share partitions of one log."""

    def __init__(self) -> None:
        self.all: dict[StateKey, StoredShare] = {}

    def add(self, record: ShareRecord) -> list[Change]:
        key = record.key
        if isinstance(record, StateTombstone):
            self.all.pop(key, None)
            return []
        if isinstance(record, SnapshotRecord):
            return self.all.setdefault(key, StoredShare()).snapshot(record)
        found = self.all.get(key)
        return [] if found is None else found.update(record)


def flat(batches: Iterable[StateBatch]) -> Iterator[Change]:
    """The ranges, offset by offset."""
    for first, last, state, attempts in batches:
        for offset in range(first, last + 1):
            yield offset, Delivery(attempts, state)
