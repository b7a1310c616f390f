"""Rows of Arrow into topics, without Spark: what a task does, while brokers come and go."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.client.blocking.admin import Admin
from barnabas.model.errors import Code
from barnabas.model.ids import TopicPartition
from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.spark import brokers as clusters
from barnabas.pipeline.spark.offsets import OffsetRange
from barnabas.pipeline.spark.options import sink_options
from barnabas.pipeline.spark.reading import Task, read_task
from barnabas.pipeline.spark.sending import BatchSender, PackedBatch
from barnabas.pipeline.spark.writing import Writing
from tests.conftest import StartBroker
from tests.process import BrokerProcess

pytestmark = pytest.mark.slow

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")


@pytest.fixture(autouse=True)
def _forget_clusters() -> Any:
    yield
    for cluster in clusters._opened.values():
        cluster.close()
    clusters._opened.clear()


def write(servers: str, batches: Any, **options: str) -> Any:
    given = {"kafka.bootstrap.servers": servers, **options}
    return Writing(sink_options(given)).write(iter(batches))


def read(servers: str, topic: str, partition: int, stop: int, **client: str) -> list[Any]:
    task = Task(
        OffsetRange(topic, partition, 0, stop),
        tuple({"bootstrap.servers": servers, **client}.items()),
        True,
        True,
        20_000,
    )
    return [row for batch in read_task(task) for row in batch.to_pylist()]


def test_rows_come_back_as_they_were_written(broker: BrokerProcess, topic: str) -> None:
    servers = broker.bootstrap_servers
    with Admin({"bootstrap.servers": servers}) as admin:
        admin.create_topic(topic, partitions=2)
    headers = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array([b"a", None, b"b"], pa.binary()),
            pa.array(["x", "", None], pa.string()),
            pa.array([1, 1, None], pa.int32()),
            pa.array([1_700_000_000_123_456, None, 5_000], pa.timestamp("us", "UTC")),
            pa.array([[{"key": "h", "value": None}], None, []], headers),
        ],
        names=["key", "value", "partition", "timestamp", "headers"],
    )
    sender = write(servers, [batch.slice(0, 0), batch.slice(0, 1), batch.slice(1, 2)], topic=topic)
    assert sender.records == 3
    first, second = (read(servers, topic, number, stop) for number, stop in ((0, 0), (1, 2)))
    rows = first + second
    if len(sender.written) == 2:
        rows = read(servers, topic, 0, 1) + rows
    found = {(row["key"], row["value"]): row for row in rows}
    assert set(found) == {(b"a", b"x"), (None, b""), (b"b", None)}
    assert found[b"a", b"x"]["headers"] == [{"key": "h", "value": None}]
    assert found[None, b""]["headers"] is None
    assert found[b"a", b"x"]["timestamp"].microsecond == 123_000


def test_a_large_set_of_rows_leaves_in_many_batches(broker: BrokerProcess, topic: str) -> None:
    servers = broker.bootstrap_servers
    batch = pa.record_batch({"value": pa.array([b"%05d" % n + bytes(995) for n in range(3000)])})
    sender = write(servers, [batch], topic=topic, **{"kafka.batch.size": "100000"})
    assert sender.records == 3000
    (at,) = sender.written
    values = [row["value"][:5] for row in read(servers, topic, at.partition, 3000)]
    assert values == [b"%05d" % n for n in range(3000)]


def test_rows_are_written_once_and_in_order_though_the_broker_is_killed(
    start_broker: StartBroker, topic: str
) -> None:
    broker = start_broker()
    servers = broker.bootstrap_servers
    with Admin({"bootstrap.servers": servers}) as admin:
        admin.create_topic(topic, partitions=1)
    killer: list[threading.Thread] = []

    def restart() -> None:
        broker.kill()
        broker.start()

    def batches() -> Any:
        for number in range(60):
            if number in (5, 30):
                killer.append(threading.Thread(target=restart))
                killer[-1].start()
            yield pa.record_batch({"value": [b"%06d" % (number * 500 + n) for n in range(500)]})

    sender = write(servers, batches(), topic=topic)
    for each in killer:
        each.join()
    assert sender.records == 30_000
    values = [row["value"] for row in read(servers, topic, 0, 30_000)]
    assert values == [b"%06d" % n for n in range(30_000)]
    with Admin({"bootstrap.servers": servers}) as admin:
        (at,) = sender.written
        assert admin.offsets({at: -1})[at].offset == 30_000


def test_reading_goes_on_when_the_broker_comes_back(start_broker: StartBroker, topic: str) -> None:
    broker = start_broker()
    servers = broker.bootstrap_servers
    batch = pa.record_batch({"value": [b"%06d" % n for n in range(20_000)]})
    write(servers, [batch], topic=topic, **{"kafka.batch.size": "5000"})
    task = Task(
        OffsetRange(topic, 0, 0, 20_000),
        (("bootstrap.servers", servers), ("max.partition.fetch.bytes", "20000")),
        False,
        True,
        20_000,
    )
    found = []
    from barnabas.pipeline.spark import reading

    whole = reading.ROWS_MAX
    reading.ROWS_MAX = 1000
    try:
        for number, rows in enumerate(read_task(task)):
            if number == 3:
                broker.kill()
                broker.start()
            found += rows.column("offset").to_pylist()
    finally:
        reading.ROWS_MAX = whole
    assert found == list(range(20_000))


def test_a_record_too_large_for_its_topic_is_said_in_one_line(
    broker: BrokerProcess, topic: str
) -> None:
    batch = pa.record_batch({"value": pa.array([bytes(3_000_000)])})
    with pytest.raises(Exception, match=r"max\.message\.bytes") as refused:
        write(broker.bootstrap_servers, [batch], topic=topic)
    assert "\n" not in str(refused.value)


def test_a_header_without_a_key_is_refused(broker: BrokerProcess, topic: str) -> None:
    headers = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    column = pa.array([[{"key": None, "value": b"x"}]], headers)
    batch = pa.record_batch({"value": pa.array([b"v"]), "headers": column})
    with pytest.raises(PipelineError, match="every header needs one"):
        write(broker.bootstrap_servers, [batch], topic=topic)


def _numbers(count: int) -> Any:
    return pa.RecordBatch.from_arrays(
        [pa.array([b"%d" % number for number in range(count)], pa.binary())], names=["value"]
    )


def test_tasks_of_one_process_write_as_one_producer(broker: BrokerProcess, topic: str) -> None:
    """Brokers remember a producer id for a day: a new one for each task would be too many."""
    servers = broker.bootstrap_servers
    with Admin({"bootstrap.servers": servers}) as admin:
        admin.create_topic(topic, partitions=1)
    senders = [write(servers, [_numbers(5), _numbers(5)], topic=topic) for _ in range(20)]
    assert len({sender.producer_id for sender in senders}) == 1
    assert senders[0].producer_id >= 0
    assert len(read(servers, topic, 0, 200)) == 200


def test_a_task_that_failed_leaves_its_producer_id_to_nobody(
    broker: BrokerProcess, topic: str
) -> None:
    """What it has sent may still arrive: under the same id, it would mix with the next task's."""
    servers = broker.bootstrap_servers
    with Admin({"bootstrap.servers": servers}) as admin:
        admin.create_topic(topic, partitions=1)
    first = write(servers, [_numbers(3)], topic=topic)

    def broken() -> Any:
        yield _numbers(3)
        raise RuntimeError("the task fails")

    with pytest.raises(RuntimeError):
        write(servers, broken(), topic=topic)
    after = write(servers, [_numbers(3)], topic=topic)
    assert after.producer_id != first.producer_id


def test_tasks_at_the_same_time_never_share_a_producer_id(
    broker: BrokerProcess, topic: str
) -> None:
    servers = broker.bootstrap_servers
    with Admin({"bootstrap.servers": servers}) as admin:
        admin.create_topic(topic, partitions=1)
    write(servers, [_numbers(3)], topic=topic)
    inner: list[Any] = []

    def nested() -> Any:
        yield _numbers(3)
        inner.append(write(servers, [_numbers(3)], topic=topic))
        yield _numbers(3)

    outer = write(servers, nested(), topic=topic)
    assert outer.producer_id != inner[0].producer_id
    assert len(read(servers, topic, 0, 12)) == 12


def test_a_partition_whose_offsets_are_unknown_was_written_to(broker: BrokerProcess) -> None:
    """A broker that does not know the offset of a repeated batch any more says -1. On Apache Kafka,
    the commit of a batch needs to know its partitions.
    """
    sender = BatchSender(clusters.opened({"bootstrap.servers": broker.bootstrap_servers}))
    at = TopicPartition("orders", 0)
    repeated = SimpleNamespace(error_code=Code.DUPLICATE_SEQUENCE_NUMBER, base_offset=-1)
    assert sender._judge(PackedBatch(at, bytearray(), 3), repeated) is None
    assert sender.written == {at: (-1, -1)}
    new = SimpleNamespace(error_code=Code.NONE, base_offset=7)
    assert sender._judge(PackedBatch(at, bytearray(), 3), new) is None
    assert sender.written == {at: (7, 9)}
