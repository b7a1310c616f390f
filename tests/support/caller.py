"""Speaks raw requests to a broker, Kafka's or ours, and makes answers that can be compared.

What may differ is left out: ids, addresses, sizes, the words of an error.
"""

import socket
import struct
import time
from typing import Any
from uuid import UUID

import msgspec

from barnabas.wire.codec import ProtocolMessage
from barnabas.wire.frames import read_response, request_frame
from barnabas.wire.messages import incremental_alter_configs as changing
from barnabas.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from barnabas.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from barnabas.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from barnabas.wire.records import Record, encode_batch
from tests.process import BrokerProcess
from tests.support.kafka import KafkaBroker
from tests.waiting import WAIT_S

MAY_DIFFER = {
    "cluster_id", "documentation", "error_message", "host", "log_dir", "port", "producer_id",
    "throttle_time_ms", "topic_id", "total_bytes", "usable_bytes",
}  # fmt: skip
CLIENT_ID = "same answers"
READY_S_MAX = WAIT_S
TOPIC, BROKER, METRICS, GROUP = 2, 4, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)


class Caller:
    """One connection, one request after the other."""

    def __init__(
        self, target: BrokerProcess | KafkaBroker, client_id: str = "same answers"
    ) -> None:
        self._client_id = client_id
        self._socket = socket.create_connection((target.host, target.port), timeout=READY_S_MAX)

    def close(self) -> None:
        self._socket.close()

    def ask(self, request: ProtocolMessage, version: int) -> ProtocolMessage:
        key = type(request).api_key
        self._socket.sendall(request_frame(key, version, 1, self._client_id, request))
        (size,) = struct.unpack(">i", self._take(4))
        return read_response(self._take(size), key, version)[1]

    def answer(self, request: ProtocolMessage, version: int) -> Any:
        return comparable(self.ask(request, version))

    def create(self, name: str, partitions: int = 1, **configs: Any) -> UUID:
        """A topic that is ready to be used."""
        self.ask(CreateTopicsRequest(topics=[creatable(name, partitions, **configs)]), 7)
        deadline = time.monotonic() + READY_S_MAX
        while not all(self._is_led(name, partition) for partition in range(partitions)):
            assert time.monotonic() < deadline, f"{name} is not ready"
            time.sleep(0.01)
        response: Any = self.ask(named(name), 12)
        id_: UUID = response.topics[0].topic_id
        return id_

    def _is_led(self, topic: str, partition: int) -> bool:
        response: Any = self.ask(end_of(topic, partition), 4)
        return not response.topics[0].partitions[0].error_code

    def produce(self, topic: str, *times: int, **options: Any) -> None:
        records = [Record(n, at, b"key", b"value", ()) for n, at in enumerate(times)]
        data = PartitionProduceData(index=0, records=memoryview(encode_batch(records, **options)))
        request = ProduceRequest(
            transactional_id=None,
            acks=-1,
            timeout_ms=round(WAIT_S * 1000),
            topic_data=[TopicProduceData(name=topic, partition_data=[data])],
        )
        response: Any = self.ask(request, 9)
        assert not response.responses[0].partition_responses[0].error_code

    def _take(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self._socket.recv(size - len(data))
            if not piece:
                raise ConnectionError("closed")
            data += piece
        return data


def comparable(value: Any) -> Any:
    """Plain values; lists in an order of their own, as Kafka's come out of hash maps."""
    if isinstance(value, msgspec.Struct):
        fields = msgspec.structs.asdict(value).items()
        return {name: comparable(field) for name, field in fields if name not in MAY_DIFFER}
    if isinstance(value, list):
        return sorted(map(comparable, value), key=repr)
    return bytes(value) if isinstance(value, memoryview) else value


def named(*names: str, create: bool = False, **options: bool) -> MetadataRequest:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=create, **options)


def end_of(topic: str, partition: int) -> ListOffsetsRequest:
    asked = ListOffsetsPartition(partition_index=partition, timestamp=-1)
    return ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[asked])]
    )


def creatable(name: str, partitions: int = 1, replicas: int = 1, **configs: Any) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=[],
        configs=[
            CreatableTopicConfig(name=option.replace("_", "."), value=value)
            for option, value in configs.items()
        ],
    )


def assigned(
    name: str, *replicas: tuple[int, list[int]], partitions: int = -1, factor: int = -1
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
            for index, brokers in replicas
        ],
        configs=[],
    )


def without_source(config: dict[str, Any]) -> dict[str, Any]:
    """Kafka sets min.insync.replicas for all brokers when it is formatted."""
    return {k: v for k, v in config.items() if k not in ("config_source", "synonyms")}


def described(caller: Caller, kind: int, name: str, *options: str) -> Any:
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(
                resource_type=kind, resource_name=name, configuration_keys=list(options) or None
            )
        ]
    )
    return caller.answer(request, 4)["results"][0]


def in_force(caller: Caller, topic: str, expected: dict[str, str]) -> dict[str, str]:
    """The options once they are as expected: Kafka's brokers learn of a change after its answer."""
    deadline = time.monotonic() + READY_S_MAX
    while True:
        configs = described(caller, TOPIC, topic, *expected)["configs"]
        found = {config["name"]: config["value"] for config in configs}
        if found == expected or time.monotonic() > deadline:
            return found
        time.sleep(0.01)


def altered(caller: Caller, kind: int, name: str, *changes: tuple[str, int, str | None]) -> Any:
    request = changing.IncrementalAlterConfigsRequest(
        resources=[
            changing.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    changing.AlterableConfig(name=option, config_operation=operation, value=value)
                    for option, operation, value in changes
                ],
            )
        ],
        validate_only=False,
    )
    return caller.answer(request, 1)
