"""Every API, by principals and resources: denied unless a rule allows it."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.broker.authorization.table import CHECKS, authorized
from barnabas.broker.authorization.whole_requests import needs_nothing
from barnabas.broker.net.connection import Connection
from barnabas.broker.net.deferred_reply import settled
from barnabas.broker.net.dispatch import BETWEEN_BROKERS, HANDLERS, Call, handler
from barnabas.model.errors import KafkaError
from barnabas.model.ids import NO_TOPIC_ID
from barnabas.security.acl.rules import AclRule, Permission
from barnabas.security.principal import Principal
from barnabas.wire.apis import APIS
from barnabas.wire.codec import ProtocolMessage, Struct
from barnabas.wire.messages import incremental_alter_configs
from barnabas.wire.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from barnabas.wire.messages.offset_commit import OffsetCommitResponse
from tests.broker.authorization.samples import SAMPLES, C, G, T, X, prefixed, rule
from tests.broker.running import Running, running_broker

ALICE, ADMIN = Principal("User", "alice"), Principal("User", "admin")
DENIALS = {T, G, C, X}
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
}


@pytest.fixture
async def run(tmp_path: Path) -> AsyncIterator[Running]:
    async with running_broker(tmp_path, SETTINGS) as run:
        connection_of(run).principal = ADMIN
        await run.create("orders")
        request = FindCoordinatorRequest(coordinator_keys=["g"])
        await run.ask(request, FindCoordinatorResponse)  # makes the coordinator
        await run.ask(SAMPLES[8].make(9, NO_TOPIC_ID), OffsetCommitResponse, 9)  # and the group
        yield run


def connection_of(run: Running) -> Connection:
    return list(run.broker.connections)[-1]


def codes(message: Struct) -> Iterator[int]:
    for name in type(message).wire_fields:
        value = getattr(message, name)
        if name.endswith("error_code"):
            yield value
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, Struct):
                yield from codes(each)


async def reached(broker: Any, request: Any, call: Call) -> ProtocolMessage:
    """Stands for a handler that only brokers of a cluster have."""
    raise Reached


class Reached(Exception):
    """The request came through."""


async def ask(
    run: Running,
    key: int,
    version: int,
    rules: list[AclRule],
    principal: Principal = ALICE,
    client_id: str = "test",
) -> set[int]:
    """The codes of refusals in the response."""
    authorizer = run.broker.authorizer
    assert authorizer is not None
    authorizer.decisions.load(rules)
    connection = connection_of(run)
    if run.broker.topics.get("orders") is None:  # the request before has deleted it
        connection.principal = ADMIN
        await run.create("orders")
    connection.principal = principal
    topic = run.broker.topics.get("orders")
    request = SAMPLES[key].make(version, topic.id if topic is not None else NO_TOPIC_ID)
    request = type(request).decode(bytearray(request.encode(version)), version)
    handle = reached if key in BETWEEN_BROKERS else handler(HANDLERS[key]).handle
    try:
        answer = authorized(key, handle)(run.broker, request, Call(version, connection, client_id))
        if not isinstance(answer, ProtocolMessage):
            answer = await settled(answer) if hasattr(answer, "then") else await answer
            answer = await settled(answer)
    except Reached:
        return set()
    if not APIS[key].response.has_records:
        answer.encode(version)
    return set(codes(answer)) & DENIALS


def test_every_api_has_a_check_and_a_sample() -> None:
    assert set(HANDLERS) <= set(CHECKS), "add a row to broker/authorization/table.py"
    assert set(HANDLERS) == set(SAMPLES), "add a request to samples.py"


def versions(key: int) -> range:
    top = 3 if key == 24 else APIS[key].max_version  # later ones come from brokers
    return range(APIS[key].min_version, top + 1)


async def test_without_a_rule_it_is_denied_in_every_version(run: Running) -> None:
    for key, sample in SAMPLES.items():
        for version in versions(key):
            found = await ask(run, key, version, [])
            assert found == ({sample.denied} if sample.denied else set()), (key, version)


async def test_a_check_that_is_left_out_would_be_noticed(
    run: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the tests here ask would come through."""
    for key, sample in SAMPLES.items():
        if sample.denied:
            monkeypatch.setitem(CHECKS, key, needs_nothing)
            assert await ask(run, key, versions(key)[-1], []) == set(), key


async def test_a_client_id_of_a_broker_gives_no_right(run: Running) -> None:
    for key, sample in SAMPLES.items():
        found = await ask(run, key, versions(key)[-1], [], client_id="broker://1")
        assert found == ({sample.denied} if sample.denied else set()), key


async def test_a_super_user_may(run: Running) -> None:
    for key, sample in SAMPLES.items():
        denied = [rule(right, Permission.DENY) for need in sample.needs for right in need]
        assert await ask(run, key, versions(key)[-1], denied, ADMIN) == set(), key


async def test_exactly_the_rights_that_it_needs_are_enough(run: Running) -> None:
    for key, sample in SAMPLES.items():
        for version in versions(key):
            for need in sample.needs:
                rules = [rule(right) for right in need]
                assert await ask(run, key, version, rules) == set(), (key, version, need)


GROUP_ERROR_ALONE = (91, 92)  # the sample's group is not empty: as in Kafka, topics are not named


async def test_less_than_it_needs_is_denied(run: Running) -> None:
    for key, sample in SAMPLES.items():
        if sample.denied:
            await _less_than_it_needs_is_denied(run, key)


async def _less_than_it_needs_is_denied(run: Running, key: int) -> None:
    version = versions(key)[-1]
    for need in SAMPLES[key].needs:
        rules = [rule(right) for right in need]
        for number, left_out in enumerate(rules):
            others = rules[:number] + rules[number + 1 :]
            if key in GROUP_ERROR_ALONE and left_out.resource.name == "orders":
                continue
            assert await ask(run, key, version, others), f"without {left_out}"
            elsewhere = left_out._replace(resource=left_out.resource._replace(name="other"))
            if key != 22:  # writing to any topic is enough
                assert await ask(run, key, version, [*others, elsewhere])
            bob = left_out._replace(principal="User:bob")
            assert await ask(run, key, version, [*others, bob])
            away = left_out._replace(host="198.51.100.1")
            assert await ask(run, key, version, [*others, away])
            deny = left_out._replace(permission=Permission.DENY)
            if need != SAMPLES[key].needs[0]:  # it may only imply what is needed
                continue
            assert await ask(run, key, version, [*rules, deny])
            assert await ask(run, key, version, [*rules, prefixed(deny)])


async def test_prefixed_and_wildcard_rules_allow_it(run: Running) -> None:
    for key, sample in SAMPLES.items():
        version, need = versions(key)[-1], sample.needs[0]
        rules = [rule(right) for right in need]
        assert await ask(run, key, version, [prefixed(each) for each in rules]) == set(), key
        everyone = [
            each._replace(principal="User:*", resource=each.resource._replace(name="*"))
            for each in rules
        ]
        assert await ask(run, key, version, everyone) == set(), key


async def test_rules_that_are_not_loaded_close_the_connection(run: Running) -> None:
    authorizer = run.broker.authorizer
    assert authorizer is not None
    authorizer.decisions.unload()
    connection_of(run).principal = ALICE
    for key, sample in SAMPLES.items():
        version = versions(key)[-1]
        call = Call(version, connection_of(run), "test")
        with pytest.raises(KafkaError, match="does not know the access rules"):
            authorized(key, reached)(run.broker, sample.make(version, NO_TOPIC_ID), call)


async def test_who_names_a_dead_letter_topic_must_have_the_right_to_write_to_it(
    run: Running,
) -> None:
    """The brokers write there, for every user who may configure the group."""
    config = incremental_alter_configs.AlterableConfig(
        name="errors.deadletterqueue.topic.name", config_operation=0, value="orders"
    )
    resource = incremental_alter_configs.AlterConfigsResource(
        resource_type=32, resource_name="g", configs=[config]
    )
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=[resource], validate_only=True
    )
    authorizer = run.broker.authorizer
    assert authorizer is not None
    alter = rule("GROUP ALTER_CONFIGS g")
    for rules, denied in (([alter], {T}), ([alter, rule("TOPIC WRITE orders")], set())):
        authorizer.decisions.load(rules)
        connection_of(run).principal = ALICE
        response = await run.ask(request, incremental_alter_configs.IncrementalAlterConfigsResponse)
        assert set(codes(response)) & DENIALS == denied
