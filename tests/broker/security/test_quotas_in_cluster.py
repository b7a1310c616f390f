"""Quotas on several brokers: in force everywhere at once, and never for brokers."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.model.errors import Code
from barnabas.security.quotas.quota_limits import QuotaKind
from barnabas.wire.messages import alter_client_quotas as altering
from barnabas.wire.messages import describe_client_quotas as describing
from barnabas.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from barnabas.wire.records import Record, encode_batch
from tests.broker.clustered import Clustered, cluster_of
from tests.broker.handlers.test_client_quotas import entry
from tests.broker.running import creatable
from tests.waiting import eventually


@pytest.fixture
async def three(tmp_path: Path) -> AsyncIterator[Clustered]:
    async with cluster_of(tmp_path, 3) as clustered:
        yield clustered


async def set_quota(
    three: Clustered, at: int, entity: dict[str, str | None], **limits: float | None
) -> None:
    request = altering.AlterClientQuotasRequest(
        entries=[entry(entity, limits)], validate_only=False
    )
    response = await three.ask(at, request, altering.AlterClientQuotasResponse)
    assert [each.error_code for each in response.entries] == [0], response


async def described(three: Clustered, at: int) -> list[Any]:
    request = describing.DescribeClientQuotasRequest(components=[], strict=False)
    response = await three.ask(at, request, describing.DescribeClientQuotasResponse)
    return [(entry.entity, entry.values) for entry in response.entries or ()]


def limit(three: Clustered, at: int) -> float | None:
    quotas = three.brokers[at].quotas
    usage = quotas and quotas.usage(QuotaKind.PRODUCE, "ANONYMOUS", "test")
    return usage.limit.value if usage else None


async def test_a_quota_is_in_force_on_every_broker_when_it_is_answered(three: Clustered) -> None:
    for at, value in ((1, 1000.0), (2, 2000.0), (3, 3000.0)):
        await set_quota(
            three, at, {"user": "ANONYMOUS", "client-id": "test"}, producer_byte_rate=value
        )
        assert [limit(three, each) for each in three.brokers] == [value] * 3
        assert len({str(await described(three, each)) for each in three.brokers}) == 1
    await set_quota(three, 1, {"user": "ANONYMOUS", "client-id": "test"}, producer_byte_rate=None)
    assert [broker.quotas for broker in three.brokers.values()] == [None] * 3


async def test_a_broker_that_starts_later_and_one_with_another_session_have_the_quotas(
    three: Clustered,
) -> None:
    await three.stop(3)
    await set_quota(three, 1, {"user": None, "client-id": None}, producer_byte_rate=7.0)
    await three.start(3)
    assert limit(three, 3) == 7.0
    three.expire(2)
    await set_quota(three, 1, {"user": None, "client-id": None}, producer_byte_rate=8.0)
    await eventually(lambda: limit(three, 2) == 8.0)


async def test_followers_are_not_throttled(three: Clustered) -> None:
    """Nor are they counted: with defaults for everybody, all replicas stay in sync."""
    await three.create("t", replicas=3)
    leader = three.leader("t")
    await set_quota(three, 1, {"client-id": None}, consumer_byte_rate=1.0, request_percentage=1e-6)
    await set_quota(three, 1, {"user": None}, consumer_byte_rate=1.0)
    records = memoryview(encode_batch([Record(0, 1, b"", b"v" * 100_000, ())]))
    request = ProduceRequest(
        transactional_id=None, acks=-1, timeout_ms=20_000,
        topic_data=[TopicProduceData(
            name="t", partition_data=[PartitionProduceData(index=0, records=records)])],
    )  # fmt: skip
    for _ in range(3):
        response = await three.ask(leader, request, ProduceResponse, 12)
        assert not response.responses[0].partition_responses[0].error_code
    assert [three.partition(each, "t").log.end_offset for each in three.brokers] == [3] * 3
    quotas = three.brokers[leader].quotas
    assert quotas is not None
    assert quotas.log.times[QuotaKind.FETCH] == 0
    assert not [entity for kind, entity in quotas._usage if "broker" in str(entity)]


async def test_topics_are_counted_where_the_client_is_connected(three: Clustered) -> None:
    controller = three.controller()
    assert controller is not None
    other = next(each for each in three.brokers if each != controller)
    await set_quota(three, controller, {"client-id": None}, controller_mutation_rate=1.0)
    request = CreateTopicsRequest(
        topics=[creatable(name, 12, 1) for name in ("a", "b")], timeout_ms=20_000
    )
    response = await three.ask(other, request, CreateTopicsResponse)
    assert [(each.name, each.error_code) for each in response.topics] == [
        ("a", 0),
        ("b", Code.THROTTLING_QUOTA_EXCEEDED),
    ]
    assert response.throttle_time_ms
    quotas = three.brokers[controller].quotas
    assert quotas is not None
    assert quotas.log.times[QuotaKind.MUTATION] == 0
    assert not [key for key in quotas._usage if key[0] is QuotaKind.MUTATION], "counted twice"
