"""The log under a shard of a coordinator.

In: a partition. Out: what coordinators/ports.py calls a journal.
Always: nothing is written to a partition that this broker does not lead.
"""

from barnabas.broker.partition import ACKS_ALL, Partition
from barnabas.broker.partition_errors import not_served
from barnabas.broker.role import Role
from barnabas.coordinators.ports import TransactionMarker


class PartitionJournal:
    """The log under a shard; what it appends is committed when its replicas have it."""

    __slots__ = ("_partition",)

    def __init__(self, partition: Partition) -> None:
        self._partition = partition

    @property
    def high_watermark(self) -> int:
        return self._partition.log.high_watermark

    def append(self, batch: bytearray, wall_ms: int) -> int:
        partition = self._partition
        if partition.role is not Role.LEADER:  # another broker leads since a moment ago
            raise not_served(partition)
        return partition.append(memoryview(batch), ACKS_ALL, wall_ms, ours=True).last_offset

    def append_transactional(self, batch: bytearray, guard: object, wall_ms: int) -> int:
        from barnabas.log.transactions.verification import VerificationGuard

        partition = self._partition
        if partition.role is not Role.LEADER:
            raise not_served(partition)
        known = guard if isinstance(guard, VerificationGuard) else None
        view = memoryview(batch)
        return partition.append(view, ACKS_ALL, wall_ms, ours=True, guard=known).last_offset

    def append_marker(self, marker: TransactionMarker, wall_ms: int) -> int:
        from barnabas.broker.transactions.marker_append import append_marker
        from barnabas.wire.control_records import EndMarker

        partition = self._partition
        if partition.role is not Role.LEADER:
            raise not_served(partition)
        producer_id, epoch, commit, coordinator_epoch, version = marker
        end = EndMarker(commit, coordinator_epoch)
        return append_marker(partition, producer_id, epoch, end, version, wall_ms).last_offset
