"""ListOffsets: the ends of a log, and places in it by time."""

import pytest

from barnabas.model.errors import Code
from barnabas.wire.compression import Codec
from barnabas.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tests.broker.running import Running

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, PENDING_UPLOAD = range(-1, -7, -1)
NOTHING = (0, -1, -1, -1)


async def listed(
    running: Running,
    *asked: ListOffsetsPartition,
    topic: str = "t",
    version: int = 11,
    replica_id: int = -1,
    isolation_level: int = 0,
) -> list[ListOffsetsPartitionResponse]:
    request = ListOffsetsRequest(
        replica_id=replica_id,
        isolation_level=isolation_level,
        topics=[ListOffsetsTopic(name=topic, partitions=list(asked))],
    )
    (answer,) = (await running.ask(request, ListOffsetsResponse, version)).topics
    assert answer.name == topic
    return answer.partitions


def at(timestamp: int, partition: int = 0, epoch: int = -1) -> ListOffsetsPartition:
    return ListOffsetsPartition(
        partition_index=partition, timestamp=timestamp, current_leader_epoch=epoch
    )


async def find(
    running: Running, timestamp: int, version: int = 11, **options: int
) -> tuple[int, int, int, int]:
    """Error code, timestamp, offset, leader epoch."""
    (found,) = await listed(running, at(timestamp), version=version, **options)  # type: ignore[arg-type]
    return found.error_code, found.timestamp, found.offset, found.leader_epoch


@pytest.mark.parametrize("version", range(1, 12))
async def test_the_ends_are_found_in_every_version(running: Running, version: int) -> None:
    await running.create("t")
    epoch = 0 if version >= 4 else -1
    assert await find(running, LATEST, version) == (0, -1, 0, epoch)
    assert await find(running, EARLIEST, version) == (0, -1, 0, epoch)
    await running.produce("t", 1000, 2000, 3000)
    assert await find(running, LATEST, version) == (0, -1, 3, epoch)
    assert await find(running, EARLIEST, version) == (0, -1, 0, epoch)


async def test_a_timestamp_finds_the_first_record_that_is_not_older_with_its_own_time(
    running: Running,
) -> None:
    await running.create("t")
    for time in (1000, 3000, 2000, 3000):
        await running.produce("t", time)
    assert await find(running, 0) == (0, 1000, 0, 0)
    assert await find(running, 1000) == (0, 1000, 0, 0)
    assert await find(running, 1001) == (0, 3000, 1, 0)
    assert await find(running, 2500) == (0, 3000, 1, 0)
    assert await find(running, 3000) == (0, 3000, 1, 0)
    assert await find(running, 3001) == NOTHING


@pytest.mark.parametrize("codec", list(Codec))
async def test_a_record_inside_a_batch_is_found_whatever_the_codec(
    running: Running, codec: Codec
) -> None:
    await running.create("t")
    await running.produce("t", 1000, 2000, 3000, codec=codec)
    assert await find(running, 1500) == (0, 2000, 1, 0)
    assert await find(running, 3000) == (0, 3000, 2, 0)


async def test_the_largest_timestamp_is_found_since_version_7(running: Running) -> None:
    await running.create("t")
    assert await find(running, MAX_TIMESTAMP) == NOTHING
    await running.produce("t", 1000, 3000, 2000)
    assert await find(running, MAX_TIMESTAMP, 7) == (0, 3000, 1, 0)


async def test_without_tiers_the_local_start_is_the_start_and_nothing_is_tiered(
    running: Running,
) -> None:
    await running.create("t")
    await running.produce("t", 1000)
    assert await find(running, EARLIEST_LOCAL) == (0, -1, 0, 0)
    assert await find(running, LATEST_TIERED) == NOTHING
    assert await find(running, PENDING_UPLOAD) == NOTHING


@pytest.mark.parametrize(
    ("timestamp", "version"),
    [
        (MAX_TIMESTAMP, 6),
        (EARLIEST_LOCAL, 7),
        (LATEST_TIERED, 8),
        (PENDING_UPLOAD, 10),
        (-7, 11),
        (-(2**63), 11),
    ],
)
async def test_a_place_that_a_version_does_not_know_is_refused(
    running: Running, timestamp: int, version: int
) -> None:
    await running.create("t")
    code, *rest = await find(running, timestamp, version)
    assert (code, rest) == (Code.UNSUPPORTED_VERSION, [-1, -1, -1])


async def test_what_is_not_there_fails_alone(running: Running) -> None:
    await running.create("t")
    found, missing, negative = await listed(running, at(LATEST), at(LATEST, 9), at(LATEST, -1))
    assert found.error_code == 0
    assert missing.error_code == negative.error_code == Code.UNKNOWN_TOPIC_OR_PARTITION
    (unknown,) = await listed(running, at(LATEST), topic="../x")
    assert unknown.error_code == Code.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_partition_asked_for_twice_is_refused_once(running: Running) -> None:
    await running.create("t", 2)
    twice, once = await listed(running, at(LATEST), at(EARLIEST), at(LATEST, 1))
    assert (twice.partition_index, twice.error_code) == (0, Code.INVALID_REQUEST)
    assert (once.partition_index, once.error_code) == (1, 0)


@pytest.mark.parametrize(
    ("epoch", "code"),
    [(0, 0), (1, Code.UNKNOWN_LEADER_EPOCH), (-5, Code.FENCED_LEADER_EPOCH)],
)
async def test_a_client_that_knows_another_leader_gets_an_error(
    running: Running, epoch: int, code: int
) -> None:
    await running.create("t")
    (found,) = await listed(running, at(LATEST, epoch=epoch))
    assert found.error_code == code


async def test_committed_readers_find_the_same_end_and_no_third_level_exists(
    running: Running,
) -> None:
    await running.create("t")
    await running.produce("t", 1000)
    assert await find(running, LATEST, isolation_level=1) == (0, -1, 1, 0)
    assert (await find(running, LATEST, isolation_level=7))[0] == Code.INVALID_REQUEST


async def test_a_replica_gets_the_end_of_the_log(running: Running) -> None:
    await running.create("t")
    await running.produce("t", 1000)
    assert await find(running, LATEST, replica_id=2) == (0, -1, 1, 0)
