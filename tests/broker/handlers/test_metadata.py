"""Metadata: who leads what, by name, by id, or all of it."""

import asyncio
from pathlib import Path
from uuid import UUID

import pytest

from barnabas.broker.requests.authorized_operations import (
    CLUSTER_OPERATIONS,
    NOT_ASKED,
    TOPIC_OPERATIONS,
)
from barnabas.model.errors import Code
from barnabas.model.ids import NO_TOPIC_ID
from barnabas.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from tests.broker.running import PORT, Running, running_broker

STRANGE_ID = UUID(int=5)


def named(*names: str) -> list[MetadataRequestTopic]:
    return [MetadataRequestTopic(name=name) for name in names]


def by_id(*ids: UUID) -> list[MetadataRequestTopic]:
    return [MetadataRequestTopic(name=None, topic_id=id_) for id_ in ids]


async def described(
    running: Running,
    topics: list[MetadataRequestTopic] | None,
    version: int = 13,
    create: bool = False,
) -> list[MetadataResponseTopic]:
    request = MetadataRequest(
        topics=topics, allow_auto_topic_creation=create if version >= 4 else True
    )
    return (await running.ask(request, MetadataResponse, version)).topics


async def names(
    running: Running, topics: list[MetadataRequestTopic] | None, version: int
) -> list[str | None]:
    return [topic.name for topic in await described(running, topics, version)]


@pytest.mark.parametrize("version", range(14))
async def test_a_topic_has_its_leader_and_real_epoch_in_every_version(
    running: Running, version: int
) -> None:
    created = await running.create("orders", 2)
    (topic,) = await described(running, named("orders"), version)
    assert (topic.error_code, topic.name) == (0, "orders")
    assert topic.topic_id == (created.topic_id if version >= 10 else NO_TOPIC_ID)
    assert [p.partition_index for p in topic.partitions] == [0, 1]
    for partition in topic.partitions:
        assert (partition.error_code, partition.leader_id) == (0, 1)
        assert partition.leader_epoch == (0 if version >= 7 else -1)
        assert partition.replica_nodes == partition.isr_nodes == [1]
        assert partition.offline_replicas == []


async def test_the_cluster_is_described_with_the_topics(tmp_path: Path) -> None:
    async with running_broker(tmp_path, {"node.id": "7", "broker.rack": "r1"}) as running:
        response = await running.ask(MetadataRequest(topics=[]), MetadataResponse)
        (broker,) = response.brokers
        assert (broker.node_id, broker.host, broker.port) == (7, "broker.example", PORT)
        assert broker.rack == "r1"
        assert response.controller_id == 7
        assert response.cluster_id == running.broker.cluster_id
        assert response.error_code == 0


async def test_null_asks_for_all_topics_and_an_empty_list_for_none(running: Running) -> None:
    await running.create("b")
    await running.create("a")
    for version in range(1, 14):
        assert await names(running, None, version) == ["a", "b"]
        assert await names(running, [], version) == []


async def test_in_version_0_an_empty_list_asks_for_all_topics(running: Running) -> None:
    await running.create("a")
    assert await names(running, [], 0) == ["a"]


async def test_a_topic_is_found_by_its_id(running: Running) -> None:
    created = await running.create("a")
    known, strange = await described(running, by_id(created.topic_id, STRANGE_ID), 12)
    assert (known.error_code, known.name) == (0, "a")
    assert (strange.error_code, strange.name) == (Code.UNKNOWN_TOPIC_ID, None)
    assert strange.topic_id == STRANGE_ID


@pytest.mark.parametrize("version", [10, 11])
async def test_ids_in_versions_that_only_answer_them_are_refused(
    running: Running, version: int
) -> None:
    created = await running.create("a")
    asked = [*by_id(created.topic_id), *named("a")]
    refused, found = await described(running, asked, version)
    assert (refused.error_code, refused.name) == (Code.INVALID_REQUEST, "")
    assert (found.error_code, found.name) == (0, "a")


async def test_neither_name_nor_id_is_refused_alone(running: Running) -> None:
    await running.create("a")
    refused, found = await described(running, [*by_id(NO_TOPIC_ID), *named("a")], 12)
    assert refused.error_code == Code.INVALID_REQUEST
    assert found.error_code == 0


@pytest.mark.parametrize("create", [False, True])
async def test_bad_names_are_distinguished_from_missing_topics(
    running: Running, create: bool
) -> None:
    for bad in ("../x", "", ".", "x" * 250, "a b", "ä"):
        (topic,) = await described(running, named(bad), create=create)
        assert (topic.error_code, topic.name) == (Code.INVALID_TOPIC_EXCEPTION, bad)
    assert len(running.broker.topics) == 0


async def test_a_topic_asked_for_twice_is_answered_once(running: Running) -> None:
    await running.create("a")
    assert await names(running, named("a", "a"), 12) == ["a"]


async def test_operations_are_said_only_when_asked_for(running: Running) -> None:
    await running.create("a")
    request = MetadataRequest(topics=named("a"))
    quiet = await running.ask(request, MetadataResponse, 8)
    assert quiet.cluster_authorized_operations == NOT_ASKED
    assert quiet.topics[0].topic_authorized_operations == NOT_ASKED
    request = MetadataRequest(
        topics=named("a"),
        include_cluster_authorized_operations=True,
        include_topic_authorized_operations=True,
    )
    asked = await running.ask(request, MetadataResponse, 8)
    assert asked.cluster_authorized_operations == CLUSTER_OPERATIONS == 8096
    assert asked.topics[0].topic_authorized_operations == TOPIC_OPERATIONS == 3576


async def test_a_missing_topic_is_created_and_ready_in_the_answer(running: Running) -> None:
    (topic,) = await described(running, named("new"), create=True)
    assert (topic.error_code, topic.name) == (0, "new")
    assert [p.leader_id for p in topic.partitions] == [1]
    assert topic.topic_id != NO_TOPIC_ID


async def test_before_version_4_every_question_may_create(running: Running) -> None:
    (topic,) = await described(running, named("new"), 3)
    assert topic.error_code == 0


async def test_nothing_is_created_for_a_client_that_does_not_want_it(running: Running) -> None:
    (topic,) = await described(running, named("new"), create=False)
    assert topic.error_code == Code.UNKNOWN_TOPIC_OR_PARTITION
    assert topic.partitions == []


async def test_nothing_is_created_on_a_broker_that_forbids_it(tmp_path: Path) -> None:
    settings = {"auto.create.topics.enable": "false"}
    async with running_broker(tmp_path, settings) as running:
        (topic,) = await described(running, named("new"), create=True)
        assert topic.error_code == Code.UNKNOWN_TOPIC_OR_PARTITION


async def test_created_topics_have_the_broker_s_number_of_partitions(tmp_path: Path) -> None:
    async with running_broker(tmp_path, {"num.partitions": "3"}) as running:
        (topic,) = await described(running, named("new"), create=True)
        assert len(topic.partitions) == 3


async def test_asking_for_ids_or_for_all_creates_nothing(running: Running) -> None:
    await described(running, by_id(STRANGE_ID), create=True)
    await described(running, None, create=True)
    assert len(running.broker.topics) == 0


async def test_internal_topics_are_not_created_by_asking(running: Running) -> None:
    (topic,) = await described(running, named("__consumer_offsets"), create=True)
    assert topic.error_code == Code.UNKNOWN_TOPIC_OR_PARTITION
    assert topic.is_internal


async def test_a_name_that_metrics_could_not_distinguish_is_not_created(running: Running) -> None:
    await running.create("a.b")
    (topic,) = await described(running, named("a_b"), create=True)
    assert topic.error_code == Code.INVALID_TOPIC_EXCEPTION
    assert "topic not created" in running.log.getvalue()


async def test_a_default_replication_factor_that_cannot_be_met_is_said(tmp_path: Path) -> None:
    async with running_broker(tmp_path, {"default.replication.factor": "3"}) as running:
        (topic,) = await described(running, named("new"), create=True)
        assert topic.error_code == Code.INVALID_REPLICATION_FACTOR


async def test_two_clients_may_create_the_same_topic_at_once(running: Running) -> None:
    request = MetadataRequest(topics=named("new"), allow_auto_topic_creation=True)
    wires = [running.connect() for _ in range(5)]
    for wire in wires:
        running.send(request, 12, wire)
    answers = await asyncio.gather(
        *(running.receive(request, MetadataResponse, 12, wire) for wire in wires)
    )
    assert {answer.topics[0].error_code for answer in answers} == {0}
    assert len({answer.topics[0].topic_id for answer in answers}) == 1
