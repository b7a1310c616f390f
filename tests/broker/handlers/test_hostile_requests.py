"""Requests that are well formed and meant badly: long names, repetition, far too many things."""

import pytest

from barnabas.broker.handlers.metadata import CREATED_MAX
from barnabas.broker.requests.config_resources import ResourceType
from barnabas.model.errors import Code
from barnabas.wire.codec import ProtocolMessage
from barnabas.wire.messages import alter_configs, incremental_alter_configs
from barnabas.wire.messages.alter_configs import AlterConfigsRequest
from barnabas.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from barnabas.wire.messages.create_topics import CreateTopicsRequest
from barnabas.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest
from barnabas.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from barnabas.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from barnabas.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest
from barnabas.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from barnabas.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from tests.broker.running import Running, creatable

LONGEST = 32_767  # what a string of the older versions can hold
LOG_LINE_MAX = 4_000


def growing(name: str) -> CreatePartitionsRequest:
    topic = CreatePartitionsTopic(name=name, count=2, assignments=None)
    return CreatePartitionsRequest(topics=[topic], timeout_ms=1, validate_only=False)


def replacing(kind: int, name: str, option: str, value: str) -> AlterConfigsRequest:
    resource = alter_configs.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[alter_configs.AlterableConfig(name=option, value=value)],
    )
    return AlterConfigsRequest(resources=[resource], validate_only=False)


def changing(kind: int, name: str, option: str, value: str) -> IncrementalAlterConfigsRequest:
    resource = incremental_alter_configs.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            incremental_alter_configs.AlterableConfig(
                name=option, config_operation=9 if option == "t" else 0, value=value
            )
        ],
    )
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)


def describing(kind: int, name: str) -> DescribeConfigsRequest:
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=None
    )
    return DescribeConfigsRequest(resources=[resource])


def deleting(name: str) -> DeleteRecordsRequest:
    partition = DeleteRecordsPartition(partition_index=0, offset=0)
    topic = DeleteRecordsTopic(name=name, partitions=[partition])
    return DeleteRecordsRequest(topics=[topic], timeout_ms=1)


def listing(name: str) -> ListOffsetsRequest:
    partition = ListOffsetsPartition(partition_index=0, timestamp=-1)
    return ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=name, partitions=[partition])]
    )


@pytest.mark.parametrize("letter", ["x", "\0", "ä"])
async def test_the_longest_names_are_answered_and_do_not_fill_the_log(
    running: Running, letter: str
) -> None:
    await running.create("t")
    long = letter * (LONGEST // len(letter.encode()))
    asked: list[tuple[ProtocolMessage, int]] = [
        (MetadataRequest(topics=[MetadataRequestTopic(name=long)]), 0),
        (CreateTopicsRequest(topics=[creatable(long)]), 2),
        (CreateTopicsRequest(topics=[creatable(long), creatable(long)]), 2),
        (CreateTopicsRequest(topics=[creatable("u", configs={long: "1"})]), 2),
        (CreateTopicsRequest(topics=[creatable("u", configs={"retention.ms": long})]), 2),
        (growing(long), 0),
        (CreatePartitionsRequest(
            topics=growing(long).topics * 2, timeout_ms=1, validate_only=False
        ), 0),
        (DeleteTopicsRequest(topic_names=[long], timeout_ms=1), 1),
        (deleting(long), 0),
        (listing(long), 1),
        (InitProducerIdRequest(transactional_id=long, transaction_timeout_ms=1), 0),
    ]  # fmt: skip
    for kind, name in (
        (ResourceType.TOPIC, long),
        (ResourceType.TOPIC, "t"),
        (ResourceType.BROKER, long),
        (ResourceType.BROKER, "1"),
    ):
        asked.append((describing(kind, name), 1))
        for option in (long, "retention.ms", "log.retention.ms"):
            asked.append((replacing(kind, name, option, long), 0))
            asked.append((changing(kind, name, option, long), 0))
    for request, version in asked:
        await running.ask(request, ProtocolMessage, version)
    assert max(map(len, running.log.getvalue().splitlines())) < LOG_LINE_MAX


async def test_a_metadata_request_creates_a_bounded_number_of_topics(running: Running) -> None:
    """The rest is answered as missing, and created when it is asked for again."""
    topics = [MetadataRequestTopic(name=f"t{number}") for number in range(CREATED_MAX + 5)]
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=True)
    response = await running.ask(request, MetadataResponse)
    codes = [topic.error_code for topic in response.topics]
    assert codes == [0] * CREATED_MAX + [Code.UNKNOWN_TOPIC_OR_PARTITION] * 5
    response = await running.ask(request, MetadataResponse)
    assert {topic.error_code for topic in response.topics} == {0}


async def test_what_is_described_many_times_in_one_request_is_answered_once(
    running: Running,
) -> None:
    """Or a request of a megabyte would be answered with gigabytes."""
    await running.create("t")
    request = DescribeConfigsRequest(
        resources=describing(ResourceType.BROKER, "1").resources * 1000
    )
    assert len((await running.ask(request, DescribeConfigsResponse)).results) == 1
    topic = TopicRequest(name="t", partition_indexes=[0] * 1000)
    response = await running.ask(
        DescribeProducersRequest(topics=[topic] * 100), DescribeProducersResponse
    )
    assert [len(each.partitions) for each in response.topics] == [1]


async def test_many_refusals_in_one_request_are_one_line_in_the_log(running: Running) -> None:
    partition = DeleteRecordsPartition(partition_index=0, offset=0)
    topic = DeleteRecordsTopic(name="missing", partitions=[partition] * 1000)
    response = await running.ask(
        DeleteRecordsRequest(topics=[topic], timeout_ms=1), DeleteRecordsResponse
    )
    assert len(response.topics[0].partitions) == 1000
    assert running.log.getvalue().count("delete of records refused") == 1


async def test_hundreds_of_topics_are_described_in_turns_and_in_order(running: Running) -> None:
    names = [f"t{number:03d}" for number in range(50)]
    for name in names:
        await running.create(name)
    resources = [describing(ResourceType.TOPIC, name).resources[0] for name in names]
    response = await running.ask(
        DescribeConfigsRequest(resources=resources), DescribeConfigsResponse
    )
    assert [result.resource_name for result in response.results] == names
    assert {result.error_code for result in response.results} == {0}
