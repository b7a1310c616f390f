"""More requests of a client with few rights: what is hidden, what is partly allowed, the bits.

alice may describe and read `orders`, create topics whose names begin with `new`, describe group `g`
and transactional id `t`, and alter the cluster. `secret` exists, `missing` does not.
"""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from barnabas.wire.messages import (
    add_partitions_to_txn,
    consumer_group_describe,
    create_partitions,
    create_topics,
    delete_groups,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_topic_partitions,
    describe_transactions,
    fetch,
    find_coordinator,
    init_producer_id,
    list_config_resources,
    list_groups,
    list_offsets,
    list_transactions,
    metadata,
    offset_fetch,
    produce,
)
from barnabas.wire.records import Record, encode_batch

RIGHTS = (
    "TOPIC READ orders", "GROUP DESCRIBE g", "TRANSACTIONAL_ID DESCRIBE t",
    "CLUSTER ALTER kafka-cluster", "TOPIC CREATE new-1", "TOPIC DESCRIBE new-1",
    "TOPIC DESCRIBE undeletable",
)  # fmt: skip
TOPICS = ("orders", "secret", "undeletable")
NAMES = ("orders", "secret", "missing")


def _metadata(*names: str, **options: bool) -> metadata.MetadataRequest:
    return metadata.MetadataRequest(
        topics=[metadata.MetadataRequestTopic(name=name) for name in names], **options
    )


def _creatable(name: str) -> create_topics.CreatableTopic:
    return create_topics.CreatableTopic(
        name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[]
    )


def _config(kind: int, name: str) -> describe_configs.DescribeConfigsResource:
    return describe_configs.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=["retention.ms"]
    )


def _produce(acks: int, *names: str, **options: Any) -> produce.ProduceRequest:
    records = memoryview(encode_batch([Record(0, 0, b"k", b"v", ())], **options))
    data = [produce.PartitionProduceData(index=0, records=records)]
    return produce.ProduceRequest(
        acks=acks,
        timeout_ms=60_000,
        topic_data=[produce.TopicProduceData(name=name, partition_data=data) for name in names],
    )


def _fetch(replica: int) -> fetch.FetchRequest:
    part = fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    return fetch.FetchRequest(
        replica_id=replica,
        max_wait_ms=0,
        min_bytes=0,
        session_epoch=-1,
        topics=[fetch.FetchTopic(topic=name, partitions=[part]) for name in NAMES],
    )


Make = Callable[[dict[str, UUID]], Any]
REQUESTS: dict[str, tuple[int, Make]] = {
    "metadata by name": (12, lambda ids: _metadata(*NAMES)),
    "metadata with operations": (
        12, lambda ids: _metadata(*NAMES, include_topic_authorized_operations=True)),
    "metadata of all": (12, lambda ids: metadata.MetadataRequest(topics=None)),
    "metadata of all, old": (0, lambda ids: metadata.MetadataRequest(topics=[])),
    "metadata by id": (12, lambda ids: metadata.MetadataRequest(topics=[
        metadata.MetadataRequestTopic(topic_id=id_, name=None)
        for id_ in (ids["orders"], ids["secret"], UUID(int=99))])),
    "metadata that would create": (12, lambda ids: _metadata(
        "missing", "undeletable-2", allow_auto_topic_creation=True)),
    "cluster bits in metadata": (10, lambda ids: _metadata(
        "orders", include_cluster_authorized_operations=True)),
    "cluster bits": (1, lambda ids: describe_cluster.DescribeClusterRequest(
        include_cluster_authorized_operations=True)),
    "partitions of topics": (
        0, lambda ids: describe_topic_partitions.DescribeTopicPartitionsRequest(
        topics=[describe_topic_partitions.TopicRequest(name=name) for name in NAMES])),
    "offsets": (7, lambda ids: list_offsets.ListOffsetsRequest(replica_id=-1, topics=[
        list_offsets.ListOffsetsTopic(name=name, partitions=[
            list_offsets.ListOffsetsPartition(partition_index=0, timestamp=-1)])
        for name in NAMES])),
    "fetch": (12, lambda ids: _fetch(-1)),
    "fetch as a broker": (12, lambda ids: _fetch(1)),
    "produce": (9, lambda ids: _produce(1, *NAMES)),
    "produce in a transaction": (9, lambda ids: _produce(
        1, "orders", producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)),
    "create": (7, lambda ids: create_topics.CreateTopicsRequest(
        topics=[_creatable("new-1"), _creatable("other")])),
    "delete by name": (5, lambda ids: delete_topics.DeleteTopicsRequest(
        timeout_ms=60_000, topic_names=["secret", "missing", "undeletable", "new-1-missing"])),
    "delete by id": (6, lambda ids: delete_topics.DeleteTopicsRequest(timeout_ms=60_000, topics=[
        delete_topics.DeleteTopicState(topic_id=id_)
        for id_ in (ids["secret"], ids["undeletable"], UUID(int=99))])),
    "more partitions": (3, lambda ids: create_partitions.CreatePartitionsRequest(
        timeout_ms=60_000, validate_only=True, topics=[create_partitions.CreatePartitionsTopic(
            name=name, count=5, assignments=None) for name in NAMES])),
    "settings": (4, lambda ids: describe_configs.DescribeConfigsRequest(resources=[
        _config(2, "orders"), _config(2, "missing"), _config(4, "1"), _config(32, "g")])),
    "list of settings": (1, lambda ids: list_config_resources.ListConfigResourcesRequest()),
    "a coordinator": (4, lambda ids: find_coordinator.FindCoordinatorRequest(
        key_type=1, coordinator_keys=["t", "other"])),
    "a coordinator, old": (3, lambda ids: find_coordinator.FindCoordinatorRequest(
        key_type=1, key="other")),
    "a producer": (4, lambda ids: init_producer_id.InitProducerIdRequest(
        transactional_id=None, transaction_timeout_ms=1000)),
    "a transactional producer": (4, lambda ids: init_producer_id.InitProducerIdRequest(
        transactional_id="t", transaction_timeout_ms=1000)),
    "partitions of a transaction": (3, lambda ids: add_partitions_to_txn.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="t", v3_and_below_producer_id=1,
        v3_and_below_producer_epoch=0, v3_and_below_topics=[
            add_partitions_to_txn.AddPartitionsToTxnTopic(name=name, partitions=[0])
            for name in NAMES])),
    "partitions of transactions, as a broker": (
        4, lambda ids: add_partitions_to_txn.AddPartitionsToTxnRequest(transactions=[])),
    "transactions": (0, lambda ids: describe_transactions.DescribeTransactionsRequest(
        transactional_ids=["other"])),
    "list of transactions": (1, lambda ids: list_transactions.ListTransactionsRequest(
        state_filters=[], producer_id_filters=[])),
    "groups": (5, lambda ids: describe_groups.DescribeGroupsRequest(
        groups=["other"], include_authorized_operations=True)),
    "groups of consumers": (1, lambda ids: consumer_group_describe.ConsumerGroupDescribeRequest(
        group_ids=["other"], include_authorized_operations=True)),
    "list of groups": (5, lambda ids: list_groups.ListGroupsRequest()),
    "delete groups": (2, lambda ids: delete_groups.DeleteGroupsRequest(groups_names=["g", "h"])),
    "committed offsets": (8, lambda ids: offset_fetch.OffsetFetchRequest(groups=[
        offset_fetch.OffsetFetchRequestGroup(group_id="g", topics=[
            offset_fetch.OffsetFetchRequestTopics(name=name, partition_indexes=[0])
            for name in NAMES]),
        offset_fetch.OffsetFetchRequestGroup(group_id="other", topics=None)])),
    "all committed offsets": (8, lambda ids: offset_fetch.OffsetFetchRequest(groups=[
        offset_fetch.OffsetFetchRequestGroup(group_id="g", topics=None)])),
}  # fmt: skip
