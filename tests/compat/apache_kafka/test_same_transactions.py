"""The same transactions on both brokers: what partitions, readers and administrators are told."""

from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.model.ports import FileSlice
from barnabas.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from barnabas.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from barnabas.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from barnabas.wire.records import iter_batches
from tests.compat.raw_transactions import RawProducer
from tests.process import BrokerProcess
from tests.raw import RawClient
from tests.support.caller import Caller
from tests.support.kafka import KafkaBroker
from tests.waiting import until

DATA_TIME = 1_700_000_000_000  # of the records of RawProducer
LATEST = -1


class Side:
    """One of the two brokers, and producers with transactional ids on it."""

    def __init__(self, broker: BrokerProcess | KafkaBroker, topic: str) -> None:
        self.broker = broker
        self.topic = topic
        self.client = RawClient(broker.host, broker.port)
        caller = Caller(broker)
        caller.create(topic)
        caller.close()
        self.producers: list[RawProducer] = []

    def close(self) -> None:
        for producer in self.producers:
            producer.close()
        self.client.close()

    def producer(self) -> RawProducer:
        producer = RawProducer(self.broker, f"{self.topic}-{len(self.producers)}")
        assert producer.init() == 0
        self.producers.append(producer)
        return producer

    def write(self, producer: RawProducer, *, version_2: bool = False) -> None:
        if not version_2:
            assert producer.add(self.topic, 0) == {0}
        version = 12 if version_2 else 11
        assert producer.produce(self.topic, b"value", version=version) == 0

    def end(self, producer: RawProducer, *, commit: bool, version_2: bool = False) -> None:
        assert producer.end(commit=commit, version=5 if version_2 else 3) == 0
        until(lambda: producer.state().startswith("Complete"), producer.state)

    def _number(self, producer_id: int) -> int:
        """Ids differ; their order of appearance does not."""
        return [each.producer_id for each in self.producers].index(producer_id)

    def described(self) -> list[tuple[Any, ...]]:
        asked = [TopicRequest(name=self.topic, partition_indexes=[0])]
        said = self.client.call(
            DescribeProducersRequest(topics=asked), 0, DescribeProducersResponse
        )
        return sorted(
            (
                self._number(state.producer_id),
                state.producer_epoch,
                state.last_sequence,
                state.coordinator_epoch,
                state.current_txn_start_offset,
                "data" if state.last_timestamp == DATA_TIME else "marker",
            )
            for state in said.topics[0].partitions[0].active_producers
        )

    def fetched(self, offset: int, isolation: int) -> Any:
        asked = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            isolation_level=isolation,
            topics=[FetchTopic(topic=self.topic, partitions=[asked])],
        )
        data = self.client.call(request, 12, FetchResponse).responses[0].partitions[0]
        aborted: list[tuple[int, int]] | None = None
        # With an error Kafka sends an empty list in some cases, and none in others.
        if not data.error_code and data.aborted_transactions is not None:
            aborted = [
                (self._number(each.producer_id), each.first_offset)
                for each in data.aborted_transactions
            ]
        records = data.records or b""
        assert not isinstance(records, FileSlice)
        batches = [
            (
                header.base_offset,
                header.attributes,
                self._number(header.producer_id),
                header.producer_epoch,
                header.base_sequence,
                header.record_count,
            )
            for header, _ in iter_batches(bytes(records))
        ]
        return (
            data.error_code,
            data.high_watermark,
            data.last_stable_offset,
            data.log_start_offset,
            aborted,
            batches,
        )

    def end_offset(self, isolation: int) -> int:
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=isolation,
            topics=[
                ListOffsetsTopic(
                    name=self.topic,
                    partitions=[ListOffsetsPartition(partition_index=0, timestamp=LATEST)],
                )
            ],
        )
        said = self.client.call(request, 6, ListOffsetsResponse)
        return said.topics[0].partitions[0].offset

    def delete_before(self, offset: int) -> int:
        partition = DeleteRecordsPartition(partition_index=0, offset=offset)
        request = DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name=self.topic, partitions=[partition])], timeout_ms=60_000
        )
        said = self.client.call(request, 2, DeleteRecordsResponse)
        return said.topics[0].partitions[0].low_watermark

    def all(self) -> Any:
        """Everything that can be asked of the partition."""
        end = self.end_offset(0)
        return {
            "end": end,
            "stable": self.end_offset(1),
            "producers": self.described(),
            "committed": [self.fetched(offset, 1) for offset in range(end + 2)],
            "uncommitted": [self.fetched(offset, 0) for offset in range(end + 2)],
        }


@pytest.fixture
def sides(broker: BrokerProcess, kafka: KafkaBroker, topic: str) -> Iterator[tuple[Side, Side]]:
    both = Side(broker, topic), Side(kafka, topic)
    yield both
    for side in both:
        side.close()


def same(sides: tuple[Side, Side]) -> Any:
    ours, theirs = (side.all() for side in sides)
    assert ours == theirs
    return ours


@pytest.mark.parametrize("version_2", [False, True])
def test_a_transaction_from_its_first_record_to_its_end(
    sides: tuple[Side, Side], version_2: bool
) -> None:
    pairs = [(side, side.producer()) for side in sides]
    for commit in (True, False, False, True):
        for side, producer in pairs:
            side.write(producer, version_2=version_2)
            side.write(producer, version_2=version_2)
        told = same(sides)
        assert told["stable"] == told["end"] - 2
        for side, producer in pairs:
            side.end(producer, commit=commit, version_2=version_2)
        told = same(sides)
        assert told["stable"] == told["end"]
    assert any(aborted for *_, aborted, _ in told["committed"])


def test_transactions_that_overlap(sides: tuple[Side, Side]) -> None:
    """The last stable offset in an entry of the index says how far a search goes on."""
    triples = [(side, [side.producer() for _ in range(3)]) for side in sides]
    for side, (first, second, third) in triples:
        side.write(first)
        side.write(second)
        side.write(third)
        side.write(first)
        side.end(second, commit=False)
        side.write(second)
        side.end(third, commit=False)
    same(sides)
    for side, (first, second, _) in triples:
        side.end(first, commit=False)
        side.end(second, commit=True)
    told = same(sides)
    assert told["stable"] == told["end"] == 9


def test_a_producer_that_is_fenced(sides: tuple[Side, Side]) -> None:
    """InitProducerId aborts, in a new epoch: the partition knows no batch of that one."""
    for side in sides:
        producer = side.producer()
        side.write(producer)
        assert producer.init() == 0
    told = same(sides)
    ((_, epoch, sequence, _, start, time),) = told["producers"]
    assert (epoch, sequence, start, time) == (1, -1, -1, "marker")


def test_records_deleted_below_an_open_transaction(sides: tuple[Side, Side]) -> None:
    """The start of the log may pass its records; its marker still ends it."""
    producers = []
    for side in sides:
        first, second = side.producer(), side.producer()
        side.write(first)
        side.write(second)
        side.end(second, commit=True)
        assert side.end_offset(1) == 0
        assert side.delete_before(2) == 2
        producers.append(first)
    told = same(sides)
    assert told["stable"] == 2
    for side, producer in zip(sides, producers, strict=True):
        side.end(producer, commit=False)
    told = same(sides)
    assert told["stable"] == told["end"] == 4
