"""DeleteRecords: the start of a log moves up, and readers follow."""

import pytest

from barnabas.model.errors import Code
from barnabas.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from tests.broker.running import Running

OUT_OF_RANGE = (-1, Code.OFFSET_OUT_OF_RANGE)


async def delete(
    running: Running, offset: int, topic: str = "t", partition: int = 0, version: int = 2
) -> tuple[int, int]:
    """The low watermark and the error code."""
    request = DeleteRecordsRequest(
        topics=[
            DeleteRecordsTopic(
                name=topic,
                partitions=[DeleteRecordsPartition(partition_index=partition, offset=offset)],
            )
        ],
        timeout_ms=1000,
    )
    response = await running.ask(request, DeleteRecordsResponse, version)
    (answer,) = response.topics[0].partitions
    assert (response.topics[0].name, answer.partition_index) == (topic, partition)
    return answer.low_watermark, answer.error_code


@pytest.mark.parametrize("version", range(3))
async def test_the_log_starts_where_it_was_cut_in_every_version(
    running: Running, version: int
) -> None:
    await running.create("t")
    await running.produce("t", 1000, 2000, 3000)
    assert await delete(running, 2, version=version) == (2, 0)
    assert running.broker.topics.existing("t").partitions[0].log.start_offset == 2


async def test_a_cut_below_the_start_changes_nothing(running: Running) -> None:
    await running.create("t")
    await running.produce("t", 1000, 2000, 3000)
    await delete(running, 2)
    assert await delete(running, 1) == (2, 0)


async def test_minus_one_cuts_all(running: Running) -> None:
    await running.create("t")
    await running.produce("t", 1000, 2000, 3000)
    assert await delete(running, -1) == (3, 0)


async def test_an_empty_log_may_be_cut(running: Running) -> None:
    await running.create("t")
    assert await delete(running, 0) == (0, 0)
    assert await delete(running, -1) == (0, 0)


@pytest.mark.parametrize("offset", [4, 2**63 - 1, -2, -(2**63)])
async def test_a_cut_outside_the_log_is_refused(running: Running, offset: int) -> None:
    await running.create("t")
    await running.produce("t", 1000, 2000, 3000)
    assert await delete(running, offset) == OUT_OF_RANGE


async def test_what_is_not_there_is_unknown(running: Running) -> None:
    await running.create("t")
    unknown = (-1, Code.UNKNOWN_TOPIC_OR_PARTITION)
    assert await delete(running, 0, "missing") == unknown
    assert await delete(running, 0, "../x") == unknown
    assert await delete(running, 0, partition=9) == unknown
    assert await delete(running, 0, partition=-1) == unknown


@pytest.mark.parametrize(
    ("policy", "code"),
    [("delete", 0), ("", 0), ("compact,delete", 0), ("compact", Code.POLICY_VIOLATION)],
)
async def test_a_topic_that_is_only_compacted_keeps_its_records(
    running: Running, policy: str, code: int
) -> None:
    await running.create("t", configs={"cleanup.policy": policy})
    assert (await delete(running, 0))[1] == code


async def test_internal_topics_keep_their_records(running: Running) -> None:
    await running.create("__consumer_offsets")
    assert await delete(running, 0, "__consumer_offsets") == (-1, Code.INVALID_TOPIC_EXCEPTION)
