"""Settings of groups and of subscriptions to clients' metrics."""

from pathlib import Path

import pytest

from barnabas.broker.groups.ports import group_limits
from barnabas.broker.requests.config_resources import ResourceType
from barnabas.config import client_metrics, group
from barnabas.coordinators.groups.limits import GroupLimits
from barnabas.keeper.memory import MemoryKeeper
from barnabas.model.errors import Code
from barnabas.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.wire.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from tests.broker.handlers.test_configs import (
    APPEND,
    DEFAULT,
    DELETE,
    SET,
    alter,
    describe,
    described,
    replace,
)
from tests.broker.running import Running, running_broker

DYNAMIC_CLIENT_METRICS, DYNAMIC_GROUP = 7, 8
SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"


async def heartbeat_interval_ms(running: Running, group_id: str) -> int:
    """As a member is told that joins."""
    request = ConsumerGroupHeartbeatRequest(
        group_id=group_id,
        member_id=f"member-of-{group_id}",
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    answer = await running.ask(request, ConsumerGroupHeartbeatResponse)
    assert not answer.error_code, answer.error_message
    return answer.heartbeat_interval_ms


async def listed(running: Running, *kinds: int, version: int = 1) -> list[tuple[str, int]]:
    request = ListConfigResourcesRequest(resource_types=list(kinds))
    answer = await running.ask(request, ListConfigResourcesResponse, version)
    assert not answer.error_code
    return [(each.resource_name, each.resource_type) for each in answer.config_resources]


async def test_every_option_of_a_group_is_described_with_the_brokers_default(
    running: Running,
) -> None:
    """Those that Kafka does not have only where they are set."""
    backoff = "barnabas.share.release.backoff.ms"
    assert await alter(running, ResourceType.GROUP, "queue", (backoff, SET, "5")) == (0, None)
    result = await describe(running, ResourceType.GROUP, "queue")
    assert (backoff, "5") in [(config.name, config.value) for config in result.configs]
    result = await describe(running, ResourceType.GROUP, "nobody has heard of it")
    assert [config.name for config in result.configs] == [
        name for name in group.ALL if name not in group.OWN
    ]
    configs = {config.name: config for config in result.configs}
    session = configs[SESSION]
    assert (session.value, session.config_source) == ("45000", DEFAULT)
    assert [(s.name, s.value) for s in session.synonyms] == [(f"group.{SESSION}", "45000")]
    assert [s.name for s in configs["share.session.timeout.ms"].synonyms] == [
        "group.share.session.timeout.ms"
    ]


async def test_a_setting_of_a_group_is_kept_listed_and_deleted(tmp_path: Path) -> None:
    keeper, name = MemoryKeeper(), "../ä group/%2E. of any name"
    async with running_broker(tmp_path, keeper=keeper) as running:
        assert await alter(running, ResourceType.GROUP, name, (SESSION, SET, "50000")) == (0, None)
    async with running_broker(tmp_path, keeper=keeper) as running:
        config = await described(running, ResourceType.GROUP, name, SESSION)
        assert (config.value, config.config_source) == ("50000", DYNAMIC_GROUP)
        assert [(s.name, s.value) for s in config.synonyms] == [
            (SESSION, "50000"),
            (f"group.{SESSION}", "45000"),
        ]
        assert await listed(running, ResourceType.GROUP) == [(name, ResourceType.GROUP)]
        assert await alter(running, ResourceType.GROUP, name, (SESSION, DELETE, None)) == (0, None)
        assert (await described(running, ResourceType.GROUP, name, SESSION)).value == "45000"
        assert await listed(running, ResourceType.GROUP) == []


@pytest.mark.parametrize(
    ("name", "change", "code", "said"),
    [
        ("g", (SESSION, SET, "44999"), Code.INVALID_CONFIG, "45000 to 60000"),
        ("g", (SESSION, SET, "60001"), Code.INVALID_CONFIG, "group.consumer.max.session.timeout"),
        ("g", (HEARTBEAT, SET, "4999"), Code.INVALID_CONFIG, "5000 to 15000"),
        ("g", (HEARTBEAT, SET, "soon"), Code.INVALID_CONFIG, HEARTBEAT),
        ("g", (HEARTBEAT, APPEND, "9000"), Code.INVALID_CONFIG, "not a list"),
        ("g", (HEARTBEAT, SET, None), Code.INVALID_REQUEST, HEARTBEAT),
        ("g", ("share.session.timeout.ms", SET, "61000"), Code.INVALID_CONFIG, "group.share.max"),
        ("g", ("streams.session.timeout.ms", SET, "61000"), Code.INVALID_CONFIG, "group.streams.m"),
        ("g", ("streams.num.standby.replicas", SET, "3"), Code.INVALID_CONFIG, "2 or less"),
        ("g", ("consumer.session.timeout", SET, "1"), Code.INVALID_CONFIG, f"mean {SESSION}"),
        ("", (SESSION, SET, "50000"), Code.INVALID_REQUEST, "must not be empty"),
    ],
)
async def test_a_setting_that_the_broker_does_not_allow_is_refused(
    running: Running, name: str, change: tuple[str, int, str | None], code: Code, said: str
) -> None:
    found, message = await alter(running, ResourceType.GROUP, name, change)
    assert (found, said in (message or "")) == (code, True), message
    assert await listed(running, ResourceType.GROUP) == []


async def test_the_brokers_bounds_are_those_of_its_options(tmp_path: Path) -> None:
    options = {"group.consumer.min.session.timeout.ms": "100"}
    async with running_broker(tmp_path, options) as running:
        changes = (SESSION, SET, "6000"), (HEARTBEAT, SET, "5000")
        assert await alter(running, ResourceType.GROUP, "g", *changes) == (0, None)
        code, message = await alter(running, ResourceType.GROUP, "g", (SESSION, SET, "5000"))
        assert code == Code.INVALID_CONFIG, "members would be expelled between two heartbeats"
        assert HEARTBEAT in (message or "")


async def test_settings_are_in_force_in_the_group_that_has_them(tmp_path: Path) -> None:
    at_once = {"group.consumer.assignment.interval.ms": "0"}  # members wait for nobody
    async with running_broker(tmp_path, at_once) as running:
        await running.create("t")
        coordinator = FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
        await running.ask(coordinator, FindCoordinatorResponse)
        assert await heartbeat_interval_ms(running, "other") == 5_000
        await alter(running, ResourceType.GROUP, "g", (HEARTBEAT, SET, "7000"))
        assert await heartbeat_interval_ms(running, "g") == 7_000
        await alter(running, ResourceType.GROUP, "g", (HEARTBEAT, SET, "8000"))
        assert await heartbeat_interval_ms(running, "g") == 8_000  # it joins again
        assert await heartbeat_interval_ms(running, "other") == 5_000
        await replace(running, ResourceType.GROUP, "g")
        assert await heartbeat_interval_ms(running, "g") == 5_000


def test_each_setting_of_a_group_replaces_a_limit_of_its_coordinator() -> None:
    settings = {SESSION: "50000", HEARTBEAT: "7000", "consumer.assignment.interval.ms": "300"}
    limits = GroupLimits(groups={"g": group_limits(settings)})
    own = limits.of_group("g")
    assert own.consumer_session_timeout_ms == 50_000
    assert own.consumer_heartbeat_interval_ms == 7_000
    assert own.consumer_assignment_interval_ms == 300
    assert limits.of_group("other") == limits


async def test_a_subscription_to_clients_metrics_is_kept_and_described(running: Running) -> None:
    result = await describe(running, ResourceType.CLIENT_METRICS, "m")
    assert {config.name: (config.value, config.config_source) for config in result.configs} == {
        "interval.ms": ("300000", DEFAULT),
        "match": ("", DEFAULT),
        "metrics": ("", DEFAULT),
    }
    changes = ("interval.ms", SET, "5000"), ("match", SET, "client_id=x")
    assert await alter(running, ResourceType.CLIENT_METRICS, "m", *changes) == (0, None)
    config = await described(running, ResourceType.CLIENT_METRICS, "m", "match")
    assert (config.value, config.config_source) == ("client_id=x", DYNAMIC_CLIENT_METRICS)
    assert await listed(running, version=0) == [("m", ResourceType.CLIENT_METRICS)]
    assert list(client_metrics.ALL) == [config.name for config in result.configs]


@pytest.mark.parametrize(
    ("name", "change", "code"),
    [
        ("m", ("interval.ms", SET, "1"), Code.INVALID_REQUEST),
        ("m", ("match", SET, "foo=x"), Code.INVALID_CONFIG),
        ("m", ("match", APPEND, "client_id=x"), Code.INVALID_CONFIG),
        ("m", ("no.such", SET, "x"), Code.INVALID_REQUEST),
        ("", ("interval.ms", SET, "5000"), Code.INVALID_REQUEST),
    ],
)
async def test_a_bad_subscription_is_refused_as_kafka_does(
    running: Running, name: str, change: tuple[str, int, str | None], code: Code
) -> None:
    assert (await alter(running, ResourceType.CLIENT_METRICS, name, change))[0] == code
    assert await listed(running, ResourceType.CLIENT_METRICS) == []
