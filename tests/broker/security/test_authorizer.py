"""Access rules of a running broker: changes, storage, hidden things, revocation."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.keeper.memory import MemoryKeeper
from barnabas.model.errors import Failed
from barnabas.security.principal import Principal
from barnabas.wire.messages import create_acls, delete_acls, describe_acls
from barnabas.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from barnabas.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from barnabas.wire.messages.describe_denials import (
    DescribeDenialsRequest,
    DescribeDenialsResponse,
)
from barnabas.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from barnabas.wire.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from barnabas.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from barnabas.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from barnabas.wire.records import Record, encode_batch
from tests.broker.running import Running, Wire, running_broker

SETTINGS = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:admin",
}
TOPIC, GROUP, CLUSTER = 2, 3, 4
READ, WRITE, CREATE, ALTER, DESCRIBE = 3, 4, 5, 7, 8
DENY, ALLOW = 2, 3
LITERAL, PREFIXED = 3, 4


@pytest.fixture
async def run(tmp_path: Path) -> AsyncIterator[Running]:
    async with running_broker(tmp_path, SETTINGS) as run:
        last(run).principal = Principal("User", "admin")
        for name in ("orders", "secret"):
            await run.create(name)
        yield run


def last(run: Running) -> Any:
    return list(run.broker.connections)[-1]


def connect(run: Running, user: str) -> Wire:
    wire = run.connect()
    last(run).principal = Principal("User", user)
    return wire


def creation(
    operation: int = READ,
    name: str = "orders",
    type_: int = TOPIC,
    permission: int = ALLOW,
    pattern: int = LITERAL,
    principal: str = "User:alice",
) -> create_acls.AclCreation:
    return create_acls.AclCreation(
        resource_type=type_,
        resource_name=name,
        resource_pattern_type=pattern,
        principal=principal,
        host="*",
        operation=operation,
        permission_type=permission,
    )


async def add(run: Running, *creations: create_acls.AclCreation) -> list[int]:
    request = create_acls.CreateAclsRequest(creations=list(creations))
    response = await run.ask(request, create_acls.CreateAclsResponse)
    return [each.error_code for each in response.results]


def matching(**fields: Any) -> dict[str, Any]:
    return {
        "resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1,
        "principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1,
        **fields,
    }  # fmt: skip


async def delete(run: Running, **fields: Any) -> list[Any]:
    request = delete_acls.DeleteAclsRequest(
        filters=[delete_acls.DeleteAclsFilter(**matching(**fields))]
    )
    (result,) = (await run.ask(request, delete_acls.DeleteAclsResponse)).filter_results
    assert not result.error_code, result.error_message
    return result.matching_acls


async def described(run: Running, **fields: Any) -> list[tuple[str, int]]:
    request = describe_acls.DescribeAclsRequest(**matching(**fields))
    response = await run.ask(request, describe_acls.DescribeAclsResponse)
    return [(each.resource_name, acl.operation) for each in response.resources for acl in each.acls]


async def test_rules_are_added_described_and_deleted(run: Running) -> None:
    twice = creation(WRITE)
    assert (
        await add(run, creation(), twice, twice, creation(READ, "o", pattern=PREFIXED)) == [0] * 4
    )
    assert await add(run, creation()) == [0], "a rule that exists is added with success"
    assert await described(run) == [("orders", READ), ("orders", WRITE), ("o", READ)]
    assert await described(run, pattern_type_filter=2, resource_name_filter="orders") == [
        ("orders", READ), ("orders", WRITE), ("o", READ),
    ]  # fmt: skip
    gone = await delete(run, operation=READ, pattern_type_filter=LITERAL)
    assert [(each.resource_name, each.operation) for each in gone] == [("orders", READ)]
    assert await described(run) == [("orders", WRITE), ("o", READ)]


async def test_a_rule_that_is_not_valid_is_refused_and_the_others_are_added(run: Running) -> None:
    bad = [
        creation(principal="alice"), creation(name=""), creation(operation=0), creation(1),
        creation(permission=1), creation(pattern=2), creation(type_=99), creation(type_=1),
        creation(name="mine", type_=CLUSTER), creation(type_=GROUP, name="g" * 2000),
    ]  # fmt: skip
    assert await add(run, *bad, creation()) == [42] * len(bad) + [0]
    assert await described(run) == [("orders", READ)]


async def test_rules_survive_a_restart_as_nodes_that_kafka_can_read(tmp_path: Path) -> None:
    keeper = MemoryKeeper()
    async with running_broker(tmp_path, SETTINGS, keeper) as run:
        last(run).principal = Principal("User", "admin")
        await add(run, creation(), creation(type_=GROUP, name="a/b"))
    assert keeper.get("/kafka-acl/Topic/orders").data == (
        b'{"version":1,"acls":[{"principal":"User:alice","permissionType":"Allow",'
        b'"operation":"Read","host":"*"}]}'
    )
    async with running_broker(tmp_path, SETTINGS, keeper) as run:
        last(run).principal = Principal("User", "admin")
        assert await described(run) == [("orders", READ), ("a/b", READ)]


async def test_a_node_that_cannot_be_read_keeps_the_broker_from_starting(tmp_path: Path) -> None:
    keeper = MemoryKeeper()
    async with running_broker(tmp_path, SETTINGS, keeper):
        keeper.create("/kafka-acl/Topic/orders", b"not json")
    with pytest.raises(Exception, match="/kafka-acl/Topic/orders cannot be read"):
        async with running_broker(tmp_path, SETTINGS, keeper):
            pass


async def test_super_users_that_are_no_principals_keep_the_broker_from_starting(
    tmp_path: Path,
) -> None:
    with pytest.raises(Failed, match=r"super\.users: principal 'admin'"):
        async with running_broker(tmp_path, {**SETTINGS, "super.users": "admin"}):
            pass


async def test_a_hidden_topic_looks_like_a_missing_one(run: Running) -> None:
    wire = connect(run, "alice")
    await add(run, creation(DESCRIBE))
    names = ("orders", "secret", "missing")
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names])
    topics = {
        each.name: each for each in (await run.ask(request, MetadataResponse, wire=wire)).topics
    }
    assert [topics[name].error_code for name in names] == [0, 29, 29]
    assert topics["secret"].topic_id == topics["missing"].topic_id
    everything = await run.ask(MetadataRequest(topics=None), MetadataResponse, wire=wire)
    assert [each.name for each in everything.topics] == ["orders"]
    pages = await run.ask(
        DescribeTopicPartitionsRequest(topics=[]), DescribeTopicPartitionsResponse, wire=wire
    )
    assert [each.name for each in pages.topics] == ["orders"]
    old = await run.ask(MetadataRequest(topics=[]), MetadataResponse, 0, wire)
    assert [each.name for each in old.topics] == ["orders"]
    denied = MetadataRequest(topics=[MetadataRequestTopic(name="secret")])
    answer = await run.ask(denied, MetadataResponse, 0, wire)
    assert [(each.name, each.error_code) for each in answer.topics] == [("secret", 29)]


async def test_an_id_is_no_secret_but_the_name_is(run: Running) -> None:
    wire = connect(run, "alice")
    secret = run.broker.topics.get("secret")
    assert secret is not None
    request = MetadataRequest(topics=[MetadataRequestTopic(topic_id=secret.id, name=None)])
    (topic,) = (await run.ask(request, MetadataResponse, wire=wire)).topics
    assert (topic.error_code, topic.name, topic.topic_id) == (29, None, secret.id)


async def test_a_topic_is_not_created_without_the_right_to_create_it(run: Running) -> None:
    wire = connect(run, "alice")
    await add(run, creation(DESCRIBE, "new"))
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name="new")], allow_auto_topic_creation=True
    )
    (topic,) = (await run.ask(request, MetadataResponse, wire=wire)).topics
    assert topic.error_code == 29
    assert run.broker.topics.get("new") is None
    await add(run, creation(CREATE, "ne", pattern=PREFIXED))
    (topic,) = (await run.ask(request, MetadataResponse, wire=wire)).topics
    assert topic.error_code == 0


async def test_operations_in_responses_are_those_that_rules_allow(run: Running) -> None:
    wire = connect(run, "alice")
    await add(run, creation(READ))
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name="orders")], include_topic_authorized_operations=True
    )
    (topic,) = (await run.ask(request, MetadataResponse, wire=wire)).topics
    assert topic.topic_authorized_operations == 1 << READ | 1 << DESCRIBE
    cluster = DescribeClusterRequest(include_cluster_authorized_operations=True)
    response = await run.ask(cluster, DescribeClusterResponse, wire=wire)
    assert response.cluster_authorized_operations == 0
    await add(run, creation(ALTER, "kafka-cluster", CLUSTER))
    response = await run.ask(cluster, DescribeClusterResponse, wire=wire)
    assert response.cluster_authorized_operations == 1 << ALTER | 1 << DESCRIBE


def fetching(wait_ms: int = 0, **fields: Any) -> FetchRequest:
    topics = [
        FetchTopic(
            topic=name,
            partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=10_000)],
        )
        for name in fields.pop("names", ("orders",))
    ]
    return FetchRequest(max_wait_ms=wait_ms, min_bytes=1, topics=topics, **fields)


def fetched(response: FetchResponse) -> list[tuple[int, int]]:
    return [
        (each.error_code, len(memoryview(each.records or b"")))  # type: ignore[arg-type]
        for topic in response.responses
        for each in topic.partitions
    ]


async def test_a_fetch_session_ends_with_the_right_that_it_had(run: Running) -> None:
    wire = connect(run, "alice")
    await add(run, creation())
    first = await run.ask(fetching(session_epoch=0), FetchResponse, 12, wire)
    assert fetched(first) == [(0, 0)]
    await delete(run, principal_filter="User:alice")
    await run.produce("orders", 1)
    following = fetching(names=(), session_id=first.session_id, session_epoch=1)
    assert fetched(await run.ask(following, FetchResponse, 12, wire)) == [(29, 0)]


async def test_a_session_gives_another_principal_nothing(run: Running) -> None:
    wire = connect(run, "alice")
    await add(run, creation())
    await run.produce("orders", 1)
    first = await run.ask(fetching(session_epoch=0), FetchResponse, 12, wire)
    mallory = connect(run, "mallory")
    following = fetching(names=(), session_id=first.session_id, session_epoch=1)
    assert fetched(await run.ask(following, FetchResponse, 12, mallory)) == [(29, 0)]


async def test_a_long_poll_is_looked_at_again_when_it_ends(run: Running) -> None:
    wire = connect(run, "alice")
    await add(run, creation())
    request = fetching(60_000, session_epoch=-1)
    run.send(request, 12, wire)
    orders = run.broker.topics.get("orders")
    assert orders is not None
    while not orders.partitions[0].waiters:
        await asyncio.sleep(0)
    await delete(run, principal_filter="User:alice")
    await run.produce("orders", 1)
    assert fetched(await run.receive(request, FetchResponse, 12, wire)) == [(29, 0)]


async def test_a_replica_id_gives_no_right(run: Running) -> None:
    wire = connect(run, "alice")
    await add(run, creation())
    await run.produce("orders", 1)
    request = fetching(session_epoch=-1, replica_id=2)
    assert fetched(await run.ask(request, FetchResponse, 12, wire)) == [(29, 0)]


def producing(acks: int, *names: str, **options: Any) -> ProduceRequest:
    records = memoryview(encode_batch([Record(0, 1, b"k", b"v", ())], **options))
    return ProduceRequest(
        acks=acks,
        timeout_ms=1000,
        topic_data=[
            TopicProduceData(
                name=name, partition_data=[PartitionProduceData(index=0, records=records)]
            )
            for name in names
        ],
    )


async def test_what_is_allowed_of_a_request_is_written_and_the_rest_refused(run: Running) -> None:
    wire = connect(run, "alice")
    await add(run, creation(WRITE))
    response = await run.ask(producing(-1, "secret", "orders"), ProduceResponse, 12, wire)
    codes = {each.name: each.partition_responses[0].error_code for each in response.responses}
    assert codes == {"orders": 0, "secret": 29}
    secret = run.broker.topics.get("secret")
    assert secret is not None
    assert secret.partitions[0].log.end_offset == 0


async def test_a_producer_with_acks_0_is_disconnected(run: Running) -> None:
    wire = connect(run, "alice")
    run.send(producing(0, "secret"), 12, wire)
    with pytest.raises(ConnectionError):
        await wire.take()


async def test_a_batch_of_a_transaction_needs_its_id_whatever_the_request_says(
    run: Running,
) -> None:
    wire = connect(run, "alice")
    await add(run, creation(WRITE))
    request = producing(
        -1, "orders", producer_id=1, producer_epoch=0, base_sequence=0, transactional=True
    )
    response = await run.ask(request, ProduceResponse, 12, wire)
    assert response.responses[0].partition_responses[0].error_code == 53


async def test_denials_are_kept_and_logged_once(run: Running) -> None:
    wire = connect(run, "alice")
    await add(run, creation(READ, "*", permission=DENY, principal="User:*"))
    for _ in range(5):
        await run.ask(fetching(session_epoch=-1), FetchResponse, 12, wire)
    authorizer = run.broker.authorizer
    assert authorizer is not None
    assert authorizer.denials.count == 5
    (denial,) = authorizer.denials.last
    assert str(denial.question) == "User:alice Read on Topic orders from host 203.0.113.7"
    assert denial.rule is not None
    lines = [line for line in run.log.getvalue().splitlines() if "access denied" in line]
    assert len(lines) == 1
    assert "Deny User:* Read on Topic *" in lines[0]


async def test_a_pattern_matches_only_topics_that_the_member_may_describe(run: Running) -> None:
    wire = connect(run, "alice")
    await add(run, creation(READ, "g", GROUP), creation(DESCRIBE))
    await run.ask(
        FindCoordinatorRequest(coordinator_keys=["g"]), FindCoordinatorResponse, wire=wire
    )
    ids = {run.broker.topics.get(name).id: name for name in ("orders", "secret")}  # type: ignore[union-attr]

    async def beat(epoch: int, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        request = ConsumerGroupHeartbeatRequest(
            group_id="g", member_id="A" * 22, member_epoch=epoch, **fields
        )
        return await run.ask(request, ConsumerGroupHeartbeatResponse, wire=wire)

    def assigned(response: ConsumerGroupHeartbeatResponse) -> set[str]:
        assert response.assignment is not None
        return {ids[each.topic_id] for each in response.assignment.topic_partitions}

    joined = await beat(
        0, subscribed_topic_regex="o.*|s.*", rebalance_timeout_ms=10_000, topic_partitions=[]
    )
    assert (joined.error_code, assigned(joined)) == (0, {"orders"})
    await add(run, creation(DESCRIBE, "secret"))
    epoch = joined.member_epoch
    while (response := await beat(epoch)).assignment is None:
        epoch = response.member_epoch
    assert assigned(response) == {"orders", "secret"}


async def test_one_batch_of_a_transaction_without_its_id_refuses_the_whole_request(
    run: Running,
) -> None:
    wire = connect(run, "alice")
    await add(run, creation(WRITE), creation(WRITE, "secret"))
    plain = producing(-1, "orders").topic_data
    marked = producing(
        -1, "secret", producer_id=1, producer_epoch=0, base_sequence=0, transactional=True
    ).topic_data
    request = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[*plain, *marked])
    response = await run.ask(request, ProduceResponse, 12, wire)
    assert [each.partition_responses[0].error_code for each in response.responses] == [53, 53]
    orders = run.broker.topics.get("orders")
    assert orders is not None
    assert orders.partitions[0].log.end_offset == 0


async def test_own_denials_show_neither_rules_nor_the_name_of_an_id(run: Running) -> None:
    wire = connect(run, "alice")
    await add(run, creation(READ, "sec", permission=DENY, pattern=PREFIXED))
    secret = run.broker.topics.get("secret")
    assert secret is not None
    part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        session_epoch=-1,
        topics=[FetchTopic(topic_id=secret.id, partitions=[part])],
    )
    assert fetched(await run.ask(request, FetchResponse, wire=wire)) == [(29, 0)]
    asked = DescribeDenialsRequest()
    (own,) = (await run.ask(asked, DescribeDenialsResponse, wire=wire)).denials
    assert (own.resource_name, own.rule, own.api) == ("", "", "Fetch")
    (seen,) = (await run.ask(asked, DescribeDenialsResponse)).denials
    assert (seen.resource_name, seen.rule[:15]) == ("secret", "Deny User:alice")
    other = connect(run, "mallory")
    assert (await run.ask(asked, DescribeDenialsResponse, wire=other)).denials == []
