"""Quotas in force: the reply leaves at once and says how long to wait; then nothing is read.

No test waits for the time itself: a client that has to wait is set free when its quota is removed.
"""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from barnabas.broker.metrics import page
from barnabas.broker.security import quotas as quotas_module
from barnabas.keeper.memory import MemoryKeeper
from barnabas.model.errors import Code
from barnabas.security.quotas.quota_limits import KIND_NAMES, QuotaKind
from barnabas.wire.apis import APIS
from barnabas.wire.frames import request_frame
from barnabas.wire.messages import alter_client_quotas as altering
from barnabas.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from barnabas.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from barnabas.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from barnabas.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from barnabas.wire.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from barnabas.wire.records import Record, encode_batch
from tests.broker.handlers.test_client_quotas import alter, entry, set_quota
from tests.broker.running import Running, Wire, creatable, running_broker
from tests.broker.security.logging_in import PASSWORD, keeper_with, log_in
from tests.broker.security.logging_in import SETTINGS as LOGIN
from tests.waiting import eventually

USER = {"user": "ANONYMOUS"}
CLIENT: dict[str, str | None] = {"client-id": "test"}


@pytest.fixture
async def run(tmp_path: Path) -> AsyncIterator[Running]:
    async with running_broker(tmp_path) as running:
        await running.create("t")
        yield running


def produce_request(size: int, acks: int = 1) -> ProduceRequest:
    records = memoryview(encode_batch([Record(0, 1, b"key", b"v" * size, ())]))
    data = PartitionProduceData(index=0, records=records)
    topic = TopicProduceData(name="t", partition_data=[data])
    return ProduceRequest(transactional_id=None, acks=acks, timeout_ms=1000, topic_data=[topic])


async def produce(run: Running, size: int, wire: Wire | None = None) -> int:
    """For how long the client is told to wait."""
    response = await run.ask(produce_request(size), ProduceResponse, 12, wire)
    assert not response.responses[0].partition_responses[0].error_code
    return response.throttle_time_ms


def is_read(wire: Wire) -> bool:
    return wire._readable is not None


def ask_as(wire: Wire, client_id: str, request: Any, version: int) -> None:
    wire.put(request_frame(type(request).api_key, version, 4711, client_id, request))


async def end_quotas(run: Running) -> None:
    """As if another client did."""

    def without(settings: Mapping[str, str]) -> dict[str, str]:
        return {key: value for key, value in settings.items() if key not in KIND_NAMES}

    for kind, name in list(run.broker.catalog.entities):
        await run.broker.catalog.configure_entity(kind, name, without)
    assert run.broker.quotas is None


def log_lines(run: Running, event: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in run.log.getvalue().splitlines()]
    return [line for line in lines if line.get("event") == event]


# Produce


async def test_a_producer_over_its_quota_is_answered_at_once_and_then_not_read(
    run: Running,
) -> None:
    await set_quota(run, CLIENT, producer_byte_rate=1000.0)
    assert await produce(run, 5_000) == 0
    wait_ms = await produce(run, 15_000)
    assert 5_000 < wait_ms < 20_000
    assert not is_read(run.wire)
    run.send(ApiVersionsRequest(), 0)
    await asyncio.sleep(0)
    assert run.wire._to_broker, "nothing is taken from a client that must wait"
    await end_quotas(run)
    await run.receive(ApiVersionsRequest(), ApiVersionsResponse, 0)
    assert is_read(run.wire)
    assert await produce(run, 50_000) == 0


async def test_requests_behind_one_that_is_over_the_quota_wait(run: Running) -> None:
    """They arrived in one read: they are kept, and handled when the time is over."""
    await set_quota(run, CLIENT, producer_byte_rate=10.0)
    for _ in range(3):
        run.send(produce_request(1_000), 12)
    response = await run.receive(produce_request(1), ProduceResponse, 12)
    assert response.throttle_time_ms
    assert run.broker.dispatcher.requests[0] == [1]
    await end_quotas(run)
    for _ in range(2):
        response = await run.receive(produce_request(1), ProduceResponse, 12)
        assert response.throttle_time_ms == 0


async def test_a_producer_without_replies_waits_too(run: Running) -> None:
    await set_quota(run, CLIENT, producer_byte_rate=1000.0)
    run.send(produce_request(20_000, acks=0), 12)
    await eventually(lambda: run.broker.quotas is not None and run.broker.quotas.muted == 1)
    assert not is_read(run.wire)


async def test_other_clients_do_not_wait(run: Running) -> None:
    await set_quota(run, {"client-id": None}, producer_byte_rate=1000.0)
    assert await produce(run, 20_000)
    other = run.connect()
    ask_as(other, "other", produce_request(5_000), 12)
    response = await run.receive(produce_request(1), ProduceResponse, 12, other)
    assert response.throttle_time_ms == 0
    assert is_read(other)


async def test_all_connections_of_a_client_share_its_quota(run: Running) -> None:
    await set_quota(run, CLIENT, producer_byte_rate=1000.0)
    wires = [run.connect() for _ in range(5)]
    waits = [await produce(run, 4_000, wire) for wire in wires]
    assert waits[:2] == [0, 0]
    assert all(wait > 0 for wait in waits[2:])


async def test_a_more_specific_quota_is_in_force_at_once(run: Running) -> None:
    await set_quota(run, CLIENT, producer_byte_rate=1000.0)
    await set_quota(run, {**USER, **CLIENT}, producer_byte_rate=1e9)
    assert await produce(run, 50_000) == 0
    await set_quota(run, {**USER, **CLIENT}, producer_byte_rate=None)
    assert await produce(run, 50_000)


async def test_a_closed_connection_does_not_stay_in_memory_until_its_time_is_over(
    run: Running,
) -> None:
    await set_quota(run, CLIENT, producer_byte_rate=1.0)
    for _ in range(10):
        wire = run.connect()
        assert await produce(run, 1_000, wire)
        connection = next(each for each in run.broker.connections if each._stream is wire)
        assert run.broker.quotas is not None
        (timer,) = run.broker.quotas._muted[connection]
        connection.close("gone")
        assert timer.cancelled()
        assert run.broker.quotas.muted == 0


async def test_what_is_remembered_of_clients_is_bounded(
    run: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quotas_module, "REMEMBERED_MAX", 20)
    monkeypatch.setattr(quotas_module, "LOOKED_UP_MAX", 20)
    await set_quota(run, {"client-id": None}, producer_byte_rate=1e9)
    for number in range(100):
        ask_as(run.wire, f"client {number}", produce_request(10), 12)
        await run.receive(produce_request(1), ProduceResponse, 12)
    quotas = run.broker.quotas
    assert quotas is not None
    assert len(quotas._usage) <= 20
    assert len(quotas._found) <= 20


# Fetch


def fetch_request(offset: int = 0, session: int = 0, epoch: int = -1, **fields: Any) -> Any:
    part = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    topics = [FetchTopic(topic="t", partitions=[part])] if epoch <= 0 else []
    return FetchRequest(
        max_wait_ms=0, min_bytes=0, session_id=session, session_epoch=epoch, topics=topics, **fields
    )


def fetched(response: FetchResponse) -> int:
    parts: list[Any] = [part for topic in response.responses for part in topic.partitions]
    return sum(len(part.records) for part in parts)


async def test_a_consumer_over_its_quota_gets_no_records_and_waits(run: Running) -> None:
    for _ in range(4):
        await produce(run, 4_000)
    await set_quota(run, CLIENT, consumer_byte_rate=1000.0)
    limit = {"max_bytes": 8_500}
    first = await run.ask(fetch_request(**limit), FetchResponse, 12)
    assert first.throttle_time_ms == 0
    assert 8_000 < fetched(first) < 9_000
    second = await run.ask(fetch_request(2, **limit), FetchResponse, 12)
    assert second.throttle_time_ms > 0
    assert second.responses == []
    assert not is_read(run.wire)
    usage = run.broker.quotas and run.broker.quotas.usage(QuotaKind.FETCH, "ANONYMOUS", "test")
    assert usage
    assert usage.rate.total(run.broker.clock.monotonic_ms()) == fetched(first), "not sent, not used"
    await end_quotas(run)
    third = await run.ask(fetch_request(2, **limit), FetchResponse, 12)
    assert fetched(third) > 8_000


async def test_no_reply_is_larger_than_what_may_be_fetched_in_all_windows(run: Running) -> None:
    for _ in range(4):
        await produce(run, 4_000)
    await set_quota(run, CLIENT, consumer_byte_rate=900.0)
    response = await run.ask(fetch_request(), FetchResponse, 12)
    assert response.throttle_time_ms == 0
    assert 8_000 < fetched(response) < 9_000


async def test_a_batch_larger_than_all_windows_is_sent_all_the_same(run: Running) -> None:
    """Apache Kafka never sends it."""
    await produce(run, 50_000)
    await set_quota(run, CLIENT, consumer_byte_rate=100.0)
    response = await run.ask(fetch_request(), FetchResponse, 12)
    assert fetched(response) > 50_000
    assert response.throttle_time_ms > 100_000


async def test_a_session_goes_on_after_a_reply_without_records(run: Running) -> None:
    for _ in range(6):
        await produce(run, 4_000)
    await set_quota(run, CLIENT, consumer_byte_rate=1000.0)
    opened = await run.ask(fetch_request(epoch=0, max_bytes=8_500), FetchResponse, 12)
    assert opened.session_id
    held = await run.ask(
        fetch_request(2, opened.session_id, epoch=1, max_bytes=8_500), FetchResponse, 12
    )
    assert held.throttle_time_ms
    assert (held.session_id, held.error_code, held.responses) == (opened.session_id, 0, [])
    await end_quotas(run)
    going_on = await run.ask(
        fetch_request(2, opened.session_id, epoch=2, max_bytes=8_500), FetchResponse, 12
    )
    assert going_on.error_code == 0
    assert fetched(going_on)


async def test_a_session_that_cannot_begin_with_all_partitions_does_not_begin(
    run: Running,
) -> None:
    for _ in range(4):
        await produce(run, 4_000)
    await set_quota(run, CLIENT, consumer_byte_rate=1000.0)
    await run.ask(fetch_request(max_bytes=8_500), FetchResponse, 12)
    sessions = len(run.broker.fetch_sessions)
    held = await run.ask(fetch_request(2, epoch=0, max_bytes=8_500), FetchResponse, 12)
    assert held.throttle_time_ms
    assert held.session_id == 0
    assert len(run.broker.fetch_sessions) == sessions


async def test_a_long_poll_is_answered_within_the_quota(run: Running) -> None:
    await produce(run, 4_000)
    await produce(run, 4_000)
    await set_quota(run, CLIENT, consumer_byte_rate=1000.0)
    await run.ask(fetch_request(), FetchResponse, 12)
    poll = FetchRequest(
        max_wait_ms=60_000, min_bytes=1, session_epoch=-1, topics=fetch_request(2).topics
    )
    run.send(poll, 12)
    await asyncio.sleep(0)
    other = run.connect()
    ask_as(other, "other", produce_request(5_000), 12)
    await run.receive(produce_request(1), ProduceResponse, 12, other)
    answer = await run.receive(poll, FetchResponse, 12)
    assert answer.throttle_time_ms
    assert answer.responses == []


# Time of requests


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (ApiVersionsRequest(), ApiVersionsResponse),
        (MetadataRequest(topics=None), MetadataResponse),
        (ListGroupsRequest(), ListGroupsResponse),  # its handler awaits
    ],
    ids=["at once", "metadata", "awaited"],
)
async def test_requests_over_their_time_wait_for_one_window_at_most(
    run: Running, request_: Any, expected: Any
) -> None:
    await set_quota(run, CLIENT, request_percentage=1e-9)
    version = APIS[type(request_).api_key].max_version
    response = await run.ask(request_, expected, version)
    assert response.throttle_time_ms == 1000
    assert not is_read(run.wire)


async def test_the_oldest_versions_have_no_field_for_it_and_wait_all_the_same(
    run: Running,
) -> None:
    await set_quota(run, CLIENT, request_percentage=1e-9)
    await run.ask(ApiVersionsRequest(), ApiVersionsResponse, 0)
    assert not is_read(run.wire)


# Partitions created and deleted


async def create(run: Running, version: int, *names: str) -> tuple[list[int], int]:
    request = CreateTopicsRequest(topics=[creatable(name, 6) for name in names], timeout_ms=10_000)
    response = await run.ask(request, CreateTopicsResponse, version, run.connect())
    by_name = {each.name: each.error_code for each in response.topics}
    return [by_name[name] for name in names], response.throttle_time_ms


async def test_partitions_over_the_quota_are_refused(run: Running) -> None:
    await set_quota(run, CLIENT, controller_mutation_rate=1.0)
    codes, wait_ms = await create(run, 7, "a", "b", "c")  # 6 + 6 of 11; the third waits
    assert codes == [0, 0, Code.THROTTLING_QUOTA_EXCEEDED]
    assert 0 < wait_ms <= 1000
    codes, wait_ms = await create(run, 7, "t")  # it exists: that costs nothing
    assert (codes, wait_ms) == ([Code.TOPIC_ALREADY_EXISTS], 0)
    delete = DeleteTopicsRequest(topic_names=["a", "missing"], timeout_ms=10_000)
    deleted = await run.ask(delete, DeleteTopicsResponse, 5, run.connect())
    assert {each.name: each.error_code for each in deleted.responses} == {
        "a": Code.THROTTLING_QUOTA_EXCEEDED,
        "missing": Code.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert deleted.throttle_time_ms
    grow = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name="b", count=20, assignments=None)],
        timeout_ms=10_000,
        validate_only=False,
    )
    grown = await run.ask(grow, CreatePartitionsResponse, 3, run.connect())
    assert [each.error_code for each in grown.results] == [Code.THROTTLING_QUOTA_EXCEEDED]
    await end_quotas(run)
    assert (await create(run, 7, "c"))[0] == [0]


async def test_older_versions_are_not_refused_but_wait(run: Running) -> None:
    await set_quota(run, CLIENT, controller_mutation_rate=1.0)
    codes, wait_ms = await create(run, 5, "a", "b", "c")
    assert codes == [0, 0, 0]
    assert 6_000 < wait_ms <= 7_000


# With logins and access rules


async def test_a_user_that_has_logged_in_cannot_avoid_its_quota(tmp_path: Path) -> None:
    """Not by another client id, nor by another connection; and its password stays."""
    keeper = keeper_with({"alice": PASSWORD, "bob": PASSWORD})
    async with running_broker(tmp_path, LOGIN, keeper) as run:
        alice, again, bob = run.connect(), run.connect(), run.connect()
        await log_in(run, bob, user="bob")
        request = CreateTopicsRequest(topics=[creatable("t")])
        await run.ask(request, CreateTopicsResponse, wire=bob)
        change = altering.AlterClientQuotasRequest(
            entries=[entry({"user": "alice"}, {"producer_byte_rate": 100.0})], validate_only=False
        )
        await run.ask(change, altering.AlterClientQuotasResponse, wire=bob)
        for number, wire in enumerate((alice, again)):
            await log_in(run, wire)
            ask_as(wire, f"client {number}", produce_request(5_000), 12)
            response = await run.receive(produce_request(1), ProduceResponse, 12, wire)
            assert response.throttle_time_ms
        assert await produce(run, 5_000, bob) == 0


async def test_what_is_denied_does_not_use_a_quota(tmp_path: Path) -> None:
    rules = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:bob",
    }
    keeper = keeper_with({"alice": PASSWORD, "bob": PASSWORD})
    async with running_broker(tmp_path, {**LOGIN, **rules}, keeper) as run:
        alice, bob = run.connect(), run.connect()
        await log_in(run, alice)
        await log_in(run, bob, user="bob")
        change = altering.AlterClientQuotasRequest(
            entries=[entry(CLIENT, {"controller_mutation_rate": 1.0})], validate_only=False
        )
        refused = await run.ask(change, altering.AlterClientQuotasResponse, wire=alice)
        assert refused.entries[0].error_code == Code.CLUSTER_AUTHORIZATION_FAILED
        await run.ask(change, altering.AlterClientQuotasResponse, wire=bob)
        many = CreateTopicsRequest(topics=[creatable(f"a{each}", 100) for each in range(5)])
        denied = await run.ask(many, CreateTopicsResponse, wire=alice)
        assert {each.error_code for each in denied.topics} == {Code.TOPIC_AUTHORIZATION_FAILED}
        assert denied.throttle_time_ms == 0
        two = CreateTopicsRequest(topics=[creatable("a", 12), creatable("b")])
        created = await run.ask(two, CreateTopicsResponse, wire=bob)
        codes = [each.error_code for each in created.topics]
        assert codes == [0, Code.THROTTLING_QUOTA_EXCEEDED]


# What people see


async def test_a_throttled_client_is_logged_once_a_minute_with_what_to_change(
    run: Running,
) -> None:
    await set_quota(run, CLIENT, producer_byte_rate=10.0)
    for _ in range(5):
        await produce(run, 1_000, run.connect())
    (line,) = log_lines(run, "client throttled")
    assert line["principal"] == "User:ANONYMOUS"
    assert line["client"] == "test"
    assert line["quota"] == "producer_byte_rate"
    assert line["of"] == "client-id test"
    assert line["wait_ms"] > 0
    assert line["change_with"] == "barnabas quota set --client-id test producer_byte_rate=NUMBER"
    await end_quotas(run)
    assert log_lines(run, "client throttled")[-1]["repeated"] == 4


async def test_the_metrics_count_throttled_requests(run: Running) -> None:
    assert b"throttled" not in await page(run.broker)
    await set_quota(run, CLIENT, producer_byte_rate=10.0)
    await produce(run, 1_000)
    text = (await page(run.broker)).decode()
    assert 'barnabas_throttled_requests_total{quota="producer_byte_rate"} 1.0' in text
    assert 'barnabas_throttled_requests_total{quota="consumer_byte_rate"} 0.0' in text
    assert "barnabas_throttled_connections 1.0" in text


async def test_a_quota_that_cannot_be_read_is_logged_and_limits_nobody(tmp_path: Path) -> None:
    keeper = MemoryKeeper()
    async with running_broker(tmp_path, keeper=keeper) as run:
        await set_quota(run, CLIENT, producer_byte_rate=10.0)
    keeper.set(
        "/config/clients/test",
        b'{"version":1,"config":{"producer_byte_rate":"x","consumer_byte_rate":"5"}}',
    )
    async with running_broker(tmp_path, keeper=keeper) as run:
        (line,) = log_lines(run, "quota cannot be read: set or delete it")
        assert line["entity"] == "client-id test"
        assert run.broker.quotas is not None
        assert run.broker.quotas.usage(QuotaKind.PRODUCE, "u", "test") is None
        assert run.broker.quotas.usage(QuotaKind.FETCH, "u", "test") is not None


# Without quotas


async def test_without_quotas_handlers_are_not_wrapped(run: Running) -> None:
    await produce(run, 10)
    plain = dict(run.broker.dispatcher._routes)
    await set_quota(run, CLIENT, producer_byte_rate=1e9)
    await produce(run, 10)
    assert run.broker.dispatcher._routes[0, 12] != plain[0, 12]
    await end_quotas(run)
    await produce(run, 10)
    assert run.broker.dispatcher._routes[0, 12].decode == plain[0, 12].decode
    assert run.broker.dispatcher._routes[0, 12].handle == plain[0, 12].handle


async def test_users_with_passwords_and_no_quota_do_not_turn_quotas_on(run: Running) -> None:
    await alter(run, entry({"user": "alice"}, {}))
    await run.broker.catalog.configure_entity("users", "alice", lambda _: {"SCRAM-SHA-256": "s"})
    assert run.broker.quotas is None


def test_a_broker_without_quotas_imports_none_of_their_code(tmp_path: Path) -> None:
    program = """
import os, signal, sys
from barnabas.broker import main

def ready(host, port):
    print([name for name in sys.modules if "quotas" in name or "limited" in name], flush=True)
    os.kill(os.getpid(), signal.SIGTERM)

sys.exit(main.run({"listeners": "PLAINTEXT://127.0.0.1:0"}, [sys.argv[1]], ready))
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "barnabas.security.quotas" not in done.stdout
    assert "barnabas.broker.security" not in done.stdout
