"""DeleteTopics: by name, by id, never by accident."""

from pathlib import Path
from uuid import UUID

import pytest

from barnabas.model.errors import Code
from barnabas.model.ids import NO_TOPIC_ID
from barnabas.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from barnabas.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tests.broker.running import Running, running_broker

NOW = 1_700_000_000_000


async def delete(
    running: Running, *topics: str | UUID | tuple[str | None, UUID], version: int = 6
) -> list[DeletableTopicResult]:
    states = []
    for topic in topics:
        if isinstance(topic, str):
            topic = (topic, NO_TOPIC_ID)
        elif isinstance(topic, UUID):
            topic = (None, topic)
        states.append(DeleteTopicState(name=topic[0], topic_id=topic[1]))
    request = DeleteTopicsRequest(
        topics=states if version >= 6 else [],
        topic_names=[state.name or "" for state in states] if version < 6 else [],
        timeout_ms=1000,
    )
    return (await running.ask(request, DeleteTopicsResponse, version)).responses


@pytest.mark.parametrize("version", range(1, 7))
async def test_a_topic_is_deleted_by_name_in_every_version(running: Running, version: int) -> None:
    created = await running.create("t")
    (result,) = await delete(running, "t", version=version)
    assert (result.name, result.error_code) == ("t", 0)
    assert result.topic_id == (created.topic_id if version >= 6 else NO_TOPIC_ID)
    assert running.broker.topics.get("t") is None


async def test_a_topic_is_deleted_by_id(running: Running) -> None:
    created = await running.create("t")
    (result,) = await delete(running, created.topic_id)
    assert (result.name, result.topic_id, result.error_code) == ("t", created.topic_id, 0)
    assert running.broker.topics.get("t") is None


async def test_what_is_not_there_is_said_and_the_rest_is_deleted(running: Running) -> None:
    await running.create("t")
    strange = UUID(int=5)
    by_name, by_id, bad, deleted = await delete(running, "missing", strange, "../x", "t")
    assert (by_name.name, by_name.error_code) == ("missing", Code.UNKNOWN_TOPIC_OR_PARTITION)
    assert (by_id.topic_id, by_id.error_code) == (strange, Code.UNKNOWN_TOPIC_ID)
    assert bad.error_code == Code.UNKNOWN_TOPIC_OR_PARTITION
    assert deleted.error_code == 0
    assert by_name.error_message


async def test_a_topic_that_is_not_named_clearly_is_kept(running: Running) -> None:
    id_ = (await running.create("t")).topic_id
    for topics in (["t", "t"], [id_, id_], ["t", id_], [("t", id_)]):
        for result in await delete(running, *topics):
            assert result.error_code == Code.INVALID_REQUEST
    (neither,) = await delete(running, (None, NO_TOPIC_ID))
    assert neither.error_code == Code.INVALID_REQUEST
    assert running.broker.topics.get("t") is not None


@pytest.mark.parametrize(
    ("version", "code"),
    [(1, Code.INVALID_REQUEST), (2, Code.INVALID_REQUEST), (3, Code.TOPIC_DELETION_DISABLED)],
)
async def test_deletion_may_be_forbidden(tmp_path: Path, version: int, code: Code) -> None:
    async with running_broker(tmp_path, {"delete.topic.enable": "false"}) as running:
        await running.create("t")
        (result,) = await delete(running, "t", version=version)
        assert result.error_code == code
        assert running.broker.topics.get("t") is not None


async def test_a_topic_made_again_has_another_id_and_no_records(running: Running) -> None:
    first = await running.create("t", configs={"retention.ms": "1000"})
    await running.produce("t", NOW)
    await delete(running, "t")
    second = await running.create("t")
    assert second.topic_id != first.topic_id
    topic = running.broker.topics.existing("t")
    assert topic.partitions[0].log.end_offset == 0
    assert topic.overrides == {}


async def test_a_deleted_topic_is_unknown_to_other_requests(running: Running) -> None:
    await running.create("t")
    await delete(running, "t")
    request = ListOffsetsRequest(
        replica_id=-1,
        topics=[
            ListOffsetsTopic(
                name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)]
            )
        ],
    )
    response = await running.ask(request, ListOffsetsResponse)
    assert response.topics[0].partitions[0].error_code == Code.UNKNOWN_TOPIC_OR_PARTITION
