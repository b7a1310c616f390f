"""Access rules on several brokers: a change holds everywhere soon, and a broker without the keeper
allows nothing."""

import asyncio
from collections.abc import AsyncIterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from barnabas.broker.broker import Broker
from barnabas.broker.cluster.peers import Peers
from barnabas.broker.net.dispatch import BETWEEN_BROKERS
from barnabas.config.kinds import Address
from barnabas.model.errors import Code
from barnabas.model.ids import NO_TOPIC_ID, BrokerId
from barnabas.security.acl.rules import AclOperation, AclResourceType, AclRule, AclRuleFilter
from barnabas.security.principal import Principal
from barnabas.system.logs import Logger
from barnabas.system.network import SystemNetwork
from barnabas.wire.apis import APIS
from barnabas.wire.codec import ProtocolMessage
from barnabas.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from tests.broker.authorization.samples import SAMPLES, rule
from tests.broker.clustered import NOBODY, Clustered, cluster_of
from tests.broker.running import creatable
from tests.waiting import WAIT_S, eventually

ALICE = Principal("User", "alice")
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",  # here the brokers do not log in
}
READ = rule("TOPIC READ orders")


@pytest.fixture
async def three(tmp_path: Path) -> AsyncIterator[Clustered]:
    async with cluster_of(tmp_path, 3, SETTINGS) as clustered:
        yield clustered


def may(broker: Broker, operation: AclOperation = AclOperation.READ) -> bool:
    assert broker.authorizer is not None
    topic = AclResourceType.TOPIC
    return broker.authorizer.decisions.is_allowed(ALICE, "h", operation, topic, "orders")


async def add(broker: Broker, *rules: AclRule) -> None:
    assert broker.authorizer is not None
    await broker.authorizer.add(rules)


async def delete(broker: Broker, which: AclRuleFilter = AclRuleFilter()) -> None:  # noqa: B008
    assert broker.authorizer is not None
    await broker.authorizer.delete([which])


async def test_a_change_holds_on_every_broker(three: Clustered) -> None:
    brokers = list(three.brokers.values())
    for turn, broker in enumerate(brokers):
        await add(broker, READ)
        assert may(broker), "where it was asked for, when it is answered"
        await eventually(lambda: all(map(may, brokers)))
        await delete(brokers[turn - 1])
        await eventually(lambda: not any(map(may, brokers)))


async def test_changes_of_several_brokers_at_the_same_time_lose_no_rule(three: Clustered) -> None:
    rules = [READ._replace(host=f"10.0.0.{number}") for number in range(30)]
    brokers = list(three.brokers.values())
    await asyncio.gather(*(add(brokers[n % 3], each) for n, each in enumerate(rules)))
    for broker in brokers:
        authorizer = broker.authorizer
        assert authorizer is not None
        await eventually(lambda: len(authorizer.decisions.index) == len(rules))  # noqa: B023


async def test_a_broker_whose_session_ended_allows_nothing_until_it_has_read_the_rules(
    three: Clustered,
) -> None:
    first, _, last = three.brokers.values()
    await add(first, READ, rule("TOPIC WRITE orders"))
    await eventually(lambda: may(last))
    denied = asyncio.Event()
    assert last.authorizer is not None

    def changed() -> None:
        if not may(last):
            denied.set()

    last.authorizer.listeners.append(changed)
    three.expire(last.id)
    await asyncio.wait_for(denied.wait(), WAIT_S)
    await eventually(lambda: may(last))  # in a new session
    await delete(first, AclRuleFilter(operation=AclOperation.READ))
    await eventually(lambda: not may(last))
    assert may(last, AclOperation.WRITE), "a watch of the new session"


async def test_a_broker_that_cannot_reach_the_keeper_allows_nothing_after_its_session_timeout(
    three: Clustered,
) -> None:
    first, _, last = three.brokers.values()
    await add(first, READ)
    await eventually(lambda: may(last))
    three.disconnect(last.id)
    await delete(first)
    await eventually(lambda: not may(last))
    assert last.authorizer is not None
    assert not last.authorizer.decisions.loaded
    three.reconnect(last.id)
    await eventually(lambda: last.authorizer is not None and last.authorizer.decisions.loaded)
    assert not may(last)


async def test_a_forwarded_request_is_checked_where_the_client_is_connected(
    three: Clustered,
) -> None:
    for broker in list(three.brokers.values()):
        name = f"topic-of-{broker.id}"
        request = CreateTopicsRequest(topics=[creatable(name)])
        await three.ask(broker.id, ApiVersionsRequest(), ApiVersionsResponse, 0)
        (connection,) = (each for each in broker.connections if each.client_id == "test")
        connection.principal = ALICE
        denied = await three.ask(broker.id, request, CreateTopicsResponse)
        assert denied.topics[0].error_code == 29
        assert all(each.topics.get(name) is None for each in three.brokers.values())
        await add(broker, rule(f"TOPIC CREATE {name}"))
        allowed = await three.ask(broker.id, request, CreateTopicsResponse)
        assert allowed.topics[0].error_code == 0, f"broker {broker.id}"


async def test_requests_of_brokers_are_refused_to_a_client_that_claims_to_be_one(
    three: Clustered,
) -> None:
    await three.create("orders")
    leader = three.brokers[three.leader("orders")]
    log = Logger(StringIO())
    forger = Peers(NOBODY, SystemNetwork(log).connect, log, nobody, "broker://2")
    forger.known({BrokerId(leader.id): Address("127.0.0.1", leader.port)})
    try:
        before = set(leader.connections)
        await forger.call(BrokerId(leader.id), ApiVersionsRequest(), timeout_ms=60_000, version=0)
        (connection,) = (
            each for each in set(leader.connections) - before if each.client_id == "broker://2"
        )
        connection.principal = ALICE
        for key in BETWEEN_BROKERS:
            version = APIS[key].max_version
            request = SAMPLES[key].make(version, NO_TOPIC_ID)
            answer: Any = await forger.call(BrokerId(leader.id), request, timeout_ms=60_000)
            assert answer.error_code == Code.CLUSTER_AUTHORIZATION_FAILED, APIS[key].name
        topic = leader.topics.get("orders")
        assert topic is not None
        part = FetchPartition(partition=0, fetch_offset=1_000, partition_max_bytes=1_000)
        follower = FetchRequest(
            replica_state=ReplicaState(replica_id=2, replica_epoch=1),
            max_wait_ms=0,
            min_bytes=0,
            session_epoch=-1,
            topics=[FetchTopic(topic_id=topic.id, partitions=[part])],
        )
        fetched: Any = await forger.call(BrokerId(leader.id), follower, timeout_ms=60_000)
        assert fetched.responses[0].partitions[0].error_code == Code.TOPIC_AUTHORIZATION_FAILED
        creation = CreateTopicsRequest(topics=[creatable("forged")])
        created: Any = await forger.call(BrokerId(leader.id), creation, timeout_ms=60_000)
        assert created.topics[0].error_code == Code.TOPIC_AUTHORIZATION_FAILED
    finally:
        forger.close()


async def nobody(request: ProtocolMessage, version: int) -> ProtocolMessage:
    raise AssertionError("the test calls brokers, not itself")
