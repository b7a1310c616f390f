"""InitProducerId and DescribeProducers."""

from pathlib import Path

import pytest

from barnabas.broker.producer_id_blocks import BLOCK_SIZE
from barnabas.keeper.memory import MemoryKeeper
from barnabas.model.errors import Code
from barnabas.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    TopicRequest,
)
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tests.broker.running import Running, running_broker


async def init(
    running: Running,
    transactional_id: str | None = None,
    producer: tuple[int, int] = (-1, -1),
    version: int = 5,
) -> InitProducerIdResponse:
    request = InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=60_000,
        producer_id=producer[0],
        producer_epoch=producer[1],
    )
    return await running.ask(request, InitProducerIdResponse, version)


async def describe(running: Running, topic: str, partition: int = 0) -> PartitionResponse:
    request = DescribeProducersRequest(
        topics=[TopicRequest(name=topic, partition_indexes=[partition])]
    )
    response = await running.ask(request, DescribeProducersResponse)
    (answer,) = response.topics[0].partitions
    assert (response.topics[0].name, answer.partition_index) == (topic, partition)
    return answer


async def test_every_version_gets_an_id_of_its_own(running: Running) -> None:
    answers = [await init(running, version=version) for version in range(6)]
    assert {(answer.error_code, answer.producer_epoch) for answer in answers} == {(0, 0)}
    assert len({answer.producer_id for answer in answers}) == 6


async def test_ids_are_not_given_out_again_after_a_restart(tmp_path: Path) -> None:
    keeper = MemoryKeeper()
    async with running_broker(tmp_path, keeper=keeper) as running:
        first = [(await init(running)).producer_id for _ in range(BLOCK_SIZE + 1)]
    async with running_broker(tmp_path, keeper=keeper) as running:
        second = (await init(running)).producer_id
    assert len(set(first)) == len(first)
    assert second > max(first)


async def test_an_idempotent_producer_that_bumps_its_epoch_gets_a_new_id(
    running: Running,
) -> None:
    """Kafka ignores the old id and epoch where there is no transactional id."""
    old = (await init(running)).producer_id
    answer = await init(running, producer=(old, 3))
    assert (answer.error_code, answer.producer_epoch) == (0, 0)
    assert answer.producer_id != old


@pytest.mark.parametrize("producer", [(5, -1), (-1, 3)])
async def test_an_id_without_an_epoch_is_refused(
    running: Running, producer: tuple[int, int]
) -> None:
    answer = await init(running, producer=producer)
    assert answer.error_code == Code.INVALID_REQUEST
    assert (answer.producer_id, answer.producer_epoch) == (-1, -1)


async def test_a_transactional_producer_looks_for_its_coordinator_first(running: Running) -> None:
    answer = await init(running, "orders-writer")
    assert answer.error_code == Code.NOT_COORDINATOR
    assert (answer.producer_id, answer.producer_epoch) == (-1, -1)
    assert (await init(running, "")).error_code == Code.INVALID_REQUEST


async def test_a_partition_describes_the_producers_it_remembers(running: Running) -> None:
    await running.create("t")
    assert (await describe(running, "t")).active_producers == []
    await running.produce("t", 1000, 2000, producer_id=7, producer_epoch=2, base_sequence=0)
    await running.produce("t", 3000, producer_id=8, producer_epoch=0, base_sequence=0)
    await running.produce("t", 4000)
    first, second = (await describe(running, "t")).active_producers
    assert (first.producer_id, first.producer_epoch, first.last_sequence) == (7, 2, 1)
    assert (first.last_timestamp, first.current_txn_start_offset) == (2000, -1)
    assert first.coordinator_epoch == -1
    assert second.producer_id == 8


@pytest.mark.parametrize(
    ("topic", "partition", "code"),
    [
        ("t", 9, Code.UNKNOWN_TOPIC_OR_PARTITION),
        ("missing", 0, Code.UNKNOWN_TOPIC_OR_PARTITION),
        ("../x", 0, Code.INVALID_TOPIC_EXCEPTION),
    ],
)
async def test_producers_of_what_is_not_there_are_an_error(
    running: Running, topic: str, partition: int, code: Code
) -> None:
    await running.create("t")
    answer = await describe(running, topic, partition)
    assert answer.error_code == code
    assert answer.error_message
