"""Ten thousand open transactions, and one over ten thousand partitions: others go on, memory is
bounded, and all of them end."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from barnabas.model.errors import Code
from barnabas.wire.frames import read_response
from barnabas.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from barnabas.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from tests.compat.raw_transactions import RawProducer
from tests.conftest import StartBroker
from tests.process import BROKERS, BrokerProcess, cpu_s
from tests.raw import RawClient, batch_of
from tests.waiting import PROGRAM_S, until

pytestmark = pytest.mark.skipif(BROKERS > 1, reason="one broker is asked for its memory")

MANY = 10_000
IN_FLIGHT = 500
BYTES_MAX = 4_096  # of memory for one open transaction
DISTURBED_S_MAX = 5.0  # of the broker's CPU: other processes make no difference
SHORT_MS = 20_000


def resident(broker: BrokerProcess) -> int:
    """Bytes of memory."""
    for line in Path(f"/proc/{broker.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmRSS")


class Neighbour:
    """Writes records without transactions all the while, and notes for how long the broker worked
    at other things while one waited."""

    def __init__(self, broker: BrokerProcess, topic: str) -> None:
        self.longest_s = 0.0
        self.count = 0
        self.over = threading.Event()
        self._client = RawClient(broker.host, broker.port)
        self._broker = broker
        self._topic = topic
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while not self.over.is_set():
            began = cpu_s(self._broker)
            assert self._client.produce(self._topic, batch_of(b"x")).error_code == 0
            self.longest_s = max(self.longest_s, cpu_s(self._broker) - began)
            self.count += 1
            self.over.wait(0.01)
        self._client.close()


@contextmanager
def undisturbed(broker: BrokerProcess) -> Iterator[None]:
    with RawClient(broker.host, broker.port) as client:
        client.create_topic("neighbour")
    neighbour = Neighbour(broker, "neighbour")
    neighbour.thread.start()
    try:
        yield
    finally:
        neighbour.over.set()
        neighbour.thread.join()
    print(f"{neighbour.count} records beside, at most {neighbour.longest_s:.3f} s of CPU for one")
    assert neighbour.count
    assert neighbour.longest_s < DISTURBED_S_MAX


def open_transactions(client: RawClient, topic: str, ids: list[str]) -> None:
    """Pipelined, some hundred requests at a time."""
    for first in range(0, len(ids), IN_FLIGHT):
        some = ids[first : first + IN_FLIGHT]
        for id_ in some:
            client.begin(
                InitProducerIdRequest(transactional_id=id_, transaction_timeout_ms=SHORT_MS), 4
            )
        producers = []
        for _ in some:
            answer = read_response(client.receive(), InitProducerIdRequest.api_key, 4)[1]
            assert isinstance(answer, InitProducerIdResponse)
            assert answer.error_code == 0, Code.of(answer.error_code)
            producers.append(answer)
        for id_, said in zip(some, producers, strict=True):
            joined = AddPartitionsToTxnTopic(name=topic, partitions=[0])
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=id_,
                v3_and_below_producer_id=said.producer_id,
                v3_and_below_producer_epoch=said.producer_epoch,
                v3_and_below_topics=[joined],
            )
            client.begin(request, 3)
        for _ in some:
            client.receive()


def ongoing(client: RawClient) -> int:
    request = ListTransactionsRequest(
        state_filters=["Ongoing", "PrepareAbort"], producer_id_filters=[]
    )
    return len(client.call(request, 0, ListTransactionsResponse).transaction_states)


def test_ten_thousand_open_transactions_time_out_one_and_all(start_broker: StartBroker) -> None:
    broker = start_broker({"transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000"})
    with RawClient(broker.host, broker.port) as client, undisturbed(broker):
        client.create_topic("t")
        warm = RawProducer(broker, "warm")
        warm.init()
        warm.close()
        before = resident(broker)
        began = time.monotonic()
        open_transactions(client, "t", [f"id-{number}" for number in range(MANY)])
        opened_s = time.monotonic() - began
        grown = resident(broker) - before
        print(f"opened in {opened_s:.1f} s, {ongoing(client)} open, {grown // MANY} bytes each")
        until(lambda: ongoing(client) == 0, lambda: ongoing(client), PROGRAM_S)
        print(f"all over after {time.monotonic() - began:.1f} s, {resident(broker) - before} bytes")
        assert grown < MANY * BYTES_MAX


def test_a_transaction_over_ten_thousand_partitions_is_committed(
    start_broker: StartBroker,
) -> None:
    broker = start_broker()
    with RawClient(broker.host, broker.port) as client:
        for number in range(10):
            assert client.create_topic(f"t{number}", MANY // 10) == 0
    producer = RawProducer(broker, "wide")
    with undisturbed(broker):
        producer.init()
        for number in range(10):
            assert producer.add(f"t{number}", *range(MANY // 10)) == {Code.NONE}
        assert producer.produce("t0", b"x") is Code.NONE
        began = time.monotonic()
        assert producer.end(commit=True) is Code.NONE
        until(lambda: producer.state() == "CompleteCommit", producer.state)
        print(f"{MANY} markers in {time.monotonic() - began:.1f} s")
    producer.close()
    broker.kill()  # a clean stop would sync ten thousand logs
