"""The state of one share partition, as its records in __share_group_state say.

In: records, in their order. Out: where the share partition begins, and its ranges.
Always: the same records give the same state, live and after a restart. Ranges are merged when they
are needed: an acknowledgement costs no more than its own ranges.
Not here: which records are written (state_shard.py).
"""

from barnabas.coordinators.share.records import (
    NO_COUNT,
    SnapshotRecord,
    UpdateRecord,
)
from barnabas.coordinators.share.state_batches import StateBatch, combine

UNMERGED_MAX = 1_000  # ranges


class StoredShareState:
    """Changed by records alone."""

    __slots__ = (
        "_batches", "_unmerged", "complete_count", "created_ms", "leader_epoch",
        "snapshot_epoch", "snapshot_offset", "start_offset", "state_epoch", "updates", "written_ms",
    )  # fmt: skip

    def __init__(self) -> None:
        self.snapshot_epoch = 0
        self.state_epoch = 0
        self.leader_epoch = 0
        self.start_offset = -1
        self.complete_count = NO_COUNT
        self.created_ms = self.written_ms = 0
        self.updates = 0  # since the last snapshot
        self.snapshot_offset = 0  # of the last snapshot, in the log
        self._batches: tuple[StateBatch, ...] = ()
        self._unmerged: list[StateBatch] = []

    @property
    def batches(self) -> tuple[StateBatch, ...]:
        """By offset, without overlaps, at or above the start offset."""
        self._batches = combine(self._batches, tuple(self._unmerged), self.start_offset)
        self._unmerged.clear()
        return self._batches

    def snapshot(self, record: SnapshotRecord, offset: int) -> None:
        self.snapshot_epoch = record.snapshot_epoch
        self.state_epoch = max(self.state_epoch, record.state_epoch)
        self.leader_epoch = max(self.leader_epoch, record.leader_epoch)
        self.start_offset = record.start_offset
        self.complete_count = record.complete_count
        self.created_ms, self.written_ms = record.created_ms, record.written_ms
        self.updates = 0
        self.snapshot_offset = offset
        self._unmerged.clear()
        self._batches = combine((), record.batches, record.start_offset)

    def update(self, record: UpdateRecord) -> None:
        self.leader_epoch = max(self.leader_epoch, record.leader_epoch)
        if record.start_offset >= 0:
            self.start_offset = record.start_offset
        self.complete_count = record.complete_count
        self.updates += 1
        self._unmerged += record.batches
        if len(self._unmerged) > UNMERGED_MAX:
            self.batches  # noqa: B018
