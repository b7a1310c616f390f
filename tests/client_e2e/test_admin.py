"""Administration, awaited and blocking."""

import asyncio

import pytest

import barnabas
import barnabas.sync
from barnabas.client.admin.security import Acl, AclFilter
from barnabas.model.errors import Code, InvalidRequest, KafkaError
from barnabas.model.ids import TopicPartition
from tests.client_e2e.conftest import Served
from tests.process import BROKERS
from tests.waiting import WAIT_S


async def test_a_topic_is_created_described_and_deleted(served: Served, topic: str) -> None:
    async with barnabas.Admin(bootstrap_servers=served.bootstrap_servers) as admin:
        await admin.create_topic(topic, partitions=3, configs={"retention.ms": "12345"})
        found = await admin.topic(topic)
        assert [partition.number for partition in found.partitions] == [0, 1, 2]
        options = {option.name: option.value for option in await admin.topic_options(topic)}
        assert options["retention.ms"] == "12345"
        await admin.delete_topic(topic)
        with pytest.raises(InvalidRequest) as refused:
            await admin.topic(topic)
    assert refused.value.code is Code.UNKNOWN_TOPIC_OR_PARTITION


def test_the_blocking_mirror_does_the_same(served: Served, topic: str) -> None:
    with barnabas.sync.Admin({"bootstrap.servers": served.bootstrap_servers}) as admin:
        admin.create_topic(topic, partitions=1)
        admin.create_partitions(topic, 2)
        assert len(admin.topic(topic).partitions) == 2
        with pytest.raises(InvalidRequest) as refused:
            admin.create_topic(topic)
    assert refused.value.code is Code.TOPIC_ALREADY_EXISTS


async def test_the_cluster_and_its_log_directories_are_described(
    served: Served, topic: str
) -> None:
    at = TopicPartition(topic, 0)
    async with (
        barnabas.Admin(bootstrap_servers=served.bootstrap_servers) as admin,
        barnabas.Producer(bootstrap_servers=served.bootstrap_servers) as producer,
    ):
        await producer.send(topic, bytes(1_000))
        cluster = await admin.cluster()
        assert [broker.id for broker in cluster.brokers] == list(range(1, BROKERS + 1))
        addresses = [str(broker.address) for broker in cluster.brokers]
        assert ",".join(addresses) == served.bootstrap_servers
        dirs = await admin.log_dirs()
        replicas = {replica.at: replica for each in dirs for replica in each.replicas}
        assert replicas[at].size > 1_000
        assert not any(each.error for each in dirs)


async def test_records_are_deleted_and_offsets_found(served: Served, topic: str) -> None:
    at = TopicPartition(topic, 0)
    async with (
        barnabas.Admin(bootstrap_servers=served.bootstrap_servers) as admin,
        barnabas.Producer(bootstrap_servers=served.bootstrap_servers) as producer,
    ):
        for number in range(5):
            await producer.send(topic, b"x", timestamp=1_000 + number)
        assert (await admin.offsets({at: -1}))[at].offset == 5
        assert (await admin.offsets({at: 1_003}))[at] == (3, 1_003)
        assert await admin.delete_records({at: 2}) == {at: 2}
        assert (await admin.offsets({at: -2}))[at].offset == 2
        with pytest.raises(InvalidRequest) as refused:
            await admin.delete_records({at: 99})
    assert refused.value.code is Code.OFFSET_OUT_OF_RANGE


async def test_options_of_brokers_and_topics_are_altered(served: Served, topic: str) -> None:
    async with barnabas.Admin(bootstrap_servers=served.bootstrap_servers) as admin:
        await admin.create_topic(topic)
        await admin.alter_topic(topic, put={"retention.ms": "777"})
        async with asyncio.timeout(WAIT_S):  # Kafka's brokers learn of it a little later
            while await _option(admin, topic, "retention.ms") != "777":
                await asyncio.sleep(0.01)
        await admin.alter_topic(topic, reset=["retention.ms"])
        await admin.alter_broker(1, put={"message.max.bytes": "1048588"})
        await admin.alter_broker(1, reset=["message.max.bytes"])
        with pytest.raises(InvalidRequest, match=topic) as refused:
            await admin.alter_topic(topic, put={"retention.ms": "soon"})
    assert refused.value.code is Code.INVALID_CONFIG


async def _option(admin: barnabas.Admin, topic: str, name: str) -> str | None:
    return {each.name: each.value for each in await admin.topic_options(topic)}[name]


@pytest.mark.plain
async def test_a_broker_without_an_authorizer_refuses_acls(served: Served, topic: str) -> None:
    rule = Acl("topic", topic, "User:a", "read")
    async with barnabas.Admin(bootstrap_servers=served.bootstrap_servers) as admin:
        for call in (
            lambda: admin.acls(AclFilter(resource="topic")),
            lambda: admin.create_acls([rule]),
            lambda: admin.delete_acls(AclFilter(name=topic)),
        ):
            with pytest.raises(KafkaError) as refused:
                await call()
            assert refused.value.code is Code.SECURITY_DISABLED


@pytest.mark.alone
async def test_one_broker_elects_and_moves_nothing(served: Served, topic: str) -> None:
    at = TopicPartition(topic, 0)
    async with barnabas.Admin(bootstrap_servers=served.bootstrap_servers) as admin:
        await admin.create_topic(topic)
        assert await admin.elect_leaders([at]) == {}
        (node,) = (await admin.cluster()).brokers
        await admin.reassign({at: [node.id]})
        assert await admin.reassignments() == []


@pytest.mark.alone
async def test_quotas_are_set_listed_and_removed(served: Served, topic: str) -> None:
    async with barnabas.Admin(bootstrap_servers=served.bootstrap_servers) as admin:
        await admin.alter_quota({"client-id": topic}, {"producer_byte_rate": 1e9})
        limits: dict[str, float] = {}
        while not limits:  # Kafka's brokers learn of it a little later
            for quota in await admin.quotas(["client-id"]):
                if quota.entity["client-id"] == topic:
                    limits = quota.limits
        assert limits == {"producer_byte_rate": 1e9}
        await admin.alter_quota({"client-id": topic}, {"producer_byte_rate": None})


def test_a_wrong_word_in_a_rule_is_answered_with_the_right_ones() -> None:
    with (
        barnabas.sync.Admin(bootstrap_servers="127.0.0.1:1") as admin,
        pytest.raises(InvalidRequest, match="expected one of any, topic, group"),
    ):
        admin.acls(AclFilter(resource="topics"))
