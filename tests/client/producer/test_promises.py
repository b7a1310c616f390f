"""What a producer promises when things go wrong: nothing lost in silence, nothing that hangs."""

import asyncio
import gc
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import barnabas
import barnabas.sync
from barnabas.model.errors import Code, Failed, InvalidRequest, KafkaError, Retriable
from barnabas.wire.messages.init_producer_id import InitProducerIdResponse
from barnabas.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from barnabas.wire.records import decode_batch
from tests.client.impostor import INIT_PRODUCER_ID, METADATA, Impostor, Request
from tests.ports import free_ports_from
from tests.waiting import WAIT_S, until


class Log:
    """A broker of topic t that keeps what it is sent; it takes nothing while it is held."""

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self.going = threading.Event()
        self.going.set()
        self.code = Code.NONE
        self.impostor = Impostor(self._answer)
        self.address = self.impostor.address

    def _answer(self, request: Request) -> None:
        if request.key == METADATA:
            request.answer(self.impostor.metadata())
            return
        if request.key == INIT_PRODUCER_ID:
            request.answer(
                InitProducerIdResponse(
                    throttle_time_ms=0, error_code=0, producer_id=7, producer_epoch=0
                )
            )
            return
        self.going.wait(WAIT_S)
        topic = request.message.topic_data[0]
        if self.code is Code.NONE:
            for record in decode_batch(topic.partition_data[0].records, crc=False):
                self.values.append(bytes(record.value or b""))
        if request.message.acks == 0:
            return
        answer = PartitionProduceResponse(
            index=0, error_code=int(self.code), base_offset=0, log_append_time_ms=-1
        )
        request.answer(
            ProduceResponse(
                responses=[
                    TopicProduceResponse(
                        name=topic.name, topic_id=topic.topic_id, partition_responses=[answer]
                    )
                ]
            )
        )


@pytest.fixture
def log() -> Iterator[Log]:
    made = Log()
    with made.impostor:
        yield made
        made.going.set()


def refused_port() -> str:
    return f"127.0.0.1:{free_ports_from(1)}"


# --- without acks ---


async def has_room(producer: barnabas.Producer, value: bytes, **more: Any) -> bool:
    """For a record, which is sent then."""
    try:
        producer.send_nowait("t", value, **more)
    except barnabas.BufferFull:
        return False
    await asyncio.sleep(0)
    return True


async def test_without_acks_a_record_counts_until_it_has_left(log: Log) -> None:
    log.going.clear()
    async with barnabas.Producer(
        bootstrap_servers=log.address, acks="0", buffer_memory=16_000_000, batch_size=500_000
    ) as producer:
        await producer.send("t", b"first")
        count = 0
        while await has_room(producer, bytes(400_000)):
            count += 1
            assert count < 60
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await producer.flush()
        log.going.set()
    until(lambda: len(log.values) == count + 1)


async def test_without_acks_too_a_record_is_given_up_in_time(log: Log) -> None:
    log.going.clear()
    producer = barnabas.Producer(
        bootstrap_servers=log.address,
        acks="0",
        request_timeout_ms=300,
        delivery_timeout_ms=600,
        linger_ms=0,
    )
    for _ in range(30):
        producer.send_nowait("t", bytes(900_000))
    async with asyncio.timeout(WAIT_S):
        with pytest.raises(KafkaError, match="records were not written"):
            await producer.close()


# --- send is one thing ---


async def test_a_send_that_is_not_awaited_is_nothing_and_warns(log: Log) -> None:
    async with barnabas.Producer(bootstrap_servers=log.address) as producer:
        with pytest.warns(RuntimeWarning, match="never awaited"):
            producer.send("t", b"lost")  # type: ignore[unused-coroutine]
    assert log.values == []


async def test_sends_that_wait_for_room_keep_their_order(log: Log) -> None:
    async with barnabas.Producer(
        bootstrap_servers=log.address, buffer_memory=3_000, batch_size=1_000
    ) as producer:
        values = [b"%04d" % number + bytes(496) for number in range(40)]
        async with asyncio.TaskGroup() as group:
            for value in values:
                group.create_task(producer.send("t", value))
    assert log.values == values


async def test_a_record_is_serialized_once_however_long_it_waits_for_room(log: Log) -> None:
    seen: list[str] = []

    def once(value: Any) -> bytes:
        seen.append(value)
        return str(value).encode() + bytes(500)

    async with barnabas.Producer(
        bootstrap_servers=log.address, buffer_memory=1_000, value_serializer=once
    ) as producer:
        await asyncio.gather(*(producer.send("t", str(number)) for number in range(20)))
    assert seen == [str(number) for number in range(20)]


# --- who has heard of a failure ---


class Watcher:
    """An interceptor."""

    def __init__(self) -> None:
        self.seen = 0

    def on_send(self, record: Any) -> Any:
        return record

    def on_acknowledgement(self, metadata: object, error: object) -> None:
        self.seen += 1
        raise ValueError("the interceptor's own trouble")


async def test_a_failure_that_only_an_interceptor_received_is_raised_by_flush(log: Log) -> None:
    log.code = Code.INVALID_RECORD
    watcher = Watcher()
    async with barnabas.Producer(bootstrap_servers=log.address, interceptors=[watcher]) as producer:
        producer.send_nowait("t", b"x")
        with pytest.raises(KafkaError, match="1 records were not written"):
            await producer.flush()
    assert watcher.seen == 1


async def test_an_interceptor_that_raises_keeps_nothing_from_a_callback(log: Log) -> None:
    told: list[object] = []
    async with barnabas.Producer(
        bootstrap_servers=log.address, interceptors=[Watcher()]
    ) as producer:
        await producer.send("t", b"x", callback=lambda metadata, error: told.append(metadata))
    assert len(told) == 1


async def test_asking_one_delivery_often_hides_no_other_failure(log: Log) -> None:
    log.code = Code.INVALID_RECORD
    async with barnabas.Producer(bootstrap_servers=log.address) as producer:
        deliveries = [producer.send_nowait("t", b"x") for _ in range(3)]
        with pytest.raises(KafkaError):
            await deliveries[0]
        for _ in range(5):
            assert deliveries[0].exception() is not None
        with pytest.raises(KafkaError, match="2 records were not written"):
            await producer.flush()
        await producer.flush()  # it was said


async def test_every_failure_is_counted_however_many(log: Log) -> None:
    log.code = Code.INVALID_RECORD
    async with barnabas.Producer(bootstrap_servers=log.address, batch_size=1) as producer:
        for _ in range(1_500):
            producer.send_nowait("t", b"x")
        with pytest.raises(KafkaError, match="1500 records were not written"):
            await producer.flush()


# --- at the door ---


@pytest.mark.parametrize(
    ("given", "kind", "said"),
    [
        ({"timestamp": -5}, InvalidRequest, "timestamp -5"),
        ({"timestamp": "now"}, TypeError, "timestamp is a whole number"),
        ({"partition": "0"}, TypeError, "partition is a whole number or None, not '0'"),
        ({"topic": None}, TypeError, "topic is given by its name, not None"),
        ({"headers": {"h": bytes(2_000_000)}}, InvalidRequest, r"max\.request\.size"),
    ],
)
async def test_what_no_broker_would_take_is_refused_at_the_door(
    given: dict[str, Any], kind: type[Exception], said: str
) -> None:
    producer = barnabas.Producer(bootstrap_servers=refused_port())
    with pytest.raises(kind, match=said):
        producer.send_nowait(**{"topic": "t", "value": b"x", **given})
    await producer.close()


async def test_headers_count_while_a_topic_is_not_known() -> None:
    producer = barnabas.Producer(bootstrap_servers=refused_port(), buffer_memory=100_000)
    for _ in range(5):
        producer.send_nowait("t", b"", headers={"h": bytes(20_000)})
    with pytest.raises(barnabas.BufferFull):
        producer.send_nowait("t", b"")
    with pytest.raises(KafkaError):
        await producer.close()


@pytest.mark.parametrize("face", [barnabas, barnabas.sync])
def test_an_address_where_options_belong_is_said_in_words(face: Any) -> None:
    with pytest.raises(TypeError, match="bootstrap_servers='localhost:9092'"):
        face.Producer("localhost:9092")


# --- nothing hangs ---


def test_a_producer_of_a_loop_that_has_ended_says_so(log: Log) -> None:
    producer = barnabas.Producer(bootstrap_servers=log.address, linger_ms=10_000)

    async def leave() -> None:
        producer.send_nowait("t", b"x")

    async def again() -> None:
        for call in (lambda: producer.send("t", b"y"), producer.flush):
            with pytest.raises(InvalidRequest, match="belongs to the event loop"):
                async with asyncio.timeout(WAIT_S):
                    await call()
        with pytest.raises(Failed, match=r"after its event loop: .* may not have been written"):
            await producer.close()
        await producer.close()

    asyncio.run(leave())
    asyncio.run(again())


async def test_another_thread_gets_an_error_that_names_the_owner(log: Log) -> None:
    async with barnabas.Producer(bootstrap_servers=log.address) as producer:
        with pytest.raises(InvalidRequest, match=r"barnabas\.sync\.Producer"):
            await asyncio.to_thread(producer.send_nowait, "t", b"x")
        await producer.send("t", b"y")
    assert log.values == [b"y"]


def within(work: Callable[[], object]) -> object:
    """Its result, or what it raised, on a thread that may not hang."""
    found: list[object] = []

    def run() -> None:
        try:
            found.append(work())
        except BaseException as why:
            found.append(why)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(WAIT_S)
    assert found, "it hangs"
    return found[0]


def test_a_callback_that_wants_to_exit_ends_nothing(log: Log) -> None:
    def leave(metadata: object, error: object) -> None:
        raise SystemExit

    producer = barnabas.sync.Producer(bootstrap_servers=log.address)
    assert not isinstance(within(lambda: producer.send("t", b"x", callback=leave)), Exception)
    assert not isinstance(within(lambda: producer.send("t", b"y")), Exception)
    assert within(producer.close) is None
    assert log.values == [b"x", b"y"]


def test_a_callback_that_would_wait_for_itself_gets_an_error(log: Log) -> None:
    raised: list[Exception] = []

    def more(metadata: object, error: object) -> None:
        for call in (lambda: producer.send("t", b"y"), producer.flush, producer.close):
            try:
                call()
            except InvalidRequest as why:
                raised.append(why)
        producer.send_nowait("t", b"z")

    producer = barnabas.sync.Producer(bootstrap_servers=log.address)
    within(lambda: producer.send("t", b"x", callback=more))
    assert within(producer.close) is None
    assert [("own thread" in str(why)) for why in raised] == [True] * 3
    assert log.values == [b"x", b"z"]


def test_a_callback_may_wait_for_a_thread_that_sends(log: Log) -> None:
    ended: list[bool] = []

    def hand_over(metadata: object, error: object) -> None:
        another = threading.Thread(target=lambda: producer.send_nowait("t", b"y"), daemon=True)
        another.start()
        another.join(WAIT_S)
        ended.append(not another.is_alive())

    producer = barnabas.sync.Producer(bootstrap_servers=log.address)
    producer.send_nowait("t", b"x", callback=hand_over)
    assert within(producer.flush) is None
    assert ended == [True]  # flush waits for callbacks, too
    assert within(producer.close) is None
    assert log.values == [b"x", b"y"]


def test_a_sender_that_fails_fails_all_that_waits(
    log: Log, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    producer = barnabas.sync.Producer(bootstrap_servers=log.address)
    assert not isinstance(within(lambda: producer.send("t", b"x")), Exception)

    def broken(*_: object) -> None:
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr(producer._outbox, "poll", broken)
    first = within(lambda: producer.send("t", b"y"))
    assert isinstance(first, KafkaError)
    assert "ZeroDivisionError: a defect" in str(first)
    assert "a defect" in str(within(lambda: producer.send("t", b"z")))
    assert within(producer.close) is None
    assert "the producer's thread has failed" in caplog.text


def test_a_child_process_must_make_its_own(log: Log) -> None:
    with barnabas.sync.Producer(bootstrap_servers=log.address) as producer:
        producer.send("t", b"x")
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                producer.send("t", b"y")
            except BaseException as why:
                os.write(write, str(why).encode())
            producer.close()
            os._exit(0)
        os.close(write)
        ended: list[int] = []

        def has_ended() -> bool:
            ended[:] = [os.waitpid(child, os.WNOHANG)[0]]
            return ended[0] == child

        until(has_ended)
        with os.fdopen(read) as said:
            assert "forked: make another here" in said.read()
        producer.send("t", b"z")
    assert log.values == [b"x", b"z"]


# --- letting go ---


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_forgotten_producers_leave_no_descriptors(log: Log) -> None:
    await barnabas.Producer(bootstrap_servers=log.address).send("t", b"warm")

    async def settled() -> int:
        gc.collect()
        await asyncio.sleep(0.05)
        return descriptors()

    before = await settled()
    for _ in range(5):
        await barnabas.Producer(bootstrap_servers=log.address).send("t", b"x")
    deadline = time.monotonic() + WAIT_S
    while await settled() > before:
        assert time.monotonic() < deadline
    async with barnabas.Producer(bootstrap_servers=log.address) as another:
        await another.send("t", b"y")  # on numbers that were used before


def test_forgotten_blocking_producers_leave_no_threads(log: Log) -> None:
    def threads() -> int:
        gc.collect()
        return sum(each.name == "barnabas-producer" for each in threading.enumerate())

    before = threads()
    for _ in range(5):
        barnabas.sync.Producer(bootstrap_servers=log.address).send("t", b"x")
    until(lambda: threads() <= before)


async def test_leaving_by_an_exception_waits_shortly_and_counts_what_is_left(log: Log) -> None:
    waiting: list[Any] = []

    async def work() -> None:
        async with barnabas.Producer(bootstrap_servers=log.address) as producer:
            await producer.send("t", b"x")
            log.going.clear()
            waiting.extend(producer.send_nowait("t", b"y") for _ in range(3))
            raise ValueError("mine")

    started = time.monotonic()
    with pytest.raises(ValueError, match="mine") as left:
        await work()
    assert time.monotonic() - started < WAIT_S
    assert "3 records were not written" in left.value.__notes__[0]
    with pytest.raises(Retriable, match="closed before"):
        await waiting[0]


def test_leaving_a_blocking_producer_by_ctrl_c_waits_shortly_too(log: Log) -> None:
    def work() -> None:
        with barnabas.sync.Producer(bootstrap_servers=log.address) as producer:
            producer.send("t", b"x")
            log.going.clear()
            producer.send_nowait("t", b"y")
            raise KeyboardInterrupt

    left = within(work)
    assert isinstance(left, KeyboardInterrupt)
    assert "1 records were not written" in left.__notes__[0]
