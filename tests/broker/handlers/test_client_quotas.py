"""AlterClientQuotas and DescribeClientQuotas: codes as Kafka's, and nodes as Kafka had them."""

import json
from pathlib import Path

import pytest

from barnabas.keeper.memory import MemoryKeeper
from barnabas.model.errors import Code
from barnabas.wire.messages import alter_client_quotas as altering
from barnabas.wire.messages import describe_client_quotas as describing
from tests.broker.running import Running, running_broker

Entity = dict[str, str | None]
Limits = dict[str, float | None]


def entry(entity: Entity, limits: Limits) -> altering.EntryData:
    """None removes."""
    return altering.EntryData(
        entity=[
            altering.EntityData(entity_type=type_, entity_name=name)
            for type_, name in entity.items()
        ],
        ops=[
            altering.OpData(key=key, value=value or 0.0, remove=value is None)
            for key, value in limits.items()
        ],
    )


async def alter(
    run: Running, *entries: altering.EntryData, validate_only: bool = False, version: int = 1
) -> list[altering.EntryResult]:
    request = altering.AlterClientQuotasRequest(entries=list(entries), validate_only=validate_only)
    return (await run.ask(request, altering.AlterClientQuotasResponse, version)).entries


async def set_quota(run: Running, entity: Entity, **limits: float | None) -> None:
    (result,) = await alter(run, entry(entity, limits))
    assert not result.error_code, result.error_message


async def describe(
    run: Running, *components: tuple[str, int, str | None], strict: bool = False, version: int = 1
) -> list[tuple[Entity, dict[str, float]]]:
    request = describing.DescribeClientQuotasRequest(
        components=[
            describing.ComponentData(entity_type=type_, match_type=match_type, match=match)
            for type_, match_type, match in components
        ],
        strict=strict,
    )
    response = await run.ask(request, describing.DescribeClientQuotasResponse, version)
    assert not response.error_code, response.error_message
    assert response.entries is not None
    return [
        (
            {each.entity_type: each.entity_name for each in found.entity},
            {each.key: each.value for each in found.values},
        )
        for found in response.entries
    ]


@pytest.mark.parametrize("version", [0, 1])
async def test_what_is_set_is_described(tmp_path: Path, version: int) -> None:
    async with running_broker(tmp_path) as run:
        entities: list[Entity] = [
            {"user": "alice"},
            {"user": None},
            {"user": "alice", "client-id": "app"},
            {"user": "a/b c*=,%", "client-id": None},
            {"client-id": "app"},
            {"client-id": None},
        ]
        for number, entity in enumerate(entities):
            limits: Limits = {"producer_byte_rate": number + 1.0, "request_percentage": 12.5}
            (result,) = await alter(run, entry(entity, limits), version=version)
            assert not result.error_code, result.error_message
        await alter(run, entry({"ip": "10.0.0.1"}, {"connection_creation_rate": 7.0}))
        found = await describe(run, version=version)
        assert len(found) == len(entities) + 1
        for number, entity in enumerate(entities):
            limits = {"producer_byte_rate": number + 1.0, "request_percentage": 12.5}
            assert (entity, limits) in found
        assert await describe(run, ("ip", 2, None), version=version) == [
            ({"ip": "10.0.0.1"}, {"connection_creation_rate": 7.0})
        ]


async def test_quotas_are_stored_where_kafka_stored_them(tmp_path: Path) -> None:
    keeper = MemoryKeeper()
    async with running_broker(tmp_path, keeper=keeper) as run:
        await set_quota(run, {"user": "al ice", "client-id": None}, producer_byte_rate=1024.0)
        await set_quota(run, {"client-id": "app"}, request_percentage=200.0)
        await set_quota(run, {"ip": None}, connection_creation_rate=5.0)
    for path, settings in {
        "/config/users/al%20ice/clients/<default>": {"producer_byte_rate": "1024"},
        "/config/clients/app": {"request_percentage": "200.0"},
        "/config/ips/<default>": {"connection_creation_rate": "5"},
    }.items():
        assert json.loads(keeper.get(path).data) == {"version": 1, "config": settings}


async def test_quotas_survive_a_restart(tmp_path: Path) -> None:
    keeper = MemoryKeeper()
    async with running_broker(tmp_path, keeper=keeper) as run:
        await set_quota(run, {"user": "alice", "client-id": "app"}, consumer_byte_rate=5.0)
        await set_quota(run, {"user": None}, consumer_byte_rate=6.0)
        before = await describe(run)
    async with running_broker(tmp_path, keeper=keeper) as run:
        after = await describe(run)
        assert sorted(map(str, after)) == sorted(map(str, before))
        assert len(before) == 2


async def test_a_removed_limit_is_gone_and_the_others_stay(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as run:
        await set_quota(run, {"user": "alice"}, producer_byte_rate=1.0, consumer_byte_rate=2.0)
        await set_quota(run, {"user": "alice"}, producer_byte_rate=None)
        assert await describe(run) == [({"user": "alice"}, {"consumer_byte_rate": 2.0})]
        await set_quota(run, {"user": "alice"}, consumer_byte_rate=None, request_percentage=None)
        assert await describe(run) == []


async def test_a_refused_entity_does_not_keep_others_from_being_changed(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as run:
        results = await alter(
            run,
            entry({"user": "alice"}, {"producer_byte_rate": 1.0}),
            entry({"user": ""}, {"producer_byte_rate": 1.0}),
            entry({"user": "bob"}, {"producer_byte_rate": -1.0}),
            entry({"user": "carol"}, {"consumer_byte_rate": 1.0, "no_such_rate": 1.0}),
            entry({"ip": "10.0.0.1", "user": "x"}, {"connection_creation_rate": 1.0}),
            entry({}, {}),
        )
        codes = {
            tuple((each.entity_type, each.entity_name) for each in result.entity): result.error_code
            for result in results
        }
        assert codes.pop((("user", "alice"),)) == 0
        assert len(codes) == 5
        assert set(codes.values()) == {Code.INVALID_REQUEST}
        assert await describe(run) == [({"user": "alice"}, {"producer_byte_rate": 1.0})]


async def test_an_entity_or_a_key_that_appears_twice_is_refused(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as run:
        one = entry({"user": "alice", "client-id": "app"}, {"producer_byte_rate": 1.0})
        other = entry({"client-id": "app", "user": "alice"}, {"producer_byte_rate": 2.0})
        (result,) = await alter(run, one, other)
        assert result.error_code == Code.INVALID_REQUEST
        twice = altering.EntryData(entity=one.entity, ops=one.ops * 2)
        (result,) = await alter(run, twice)
        assert result.error_code == Code.INVALID_REQUEST
        assert await describe(run) == []


async def test_validation_changes_nothing(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as run:
        good = entry({"user": "alice"}, {"producer_byte_rate": 1.0})
        bad = entry({"user": "bob"}, {"producer_byte_rate": 0.0})
        results = await alter(run, good, bad, validate_only=True)
        assert sorted(result.error_code for result in results) == [0, Code.INVALID_REQUEST]
        assert await describe(run) == []


async def test_names_too_long_for_the_keeper_are_refused_by_name(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as run:
        (result,) = await alter(
            run, entry({"user": "/" * 300, "client-id": "/" * 300}, {"producer_byte_rate": 1.0})
        )
        assert result.error_code == Code.INVALID_REQUEST
        assert "too long for the keeper" in (result.error_message or "")


async def test_a_bad_filter_is_refused_without_entries(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as run:
        request = describing.DescribeClientQuotasRequest(
            components=[describing.ComponentData(entity_type="topic", match_type=0, match="x")],
            strict=False,
        )
        response = await run.ask(request, describing.DescribeClientQuotasResponse)
        assert response.error_code == Code.UNSUPPORTED_VERSION
        assert response.entries is None


async def test_a_request_for_very_many_entities_is_refused_as_a_whole(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as run:
        many = [
            entry({"user": str(number)}, {"producer_byte_rate": 1.0}) for number in range(10_001)
        ]
        results = await alter(run, *many)
        assert {result.error_code for result in results} == {Code.INVALID_REQUEST}
        assert await describe(run) == []
