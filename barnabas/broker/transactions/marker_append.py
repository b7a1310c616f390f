"""Appends the marker that ends a producer's transaction to a partition that this broker leads.

Not here: requests for markers (marker_writing.py), the marker in the log
(log/transactions/append.py).
"""

from barnabas.broker.partition import Partition
from barnabas.broker.partition_errors import not_enough_replicas
from barnabas.log.log import Appended
from barnabas.log.transactions import append as log_append
from barnabas.model.errors import Code, Failed
from barnabas.wire.control_records import MARKER_SIZE, EndMarker


def append_marker(
    partition: Partition,
    producer_id: int,
    epoch: int,
    marker: EndMarker,
    version: int,
    wall_ms: int,
) -> Appended:
    """As `acks=all`: refused while too few replicas are in sync."""
    if len(partition.in_sync) < partition.min_isr:
        raise not_enough_replicas(partition, Code.NOT_ENOUGH_REPLICAS)
    log, leader_epoch = partition.log, partition.leader_epoch
    try:
        appended = log_append.append_marker(
            log, producer_id, epoch, marker, version, leader_epoch, wall_ms
        )
    except Failed as failure:
        partition.check_disk_error(failure)
        raise
    partition.appended(appended.last_offset + 1, MARKER_SIZE)
    return appended
