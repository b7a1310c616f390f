"""What a streaming source answers Spark, asked directly: no Spark runs here."""

import json
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Producer

from barnabas.client.blocking.admin import Admin
from barnabas.model.ids import TopicPartition as At
from barnabas.pipeline.errors import DataLoss, PipelineError
from barnabas.pipeline.spark import brokers as clusters
from barnabas.pipeline.spark.options import sink_options
from barnabas.pipeline.spark.writing import Writing
from tests.process import BrokerProcess
from tests.waiting import WAIT_S

pytestmark = pytest.mark.slow

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pytest.importorskip("pyspark", reason="pyspark is not installed")


@pytest.fixture(autouse=True)
def _forget_clusters() -> Iterator[None]:
    yield
    for cluster in clusters._opened.values():
        cluster.close()
    clusters._opened.clear()


def create(broker: BrokerProcess, topic: str, partitions: int) -> None:
    with Admin({"bootstrap.servers": broker.bootstrap_servers}) as admin:
        admin.create_topic(topic, partitions=partitions)


def write(broker: BrokerProcess, topic: str, partition: int, count: int) -> None:
    columns = {
        "value": pa.array([b"value"] * count),
        "partition": pa.array([partition] * count, pa.int32()),
    }
    given = {"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": topic}
    Writing(sink_options(given)).write(iter([pa.record_batch(columns)]))


def reader(broker: BrokerProcess, topic: str, **options: str) -> Any:
    from barnabas.pipeline.spark.source import StreamReader

    given = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": topic, **options}
    return StreamReader(given, None)


def latest(stream: Any, start: Any) -> Any:
    return stream.latestOffset(start, stream.getDefaultReadLimit())


def ranges(stream: Any, start: Any, end: Any) -> list[Any]:
    return [tuple(each.value.range[1:]) for each in stream.partitions(start, end) if each.value]


def test_a_stream_begins_at_the_end_and_goes_on_from_there(
    broker: BrokerProcess, topic: str
) -> None:
    create(broker, topic, 2)
    write(broker, topic, 0, 10)
    stream = reader(broker, topic)
    begun = stream.initialOffset()
    assert begun == {topic: {"0": 10, "1": 0}}
    write(broker, topic, 0, 5)
    assert stream.initialOffset() == begun
    end = latest(stream, begun)
    assert end == {topic: {"0": 15, "1": 0}}
    assert ranges(stream, begun, end) == [(0, 10, 15)]
    assert stream.reportLatestOffset() == end


def test_a_stream_that_began_at_the_end_and_stopped_begins_there_again(
    broker: BrokerProcess, topic: str
) -> None:
    create(broker, topic, 1)
    options = {"group.id": f"group-{topic}"}
    begun = reader(broker, topic, **options).initialOffset()
    write(broker, topic, 0, 5)
    stream = reader(broker, topic, **options)
    assert stream.initialOffset() == begun
    end = latest(stream, begun)
    latest(stream, end)  # Spark has it in its checkpoint: the first batch is done
    write(broker, topic, 0, 5)
    again = reader(broker, topic, **options)
    assert again.initialOffset() == {topic: {"0": 10}}


def test_a_query_with_other_options_does_not_begin_where_another_one_did(
    broker: BrokerProcess, topic: str
) -> None:
    """A run from `latest`, with nothing new, leaves a note in the group. It is not for a new query
    from `earliest`, which must read everything.
    """
    create(broker, topic, 1)
    write(broker, topic, 0, 100)
    group = {"group.id": f"group-{topic}"}
    idle = reader(broker, topic, startingOffsets="latest", **group)
    end = idle.initialOffset()
    assert latest(idle, end) == end
    everything = reader(broker, topic, startingOffsets="earliest", **group)
    assert everything.initialOffset() == {topic: {"0": 0}}
    chosen = reader(broker, topic, startingOffsets=f'{{"{topic}":{{"0":40}}}}', **group)
    assert chosen.initialOffset() == {topic: {"0": 40}}


def test_a_pipeline_begins_where_its_checkpoint_says(broker: BrokerProcess, topic: str) -> None:
    """Whatever the group or the options say; partitions that came since are read from the start."""
    create(broker, topic, 1)
    write(broker, topic, 0, 10)
    group = {"group.id": f"group-{topic}"}
    reader(broker, topic, **group).initialOffset()
    with Admin({"bootstrap.servers": broker.bootstrap_servers}) as admin:
        admin.create_partitions(topic, 2)
    stream = reader(broker, topic, checkpointBegan=f'{{"{topic}":{{"0":4}}}}', **group)
    assert stream.initialOffset() == {topic: {"0": 4, "1": 0}}


def test_progress_is_committed_and_never_goes_back(broker: BrokerProcess, topic: str) -> None:
    create(broker, topic, 1)
    write(broker, topic, 0, 10)
    group = f"group-{topic}"
    stream = reader(broker, topic, startingOffsets="earliest", **{"group.id": group})
    begun = stream.initialOffset()
    latest(stream, begun)
    latest(stream, {topic: {"0": 7}})
    stream.commit({topic: {"0": 3}})
    found = stream._brokers.committed(group, [At(topic, 0)])
    assert found == {At(topic, 0): (7, "")}


def test_a_trigger_waits_for_enough_records_but_not_for_ever(
    broker: BrokerProcess, topic: str
) -> None:
    create(broker, topic, 1)
    start = {topic: {"0": 0}}
    write(broker, topic, 0, 5)
    patient = reader(broker, topic, minOffsetsPerTrigger="10", startingOffsets="earliest")
    assert latest(patient, start) == {topic: {"0": 5}}  # the first waits for nothing
    write(broker, topic, 0, 3)
    assert latest(patient, {topic: {"0": 5}}) == {topic: {"0": 5}}
    write(broker, topic, 0, 7)
    assert latest(patient, {topic: {"0": 5}}) == {topic: {"0": 15}}
    hasty = reader(broker, topic, minOffsetsPerTrigger="100", maxTriggerDelay="0ms")
    assert latest(hasty, {topic: {"0": 14}}) == {topic: {"0": 15}}


def test_a_trigger_may_be_limited_in_bytes(broker: BrokerProcess, topic: str) -> None:
    create(broker, topic, 2)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(200):
        producer.produce(topic, b"x" * 1000, partition=number % 2)
    assert producer.flush(WAIT_S) == 0
    stream = reader(broker, topic, maxBytesPerTrigger="50000", startingOffsets="earliest")
    first = latest(stream, {topic: {"0": 0, "1": 0}})
    assert 40 <= sum(first[topic].values()) <= 50
    both = reader(broker, topic, maxBytesPerTrigger="50000", maxOffsetsPerTrigger="10")
    assert latest(both, {topic: {"0": 0, "1": 0}}) == {topic: {"0": 5, "1": 5}}
    wide = reader(broker, topic, maxBytesPerTrigger="50000000")
    assert latest(wide, {topic: {"0": 0, "1": 0}}) == {topic: {"0": 100, "1": 100}}


def test_available_now_stops_at_what_there_was(broker: BrokerProcess, topic: str) -> None:
    create(broker, topic, 1)
    write(broker, topic, 0, 9)
    stream = reader(broker, topic, maxOffsetsPerTrigger="5", startingOffsets="earliest")
    stream.prepareForTriggerAvailableNow()
    first = latest(stream, {topic: {"0": 0}})
    write(broker, topic, 0, 9)
    second = latest(stream, first)
    assert (first, second) == ({topic: {"0": 5}}, {topic: {"0": 9}})
    assert latest(stream, second) == second


def test_a_partition_that_comes_later_is_read_from_its_start(
    broker: BrokerProcess, topic: str
) -> None:
    create(broker, topic, 1)
    stream = reader(broker, topic, startingOffsets="earliest", maxOffsetsPerTrigger="100")
    begun = stream.initialOffset()
    assert latest(stream, begun) == {topic: {"0": 0}}
    with Admin({"bootstrap.servers": broker.bootstrap_servers}) as admin:
        admin.create_partitions(topic, 2)
    write(broker, topic, 1, 4)
    end = latest(stream, begun)
    assert end == {topic: {"0": 0, "1": 4}}
    assert ranges(stream, begun, end) == [(1, 0, 4)]


def test_an_end_before_the_start_is_lost_data(broker: BrokerProcess, topic: str) -> None:
    create(broker, topic, 1)
    stream = reader(broker, topic)
    with pytest.raises(DataLoss, match="ended at offset 9, and ends at 5 now"):
        stream.partitions({topic: {"0": 9}}, {topic: {"0": 5}})
    forgiving = reader(broker, topic, failOnDataLoss="false")
    assert ranges(forgiving, {topic: {"0": 9}}, {topic: {"0": 5}}) == []


def test_a_topic_that_was_created_again_is_lost_data_however_many_records_it_has(
    broker: BrokerProcess, topic: str
) -> None:
    create(broker, topic, 1)
    write(broker, topic, 0, 5)
    streams = [reader(broker, topic, failOnDataLoss=loss) for loss in ("true", "false")]
    end = {topic: {"0": 5}}
    assert [latest(stream, end) for stream in streams] == [end, end]
    with Admin({"bootstrap.servers": broker.bootstrap_servers}) as admin:
        admin.delete_topic(topic)
        admin.create_topic(topic, partitions=1)
    write(broker, topic, 0, 9)
    with pytest.raises(DataLoss, match="was deleted and created again: records may have been lost"):
        latest(streams[0], end)
    assert latest(streams[1], end) == {topic: {"0": 9}}


def test_a_topic_created_again_while_available_records_are_read_is_lost_data(
    broker: BrokerProcess, topic: str
) -> None:
    """The end is fixed when the run begins, and later batches do not look at the topic again: the
    tasks must see that the records are not the ones they were to read.
    """
    from barnabas.pipeline.spark.reading import read_task

    create(broker, topic, 1)
    write(broker, topic, 0, 40)
    streams = [
        reader(broker, topic, startingOffsets="earliest", maxOffsetsPerTrigger="20",
               failOnDataLoss=loss)
        for loss in ("true", "false")
    ]  # fmt: skip
    ends = []
    for stream in streams:
        stream.prepareForTriggerAvailableNow()
        ends.append(latest(stream, stream.initialOffset()))
    with Admin({"bootstrap.servers": broker.bootstrap_servers}) as admin:
        admin.delete_topic(topic)
        admin.create_topic(topic, partitions=1)
    write(broker, topic, 0, 40)

    def rows(stream: Any, start: Any) -> int:
        (task,) = stream.partitions(start, latest(stream, start))
        return sum(batch.num_rows for batch in read_task(task.value))

    with pytest.raises(DataLoss, match="was deleted and created again: records may have been lost"):
        rows(streams[0], ends[0])
    assert rows(streams[1], ends[1]) == 20


def test_a_repeated_batch_of_a_topic_that_was_created_again_is_lost_data(
    broker: BrokerProcess, topic: str
) -> None:
    """Spark repeats it before it asks for new offsets; the checkpoint has the id."""
    from barnabas.pipeline.spark.reading import read_task

    create(broker, topic, 1)
    write(broker, topic, 0, 5)
    old = json.dumps({topic: str(uuid4())})
    for ids, expected in ((old, None), ("{}", 5)):
        stream = reader(broker, topic, checkpointTopicIds=ids)
        (task,) = stream.partitions({topic: {"0": 0}}, {topic: {"0": 5}})
        if expected is None:
            with pytest.raises(DataLoss, match="was deleted and created again"):
                list(read_task(task.value))
        else:
            assert sum(batch.num_rows for batch in read_task(task.value)) == expected


def test_a_stream_reads_only_what_another_group_has_read(broker: BrokerProcess, topic: str) -> None:
    create(broker, topic, 2)
    write(broker, topic, 0, 9)
    ahead = reader(broker, topic, startingOffsets="earliest", **{"group.id": f"ahead-{topic}"})
    behind = reader(broker, topic, startingOffsets="earliest", behindGroup=f"ahead-{topic}")
    begun = behind.initialOffset()
    assert latest(behind, begun) == begun
    ahead.initialOffset()
    latest(ahead, {topic: {"0": 4, "1": 0}})
    assert latest(behind, begun) == {topic: {"0": 4, "1": 0}}
    assert behind.reportLatestOffset() == {topic: {"0": 9, "1": 0}}
    assert latest(behind, {topic: {"0": 6, "1": 0}}) == {topic: {"0": 6, "1": 0}}


def test_a_group_with_consumers_of_its_own_is_refused(broker: BrokerProcess, topic: str) -> None:
    from confluent_kafka import Consumer

    create(broker, topic, 1)
    group = f"group-{topic}"
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})
    try:
        consumer.subscribe([topic])
        while not consumer.assignment():
            consumer.poll(0.2)
        stream = reader(broker, topic, **{"group.id": group})
        with pytest.raises(PipelineError, match="consumers of its own"):
            stream.initialOffset()
    finally:
        consumer.close()


def test_what_connections_would_need_to_be_safe_is_never_ignored(
    broker: BrokerProcess, topic: str
) -> None:
    stream = reader(broker, topic, **{"kafka.ssl.provider": "SunJSSE"})
    with pytest.raises(PipelineError, match=r"kafka\.ssl\.provider is not supported"):
        stream.initialOffset()


def test_records_with_negative_times_pass_a_filter_that_lets_them_pass(
    broker: BrokerProcess, topic: str
) -> None:
    """Records of Kafka without a time have -1. A broker cannot be asked for such a time."""
    from barnabas.pipeline.spark.pushdown import PushedFilters
    from barnabas.pipeline.spark.reading import read_task
    from barnabas.pipeline.spark.source import BatchReader

    create(broker, topic, 1)
    times = pa.array([-1000, -50_000, 0, 7000], pa.timestamp("us", tz="UTC"))
    columns = {"value": pa.array([b"value"] * 4), "timestamp": times}
    given = {"kafka.bootstrap.servers": broker.bootstrap_servers}
    Writing(sink_options({**given, "topic": topic})).write(iter([pa.record_batch(columns)]))
    for least, first in ((None, 0), (-10, 0), (-1, 0), (0, 2), (1, 3)):
        batch = BatchReader({**given, "subscribe": topic}, None)
        batch._narrow = PushedFilters(time_min=least)
        (task,) = batch.partitions()
        offsets = [n for found in read_task(task.value) for n in found.column("offset").to_pylist()]
        assert offsets == list(range(first, 4)), least
