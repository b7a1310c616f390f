"""Partitioner, accumulator, positions, metadata, backoff: no socket in sight."""

from itertools import repeat
from uuid import UUID

import pytest
from aiokafka.partitioner import murmur2 as oracle
from hypothesis import given
from hypothesis import strategies as st

from barnabas.client.accumulator import Accumulator, Identity
from barnabas.client.backoff import waits_ms
from barnabas.client.cluster import bootstrap_addresses
from barnabas.client.errors import error_of
from barnabas.client.metadata import View
from barnabas.client.partitioner import murmur2, partition_of
from barnabas.client.positions import Limits, Positions
from barnabas.model.errors import Code, Failed, Fenced, InvalidRequest, Retriable
from barnabas.model.ids import TopicPartition
from barnabas.wire.batch import read_header
from barnabas.wire.compression import Codec
from barnabas.wire.messages.fetch import AbortedTransaction, PartitionData
from barnabas.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from barnabas.wire.records import Record, decode_batch, encode_batch

AT = TopicPartition("t", 0)
ID = UUID(int=7)


# --- partitioner ---


@given(st.binary(max_size=40))
def test_keys_hash_as_in_other_clients(key: bytes) -> None:
    assert murmur2(key) == oracle(key) & 0xFFFF_FFFF


def test_keys_hash_as_in_java() -> None:
    """Values from Kafka's own test of its hash."""
    assert murmur2(b"21") == -973932308 & 0xFFFF_FFFF
    assert murmur2(b"foobar") == -790332482 & 0xFFFF_FFFF
    assert murmur2(b"a-little-bit-long-string") == -985981536 & 0xFFFF_FFFF
    assert 0 <= partition_of(b"foobar", 7) < 7


# --- accumulator ---


def test_records_of_a_partition_leave_in_order_with_rising_sequences() -> None:
    accumulator = Accumulator(codec=Codec.NONE, batch_size_max=200, identity=Identity(9, 1))
    for number in range(20):
        accumulator.add(AT, None, b"%d" % number * 10, (), 1000 + number, handle=number)
    values: list[bytes | None] = []
    sequence = 0
    while accumulator.waiting():
        batch = accumulator.take(AT)
        header = read_header(batch.data)
        assert (header.producer_id, header.producer_epoch) == (9, 1)
        assert header.base_sequence == sequence
        assert batch.handles == list(range(sequence, sequence + header.record_count))
        sequence += header.record_count
        values += [record.value for record in decode_batch(batch.data)]
    assert values == [b"%d" % number * 10 for number in range(20)]
    assert accumulator.size == 0


def test_a_record_larger_than_a_batch_gets_its_own() -> None:
    accumulator = Accumulator(codec=Codec.NONE, batch_size_max=100)
    accumulator.add(AT, None, b"small", (), 0)
    accumulator.add(AT, None, bytes(1000), (), 0)
    assert len(decode_batch(accumulator.take(AT).data)) == 1
    assert decode_batch(accumulator.take(AT).data)[0].value == bytes(1000)
    assert accumulator.waiting() == []


def test_a_record_that_cannot_be_encoded_leaves_nothing_behind() -> None:
    accumulator = Accumulator(codec=Codec.NONE, batch_size_max=100)
    with pytest.raises(TypeError):
        accumulator.add(AT, None, "text", (), 0)  # type: ignore[arg-type]
    assert accumulator.waiting() == []
    assert accumulator.size == 0


def test_another_identity_counts_from_zero() -> None:
    accumulator = Accumulator(codec=Codec.GZIP, batch_size_max=1000, identity=Identity(1, 0))
    accumulator.add(AT, None, b"a", (), 0)
    accumulator.take(AT)
    accumulator.identify(Identity(2, 0))
    accumulator.add(AT, None, b"b", (), 0)
    header = read_header(accumulator.take(AT).data)
    assert (header.producer_id, header.base_sequence) == (2, 0)


# --- positions ---


def batch(
    first: int,
    count: int,
    *,
    producer_id: int = -1,
    transactional: bool = False,
    control_key: bytes | None = None,
) -> bytes:
    records = [Record(first + i, 0, control_key, b"%d" % (first + i)) for i in range(count)]
    return bytes(
        encode_batch(
            records,
            base_offset=first,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            transactional=transactional,
            control=control_key is not None,
        )
    )


def fetched(*batches: bytes, error: int = 0, aborted: list[tuple[int, int]] = []) -> PartitionData:  # noqa: B006
    return PartitionData(
        partition_index=0,
        error_code=error,
        high_watermark=100,
        aborted_transactions=[
            AbortedTransaction(producer_id=p, first_offset=o) for p, o in aborted
        ],
        records=b"".join(batches),
    )


def offsets(positions: Positions, answer: PartitionData) -> list[int]:
    return [message.offset for message in positions.digest(AT, answer)]


def test_reading_starts_inside_a_batch_and_never_repeats() -> None:
    positions = Positions({AT: 3})
    assert offsets(positions, fetched(batch(0, 5), batch(5, 2))) == [3, 4, 5, 6]
    assert positions[AT] == 7
    assert offsets(positions, fetched(batch(5, 2), batch(7, 1))) == [7]


def test_a_part_of_a_batch_at_the_end_is_left_for_the_next_fetch() -> None:
    positions = Positions({AT: 0})
    assert offsets(positions, fetched(batch(0, 2), batch(2, 2)[:-1])) == [0, 1]
    assert positions[AT] == 2


def test_reading_stops_before_its_stop() -> None:
    positions = Positions({AT: 0, TopicPartition("t", 1): 9}, {AT: 3, TopicPartition("t", 1): 9})
    assert positions.reading() == [AT]
    assert offsets(positions, fetched(batch(0, 5))) == [0, 1, 2]
    assert positions.reading() == []


def test_aborted_transactions_are_left_out_until_their_marker() -> None:
    abort, commit = b"\0\0\0\0", b"\0\0\0\1"
    answer = fetched(
        batch(0, 2, producer_id=7, transactional=True),  # aborted
        batch(2, 1, producer_id=8, transactional=True),  # committed
        batch(3, 1),  # no transaction
        batch(4, 1, producer_id=7, transactional=True, control_key=abort),
        batch(5, 1, producer_id=8, transactional=True, control_key=commit),
        batch(6, 1, producer_id=7, transactional=True),  # its next one, committed
        aborted=[(7, 0)],
    )
    positions = Positions({AT: 0})
    assert offsets(positions, answer) == [2, 3, 6]
    assert positions[AT] == 7
    everything = Positions({AT: 0}, committed_only=False)
    assert offsets(everything, answer) == [0, 1, 2, 3, 6]


def test_markers_at_the_end_still_bring_a_reader_to_its_stop() -> None:
    positions = Positions({AT: 0}, {AT: 2})
    marker = batch(1, 1, producer_id=7, transactional=True, control_key=b"\0\0\0\1")
    assert offsets(positions, fetched(batch(0, 1), marker)) == [0]
    assert positions.reading() == []


def test_an_error_of_a_partition_is_raised_with_its_offset() -> None:
    positions = Positions({AT: 5})
    with pytest.raises(InvalidRequest, match="t-0, offset 5"):
        offsets(positions, fetched(error=Code.OFFSET_OUT_OF_RANGE))


def test_a_fetch_asks_from_the_positions_on() -> None:
    other = TopicPartition("u", 2)
    positions = Positions({AT: 5, other: 6})
    request = positions.request([AT, other], {"t": ID, "u": ID}, {AT: 3}, Limits())
    asked = [(t.topic, p.partition, p.fetch_offset, p.current_leader_epoch)
             for t in request.topics for p in t.partitions]  # fmt: skip
    assert asked == [("t", 0, 5, 3), ("u", 2, 6, -1)]
    assert request.isolation_level == 1


# --- metadata, errors, backoff ---


def picture() -> View:
    def partition(number: int, leader: int) -> MetadataResponsePartition:
        return MetadataResponsePartition(
            error_code=0,
            partition_index=number,
            leader_id=leader,
            replica_nodes=[1],
            isr_nodes=[1],
        )

    return View(
        MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=1, host="h", port=9)],
            topics=[
                MetadataResponseTopic(
                    error_code=0,
                    name="t",
                    topic_id=ID,
                    partitions=[partition(1, -1), partition(0, 1)],
                ),
                MetadataResponseTopic(error_code=17, name="bad", partitions=[]),
            ],
        )
    )


def test_a_picture_knows_leaders_and_says_what_it_does_not_know() -> None:
    view = picture()
    assert [p.number for p in view.topic("t").partitions] == [0, 1]
    assert view.leader(AT) == 1
    assert view.name_of(ID) == "t"
    with pytest.raises(Retriable, match="t-1 has no leader"):
        view.leader(TopicPartition("t", 1))
    with pytest.raises(InvalidRequest, match="no partition 2: it has 2"):
        view.leader(TopicPartition("t", 2))
    with pytest.raises(InvalidRequest, match="'gone' does not exist"):
        view.topic("gone")
    with pytest.raises(InvalidRequest) as refused:
        view.topic("bad")
    assert refused.value.code is Code.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize(
    ("number", "kind"), [(6, Retriable), (90, Fenced), (-1, Failed), (40, InvalidRequest)]
)
def test_the_class_of_an_error_says_what_to_do(number: int, kind: type[Exception]) -> None:
    assert type(error_of(number, "why", about="it")) is kind
    assert str(error_of(number, "why", about="it")).endswith(": it: why")


def test_a_code_from_the_future_is_an_error_too() -> None:
    assert "32000" in str(error_of(32000))


def test_waits_double_up_to_a_bound_and_differ_between_clients() -> None:
    longest, shortest = waits_ms(repeat(1.0)), waits_ms(repeat(0.0))
    assert [next(longest) for _ in range(7)] == [50, 100, 200, 400, 800, 1000, 1000]
    assert [next(shortest) for _ in range(3)] == [25, 50, 100]


def test_bootstrap_servers_may_leave_out_the_port() -> None:
    found = bootstrap_addresses("a, b:1,[::1]:2,[::1]")
    assert list(map(str, found)) == ["a:9092", "b:1", "[::1]:2", "[::1]:9092"]
    for wrong in ["", "a:x", "a:0", "a,,b", "http://x:1"]:
        with pytest.raises(InvalidRequest, match="bootstrap server"):
            bootstrap_addresses(wrong)
