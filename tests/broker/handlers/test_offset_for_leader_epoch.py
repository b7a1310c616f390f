"""OffsetForLeaderEpoch: where an epoch ends, so that a reader can see that records are gone."""

import pytest

from barnabas.model.errors import Code
from barnabas.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.broker.running import Running


async def end(
    running: Running,
    epoch: int,
    current: int = -1,
    topic: str = "t",
    partition: int = 0,
    version: int = 4,
) -> EpochEndOffset:
    request = OffsetForLeaderEpochRequest(
        topics=[
            OffsetForLeaderTopic(
                topic=topic,
                partitions=[
                    OffsetForLeaderPartition(
                        partition=partition, current_leader_epoch=current, leader_epoch=epoch
                    )
                ],
            )
        ]
    )
    response = await running.ask(request, OffsetForLeaderEpochResponse, version)
    (answer,) = response.topics[0].partitions
    assert (response.topics[0].topic, answer.partition) == (topic, partition)
    return answer


@pytest.mark.parametrize("version", range(2, 5))
async def test_the_epoch_in_force_ends_where_the_log_does(running: Running, version: int) -> None:
    await running.create("t")
    answer = await end(running, 0, version=version)
    assert (answer.error_code, answer.leader_epoch, answer.end_offset) == (0, 0, 0)
    await running.produce("t", 1000, 2000)
    answer = await end(running, 0, version=version)
    assert (answer.error_code, answer.leader_epoch, answer.end_offset) == (0, 0, 2)


@pytest.mark.parametrize("epoch", [-1, 1, 2**31 - 1])
async def test_an_epoch_that_never_was_has_no_end(running: Running, epoch: int) -> None:
    await running.create("t")
    answer = await end(running, epoch)
    assert (answer.error_code, answer.leader_epoch, answer.end_offset) == (0, -1, -1)


async def test_an_older_epoch_ends_where_the_next_begins(running: Running) -> None:
    await running.create("t")
    await running.produce("t", 1000, 2000)
    partition = running.broker.topics.existing("t").partitions[0]
    partition.log.begin_epoch(3)
    partition.leader_epoch = 3
    await running.produce("t", 3000)
    for asked in (0, 1, 2):
        answer = await end(running, asked)
        assert (answer.leader_epoch, answer.end_offset) == (0, 2)
    answer = await end(running, 3, current=3)
    assert (answer.leader_epoch, answer.end_offset) == (3, 3)


@pytest.mark.parametrize(
    ("current", "code"),
    [(0, 0), (1, Code.UNKNOWN_LEADER_EPOCH), (-2, Code.FENCED_LEADER_EPOCH)],
)
async def test_a_client_that_knows_another_leader_gets_an_error(
    running: Running, current: int, code: int
) -> None:
    await running.create("t")
    assert (await end(running, 0, current)).error_code == code


async def test_what_is_not_there_is_unknown(running: Running) -> None:
    await running.create("t")
    for topic, partition in (("t", 9), ("missing", 0), ("../x", 0)):
        answer = await end(running, 0, topic=topic, partition=partition)
        assert answer.error_code == Code.UNKNOWN_TOPIC_OR_PARTITION
        assert (answer.leader_epoch, answer.end_offset) == (-1, -1)
