"""ApiVersions: the first question of every client."""

from struct import pack

import pytest

from barnabas.broker.net.dispatch import BETWEEN_BROKERS, HANDLERS
from barnabas.model.errors import Code
from barnabas.wire.apis import APIS, PRIVATE_FROM
from barnabas.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tests.broker.running import Running


def named(name: str = "librdkafka", version: str = "2.15.0") -> ApiVersionsRequest:
    return ApiVersionsRequest(client_software_name=name, client_software_version=version)


@pytest.mark.parametrize("version", range(5))
async def test_every_version_lists_what_has_a_handler_and_nothing_else(
    running: Running, version: int
) -> None:
    response = await running.ask(named(), ApiVersionsResponse, version)
    assert response.error_code == 0
    assert [api.api_key for api in response.api_keys] == sorted(
        key for key in HANDLERS if key < PRIVATE_FROM and key not in BETWEEN_BROKERS
    )
    for api in response.api_keys:
        assert api.max_version == APIS[api.api_key].max_version


async def test_our_own_apis_are_listed_for_our_own_client_only(running: Running) -> None:
    """A client that sees a key it does not know may stumble over it."""
    own = await running.ask(named("barnabas"), ApiVersionsResponse, 3)
    assert [api.api_key for api in own.api_keys] == sorted(HANDLERS.keys() - BETWEEN_BROKERS)
    assert max(HANDLERS) >= PRIVATE_FROM
    for response in (
        await running.ask(named("barnabas-like"), ApiVersionsResponse, 4),
        await running.ask(named("barnabas"), ApiVersionsResponse, 0),  # which carries no name
    ):
        assert all(api.api_key < PRIVATE_FROM for api in response.api_keys)


async def test_produce_is_advertised_from_0_or_old_librdkafka_would_not_compress(
    running: Running,
) -> None:
    response = await running.ask(named(), ApiVersionsResponse, 0)
    (produce,) = (api for api in response.api_keys if api.api_key == 0)
    assert (produce.min_version, produce.max_version) == (0, 13)


async def test_a_version_from_the_future_is_answered_in_version_0(running: Running) -> None:
    """Header and body of version 0, error 35, and the versions to ask again with."""
    running.wire.put(pack(">ihhih", 10, 18, 99, 4711, -1))
    frame = await running.wire.take()
    assert frame == pack(">ihihhh", 4711, Code.UNSUPPORTED_VERSION, 1, 18, 0, 4)
    assert (await running.ask(named(), ApiVersionsResponse)).error_code == 0


@pytest.mark.parametrize("version", [3, 4])
async def test_every_feature_is_finalized_at_its_highest_level(
    running: Running, version: int
) -> None:
    response = await running.ask(named(), ApiVersionsResponse, version)
    finalized = {f.name: f.max_version_level for f in response.finalized_features}
    assert finalized == {
        "group.version": 1,
        "metadata.version": 30,
        "share.version": 1,
        "streams.version": 1,
        "transaction.version": 2,
    }
    assert response.finalized_features_epoch == 0


async def test_a_feature_that_begins_at_0_is_listed_for_clients_that_can_read_it(
    running: Running,
) -> None:
    old = await running.ask(named(), ApiVersionsResponse, 3)
    new = await running.ask(named(), ApiVersionsResponse, 4)
    assert [f.name for f in old.supported_features] == ["metadata.version"]
    assert [f.name for f in new.supported_features] == [
        "group.version",
        "metadata.version",
        "share.version",
        "streams.version",
        "transaction.version",
    ]


@pytest.mark.parametrize(
    ("name", "version"),
    [("", "1"), ("x", ""), ("-x", "1"), ("x", "1.0-"), ("ä", "1"), ("a b", "1"), ("x\n", "1")],
)
async def test_a_client_that_names_itself_badly_is_refused(
    running: Running, name: str, version: str
) -> None:
    response = await running.ask(named(name, version), ApiVersionsResponse, 3)
    assert response.error_code == Code.INVALID_REQUEST
    assert response.api_keys == []
    assert "client refused" in running.log.getvalue()


async def test_the_client_software_is_remembered_but_not_all_of_a_long_name(
    running: Running,
) -> None:
    (connection,) = running.broker.connections
    await running.ask(named("confluent-kafka-python", "2.6.0-rdkafka-2.6.0"), ApiVersionsResponse)
    assert connection.client == "confluent-kafka-python 2.6.0-rdkafka-2.6.0"
    await running.ask(named("a" * 30_000, "1"), ApiVersionsResponse)
    assert len(connection.client) < 300


async def test_before_version_3_a_client_has_no_name_to_check(running: Running) -> None:
    response = await running.ask(named("", ""), ApiVersionsResponse, 2)
    assert response.error_code == 0
