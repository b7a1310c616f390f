"""Transactional batches in Produce: the coordinator is asked before a transaction opens."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.broker.transactions import produce, verification
from barnabas.broker.transactions.coordination import transaction_coordination
from barnabas.broker.transactions.verification import Codes, Question
from barnabas.coordinators.transactions.decision import Identity
from barnabas.model.errors import Code
from barnabas.wire.batch import check_crc, read_header
from barnabas.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests.broker.handlers.test_transactions import ID, add, end, initialised
from tests.broker.running import Running, running_broker
from tests.log.batches import batch
from tests.waiting import eventually

OLD, NEW = 11, 12


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    options = {"transaction.state.log.num.partitions": "3", "offsets.topic.num.partitions": "2"}
    async with running_broker(tmp_path, options) as running:
        await running.create("t", partitions=2)
        yield running


def request_of(running: Running, *batches: tuple[Identity, int], **options: Any) -> ProduceRequest:
    """One batch for each partition, of a producer and with a sequence."""
    wall_ms = running.broker.clock.wall_ms()
    data = [
        PartitionProduceData(
            index=index,
            records=batch(
                time=wall_ms,
                producer=producer.producer_id,
                epoch=producer.epoch,
                sequence=sequence,
                **{"transactional": True, **options},
            ),
        )
        for index, (producer, sequence) in enumerate(batches)
    ]
    return ProduceRequest(
        transactional_id=ID,
        acks=-1,
        timeout_ms=1000,
        topic_data=[TopicProduceData(name="t", partition_data=data)],
    )


def codes(response: ProduceResponse) -> list[Code]:
    return [Code.of(each.error_code) for each in response.responses[0].partition_responses]


async def send(running: Running, producer: Identity, sequence: int = 0, version: int = OLD) -> Code:
    request = request_of(running, (producer, sequence))
    (code,) = codes(await running.ask(request, ProduceResponse, version))
    return code


def state(running: Running) -> str:
    shard = transaction_coordination(running.broker).shard_of(ID)
    return shard.table.transactions[ID].state.title


@pytest.mark.parametrize(
    ("version", "code"),
    [(10, Code.INVALID_TXN_STATE), (OLD, Code.TRANSACTION_ABORTABLE)],
)
async def test_a_batch_for_a_partition_that_has_not_joined_is_refused(
    running: Running, version: int, code: Code
) -> None:
    producer = await initialised(running)
    assert await send(running, producer, version=version) is code
    await add(running, producer, {"t": [0]})
    assert await send(running, producer, version=version) is Code.NONE
    assert await send(running, producer, 1, version) is Code.NONE


async def test_from_version_12_a_batch_joins_by_itself(running: Running) -> None:
    producer = await initialised(running)
    request = request_of(running, (producer, 0), (producer, 0))
    assert codes(await running.ask(request, ProduceResponse, NEW)) == [Code.NONE] * 2
    assert state(running) == "Ongoing"
    said = await end(running, producer, commit=True, version=5)
    following = Identity(said.producer_id, said.producer_epoch)
    assert await send(running, following, version=NEW) is Code.NONE
    assert await send(running, producer, 1, NEW) is Code.INVALID_PRODUCER_EPOCH


async def test_the_leader_waits_for_the_transaction_before(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The producer has its next epoch before the markers of the last one are written."""
    producer = await initialised(running)
    assert await send(running, producer, version=NEW) is Code.NONE
    driver = transaction_coordination(running.broker)
    monkeypatch.setattr(driver, "_go_on", lambda: None)
    said = await end(running, producer, commit=True, version=5)
    following = Identity(said.producer_id, said.producer_epoch)
    request = request_of(running, (following, 0))
    running.send(request, NEW)
    await eventually(lambda: state(running) == "PrepareCommit")
    monkeypatch.undo()
    driver._go_on()
    assert codes(await running.receive(request, ProduceResponse, NEW)) == [Code.NONE]


@pytest.mark.parametrize("version", [OLD, NEW])
async def test_a_coordinator_that_is_loading_is_reported_as_too_few_replicas(
    running: Running, version: int
) -> None:
    producer = await initialised(running)
    await add(running, producer, {"t": [0]})
    driver = transaction_coordination(running.broker)
    for index in driver.runtime.partitions():
        driver.led.unload(index)
    assert await send(running, producer, version=version) is Code.NOT_ENOUGH_REPLICAS


async def test_a_transaction_that_never_completes_is_reported_as_too_few_replicas(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The code after which every producer tries again."""
    producer = await initialised(running)
    assert await send(running, producer, version=NEW) is Code.NONE
    monkeypatch.setattr(transaction_coordination(running.broker), "_go_on", lambda: None)
    said = await end(running, producer, commit=True, version=5)
    following = Identity(said.producer_id, said.producer_epoch)
    assert await send(running, following, version=NEW) is Code.NOT_ENOUGH_REPLICAS


@pytest.mark.parametrize("version", [OLD, NEW])
async def test_a_late_batch_of_an_ended_transaction_opens_nothing(
    running: Running, version: int
) -> None:
    producer = await initialised(running)
    await add(running, producer, {"t": [0]})
    assert await send(running, producer) is Code.NONE
    await end(running, producer, commit=False, version=3 if version == OLD else 5)
    await eventually(lambda: state(running) == "CompleteAbort")
    code = await send(running, producer, 1, version)
    assert code is (Code.TRANSACTION_ABORTABLE if version == OLD else Code.INVALID_PRODUCER_EPOCH)
    log = running.broker.topics.existing("t").partition(0).log
    assert log.last_stable_offset == log.end_offset == 2


class SlowCoordinator:
    """Answers when the test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.go_on = asyncio.Event()
        self.asked = 0
        monkeypatch.setattr(produce, "ask_now", lambda broker, question: None)
        monkeypatch.setattr(produce, "ask", self._ask)

    async def _ask(self, broker: Any, question: Question) -> Codes:
        found = await verification.ask(broker, question)
        self.asked += 1
        await self.go_on.wait()
        return found


async def test_a_marker_between_the_answer_and_the_append_stops_the_batch(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    coordinator = SlowCoordinator(monkeypatch)
    producer = await initialised(running)
    await add(running, producer, {"t": [0]})
    request = request_of(running, (producer, 0))
    running.send(request, OLD)
    await eventually(lambda: coordinator.asked == 1)
    waiting, running.wire = running.wire, running.connect()
    await end(running, producer, commit=False)
    await eventually(lambda: state(running) == "CompleteAbort")
    coordinator.go_on.set()
    said = codes(await running.receive(request, ProduceResponse, OLD, waiting))
    assert said == [Code.INVALID_TXN_STATE]
    log = running.broker.topics.existing("t").partition(0).log
    assert log.last_stable_offset == log.end_offset == 1


async def test_bytes_that_wait_are_not_those_of_the_next_request(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All connections receive into one buffer."""
    coordinator = SlowCoordinator(monkeypatch)
    producer = await initialised(running)
    await add(running, producer, {"t": [0]})
    request = request_of(running, (producer, 0))
    running.send(request, OLD)
    await eventually(lambda: coordinator.asked == 1)
    other = running.connect()
    plain = request_of(running, (Identity(-1, -1), -1), transactional=False, size=200)
    for _ in range(5):
        assert codes(await running.ask(plain, ProduceResponse, OLD, other)) == [Code.NONE]
    coordinator.go_on.set()
    assert codes(await running.receive(request, ProduceResponse, OLD)) == [Code.NONE]
    log = running.broker.topics.existing("t").partition(0).log
    found = log.read(5, 10_000, log.end_offset).file_slice
    assert found is not None
    data = found.file.read(found.position, found.length)
    header = read_header(data)
    check_crc(memoryview(data), header)
    assert header.producer_id == producer.producer_id


async def test_the_next_request_waits_for_the_append_and_not_for_the_reply(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    coordinator = SlowCoordinator(monkeypatch)
    producer = await initialised(running)
    await add(running, producer, {"t": [0]})
    requests = [request_of(running, (producer, sequence)) for sequence in range(3)]
    for request in requests:
        running.send(request, OLD)
    await eventually(lambda: coordinator.asked == 1)
    coordinator.go_on.set()
    for number, request in enumerate(requests):
        said = await running.receive(request, ProduceResponse, OLD)
        assert said.responses[0].partition_responses[0].base_offset == number
    assert coordinator.asked == 1


async def test_a_request_has_one_producer(running: Running) -> None:
    producer = await initialised(running)
    await add(running, producer, {"t": [0, 1]})
    request = request_of(running, (producer, 0), (Identity(producer.producer_id + 1, 0), 0))
    said = codes(await running.ask(request, ProduceResponse, OLD))
    assert said == [Code.INVALID_PRODUCER_ID_MAPPING] * 2


async def test_a_transactional_batch_needs_a_transactional_id(running: Running) -> None:
    producer = await initialised(running)
    await add(running, producer, {"t": [0]})
    request = request_of(running, (producer, 0))
    anonymous = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=request.topic_data)
    said = codes(await running.ask(anonymous, ProduceResponse, OLD))
    assert said == [Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED]


async def test_a_producer_with_an_open_transaction_writes_nothing_beside_it(
    running: Running,
) -> None:
    producer = await initialised(running)
    assert await send(running, producer, version=NEW) is Code.NONE
    plain = request_of(running, (producer, 1), transactional=False)
    for request in (
        plain,
        ProduceRequest(acks=-1, timeout_ms=1000, topic_data=plain.topic_data),
    ):
        said = codes(await running.ask(request, ProduceResponse, NEW))
        assert said == [Code.INVALID_TXN_STATE]


async def test_a_fenced_producer_gets_the_epoch_error(running: Running) -> None:
    old = await initialised(running)
    await add(running, old, {"t": [0]})
    await initialised_again(running)
    assert await send(running, old) is Code.INVALID_PRODUCER_EPOCH


async def initialised_again(running: Running) -> None:
    """The first request aborts the open transaction, and is to be repeated."""
    with pytest.raises(AssertionError):
        await initialised(running)
    await eventually(lambda: state(running) == "CompleteAbort")
    await initialised(running)


async def test_without_verification_a_batch_is_appended_unasked(tmp_path: Path) -> None:
    options = {
        "transaction.partition.verification.enable": "false",
        "transaction.state.log.num.partitions": "3",
    }
    async with running_broker(tmp_path, options) as running:
        await running.create("t")
        producer = await initialised(running)
        assert await send(running, producer) is Code.NONE


async def test_batches_are_recompressed_and_verified(running: Running) -> None:
    await running.create("z", configs={"compression.type": "zstd"})
    producer = await initialised(running)
    await add(running, producer, {"z": [0]})
    request = request_of(running, (producer, 0))
    request = ProduceRequest(
        transactional_id=ID,
        acks=-1,
        timeout_ms=1000,
        topic_data=[
            TopicProduceData(name="z", partition_data=request.topic_data[0].partition_data)
        ],
    )
    assert codes(await running.ask(request, ProduceResponse, OLD)) == [Code.NONE]
    assert running.broker.topics.existing("z").partition(0).log.last_stable_offset == 0
