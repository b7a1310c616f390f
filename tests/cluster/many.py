"""Clusters of very many partitions, made and looked at by frames on the wire: no client's own pace.

In: the address of a broker. Out: topics with three replicas, and what it says of them.
"""

from collections.abc import Collection
from pathlib import Path

from barnabas.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from barnabas.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from tests.process import ClusterProcess, children
from tests.raw import RawClient, name_of
from tests.waiting import WAIT_S

REPLICAS = 3
REPLICATED = {"offsets.topic.replication.factor": str(REPLICAS), "min.insync.replicas": "2"}
_CREATE_TOPICS, _METADATA = 7, 12

Address = tuple[str, int]
Place = tuple[str, int]


def create(address: Address, name: str, partitions: int) -> None:
    topic = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=REPLICAS,
        assignments=[],
        configs=[CreatableTopicConfig(name="min.insync.replicas", value="2")],
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=60_000)
    with RawClient(*address, timeout_s=WAIT_S) as client:
        [made] = client.call(request, _CREATE_TOPICS, CreateTopicsResponse).topics
    if made.error_code:
        raise RuntimeError(f"topic {name}: {name_of(made.error_code)}: {made.error_message}")


def look(address: Address, names: Collection[str]) -> MetadataResponse:
    asked = [MetadataRequestTopic(name=name) for name in names]
    request = MetadataRequest(topics=asked, allow_auto_topic_creation=False)
    with RawClient(*address, timeout_s=WAIT_S) as client:
        return client.call(request, _METADATA, MetadataResponse)


def leaders(answer: MetadataResponse) -> dict[Place, int]:
    return {
        (topic.name or "", partition.partition_index): partition.leader_id
        for topic in answer.topics
        for partition in topic.partitions
    }


def in_sync(address: Address, names: Collection[str], brokers: int) -> int:
    """Partitions that are led and have all replicas in sync; 0 while a broker is missing."""
    answer = look(address, names)
    if len(answer.brokers) < brokers:
        return 0
    return sum(
        len(partition.isr_nodes) == REPLICAS and partition.leader_id >= 0
        for topic in answer.topics
        for partition in topic.partitions
    )


def numbered(cluster: ClusterProcess) -> dict[int, int]:
    """Processes by the broker they are, from their names."""
    found = {}
    for pid in children(cluster.pid):
        name, _, number = Path(f"/proc/{pid}/comm").read_text().strip().partition("-")
        if name == "broker":  # not one that is just being forked
            found[int(number)] = pid
    return found
