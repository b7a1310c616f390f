"""Brokers that stop answering, or hang up at first: who else is delayed, and for how long."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

import barnabas
import barnabas.sync
from barnabas.client.aio import open_cluster as open_asyncio_cluster
from barnabas.client.blocking import open_cluster as open_blocking_cluster
from barnabas.client.blocking.net import run
from barnabas.client.cluster import ClusterClient
from barnabas.model.errors import Retriable
from barnabas.wire.messages.init_producer_id import InitProducerIdResponse
from barnabas.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from barnabas.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from tests.client.impostor import INIT_PRODUCER_ID, METADATA, PRODUCE, Behave, Impostor, Request
from tests.waiting import WAIT_S, eventually, until

pytestmark = pytest.mark.slow

# A client waits longer for a broker than a test waits for the client.
PATIENT: dict[str, Any] = {
    "request_timeout_ms": 600_000,
    "socket_connection_setup_timeout_ms": 600_000,
    "default_api_timeout_ms": 1_200_000,
}
PATIENT_PRODUCER: dict[str, Any] = {**PATIENT, "delivery_timeout_ms": 1_200_000}
BLOCK_MS = 3_000  # in which something is tried, however busy the machine


class Brokers:
    """Broker n leads partition n of every topic. Counts how often each was asked for metadata."""

    def __init__(self, stack: ExitStack, count: int = 2) -> None:
        self.asked = [0] * count
        self.hang_ups = 0  # connections that are still to be reset at their first request
        self._lock = threading.Lock()
        self.all = [
            stack.enter_context(Impostor(self._behaviour(number))) for number in range(count)
        ]

    def _behaviour(self, number: int) -> Behave:
        return lambda request: self._behave(number, request)

    def _behave(self, number: int, request: Request) -> None:
        with self._lock:
            if self.hang_ups:
                self.hang_ups -= 1
                raise ConnectionResetError
        if request.key == METADATA:
            self.asked[number] += 1
            request.answer(self._metadata([topic.name for topic in request.message.topics or ()]))
        elif request.key == INIT_PRODUCER_ID:
            request.answer(
                InitProducerIdResponse(
                    throttle_time_ms=0, error_code=0, producer_id=7, producer_epoch=0
                )
            )
        elif request.key == PRODUCE:
            self._take(request)

    def _metadata(self, topics: list[str]) -> MetadataResponse:
        return MetadataResponse(
            brokers=[
                MetadataResponseBroker(node_id=number, host="127.0.0.1", port=each.port)
                for number, each in enumerate(self.all)
            ],
            controller_id=0,
            topics=[
                MetadataResponseTopic(
                    error_code=0,
                    name=name,
                    partitions=[
                        MetadataResponsePartition(
                            error_code=0,
                            partition_index=number,
                            leader_id=number,
                            replica_nodes=[number],
                            isr_nodes=[number],
                        )
                        for number in range(len(self.all))
                    ],
                )
                for name in topics
            ],
        )

    def _take(self, request: Request) -> None:
        if request.message.acks == 0:
            return
        request.answer(
            ProduceResponse(
                responses=[
                    TopicProduceResponse(
                        name=topic.name,
                        topic_id=topic.topic_id,
                        partition_responses=[
                            PartitionProduceResponse(
                                index=part.index,
                                error_code=0,
                                base_offset=0,
                                log_append_time_ms=-1,
                            )
                            for part in topic.partition_data
                        ],
                    )
                    for topic in request.message.topic_data
                ]
            )
        )


@pytest.fixture
def brokers() -> Iterator[Brokers]:
    with ExitStack() as stack:
        yield Brokers(stack)


# --- one stopped broker delays no other ---


@pytest.mark.parametrize("acks", ["0", "all"])
def test_a_stopped_broker_that_was_connected_delays_no_record_for_another(
    brokers: Brokers, acks: str
) -> None:
    well, stopped = brokers.all
    with barnabas.sync.Producer(
        bootstrap_servers=well.address,
        acks=acks,
        max_request_size=8_000_000,
        **PATIENT_PRODUCER,
    ) as producer:
        for partition in (0, 1):
            producer.send("t", b"first", partition=partition)
        stopped.going.clear()
        for _ in range(4):  # more than the sockets take
            producer.send_nowait("t", bytes(6_000_000), partition=1)
        for _ in range(3):
            producer.send_nowait("t", b"more", partition=0).result(WAIT_S)
        stopped.going.set()


def test_connecting_to_a_stopped_broker_delays_no_record_for_another(brokers: Brokers) -> None:
    well, stopped = brokers.all
    stopped.going.clear()
    with barnabas.sync.Producer(bootstrap_servers=well.address, **PATIENT_PRODUCER) as producer:
        late = producer.send_nowait("t", b"late", partition=1)
        for _ in range(3):
            producer.send_nowait("t", b"more", partition=0).result(WAIT_S)
        assert not late.done()
        stopped.going.set()
        late.result()


def test_asking_a_stopped_broker_for_metadata_delays_no_record_of_a_known_topic(
    brokers: Brokers,
) -> None:
    stopped = brokers.all[1]
    with barnabas.sync.Producer(bootstrap_servers=stopped.address, **PATIENT_PRODUCER) as producer:
        producer.send("t", b"first", partition=0)
        stopped.going.clear()
        late = producer.send_nowait("another", b"late", partition=0)
        for _ in range(3):
            producer.send_nowait("t", b"more", partition=0).result(WAIT_S)
        stopped.going.set()
        late.result()


def test_records_of_an_unknown_topic_are_given_up_in_time_while_metadata_is_asked_for(
    brokers: Brokers,
) -> None:
    stopped = brokers.all[1]
    producer = barnabas.sync.Producer(
        bootstrap_servers=stopped.address, max_block_ms=300, **PATIENT_PRODUCER
    )
    stopped.going.clear()
    with pytest.raises(Retriable, match=r"max\.block\.ms=300"):
        producer.send_nowait("t", b"value").result(WAIT_S)
    stopped.going.set()
    producer.close()


# --- metadata is asked of a broker that answers ---


async def to_each(cluster: ClusterClient) -> None:
    """A connection to each broker, as a producer has, beside the first one."""
    await cluster.view(["t"])
    for number in (0, 1):
        await cluster.broker(number)


async def test_metadata_is_asked_of_a_broker_that_owes_no_answer(brokers: Brokers) -> None:
    stopped = brokers.all[0]
    with open_asyncio_cluster({"bootstrap.servers": stopped.address}, PATIENT) as cluster:
        await to_each(cluster)
        stopped.going.clear()
        overdue = await cluster.broker(0)
        overdue.send(MetadataRequest(topics=[]), MetadataResponse, timeout_ms=600_000)
        await eventually(lambda: overdue.silent_ms() > 1_000)
        before = brokers.asked[1]
        async with asyncio.timeout(WAIT_S):
            await cluster.refresh()
        assert brokers.asked[1] == before + 1


def test_a_blocking_client_asks_a_broker_that_owes_no_answer(brokers: Brokers) -> None:
    stopped = brokers.all[0]
    with open_blocking_cluster({"bootstrap.servers": stopped.address}, PATIENT) as cluster:
        run(to_each(cluster))
        stopped.going.clear()
        overdue = run(cluster.broker(0))
        overdue.send(MetadataRequest(topics=[]), MetadataResponse, timeout_ms=600_000)
        until(lambda: overdue.silent_ms() > 1_000)
        before = brokers.asked[1]
        run(cluster.refresh())
        assert brokers.asked[1] == before + 1


async def test_after_a_request_timed_out_metadata_is_asked_of_another_broker(
    brokers: Brokers,
) -> None:
    """Also where other connections to the silent broker are open and owe nothing."""
    stopped = brokers.all[0]
    with open_asyncio_cluster({"bootstrap.servers": stopped.address}, PATIENT) as cluster:
        await to_each(cluster)
        stopped.going.clear()
        with pytest.raises(Retriable, match="no answer in time"):
            await (await cluster.broker(0)).call(
                MetadataRequest(topics=[]), MetadataResponse, timeout_ms=300
            )
        before = brokers.asked[1]
        await cluster.refresh()
        assert brokers.asked[1] == before + 1


# --- a first connection that is reset ---


def reset(brokers: Brokers, at: str, count: int) -> None:
    if at == "greeting":
        brokers.all[0].unwelcome = count
    else:
        brokers.hang_ups = count


at_first = pytest.mark.parametrize("at", ["greeting", "metadata"])


@at_first
async def test_a_producer_whose_first_connections_are_reset_tries_again(
    brokers: Brokers, at: str
) -> None:
    reset(brokers, at, 3)
    address = brokers.all[0].address
    producer = barnabas.Producer(bootstrap_servers=address)
    await producer.send("t", b"value")
    await producer.close()
    reset(brokers, at, 3)
    async with barnabas.Producer(bootstrap_servers=address) as entered:
        await entered.send("t", b"value")


@at_first
def test_a_blocking_producer_whose_first_connections_are_reset_tries_again(
    brokers: Brokers, at: str
) -> None:
    reset(brokers, at, 3)
    address = brokers.all[0].address
    producer = barnabas.sync.Producer(bootstrap_servers=address)
    producer.send("t", b"value")
    producer.close()
    reset(brokers, at, 3)
    with barnabas.sync.Producer(bootstrap_servers=address) as entered:
        entered.send("t", b"value")


@at_first
async def test_a_producer_whose_connections_are_always_reset_says_so_after_max_block_ms(
    brokers: Brokers, at: str
) -> None:
    reset(brokers, at, 1_000_000)
    address = brokers.all[0].address
    producer = barnabas.Producer(bootstrap_servers=address, max_block_ms=BLOCK_MS)
    with pytest.raises(Retriable, match="closed the connection"):
        await producer.send("t", b"value")
    await producer.close()
    blocking = barnabas.sync.Producer(bootstrap_servers=address, max_block_ms=BLOCK_MS)
    with pytest.raises(Retriable, match="closed the connection"):
        await asyncio.to_thread(blocking.send, "t", b"value")
    blocking.close()


async def test_metadata_that_goes_stale_as_the_last_response_is_learned_is_asked_for_again(
    brokers: Brokers,
) -> None:
    async with barnabas.Producer(bootstrap_servers=brokers.all[0].address) as producer:
        await producer.send("t", b"value")
        before = sum(brokers.asked)
        ending = asyncio.create_task(asyncio.sleep(0))
        producer._sender._tasks["metadata"] = ending
        producer._outbox.metadata_refresh.stale = True
        producer._sender._pump()
        producer._sender._ended("metadata", ending)
        await eventually(lambda: sum(brokers.asked) > before)
