"""One followed partition, and what its log needs before more can be fetched into it.

In: the leader's replies about its log. Out: a log that is truncated, restarted empty or synced,
durable enough for the next append.
Always: a log is not truncated during a sync of it: a sync that writes records again, because an
earlier one found no room, would bring back what was cut off, or overwrite what came after it.
Not here: fetching (fetcher.py), where to truncate (replication/follower.py).
"""

from typing import TYPE_CHECKING
from uuid import UUID

from barnabas.broker.context import BrokerContext
from barnabas.broker.storage.log_directory import OpenLogDirectory
from barnabas.model.errors import Code, Corrupt, KafkaError
from barnabas.replication.follower import Follower, truncation_offset
from barnabas.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

if TYPE_CHECKING:
    from barnabas.broker.cluster.peers import Peers
    from barnabas.broker.partition import Partition

ANSWER_MS_MAX = 5_000
LATEST, EARLIEST = -1, -2

Key = tuple[UUID, int]
"""A topic's id and the number of a partition."""


class FollowerReplica:
    """One partition, during one leadership that is followed."""

    __slots__ = ("asked", "key", "machine", "partition", "since")

    def __init__(self, key: Key, partition: "Partition", machine: Follower) -> None:
        self.key = key
        self.partition = partition
        self.machine = machine
        self.asked = -1  # the offset that was last sent to the leader
        # The number of that request: replies to earlier ones are for another position.
        self.since = 0

    @property
    def holds(self) -> bool:
        return self.partition.following is self.machine


async def flush(followed: FollowerReplica) -> None:
    """If records are committed only after a sync, the leader gets the new position after it."""
    partition = followed.partition
    assert partition.log_directory is not None
    reason = await partition.log_directory.synced(partition.log)
    if reason:
        raise KafkaError(Code.KAFKA_STORAGE_ERROR, reason)


async def truncate(broker: BrokerContext, followed: FollowerReplica, epoch: int, end: int) -> None:
    """The leader's `epoch` ends at `end`: truncate what diverges here."""
    log_directory = followed.partition.log_directory
    assert log_directory is not None
    async with log_directory.renaming:
        if not followed.holds or followed.partition.log_directory is not log_directory:
            return
        _truncate(broker, followed, epoch, end)
    await _checkpoint(log_directory)


def _truncate(broker: BrokerContext, followed: FollowerReplica, epoch: int, end: int) -> None:
    partition = followed.partition
    log = partition.log
    at = truncation_offset(log.epochs, log.end_offset, epoch, end)
    if at >= log.end_offset:
        raise Corrupt(f"its epochs differ from the leader's: nothing to truncate at {at}")
    log_line = broker.log.info
    if at < log.high_watermark:
        log_line = broker.log.error  # an unclean election, or a disk that lost records
    log_line(
        "log truncated",
        partition=partition.name,
        at=at,
        end=log.end_offset,
        high_watermark=log.high_watermark,
        leader=followed.machine.leader,
        leader_epoch=followed.machine.leader_epoch,
        why=f"the leader's epoch {epoch} ends at {end}",
    )
    log.truncate_to(at, sync=False)


async def restart_log(broker: BrokerContext, peers: "Peers", followed: FollowerReplica) -> None:
    """The leader has no records where this log ends: it starts later, or ends before."""
    partition, leader = followed.partition, followed.machine.leader
    log, log_directory = partition.log, partition.log_directory
    end = await _offset(broker, peers, followed, LATEST)
    start = await _offset(broker, peers, followed, EARLIEST)
    if log_directory is None:
        return
    async with log_directory.renaming:
        if not followed.holds or partition.log is not log:
            return
        had = log.end_offset
        if end < had:
            log.truncate_to(end, sync=False)
        elif start > had:
            log.restart_at(start)
        else:
            raise KafkaError(
                Code.OFFSET_OUT_OF_RANGE, f"{had} is within the leader's log, {start} to {end}"
            )
    broker.log.warning(
        "log restarted empty",
        partition=partition.name,
        ended=had,
        begins=log.start_offset,
        ends=log.end_offset,
        why=f"broker {leader} leads it from {start} to {end}",
    )
    await _checkpoint(log_directory)


async def _checkpoint(log_directory: OpenLogDirectory) -> None:
    """The recovery point or the log start was moved: write it to disk before the next append."""
    if not await log_directory.checkpoint():
        raise KafkaError(Code.KAFKA_STORAGE_ERROR, f"{log_directory.path}: no checkpoint written")


async def _offset(
    broker: BrokerContext, peers: "Peers", followed: FollowerReplica, timestamp: int
) -> int:
    name = followed.partition.name
    asked = ListOffsetsPartition(
        partition_index=name.partition,
        current_leader_epoch=followed.machine.leader_epoch,
        timestamp=timestamp,
    )
    request = ListOffsetsRequest(
        replica_id=broker.id, topics=[ListOffsetsTopic(name=name.topic, partitions=[asked])]
    )
    response = await peers.call(followed.machine.leader, request, timeout_ms=ANSWER_MS_MAX)
    assert isinstance(response, ListOffsetsResponse)
    answer = response.topics[0].partitions[0]
    if answer.error_code:
        raise KafkaError(Code.of(answer.error_code))
    return answer.offset
