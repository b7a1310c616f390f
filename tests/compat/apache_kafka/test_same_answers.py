"""The same requests to Apache Kafka and to us, answer compared with answer."""

import time
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from barnabas.model.ids import NO_TOPIC_ID
from barnabas.wire.messages import alter_configs as replacing
from barnabas.wire.messages import describe_producers as producers
from barnabas.wire.messages.api_versions import ApiVersionsRequest
from barnabas.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from barnabas.wire.messages.create_topics import CreateTopicsRequest
from barnabas.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.wire.messages.describe_cluster import DescribeClusterRequest
from barnabas.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from barnabas.wire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from barnabas.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest
from barnabas.wire.messages.list_config_resources import ListConfigResourcesRequest
from barnabas.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.support.caller import (
    APPEND,
    BROKER,
    DELETE,
    GROUP,
    METRICS,
    SET,
    SUBTRACT,
    TOPIC,
    Caller,
    altered,
    assigned,
    creatable,
    described,
    in_force,
    named,
    without_source,
)
from tests.waiting import WAIT_S

# --- what is asked --------------------------------------------------------------------------------

Case = Callable[[Caller, str], Any]
CASES: dict[str, Case] = {}


def case(function: Case) -> Case:
    CASES[function.__name__] = function
    return function


@case
def topics_created(caller: Caller, topic: str) -> Any:
    tries = [
        creatable(topic, 2),
        creatable(topic, 2),
        creatable(f"{topic}.a"),
        creatable(f"{topic}_a"),
        creatable("../x"),
        creatable(""),
        creatable("x" * 250),
        creatable(f"{topic}-a", 0),
        creatable(f"{topic}-a", -2),
        creatable(f"{topic}-a", 1, 0),
        creatable(f"{topic}-a", 1, 2),
        creatable(f"{topic}-a", 10_001),
        creatable(f"{topic}-a", nope="1"),
        creatable(f"{topic}-a", retention_ms="soon"),
        creatable(f"{topic}-a", -1, -1),
        creatable("__cluster_metadata"),
        assigned(f"{topic}-b", (0, [1]), (1, [1])),
        assigned(f"{topic}-c", (0, [1]), (0, [1])),
        assigned(f"{topic}-c", (1, [1])),
        assigned(f"{topic}-c", (0, [2])),
        assigned(f"{topic}-c", (0, [])),
        assigned(f"{topic}-c", (0, [1, 1])),
        assigned(f"{topic}-c", (0, [1]), partitions=1),
        assigned(f"{topic}-c", (0, [1]), factor=1),
    ]
    answers = []
    for wanted in tries:
        answer = caller.answer(CreateTopicsRequest(topics=[wanted]), 7)
        for result in answer["topics"]:
            del result["configs"]
        answers.append(answer)
    return answers


@case
def topics_created_together(caller: Caller, topic: str) -> Any:
    wanted = [creatable(topic, 6000), creatable(f"{topic}-b", 6000)]
    too_many = caller.answer(CreateTopicsRequest(topics=wanted, validate_only=True), 7)
    wanted = [creatable(topic), creatable(topic), creatable(f"{topic}-c")]
    return too_many, [
        {name: value for name, value in result.items() if name != "configs"}
        for result in caller.answer(CreateTopicsRequest(topics=wanted), 7)["topics"]
    ]


@case
def every_option_of_a_new_topic(caller: Caller, topic: str) -> Any:
    answer = caller.answer(CreateTopicsRequest(topics=[creatable(topic, retention_ms="9")]), 5)
    return [without_source(config) for config in answer["topics"][0]["configs"]]


@case
def every_option_of_a_topic(caller: Caller, topic: str) -> Any:
    caller.create(topic, retention_ms="9")
    return [without_source(config) for config in described(caller, TOPIC, topic)["configs"]]


@case
def configs_of_what_has_none(caller: Caller, topic: str) -> Any:
    return [
        (described(caller, kind, name)["error_code"], altered(caller, kind, name))
        for kind, name in (
            (TOPIC, f"{topic}-missing"),
            (TOPIC, "../x"),
            (BROKER, "2"),
            (BROKER, "one"),
            (99, "x"),
            (0, "x"),
        )
    ]


@case
def configs_changed(caller: Caller, topic: str) -> Any:
    caller.create(topic)
    changes: list[tuple[str, int, str | None]] = [
        ("retention.ms", SET, "5"),
        ("retention.ms", SET, "soon"),
        ("retention.ms", SET, None),
        ("retention.ms", APPEND, "5"),
        ("nope", SET, "1"),
        ("cleanup.policy", APPEND, "compact"),
        ("cleanup.policy", SUBTRACT, "delete"),
        ("retention.ms", DELETE, None),
    ]
    answers = [altered(caller, TOPIC, topic, change) for change in changes]
    found = in_force(caller, topic, {"retention.ms": "604800000", "cleanup.policy": "compact"})
    twice = altered(caller, TOPIC, topic, ("segment.ms", SET, "5"), ("segment.ms", SET, "6"))
    return answers, found, twice


@case
def configs_replaced(caller: Caller, topic: str) -> Any:
    caller.create(topic, retention_ms="9")
    return [
        caller.answer(
            replacing.AlterConfigsRequest(
                resources=[
                    replacing.AlterConfigsResource(
                        resource_type=TOPIC,
                        resource_name=name,
                        configs=[
                            replacing.AlterableConfig(name=option, value=value)
                            for option, value in settings
                        ],
                    )
                ],
                validate_only=False,
            ),
            2,
        )
        for name, settings in (
            (topic, [("segment.ms", "5")]),
            (topic, [("segment.ms", None)]),
            (topic, [("segment.ms", "5"), ("segment.ms", "6")]),
            (topic, [("nope", "5")]),
            (f"{topic}-missing", [("segment.ms", "5")]),
        )
    ]


@case
def topics_described(caller: Caller, topic: str) -> Any:
    caller.create(topic, 2)
    return [
        caller.answer(request, version)
        for version in range(14)
        for request in (
            named(topic, topic, create=version < 4),
            named("../x", create=version < 4),
            named("", create=version < 4),
        )
    ] + [caller.answer(named(f"{topic}-missing"), version) for version in range(4, 14)]


@case
def topics_described_by_id(caller: Caller, topic: str) -> Any:
    id_ = caller.create(topic)
    return [
        caller.answer(
            MetadataRequest(
                topics=[MetadataRequestTopic(name=None, topic_id=asked)],
                include_topic_authorized_operations=True,
            ),
            12,
        )
        for asked in (id_, UUID(int=5))
    ]


@case
def operations(caller: Caller, topic: str) -> Any:
    caller.create(topic)
    request = named(
        topic,
        include_cluster_authorized_operations=True,
        include_topic_authorized_operations=True,
    )
    cluster = DescribeClusterRequest(include_cluster_authorized_operations=True)
    return caller.answer(request, 8), caller.answer(cluster, 2)


@case
def cluster(caller: Caller, topic: str) -> Any:
    return [
        caller.answer(
            DescribeClusterRequest(
                include_cluster_authorized_operations=False, endpoint_type=endpoint
            ),
            1,
        )
        for endpoint in (0, 1, 2, 3)
    ]


@case
def offsets(caller: Caller, topic: str) -> Any:
    caller.create(topic)

    def listed() -> list[Any]:
        return [
            caller.answer(
                ListOffsetsRequest(
                    replica_id=-1,
                    topics=[
                        ListOffsetsTopic(
                            name=name,
                            partitions=[
                                ListOffsetsPartition(
                                    partition_index=partition,
                                    timestamp=timestamp,
                                    current_leader_epoch=epoch,
                                )
                            ],
                        )
                    ],
                ),
                version,
            )
            for version in range(1, 12)
            for name, partition, timestamp, epoch in (
                *((topic, 0, at, -1) for at in range(-8, 0)),
                *((topic, 0, at, -1) for at in (0, 1000, 1001, 2500, 3000, 3001)),
                (topic, 0, -1, 0),
                (topic, 0, -1, 7),
                (topic, 9, -1, -1),
                (f"{topic}-missing", 0, -1, -1),
            )
        ]

    before = listed()
    for at in (1000, 3000, 2000, 3000):
        caller.produce(topic, at)
    return before, listed()


@case
def records_deleted(caller: Caller, topic: str) -> Any:
    caller.create(topic)
    caller.create(f"{topic}-compact", cleanup_policy="compact")
    caller.create(f"{topic}-keep", cleanup_policy="")
    caller.produce(topic, 1000, 2000, 3000, 4000)
    return [
        caller.answer(
            DeleteRecordsRequest(
                topics=[
                    DeleteRecordsTopic(
                        name=name,
                        partitions=[DeleteRecordsPartition(partition_index=index, offset=offset)],
                    )
                ],
                timeout_ms=60_000,
            ),
            2,
        )
        for name, index, offset in (
            (topic, 0, 2),
            (topic, 0, 1),
            (topic, 0, 5),
            (topic, 0, -2),
            (topic, 0, -1),
            (topic, 9, 0),
            (f"{topic}-missing", 0, 0),
            (f"{topic}-compact", 0, 0),
            (f"{topic}-keep", 0, 0),
        )
    ]


@case
def ends_of_epochs(caller: Caller, topic: str) -> Any:
    caller.create(topic)
    caller.produce(topic, 1000, 2000)
    return [
        caller.answer(
            OffsetForLeaderEpochRequest(
                topics=[
                    OffsetForLeaderTopic(
                        topic=name,
                        partitions=[
                            OffsetForLeaderPartition(
                                partition=partition,
                                current_leader_epoch=current,
                                leader_epoch=epoch,
                            )
                        ],
                    )
                ]
            ),
            version,
        )
        for version in (2, 3, 4)
        for name, partition, current, epoch in (
            (topic, 0, -1, 0),
            (topic, 0, -1, 1),
            (topic, 0, -1, -1),
            (topic, 0, 0, 0),
            (topic, 0, 1, 0),
            (topic, 9, -1, 0),
            (f"{topic}-missing", 0, -1, 0),
        )
    ]


@case
def partitions_added(caller: Caller, topic: str) -> Any:
    caller.create(topic, 2)
    answers = []
    for name, count, replicas in (
        (topic, 2, None),
        (topic, 1, None),
        (topic, 0, None),
        (topic, -1, None),
        (f"{topic}-missing", 4, None),
        (topic, 4, [[1]]),
        (topic, 4, [[1], [2]]),
        (topic, 4, [[1], []]),
        (topic, 3, [[1, 1]]),
        (topic, 3, []),
        (topic, 4, [[1], [1]]),
    ):
        assignments = None
        if replicas is not None:
            assignments = [CreatePartitionsAssignment(broker_ids=brokers) for brokers in replicas]
        grown = CreatePartitionsTopic(name=name, count=count, assignments=assignments)
        request = CreatePartitionsRequest(topics=[grown], timeout_ms=60_000, validate_only=False)
        answers.append(caller.answer(request, 3))
    twice = CreatePartitionsTopic(name=topic, count=9, assignments=None)
    request = CreatePartitionsRequest(topics=[twice, twice], timeout_ms=60_000, validate_only=False)
    return answers, caller.answer(request, 3)


@case
def topics_deleted(caller: Caller, topic: str) -> Any:
    ids = [caller.create(f"{topic}-{number}") for number in range(3)]
    answers = []
    for asked in (
        [(f"{topic}-0", NO_TOPIC_ID)],
        [(f"{topic}-0", NO_TOPIC_ID)],
        [(None, ids[1])],
        [(None, ids[1])],
        [(None, NO_TOPIC_ID)],
        [(f"{topic}-2", ids[2])],
        [(f"{topic}-2", NO_TOPIC_ID), (f"{topic}-2", NO_TOPIC_ID)],
        [(None, ids[2]), (None, ids[2])],
        [("../x", NO_TOPIC_ID)],
    ):
        states = [DeleteTopicState(name=name, topic_id=id_) for name, id_ in asked]
        answers.append(caller.answer(DeleteTopicsRequest(topics=states, timeout_ms=60_000), 6))
    names = [f"{topic}-2", f"{topic}-missing"]
    request = DeleteTopicsRequest(topic_names=names, timeout_ms=60_000)
    return answers, caller.answer(request, 5)


@case
def pages_of_partitions(caller: Caller, topic: str) -> Any:
    for suffix in ("a", "b"):
        caller.create(f"{topic}-{suffix}", 3)
    names = [f"{topic}-b", f"{topic}-a", f"{topic}-missing", "../x"]
    return [
        caller.answer(
            DescribeTopicPartitionsRequest(
                topics=[TopicRequest(name=name) for name in names],
                response_partition_limit=limit,
                cursor=cursor,
            ),
            0,
        )
        for limit, cursor in (
            (2000, None),
            (0, None),
            (1, None),
            (3, None),
            (4, None),
            (4, Cursor(topic_name=f"{topic}-a", partition_index=2)),
            (4, Cursor(topic_name=f"{topic}-a", partition_index=9)),
            (4, Cursor(topic_name=f"{topic}-a", partition_index=-1)),
            (4, Cursor(topic_name=f"{topic}-z", partition_index=0)),
        )
    ]


@case
def log_directories(caller: Caller, topic: str) -> Any:
    caller.create(topic, 2)
    caller.produce(topic, 1000)
    asked = [
        DescribableLogDirTopic(topic=topic, partitions=[0, 1, 9]),
        DescribableLogDirTopic(topic=f"{topic}-missing", partitions=[0]),
    ]
    return [
        caller.answer(DescribeLogDirsRequest(topics=topics), version)
        for version in range(1, 6)
        for topics in (asked, [])
    ]


@case
def producers_described(caller: Caller, topic: str) -> Any:
    caller.create(topic)
    caller.produce(topic, 1000, 2000, producer_id=77, producer_epoch=3, base_sequence=0)
    asked = [
        producers.TopicRequest(name=name, partition_indexes=[0, 9])
        for name in (topic, f"{topic}-missing", "../x")
    ]
    return caller.answer(producers.DescribeProducersRequest(topics=asked), 0)


@case
def producers_refused(caller: Caller, topic: str) -> Any:
    return [
        caller.answer(
            InitProducerIdRequest(
                transactional_id=transactional_id,
                transaction_timeout_ms=1000,
                producer_id=producer_id,
                producer_epoch=epoch,
            ),
            5,
        )
        for transactional_id, producer_id, epoch in (("", -1, -1), (None, 5, -1), (None, -1, 5))
    ]


@case
def resources_listed(caller: Caller, topic: str) -> Any:
    caller.create(topic)
    answers = []
    for version, types in ((0, []), (1, [16]), (1, [32]), (1, [4]), (1, [99]), (1, [2, 99])):
        answers.append(caller.answer(ListConfigResourcesRequest(resource_types=types), version))
    found = caller.answer(ListConfigResourcesRequest(resource_types=[2]), 1)["config_resources"]
    return answers, {"resource_name": topic, "resource_type": 2} in found


@case
def options_of_groups(caller: Caller, topic: str) -> Any:
    """The intervals of heartbeats are others where tests start Kafka."""
    session, heartbeat = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
    answers = [
        altered(caller, GROUP, topic, (session, SET, "50000"), (heartbeat, SET, "9000")),
        altered(caller, GROUP, topic, (session, SET, "44999")),
        altered(caller, GROUP, topic, (session, SET, "60001")),
        altered(caller, GROUP, topic, (heartbeat, SET, "15001")),
        altered(caller, GROUP, topic, (heartbeat, SET, "soon")),
        altered(caller, GROUP, topic, (heartbeat, APPEND, "9000")),
        altered(caller, GROUP, topic, (session, SET, None)),
        altered(caller, GROUP, topic, ("no.such.option", SET, "1")),
        altered(caller, GROUP, "", (session, SET, "50000")),
        described(caller, GROUP, "")["error_code"],
    ]
    if_set = await_group(caller, topic, session, "50000")
    everything = [
        without_source(config) if config["name"] == heartbeat else config
        for config in described(caller, GROUP, topic)["configs"]
        if config["name"] != "share.heartbeat.interval.ms"
    ]
    altered(caller, GROUP, topic, (session, DELETE, None), (heartbeat, DELETE, None))
    return answers, if_set, everything


@case
def subscriptions_to_clients_metrics(caller: Caller, topic: str) -> Any:
    answers = [
        altered(caller, METRICS, topic, ("interval.ms", SET, "5000")),
        altered(caller, METRICS, topic, ("interval.ms", SET, "1")),
        altered(caller, METRICS, topic, ("match", SET, "foo=x")),
        altered(caller, METRICS, topic, ("match", APPEND, "client_id=x")),
        altered(caller, METRICS, topic, ("no.such.option", SET, "1")),
        altered(caller, METRICS, "", ("interval.ms", SET, "5000")),
        described(caller, METRICS, "")["error_code"],
        described(caller, METRICS, f"{topic}-missing"),
    ]
    altered(caller, METRICS, topic, ("interval.ms", DELETE, None))
    return answers


def await_group(caller: Caller, group: str, option: str, value: str) -> bool:
    """Kafka's brokers learn of a change after its answer."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        (config,) = described(caller, GROUP, group, option)["configs"]
        if config["value"] == value:
            return True
    return False


@case
def clients_named(caller: Caller, topic: str) -> Any:
    return [
        caller.answer(
            ApiVersionsRequest(client_software_name=name, client_software_version=version), 3
        )
        for name, version in (("", "1"), ("x", ""), ("_x", "1"), ("x", "1-"))
    ]


# --- the comparison -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_our_answers_are_kafka_s(us: Caller, them: Caller, name: str, topic: str) -> None:
    topic = topic.replace("_", "-")
    assert CASES[name](us, topic) == CASES[name](them, topic)


def test_what_we_advertise_kafka_advertises_too(us: Caller, them: Caller) -> None:
    request = ApiVersionsRequest(client_software_name="same", client_software_version="1")
    ours: Any = us.ask(request, 4)
    theirs: Any = them.ask(request, 4)
    spoken = {api.api_key: api for api in theirs.api_keys}
    assert all(spoken[api.api_key] == api for api in ours.api_keys)
    assert all(feature in theirs.finalized_features for feature in ours.finalized_features)


# Ours differ on purpose: defaults of our own, options that we cannot change yet, a number written
# as Python does, four that we count in 32 bits.
OPTIONS_THAT_DIFFER = {
    "group.consumer.assignment.interval.ms",
    "group.share.assignment.interval.ms",
    "group.streams.assignment.interval.ms",
    "listeners",
    "log.cleaner.dedupe.buffer.size",
    "log.cleaner.io.max.bytes.per.second",
    "log.dir",
    "node.id",
    "offsets.topic.replication.factor",
    "replica.selector.class",
    "sasl.enabled.mechanisms",
    "sasl.mechanism.inter.broker.protocol",
    "security.inter.broker.protocol",
    "share.coordinator.state.topic.min.isr",
    "share.coordinator.state.topic.replication.factor",
    "ssl.keystore.type",
    "ssl.truststore.type",
    "transaction.state.log.replication.factor",
}
# Options about security are set at start only: no request changes them.
SET_AT_START = ("listener.security.protocol.map", "sasl.", "ssl.")


def test_every_broker_option_of_kafka_is_described_as_kafka_does(us: Caller, them: Caller) -> None:
    def options(caller: Caller) -> dict[str, Any]:
        request = DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(
                    resource_type=BROKER, resource_name="1", configuration_keys=None
                )
            ],
            include_synonyms=True,
        )
        answer: Any = caller.ask(request, 4)
        return {
            config.name: (
                config.config_type,
                config.read_only or config.name.startswith(SET_AT_START),
                config.is_sensitive,
                # The default, whatever is set.
                [s.value for s in config.synonyms if s.source == 5 and s.name == config.name],
            )
            for config in answer.results[0].configs
            if config.name not in OPTIONS_THAT_DIFFER
        }

    ours, theirs = options(us), options(them)
    assert {name: ours.get(name) for name in theirs} == theirs
