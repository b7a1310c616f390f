"""Where to read from, by each library: by offset, by time, from either end, after a cut."""

import pytest

from barnabas.model.errors import Code
from tests.compat.adapters.client import Client, Record, Refused
from tests.compat.waiting import until

BASE_MS = 1_700_000_000_000
SEGMENT_BYTES = 1 << 20


def fill(client: Client, topic: str, times: list[int], batch: int = 3) -> None:
    """Records with these times, `batch` of them to a batch."""
    with client.producer() as producer:
        for start in range(0, len(times), batch):
            producer.send(
                topic,
                [
                    Record(b"%d" % number, timestamp_ms=BASE_MS + times[number])
                    for number in range(start, min(start + batch, len(times)))
                ],
            )


def test_an_empty_partition_begins_and_ends_at_zero(client: Client, topic: str) -> None:
    client.create_topic(topic)
    assert client.earliest(topic) == client.latest(topic) == 0
    assert client.at_time(topic, BASE_MS) is None


def test_the_ends_of_a_partition(client: Client, topic: str) -> None:
    client.create_topic(topic)
    fill(client, topic, list(range(10)))
    assert client.earliest(topic) == 0
    assert client.latest(topic) == 10


def test_an_offset_by_time_is_the_first_record_at_or_after_it(client: Client, topic: str) -> None:
    """Exact within batches, with equal times, with gaps and with times that go back."""
    client.create_topic(topic)
    times = [0, 10, 20, 20, 20, 35, 30, 40, 5, 50]
    fill(client, topic, times)
    for asked in [-100, 0, 1, 10, 11, 20, 21, 30, 31, 35, 36, 40, 41, 50]:
        expected = next(number for number, at in enumerate(times) if at >= asked)
        assert client.at_time(topic, BASE_MS + asked) == expected, asked
    assert client.at_time(topic, BASE_MS + 51) is None


@pytest.mark.parametrize("library", ["confluent", "kafka-python"])  # aiokafka cannot
def test_the_latest_time_is_found_wherever_it_is(client: Client, topic: str) -> None:
    client.create_topic(topic)
    fill(client, topic, [0, 10, 90, 20, 80, 30, 40, 50])
    assert client.at_max_timestamp(topic) == 2


def test_a_consumer_starts_in_the_middle_of_a_batch(client: Client, topic: str) -> None:
    client.create_topic(topic)
    fill(client, topic, list(range(30)), batch=10)
    for start in (0, 5, 9, 10, 29):
        with client.consumer(topic, offset=start) as consumer:
            assert [seen.offset for seen in consumer.read(30 - start)] == list(range(start, 30))


def test_a_consumer_seeks_back_and_forth(client: Client, topic: str) -> None:
    client.create_topic(topic)
    fill(client, topic, list(range(30)), batch=10)
    with client.consumer(topic) as consumer:
        assert consumer.read(30)[-1].offset == 29
        for start in (3, 27, 11, 0):
            consumer.seek(start)
            assert [seen.offset for seen in consumer.read(2)] == [start, start + 1]


def test_reading_goes_on_across_segments(client: Client, topic: str) -> None:
    client.create_topic(topic, configs={"segment.bytes": str(SEGMENT_BYTES)})
    values = [b"%d " % number + b"x" * 150_000 for number in range(30)]  # over four segments
    with client.producer() as producer:
        for number, value in enumerate(values):
            producer.begin(topic, Record(value, timestamp_ms=BASE_MS + number))
        producer.finish()
    with client.consumer(topic) as consumer:
        assert [seen.value for seen in consumer.read(30)] == values
    with client.consumer(topic, offset=17) as consumer:
        assert [seen.value for seen in consumer.read(13)] == values[17:]
    for number in range(30):
        assert client.at_time(topic, BASE_MS + number) == number


def test_deleted_records_are_gone_and_the_rest_is_not(client: Client, topic: str) -> None:
    client.create_topic(topic)
    fill(client, topic, list(range(10)), batch=1)
    assert client.delete_records(topic, 4) == 4
    assert client.earliest(topic) == 4
    assert client.latest(topic) == 10
    assert client.at_time(topic, BASE_MS) == 4
    with client.consumer(topic, offset=4) as consumer:
        assert [seen.offset for seen in consumer.read(6)] == [4, 5, 6, 7, 8, 9]


def test_records_are_deleted_in_the_middle_of_a_batch(client: Client, topic: str) -> None:
    client.create_topic(topic)
    fill(client, topic, list(range(10)), batch=10)
    assert client.delete_records(topic, 4) == 4
    assert client.earliest(topic) == 4
    with client.consumer(topic, offset=4) as consumer:
        assert [seen.offset for seen in consumer.read(6)] == [4, 5, 6, 7, 8, 9]


def test_records_that_are_not_there_yet_cannot_be_deleted(client: Client, topic: str) -> None:
    client.create_topic(topic)
    fill(client, topic, [0, 1, 2])
    with pytest.raises(Refused) as refused:
        client.delete_records(topic, 4)
    assert refused.value.code == Code.OFFSET_OUT_OF_RANGE
    assert client.earliest(topic) == 0


def test_all_records_can_be_deleted_and_offsets_go_on(client: Client, topic: str) -> None:
    client.create_topic(topic)
    fill(client, topic, [0, 1, 2])
    assert client.delete_records(topic, 3) == 3
    until(lambda: client.earliest(topic) == client.latest(topic) == 3)
    with client.producer() as producer:
        assert producer.send(topic, [Record(b"next")]) == [3]


# librdkafka's own code, for "auto.offset.reset" being "error"
AUTO_OFFSET_RESET = -140


@pytest.mark.parametrize("offset", [2, 11], ids=["before the start", "after the end"])
def test_an_offset_out_of_range_is_an_error(client: Client, topic: str, offset: int) -> None:
    client.create_topic(topic)
    fill(client, topic, list(range(10)), batch=1)
    client.delete_records(topic, 4)
    with (
        client.consumer(topic, offset=offset, reset="none") as consumer,
        pytest.raises(Refused) as refused,
    ):
        consumer.read(1)
    assert refused.value.code in (Code.OFFSET_OUT_OF_RANGE, AUTO_OFFSET_RESET)


@pytest.mark.parametrize("offset", [2, 11], ids=["before the start", "after the end"])
def test_a_consumer_out_of_range_starts_again_at_the_start(
    client: Client, topic: str, offset: int
) -> None:
    client.create_topic(topic)
    fill(client, topic, list(range(10)), batch=1)
    client.delete_records(topic, 4)
    with client.consumer(topic, offset=offset, reset="earliest") as consumer:
        assert [seen.offset for seen in consumer.read(6)] == [4, 5, 6, 7, 8, 9]
