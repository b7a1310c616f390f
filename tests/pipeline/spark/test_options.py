"""The options of a source, as a user may write them."""

import pytest

from barnabas.model.ids import TopicPartition as At
from barnabas.pipeline.errors import OptionError
from barnabas.pipeline.spark.offsets import EARLIEST, LATEST
from barnabas.pipeline.spark.options import ReadBound, sink_options, source_options, time_ms

SERVER = {"kafka.bootstrap.servers": "localhost:9092"}


def test_names_are_read_in_any_case() -> None:
    options = source_options(
        {"Kafka.Bootstrap.Servers": "h:1", "SUBSCRIBE": " a, b ,a", "includeheaders": "TRUE"},
        streaming=False,
    )
    assert options.topics == ("a", "b")
    assert options.headers
    assert options.client == {"bootstrap.servers": "h:1"}


def test_a_stream_begins_at_the_end_and_a_batch_at_the_start() -> None:
    given = SERVER | {"subscribe": "t"}
    assert source_options(given, streaming=True).starting == ReadBound(everywhere=LATEST)
    assert source_options(given, streaming=False).starting == ReadBound(everywhere=EARLIEST)


def test_one_time_goes_before_times_and_these_before_offsets() -> None:
    given = SERVER | {"subscribe": "t", "startingOffsets": '{"t":{"0":5}}'}
    assert source_options(given, streaming=True).starting == ReadBound(offsets={At("t", 0): 5})
    given |= {"startingOffsetsByTimestamp": '{"t":{"0":77}}'}
    assert source_options(given, streaming=True).starting == ReadBound(times={At("t", 0): 77})
    given |= {"startingTimestamp": "99"}
    assert source_options(given, streaming=True).starting == ReadBound(time=99)


def test_the_group_may_be_named_with_or_without_kafka_in_front() -> None:
    given = SERVER | {"subscribe": "t"}
    assert source_options(given, streaming=True).group is None
    assert source_options(given | {"group.id": "g"}, streaming=True).group == "g"
    assert source_options(given | {"kafka.group.id": "g"}, streaming=True).group == "g"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "exactly one of subscribe, subscribePattern and assign"),
        ({"subscribe": "a", "subscribePattern": "b"}, "not subscribe and subscribePattern"),
        ({"subscribe": " , "}, "no topic"),
        ({"subscribePattern": "a("}, "is no pattern"),
        ({"subscribePattern": " "}, "empty"),
        ({"assign": "{"}, "assign: expected"),
        ({"assign": '{"t":[-1]}'}, "assign: expected"),
        ({"assign": "{}"}, "no partition"),
        ({"subscribe": "t", "startingOffsets": "latest"}, "cannot be latest in a batch"),
        ({"subscribe": "t", "startingOffsets": "erliest"}, "startingOffsets: expected"),
        ({"subscribe": "t", "startingOffsets": '{"t":{"0":-1}}'}, "cannot be -1"),
        ({"subscribe": "t", "startingOffsets": '{"t":{"0":-3}}'}, "offset -3"),
        ({"subscribe": "t", "endingOffsets": "earliest"}, "cannot be earliest"),
        ({"subscribe": "t", "endingOffsets": '{"t":{"0":-2}}'}, "cannot be -2"),
        ({"subscribe": "t", "startingTimestamp": "now"}, "startingTimestamp: expected milli"),
        (
            {
                "subscribe": "t",
                "startingOffsets": '{"t":{"0":5}}',
                "endingOffsets": '{"t":{"0":4}}',
            },
            "starting offset 5 is behind the end, 4",
        ),
        (
            {
                "subscribe": "t",
                "startingOffsets": '{"t":{"0":5}}',
                "endingOffsets": '{"t":{"1":9}}',
            },
            "same partitions; only one has t-0",
        ),
        ({"subscribe": "t", "minPartitions": "0"}, "minPartitions: expected a whole number"),
        ({"subscribe": "t", "maxRecordsPerPartition": "x"}, "maxRecordsPerPartition: expected"),
        ({"subscribe": "t", "includeHeaders": "yes"}, "includeHeaders: expected true or false"),
        ({"subscribe": "t", "failOnDataLoss": "0"}, "failOnDataLoss: expected true or false"),
        ({"subscribe": "t", "maxTriggerDelay": "soon"}, "maxTriggerDelay: expected"),
        ({"subscribe": "t", "startingOffsetsByTimestampStrategy": "x"}, "error or latest"),
        (
            {"subscribe": "t", "minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"},
            "above maxOffsetsPerTrigger",
        ),
        ({"subscribe": "t", "kafka.auto.offset.reset": "earliest"}, "set startingOffsets"),
        ({"subscribe": "t", "kafka.enable.auto.commit": "true"}, "enable.auto.commit"),
        ({"subscribe": "t", "kafka.value.deserializer": "x"}, "value.deserializer"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(given: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError) as refused:
        source_options(SERVER | given, streaming=False)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"])
def test_a_stream_has_no_end(name: str) -> None:
    given = SERVER | {"subscribe": "t", name: '{"t":{"0":5}}' if "Off" in name else "5"}
    with pytest.raises(OptionError, match="they have no end"):
        source_options(given, streaming=True)


def test_without_a_server_nothing_begins() -> None:
    with pytest.raises(OptionError, match=r"kafka\.bootstrap\.servers is missing"):
        source_options({"subscribe": "t"}, streaming=True)
    with pytest.raises(OptionError, match=r"kafka\.bootstrap\.servers is missing"):
        sink_options({"topic": "t"})


def test_times_are_written_as_spark_writes_them() -> None:
    assert [time_ms(text) for text in ("15m", "10s", "500ms", "2h", "7", "1d", "3min")] == [
        900_000, 10_000, 500, 7_200_000, 7, 86_400_000, 180_000,
    ]  # fmt: skip
