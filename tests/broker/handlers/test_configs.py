"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs, ListConfigResources."""

import asyncio
import json
from pathlib import Path

import pytest

from barnabas.broker.requests.config_resources import ResourceType
from barnabas.config.broker import OPTIONS as BROKER_OPTIONS
from barnabas.config.kafka_options import OPTIONS as KAFKA_OPTIONS
from barnabas.config.topic import ALL, OWN
from barnabas.keeper.memory import MemoryKeeper
from barnabas.model.errors import Code
from barnabas.wire.messages import alter_configs, incremental_alter_configs
from barnabas.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from barnabas.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from barnabas.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from barnabas.wire.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from tests.broker.running import Running, running_broker

# Those that Kafka has: the others are described where they are set.
TOPIC_OPTIONS = [name for name in ALL if name not in OWN]
SET, DELETE, APPEND, SUBTRACT = range(4)
DYNAMIC_TOPIC, DYNAMIC_BROKER, DYNAMIC_DEFAULT, STATIC, DEFAULT = range(1, 6)
Answer = tuple[int, str | None]


async def describe(
    running: Running,
    kind: int,
    name: str,
    *keys: str,
    version: int = 4,
    synonyms: bool = True,
    documentation: bool = False,
) -> DescribeConfigsResult:
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(
                resource_type=kind, resource_name=name, configuration_keys=list(keys) or None
            )
        ],
        include_synonyms=synonyms,
        include_documentation=documentation,
    )
    (result,) = (await running.ask(request, DescribeConfigsResponse, version)).results
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


async def described(
    running: Running, kind: int, name: str, option: str
) -> DescribeConfigsResourceResult:
    (config,) = (await describe(running, kind, name, option)).configs
    return config


def incremental(
    kind: int, name: str, *changes: tuple[str, int, str | None], validate_only: bool = False
) -> IncrementalAlterConfigsRequest:
    return IncrementalAlterConfigsRequest(
        resources=[
            incremental_alter_configs.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    incremental_alter_configs.AlterableConfig(
                        name=option, config_operation=operation, value=value
                    )
                    for option, operation, value in changes
                ],
            )
        ],
        validate_only=validate_only,
    )


async def alter(
    running: Running,
    kind: int,
    name: str,
    *changes: tuple[str, int, str | None],
    validate_only: bool = False,
    version: int = 1,
) -> Answer:
    request = incremental(kind, name, *changes, validate_only=validate_only)
    (answer,) = (await running.ask(request, IncrementalAlterConfigsResponse, version)).responses
    assert (answer.resource_type, answer.resource_name) == (kind, name)
    return answer.error_code, answer.error_message


async def replace(
    running: Running,
    kind: int,
    name: str,
    *settings: tuple[str, str | None],
    validate_only: bool = False,
    version: int = 2,
) -> Answer:
    request = AlterConfigsRequest(
        resources=[
            alter_configs.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    alter_configs.AlterableConfig(name=option, value=value)
                    for option, value in settings
                ],
            )
        ],
        validate_only=validate_only,
    )
    (answer,) = (await running.ask(request, AlterConfigsResponse, version)).responses
    assert (answer.resource_type, answer.resource_name) == (kind, name)
    return answer.error_code, answer.error_message


# --- DescribeConfigs ------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(1, 5))
async def test_every_option_of_a_topic_is_described(running: Running, version: int) -> None:
    await running.create("t")
    result = await describe(running, ResourceType.TOPIC, "t", version=version)
    assert result.error_code == 0
    assert [config.name for config in result.configs] == list(TOPIC_OPTIONS)
    sizes = {config.name: config for config in result.configs}["segment.bytes"]
    assert (sizes.value, sizes.config_source) == ("1073741824", DEFAULT)
    assert sizes.config_type == (3 if version >= 3 else 0)
    assert [(s.name, s.value, s.source) for s in sizes.synonyms] == [
        ("log.segment.bytes", "1073741824", DEFAULT)
    ]


async def test_every_option_of_a_broker_is_described(running: Running) -> None:
    result = await describe(running, ResourceType.BROKER, "1")
    names = [config.name for config in result.configs]
    assert names == sorted({*BROKER_OPTIONS, *KAFKA_OPTIONS})
    configs = {config.name: config for config in result.configs}
    assert configs["node.id"].read_only
    assert not configs["log.segment.bytes"].read_only
    assert configs["log.dirs"].config_source == STATIC


async def test_a_running_broker_describes_the_values_in_force(running: Running) -> None:
    result = await describe(running, ResourceType.BROKER, "1")
    configs = {config.name: config for config in result.configs}
    broker = running.broker
    where = f"PLAINTEXT://{broker.host}:{broker.port}"
    directories = ",".join(broker.config.directories)
    for name, value in {
        "node.id": "1",
        "broker.id": "1",
        "advertised.listeners": where,
        "listeners": "PLAINTEXT://:9092",
        "log.dirs": directories,
        "log.dir": directories,
    }.items():
        config = configs[name]
        assert (name, config.value) == (name, value)
        assert (config.synonyms[0].value, config.synonyms[0].source) == (
            value,
            config.config_source,
        )


async def test_an_option_that_a_start_would_ignore_can_be_altered_and_is_warned_of_too(
    running: Running,
) -> None:
    assert await alter(running, ResourceType.BROKER, "1", ("num.io.threads", SET, "9")) == (0, None)
    config = await described(running, ResourceType.BROKER, "1", "num.io.threads")
    assert (config.value, config.config_source) == ("9", DYNAMIC_BROKER)
    assert [(s.value, s.source) for s in config.synonyms] == [("9", DYNAMIC_BROKER), ("8", DEFAULT)]
    logged = [json.loads(line) for line in running.log.getvalue().splitlines()]
    assert [line["option"] for line in logged if line["event"] == "option has no effect"] == [
        "num.io.threads"
    ]
    code, _ = await alter(running, ResourceType.BROKER, "1", ("num.io.threads", SET, "many"))
    assert code == Code.INVALID_CONFIG
    code, message = await alter(running, ResourceType.BROKER, "1", ("ssl.protocol", SET, "TLSv1.3"))
    assert code == Code.INVALID_CONFIG
    assert "cannot change while the broker runs" in (message or "")


async def test_only_named_options_are_described_and_none_named_means_all(
    running: Running,
) -> None:
    await running.create("t")
    result = await describe(running, ResourceType.TOPIC, "t", "segment.ms", "no.such.option")
    assert [config.name for config in result.configs] == ["segment.ms"]
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(
                resource_type=ResourceType.TOPIC, resource_name="t", configuration_keys=[]
            )
        ]
    )
    (result,) = (await running.ask(request, DescribeConfigsResponse)).results
    assert len(result.configs) == len(TOPIC_OPTIONS)


async def test_synonyms_and_documentation_come_when_asked_for(running: Running) -> None:
    await running.create("t")
    quiet = await describe(running, ResourceType.TOPIC, "t", "segment.bytes", synonyms=False)
    assert quiet.configs[0].synonyms == []
    assert quiet.configs[0].documentation is None
    told = await describe(running, ResourceType.TOPIC, "t", "segment.bytes", documentation=True)
    assert told.configs[0].synonyms
    assert "segment" in (told.configs[0].documentation or "")


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (ResourceType.TOPIC, "missing", Code.UNKNOWN_TOPIC_OR_PARTITION),
        (ResourceType.TOPIC, "../x", Code.INVALID_TOPIC_EXCEPTION),
        (ResourceType.TOPIC, "", Code.INVALID_TOPIC_EXCEPTION),
        (ResourceType.BROKER, "2", Code.INVALID_REQUEST),
        (ResourceType.BROKER, "one", Code.INVALID_REQUEST),
        (ResourceType.BROKER_LOGGER, "1", Code.INVALID_REQUEST),
        (ResourceType.CLIENT_METRICS, "", Code.INVALID_REQUEST),
        (ResourceType.GROUP, "", Code.INVALID_REQUEST),
        (0, "x", Code.INVALID_REQUEST),
        (99, "x", Code.INVALID_REQUEST),
        (-128, "x", Code.INVALID_REQUEST),
    ],
)
async def test_what_has_no_settings_is_answered_with_an_error_of_its_own(
    running: Running, kind: int, name: str, code: Code
) -> None:
    result = await describe(running, kind, name)
    assert (result.error_code, result.configs) == (code, [])
    assert result.error_message
    assert (await alter(running, kind, name))[0] == code
    assert (await replace(running, kind, name))[0] == code


async def test_the_defaults_of_all_brokers_are_those_set_by_request(running: Running) -> None:
    assert (await describe(running, ResourceType.BROKER, "")).configs == []
    await alter(running, ResourceType.BROKER, "", ("message.max.bytes", SET, "2000"))
    (config,) = (await describe(running, ResourceType.BROKER, "")).configs
    assert (config.name, config.value) == ("message.max.bytes", "2000")
    assert config.config_source == DYNAMIC_DEFAULT
    assert [s.source for s in config.synonyms] == [DYNAMIC_DEFAULT]


# --- IncrementalAlterConfigs ----------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 1])
async def test_an_option_is_set_and_deleted(running: Running, version: int) -> None:
    await running.create("t")
    change = ("retention.ms", SET, "5")
    assert await alter(running, ResourceType.TOPIC, "t", change, version=version) == (0, None)
    config = await described(running, ResourceType.TOPIC, "t", "retention.ms")
    assert (config.value, config.config_source) == ("5", DYNAMIC_TOPIC)
    assert running.broker.topics.existing("t").config.retention_ms == 5
    assert await alter(running, ResourceType.TOPIC, "t", ("retention.ms", DELETE, None)) == (
        0,
        None,
    )
    config = await described(running, ResourceType.TOPIC, "t", "retention.ms")
    assert (config.value, config.config_source) == ("604800000", DEFAULT)


async def test_a_list_is_added_to_and_cut(running: Running) -> None:
    await running.create("t")
    for operation, value, expected in (
        (APPEND, "compact", "delete,compact"),
        (APPEND, "compact", "delete,compact"),
        (SUBTRACT, "delete", "compact"),
        (SUBTRACT, "compact", ""),
    ):
        change = ("cleanup.policy", operation, value)
        assert await alter(running, ResourceType.TOPIC, "t", change) == (0, None)
        assert (
            await described(running, ResourceType.TOPIC, "t", "cleanup.policy")
        ).value == expected


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ([("retention.ms", SET, "soon")], Code.INVALID_CONFIG),
        ([("no.such.option", SET, "1")], Code.INVALID_CONFIG),
        ([("retention.ms", APPEND, "1")], Code.INVALID_CONFIG),
        ([("retention.ms", SET, None)], Code.INVALID_REQUEST),
        ([("cleanup.policy", APPEND, None)], Code.INVALID_REQUEST),
        ([("retention.ms", 9, "1")], Code.INVALID_REQUEST),
        ([("retention.ms", SET, "1"), ("retention.ms", SET, "2")], Code.INVALID_REQUEST),
    ],
)
async def test_a_bad_change_names_its_option_and_changes_nothing(
    running: Running, changes: list[tuple[str, int, str | None]], code: Code
) -> None:
    await running.create("t")
    found, message = await alter(
        running, ResourceType.TOPIC, "t", ("segment.ms", SET, "9"), *changes
    )
    assert found == code
    assert changes[-1][0] in (message or "")
    assert running.broker.topics.existing("t").overrides == {}


async def test_validate_only_changes_nothing(running: Running) -> None:
    await running.create("t")
    for kind, name, option in (
        (ResourceType.TOPIC, "t", "segment.bytes"),
        (ResourceType.BROKER, "1", "log.segment.bytes"),
    ):
        assert (await alter(running, kind, name, (option, SET, "2000000"), validate_only=True)) == (
            0,
            None,
        )
        code, _ = await alter(running, kind, name, (option, SET, "x"), validate_only=True)
        assert code == Code.INVALID_CONFIG
        assert (await described(running, kind, name, option)).value == "1073741824"


async def test_a_resource_named_twice_is_not_changed_and_others_are(running: Running) -> None:
    await running.create("t")
    await running.create("u")
    once = incremental(ResourceType.TOPIC, "t", ("retention.ms", SET, "5")).resources
    other = incremental(ResourceType.TOPIC, "u", ("retention.ms", SET, "5")).resources
    request = IncrementalAlterConfigsRequest(resources=[*once, *once, *other], validate_only=False)
    response = await running.ask(request, IncrementalAlterConfigsResponse)
    assert [answer.error_code for answer in response.responses] == [
        Code.INVALID_REQUEST,
        Code.INVALID_REQUEST,
        0,
    ]
    assert running.broker.topics.existing("t").overrides == {}
    assert running.broker.topics.existing("u").overrides == {"retention.ms": "5"}


async def test_changes_made_at_once_are_all_kept(running: Running) -> None:
    """Each is worked out from what the others left, not from what it saw when it came."""
    await running.create("t")
    options = ["retention.ms", "segment.ms", "max.message.bytes", "segment.bytes"]
    wires = [running.connect() for _ in options]
    requests = [
        incremental(ResourceType.TOPIC, "t", (option, SET, "2000000")) for option in options
    ]
    for request, wire in zip(requests, wires, strict=True):
        running.send(request, wire=wire)
    await asyncio.gather(
        *(
            running.receive(request, IncrementalAlterConfigsResponse, wire=wire)
            for request, wire in zip(requests, wires, strict=True)
        )
    )
    assert running.broker.topics.existing("t").overrides == dict.fromkeys(options, "2000000")


async def test_a_broker_s_setting_comes_before_that_of_all_brokers(running: Running) -> None:
    await running.create("t")
    await alter(running, ResourceType.BROKER, "", ("message.max.bytes", SET, "2000"))
    assert running.broker.topics.existing("t").config.max_message_bytes == 2000
    await alter(running, ResourceType.BROKER, "1", ("message.max.bytes", SET, "3000"))
    assert running.broker.topics.existing("t").config.max_message_bytes == 3000
    config = await described(running, ResourceType.TOPIC, "t", "max.message.bytes")
    assert (config.value, config.config_source) == ("3000", DYNAMIC_BROKER)
    assert [(s.value, s.source) for s in config.synonyms] == [
        ("3000", DYNAMIC_BROKER),
        ("2000", DYNAMIC_DEFAULT),
        ("1048588", DEFAULT),
    ]


async def test_what_needs_a_restart_cannot_be_changed_by_request(running: Running) -> None:
    code, message = await alter(running, ResourceType.BROKER, "1", ("node.id", SET, "2"))
    assert code == Code.INVALID_CONFIG
    assert "node.id" in (message or "")


async def test_a_broker_s_setting_must_go_with_every_topic_s(running: Running) -> None:
    """Kept without a look at the topics, it would keep the broker from starting again."""
    await running.create("t", configs={"min.compaction.lag.ms": "11"})
    change = ("log.cleaner.max.compaction.lag.ms", SET, "10")
    code, _ = await alter(running, ResourceType.BROKER, "", change)
    assert code == Code.INVALID_CONFIG
    assert (await describe(running, ResourceType.BROKER, "")).configs == []


async def test_settings_survive_a_restart(tmp_path: Path) -> None:
    keeper = MemoryKeeper()
    async with running_broker(tmp_path, keeper=keeper) as running:
        await running.create("t")
        await alter(running, ResourceType.TOPIC, "t", ("retention.ms", SET, "5"))
        await alter(running, ResourceType.BROKER, "", ("message.max.bytes", SET, "2000"))
    async with running_broker(tmp_path, keeper=keeper) as running:
        topic = running.broker.topics.existing("t")
        assert (topic.config.retention_ms, topic.config.max_message_bytes) == (5, 2000)


# --- AlterConfigs ---------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(3))
async def test_what_is_not_named_returns_to_its_default(running: Running, version: int) -> None:
    await running.create("t", configs={"retention.ms": "5"})
    answer = await replace(running, ResourceType.TOPIC, "t", ("segment.ms", "9"), version=version)
    assert answer == (0, None)
    assert running.broker.topics.existing("t").overrides == {"segment.ms": "9"}
    assert running.broker.topics.existing("t").config.retention_ms == 604_800_000


async def test_a_broker_s_settings_are_replaced(running: Running) -> None:
    await alter(running, ResourceType.BROKER, "1", ("message.max.bytes", SET, "2000"))
    assert await replace(running, ResourceType.BROKER, "1", ("log.segment.bytes", "2000000")) == (
        0,
        None,
    )
    assert running.broker.catalog.dynamic[1] == {"log.segment.bytes": "2000000"}


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ([("retention.ms", "soon")], Code.INVALID_CONFIG),
        ([("no.such.option", "1")], Code.INVALID_CONFIG),
        ([("retention.ms", None)], Code.INVALID_REQUEST),
        ([("retention.ms", "1"), ("retention.ms", "2")], Code.INVALID_REQUEST),
    ],
)
async def test_a_bad_setting_replaces_nothing(
    running: Running, settings: list[tuple[str, str | None]], code: Code
) -> None:
    await running.create("t", configs={"segment.ms": "9"})
    assert (await replace(running, ResourceType.TOPIC, "t", *settings))[0] == code
    assert running.broker.topics.existing("t").overrides == {"segment.ms": "9"}


async def test_replacing_may_be_tried_first(running: Running) -> None:
    await running.create("t", configs={"segment.ms": "9"})
    assert await replace(running, ResourceType.TOPIC, "t", validate_only=True) == (0, None)
    assert running.broker.topics.existing("t").overrides == {"segment.ms": "9"}


# --- ListConfigResources --------------------------------------------------------------------------


async def resources(
    running: Running, *types: int, version: int = 1
) -> tuple[int, list[tuple[str, int]]]:
    request = ListConfigResourcesRequest(resource_types=list(types))
    response = await running.ask(request, ListConfigResourcesResponse, version)
    return response.error_code, [
        (each.resource_name, each.resource_type) for each in response.config_resources
    ]


async def test_topics_and_brokers_are_listed(running: Running) -> None:
    await running.create("b")
    await running.create("a")
    topics = [("a", ResourceType.TOPIC), ("b", ResourceType.TOPIC)]
    assert await resources(running) == (0, [("1", ResourceType.BROKER), *topics])
    assert await resources(running, ResourceType.TOPIC) == (0, topics)
    assert await resources(running, ResourceType.BROKER) == (0, [("1", ResourceType.BROKER)])
    assert await resources(running, ResourceType.CLIENT_METRICS, ResourceType.GROUP) == (0, [])


async def test_version_0_asks_for_client_metrics_and_there_are_none(running: Running) -> None:
    await running.create("a")
    assert await resources(running, version=0) == (0, [])


async def test_an_unknown_type_is_refused(running: Running) -> None:
    assert await resources(running, ResourceType.TOPIC, 99) == (Code.UNSUPPORTED_VERSION, [])
