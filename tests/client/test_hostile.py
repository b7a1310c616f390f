"""Both drivers against brokers that lie: a typed error, in time, and memory within bounds."""

import asyncio
import re
import resource
import struct
import time
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

import barnabas
import barnabas.sync
from barnabas.model.errors import Code, Corrupt, InvalidRequest, KafkaError, Retriable
from barnabas.wire.messages.init_producer_id import InitProducerIdResponse
from barnabas.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from tests.client.impostor import INIT_PRODUCER_ID, METADATA, PRODUCE, Behave, Impostor, Request
from tests.waiting import WAIT_S

pytestmark = pytest.mark.slow

# Of those that wait for what never comes. The others are told of it at once, however busy the
# machine is.
QUICK: dict[str, Any] = {
    "request_timeout_ms": 200,
    "default_api_timeout_ms": 400,
    "socket_connection_setup_timeout_ms": 400,
}
LONG_S = WAIT_S  # far more than the timeouts allow, far less than for ever

# An error has its cause once a request has come to an end: on a busy machine that takes longer.
TRIED_MS = (1_500, 60_000)

Topics = Callable[..., object]


def topics_blocking(address: str, **options: Any) -> object:
    with barnabas.sync.Admin(bootstrap_servers=address, **options) as admin:
        return admin.topics()


def topics_awaited(address: str, **options: Any) -> object:
    async def ask() -> object:
        async with barnabas.Admin(bootstrap_servers=address, **options) as admin:
            return await admin.topics()

    return asyncio.run(ask())


@pytest.fixture(params=[topics_awaited, topics_blocking])
def topics(request: pytest.FixtureRequest) -> Topics:
    found: Topics = request.param
    return found


def silent(request: Request) -> None:
    pass


def hang_up(request: Request) -> None:
    raise OSError


def garbage(request: Request) -> None:
    request.raw(Random(1).randbytes(100_000))


def web_server(request: Request) -> None:
    request.raw(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def another_request(request: Request) -> None:
    request.raw(struct.pack(">ii", 104, request.correlation_id + 1) + bytes(100))


def cut_short(request: Request) -> None:
    request.body(b"\0\0\0\0\0")


def endless_array(request: Request) -> None:
    request.body(b"\0" + struct.pack(">i", 0) + b"\xff\xff\xff\xff\x07" + bytes(100))


def two_gigabytes(request: Request) -> None:
    request.raw(struct.pack(">i", 0x7FFF_FFFF))


def two_hundred_megabytes_that_never_come(request: Request) -> None:
    request.raw(struct.pack(">ii", 200_000_000, request.correlation_id) + bytes(1_000))


def a_drip(request: Request) -> None:
    request.raw(struct.pack(">ii", 100_000, request.correlation_id))
    for _ in range(1_000):
        time.sleep(0.01)
        request.raw(b"\0")


@pytest.mark.parametrize(
    ("behave", "kinds"),
    [
        (silent, (Retriable,)),
        (hang_up, (Retriable,)),
        (garbage, (Corrupt, Retriable)),  # before its greeting, and after: tried again
        (web_server, (Corrupt, Retriable)),
        (another_request, (Corrupt, Retriable)),
        (cut_short, (Corrupt, InvalidRequest, Retriable)),
        (endless_array, (Corrupt, InvalidRequest, Retriable)),
        (two_gigabytes, (Corrupt, Retriable)),
        (two_hundred_megabytes_that_never_come, (Retriable,)),
        (a_drip, (Retriable,)),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_lie_is_a_typed_error_in_time(
    topics: Topics, behave: Behave, kinds: tuple[type[KafkaError], ...]
) -> None:
    options = QUICK
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with Impostor(behave) as impostor:
        started = time.monotonic()
        with pytest.raises(kinds) as refused:
            topics(impostor.address, **options)
        assert time.monotonic() - started < LONG_S
        assert str(impostor.port) in str(refused.value)
    grown_mb = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert grown_mb < 50


def producing(impostor: "Impostor", behave: Behave) -> Behave:
    def answer(request: Request) -> None:
        if request.key == METADATA:
            request.answer(impostor.metadata())
        elif request.key == INIT_PRODUCER_ID:
            request.answer(
                InitProducerIdResponse(
                    throttle_time_ms=0, error_code=0, producer_id=7, producer_epoch=0
                )
            )
        else:
            assert request.key == PRODUCE
            behave(request)

    return answer


def answered_for(topic: str, partition: int, code: int = 0) -> Behave:
    def answer(request: Request) -> None:
        request.answer(
            ProduceResponse(
                responses=[
                    TopicProduceResponse(
                        name=topic,
                        topic_id=request.message.topic_data[0].topic_id,
                        partition_responses=[
                            PartitionProduceResponse(
                                index=partition, error_code=code, base_offset=0
                            )
                        ],
                    )
                ]
            )
        )

    return answer


@pytest.mark.parametrize(
    ("behave", "said"),
    [
        (silent, "no answer in time"),
        (hang_up, "closed the connection"),
        (garbage, "bytes announced"),
        (another_request, "was due"),
        (answered_for("t", 5), "missing in the answer"),
        (answered_for("t", 0, Code.NOT_LEADER_OR_FOLLOWER), "does not lead"),
        (answered_for("t", 0, Code.OUT_OF_ORDER_SEQUENCE_NUMBER), "sequence number is missing"),
        (answered_for("t", 0, 32_000), "error code 32000"),
    ],
    ids=["silent", "hang-up", "garbage", "correlation", "other", "moved", "sequence", "future"],
)
@pytest.mark.parametrize("blocking", [False, True], ids=["awaited", "blocking"])
def test_a_record_is_never_left_without_an_answer(
    behave: Behave, said: str, blocking: bool
) -> None:
    options: dict[str, Any] = {"retry_backoff_ms": 20, **(QUICK if behave is silent else {})}

    async def send(address: str) -> None:
        async with barnabas.Producer(bootstrap_servers=address, **options) as producer:
            await producer.send("t", b"x")

    def send_blocking(address: str) -> None:
        with barnabas.sync.Producer(bootstrap_servers=address, **options) as producer:
            producer.send("t", b"x")

    def run(address: str) -> None:
        if blocking:
            send_blocking(address)
        else:
            asyncio.run(send(address))

    def serve(request: Request) -> None:
        producing(impostor, behave)(request)

    with Impostor(serve) as impostor:
        started = time.monotonic()
        for options["delivery_timeout_ms"] in TRIED_MS:
            with pytest.raises(KafkaError) as refused:
                run(impostor.address)
            if said in str(refused.value):
                break
        assert said in str(refused.value)
        assert time.monotonic() - started < LONG_S


async def test_a_leader_that_is_not_there_is_named() -> None:
    def answer(request: Request) -> None:
        request.answer(impostor.metadata(port=1))

    with Impostor(answer) as impostor:
        for delivery_ms in TRIED_MS:
            producer = barnabas.Producer(
                bootstrap_servers=impostor.address,
                delivery_timeout_ms=delivery_ms,
                enable_idempotence=False,
            )
            with pytest.raises(Retriable) as refused:
                await producer.send("t", b"x")
            await producer.close()
            if "127.0.0.1:1" in str(refused.value):
                break
        said = rf"t-0.*delivery\.timeout\.ms={delivery_ms}.*127\.0\.0\.1:1"
        assert re.search(said, str(refused.value))


async def test_nothing_warns_when_nobody_closes(recwarn: pytest.WarningsRecorder) -> None:
    import gc

    def answer(request: Request) -> None:
        request.answer(impostor.metadata())

    with Impostor(answer) as impostor:
        producer: barnabas.Producer | None = barnabas.Producer(bootstrap_servers=impostor.address)
        admin: barnabas.Admin | None = barnabas.Admin(bootstrap_servers=impostor.address)
        assert admin is not None
        await admin.topics()
        assert producer is not None
        assert len(impostor.connected()) == 1
        producer = admin = None
        gc.collect()
        while impostor.connected():
            await asyncio.sleep(0.01)
    assert [str(warning.message) for warning in recwarn.list] == []
