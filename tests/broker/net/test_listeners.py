"""Several listeners: each tells its clients the addresses of its own, and all share the limits."""

import asyncio
from io import StringIO
from pathlib import Path
from typing import TypeVar

import pytest

from barnabas.broker.broker import Broker
from barnabas.broker.cluster.peers import Peers
from barnabas.config.kinds import Address
from barnabas.keeper.memory import MemoryKeeper
from barnabas.keeper.paths import broker as broker_path
from barnabas.keeper.paths import read_broker, read_json
from barnabas.model.errors import Code
from barnabas.model.ids import BrokerId
from barnabas.system.logs import Logger
from barnabas.system.network import SystemNetwork
from barnabas.wire.codec import ProtocolMessage
from barnabas.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from barnabas.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.broker.clustered import NOBODY, Clustered, _nobody, cluster_of
from tests.waiting import WAIT_S, eventually

R = TypeVar("R", bound=ProtocolMessage)
INSIDE = {
    "listeners": "PLAINTEXT://127.0.0.1:0,INSIDE://127.0.0.1:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT",
}


async def ask(
    broker: Broker, listener: str, request: ProtocolMessage, expected: type[R], version: int
) -> R:
    """By this listener."""
    (port,) = (each.port for each in broker.listeners.addresses if each.name == listener)
    log = Logger(StringIO())
    peers = Peers(NOBODY, SystemNetwork(log).connect, log, _nobody, "test")
    peers.known({BrokerId(broker.id): Address("127.0.0.1", port)})
    try:
        answer = await peers.call(BrokerId(broker.id), request, timeout_ms=60_000, version=version)
    finally:
        peers.close()
    assert isinstance(answer, expected)
    return answer


def ports(cluster: Clustered, listener: str) -> dict[int, int]:
    return {
        id_: each.port
        for id_, broker in cluster.brokers.items()
        for each in broker.listeners.addresses
        if each.name == listener
    }


async def test_a_client_gets_the_addresses_of_the_listener_that_it_asked(tmp_path: Path) -> None:
    async with cluster_of(tmp_path, 3, INSIDE) as cluster:
        broker = cluster.brokers[1]
        await eventually(lambda: all(len(b.nodes("")) == 3 for b in cluster.brokers.values()))
        for name in ("PLAINTEXT", "INSIDE"):
            expected = ports(cluster, name)
            metadata = await ask(broker, name, MetadataRequest(topics=[]), MetadataResponse, 12)
            assert {each.node_id: each.port for each in metadata.brokers} == expected
            described = await ask(
                broker,
                name,
                DescribeClusterRequest(include_cluster_authorized_operations=False),
                DescribeClusterResponse,
                1,
            )
            assert {each.broker_id: each.port for each in described.brokers} == expected
            request = FindCoordinatorRequest(key_type=0, coordinator_keys=["group"])
            found = await ask(broker, name, request, FindCoordinatorResponse, 4)
            (coordinator,) = found.coordinators
            assert coordinator.port == expected[coordinator.node_id]
        assert ports(cluster, "PLAINTEXT").keys() == ports(cluster, "INSIDE").keys()


async def test_a_leader_without_the_listener_is_not_found(tmp_path: Path) -> None:
    """Before version 6 of Metadata, such a leader is not available."""
    only_plain = {"listeners": "PLAINTEXT://127.0.0.1:0"}
    async with cluster_of(tmp_path, 1, INSIDE) as cluster:
        await asyncio.wait_for(cluster.make(2, only_plain).join(), WAIT_S)
        await eventually(lambda: all(len(b.nodes("")) == 2 for b in cluster.brokers.values()))
        await cluster.create("t", 2, 1)
        leaders = [cluster.partition(1, "t", index).leader for index in (0, 1)]
        assert sorted(leaders) == [1, 2]
        away = leaders.index(BrokerId(2))
        request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
        for version, code in ((5, Code.LEADER_NOT_AVAILABLE), (12, Code.LISTENER_NOT_FOUND)):
            answer = await ask(cluster.brokers[1], "INSIDE", request, MetadataResponse, version)
            assert [each.node_id for each in answer.brokers] == [1]
            partitions = {each.partition_index: each for each in answer.topics[0].partitions}
            assert (partitions[away].error_code, partitions[away].leader_id) == (code, -1)
            assert list(partitions[away].offline_replicas) == [2]
            here = partitions[1 - away]
            assert (here.error_code, here.leader_id, list(here.offline_replicas)) == (0, 1, [])
        paged = await ask(
            cluster.brokers[1],
            "INSIDE",
            DescribeTopicPartitionsRequest(topics=[TopicRequest(name="t")]),
            DescribeTopicPartitionsResponse,
            0,
        )
        codes = [each.error_code for each in paged.topics[0].partitions]
        assert codes[away] == Code.LISTENER_NOT_FOUND
        plain = await ask(cluster.brokers[1], "PLAINTEXT", request, MetadataResponse, 12)
        assert [each.error_code for each in plain.topics[0].partitions] == [0, 0]


async def test_a_broker_registers_all_its_listeners_as_kafka_did_in_zookeeper(
    tmp_path: Path,
) -> None:
    settings = {
        **INSIDE,
        "inter.broker.listener.name": "INSIDE",
        "advertised.listeners": "PLAINTEXT://outside.example:9,INSIDE://127.0.0.1:0",
    }
    async with cluster_of(tmp_path, 1, settings) as cluster:
        keeper = MemoryKeeper(cluster.store, 2_000)
        data = keeper.get(broker_path(1)).data
        inside = ports(cluster, "INSIDE")[1]
        fields = read_json("/brokers/ids/1", data)
        assert fields["endpoints"] == [
            f"INSIDE://127.0.0.1:{inside}",
            "PLAINTEXT://outside.example:9",
        ]
        assert fields["listener_security_protocol_map"] == {
            "INSIDE": "PLAINTEXT",
            "PLAINTEXT": "PLAINTEXT",
        }
        assert read_broker("/brokers/ids/1", data).endpoints[0].port == inside
        keeper.close()


async def test_clients_of_another_listener_cannot_keep_brokers_out(tmp_path: Path) -> None:
    async with cluster_of(tmp_path, 1, {**INSIDE, "max.connections": "1"}) as cluster:
        broker = cluster.brokers[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", ports(cluster, "INSIDE")[1])
        await eventually(lambda: len(broker.connections) == 1)
        again, refused = await asyncio.open_connection("127.0.0.1", ports(cluster, "INSIDE")[1])
        assert await again.read() == b""  # refused
        answer = await ask(broker, "PLAINTEXT", MetadataRequest(topics=[]), MetadataResponse, 12)
        assert answer.brokers
        for each in (writer, refused):
            each.close()
        assert reader is not again


@pytest.mark.parametrize("host", ["::ffff:10.0.0.1", "10.0.0.1"])
def test_an_ipv4_client_of_an_ipv6_socket_has_its_ipv4_address(host: str) -> None:
    from barnabas.broker.net.listener_context import host_of

    assert host_of(f"{host}:4711") == "10.0.0.1"
