"""CreateTopics: what may be created, and what is said of it."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from barnabas.broker.requests.placement import PARTITIONS_MAX
from barnabas.config.topic import ALL as TOPIC_OPTIONS
from barnabas.config.topic import OWN
from barnabas.model.errors import Code
from barnabas.model.ids import NO_TOPIC_ID
from barnabas.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tests.broker.running import Running, creatable, running_broker


async def create(
    running: Running, *topics: CreatableTopic, version: int = 7, validate_only: bool = False
) -> list[CreatableTopicResult]:
    request = CreateTopicsRequest(topics=list(topics), validate_only=validate_only)
    return (await running.ask(request, CreateTopicsResponse, version)).topics


async def error(running: Running, topic: CreatableTopic) -> tuple[int, str]:
    (result,) = await create(running, topic)
    assert running.broker.topics.get(topic.name) is None
    return result.error_code, result.error_message or ""


def assigned(
    replicas: Mapping[int, list[int]], partitions: int = -1, factor: int = -1
) -> CreatableTopic:
    return CreatableTopic(
        name="t",
        num_partitions=partitions,
        replication_factor=factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
            for index, brokers in replicas.items()
        ],
        configs=[],
    )


@pytest.mark.parametrize("version", range(2, 8))
async def test_a_topic_is_created_in_every_version(running: Running, version: int) -> None:
    (result,) = await create(running, creatable("t", 3), version=version)
    assert (result.name, result.error_code, result.error_message) == ("t", 0, None)
    topic = running.broker.topics.existing("t")
    assert len(topic.partitions) == 3
    assert result.topic_id == (topic.id if version >= 7 else NO_TOPIC_ID)


async def test_the_answer_has_every_option_and_where_it_is_set(running: Running) -> None:
    (result,) = await create(running, creatable("t", 2, configs={"retention.ms": "1000"}))
    assert (result.num_partitions, result.replication_factor) == (2, 1)
    assert result.topic_config_error_code == 0
    configs = {config.name: config for config in result.configs or ()}
    assert list(configs) == [name for name in TOPIC_OPTIONS if name not in OWN]
    assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == ("1000", 1)
    assert (configs["segment.ms"].value, configs["segment.ms"].config_source) == ("604800000", 5)
    assert not any(config.read_only or config.is_sensitive for config in configs.values())


async def test_validate_only_says_what_would_be_created_and_creates_nothing(
    running: Running,
) -> None:
    good, bad = await create(
        running, creatable("t", 2), creatable("u", replicas=5), validate_only=True
    )
    assert (good.error_code, good.num_partitions, good.topic_id) == (0, 2, NO_TOPIC_ID)
    assert bad.error_code == Code.INVALID_REPLICATION_FACTOR
    assert len(running.broker.topics) == 0


async def test_minus_one_means_the_broker_s_defaults(tmp_path: Path) -> None:
    async with running_broker(tmp_path, {"num.partitions": "4"}) as running:
        (result,) = await create(running, creatable("t", -1, -1))
        assert (result.num_partitions, result.replication_factor) == (4, 1)


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "a b", "ä", "x" * 250, "a\0"])
async def test_names_that_could_leave_their_directory_are_refused(
    running: Running, name: str
) -> None:
    code, _ = await error(running, creatable(name))
    assert code == Code.INVALID_TOPIC_EXCEPTION


async def test_the_longest_name_is_accepted(running: Running) -> None:
    (result,) = await create(running, creatable("x" * 249, 2))
    assert result.error_code == 0


async def test_a_topic_is_created_once(running: Running) -> None:
    await running.create("t")
    (result,) = await create(running, creatable("t"))
    assert result.error_code == Code.TOPIC_ALREADY_EXISTS
    assert "'t'" in (result.error_message or "")


async def test_names_that_metrics_could_not_distinguish_are_refused(running: Running) -> None:
    await running.create("a.b")
    code, _ = await error(running, creatable("a_b"))
    assert code == Code.INVALID_TOPIC_EXCEPTION


async def test_a_topic_named_twice_is_not_created_and_the_others_are(running: Running) -> None:
    twice, once = await create(running, creatable("a"), creatable("a"), creatable("b"))
    assert (twice.name, twice.error_code) == ("a", Code.INVALID_REQUEST)
    assert (once.name, once.error_code) == ("b", 0)


async def test_the_name_of_kafka_s_metadata_log_is_not_free(running: Running) -> None:
    code, _ = await error(running, creatable("__cluster_metadata"))
    assert code == Code.INVALID_REQUEST


@pytest.mark.parametrize("partitions", [0, -2, -(2**31)])
async def test_partitions_are_counted_from_1(running: Running, partitions: int) -> None:
    code, _ = await error(running, creatable("t", partitions))
    assert code == Code.INVALID_PARTITIONS


@pytest.mark.parametrize("replicas", [0, -2, 2, 32_767])
async def test_one_broker_holds_one_replica(running: Running, replicas: int) -> None:
    code, _ = await error(running, creatable("t", 1, replicas))
    assert code == Code.INVALID_REPLICATION_FACTOR


async def test_a_request_for_too_many_partitions_is_refused_as_a_whole(running: Running) -> None:
    half = PARTITIONS_MAX // 2
    results = await create(running, creatable("a", half), creatable("b", half + 1))
    assert [result.error_code for result in results] == [Code.POLICY_VIOLATION] * 2
    code, _ = await error(running, creatable("t", 2**31 - 1))
    assert code == Code.POLICY_VIOLATION


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("no.such.option", "1"),
        ("retention.ms", "soon"),
        ("retention.ms", None),
        ("cleanup.policy", "shred"),
        ("remote.storage.enable", "true"),
    ],
)
async def test_a_bad_option_is_named(running: Running, option: str, value: str | None) -> None:
    code, message = await error(running, creatable("t", configs={option: value}))
    assert code == Code.INVALID_CONFIG
    assert option in message


async def test_options_must_go_with_the_broker_s(tmp_path: Path) -> None:
    settings = {"log.cleaner.max.compaction.lag.ms": "10"}
    async with running_broker(tmp_path, settings) as running:
        topic = creatable("t", configs={"min.compaction.lag.ms": "11"})
        code, _ = await error(running, topic)
        assert code == Code.INVALID_CONFIG


async def test_options_are_in_force_at_once(running: Running) -> None:
    await running.create("t", configs={"max.message.bytes": "77"})
    topic = running.broker.topics.existing("t")
    assert topic.config.max_message_bytes == 77
    assert topic.partitions[0].log.config.max_message_bytes == 77


async def test_replicas_may_be_assigned_to_the_one_broker(running: Running) -> None:
    (result,) = await create(running, assigned({1: [1], 0: [1]}))
    assert (result.error_code, result.num_partitions, result.replication_factor) == (0, 2, 1)


@pytest.mark.parametrize(
    "replicas", [{0: [2]}, {0: []}, {0: [1, 1]}, {1: [1]}, {-1: [1]}, {0: [1], 2: [1]}]
)
async def test_replicas_can_be_assigned_in_no_other_way(
    running: Running, replicas: dict[int, list[int]]
) -> None:
    code, _ = await error(running, assigned(replicas))
    assert code == Code.INVALID_REPLICA_ASSIGNMENT


async def test_a_partition_is_assigned_once(running: Running) -> None:
    topic = assigned({0: [1]})
    (assignment,) = topic.assignments
    twice = CreatableTopic(
        name="t",
        num_partitions=-1,
        replication_factor=-1,
        assignments=[assignment, assignment],
        configs=[],
    )
    code, _ = await error(running, twice)
    assert code == Code.INVALID_REPLICA_ASSIGNMENT


@pytest.mark.parametrize(("partitions", "factor"), [(1, -1), (-1, 1)])
async def test_with_an_assignment_no_counts_are_given(
    running: Running, partitions: int, factor: int
) -> None:
    code, _ = await error(running, assigned({0: [1]}, partitions, factor))
    assert code == Code.INVALID_REQUEST
