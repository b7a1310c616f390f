"""What the articles say about topics, partitions and their files."""

import os
from pathlib import Path

import pytest

import barnabas.sync
from barnabas.testing import Kafka
from tests.waiting import WAIT_S


def folder(kafka: Kafka, partition: int = 0) -> Path:
    return Path(kafka.log_directory()) / f"orders-{partition}"


def contents(path: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in sorted(path.iterdir())}


def test_a_partition_is_a_folder_with_messages_and_indexes(kafka: Kafka) -> None:
    """topic1 with 13 partitions and topic2 with 19 are 32 folders."""
    kafka.create_topic("topic1", 13)
    kafka.create_topic("topic2", 19)
    folders = [path for path in Path(kafka.log_directory()).iterdir() if path.is_dir()]
    wanted = {f"topic1-{n}" for n in range(13)} | {f"topic2-{n}" for n in range(19)}
    assert {path.name for path in folders} == wanted
    assert len(folders) == 32
    for path in folders:
        names = {each.name for each in path.iterdir()}
        assert {f"{0:020d}{end}" for end in (".log", ".index", ".timeindex")} <= names


def test_a_segment_is_named_by_its_first_offset_and_only_the_last_one_grows(kafka: Kafka) -> None:
    kafka.create_topic("orders", configs={"segment.bytes": 1_000})
    for number in range(20):
        kafka.produce("orders", [f"{number}".ljust(100)])
    before = contents(folder(kafka))
    logs = [name for name in before if name.endswith(".log")]
    assert len(logs) > 2
    for name in logs:
        base_offset = int.from_bytes(before[name][:8])
        assert name == f"{base_offset:020d}.log"
    kafka.produce("orders", ["more"])
    after = contents(folder(kafka))
    assert [name for name in logs if after[name] != before[name]] in ([], [logs[-1]])
    assert after[logs[-1]].startswith(before[logs[-1]]), "what was written stays as it was"


def test_reading_leaves_the_log_as_it_is(kafka: Kafka) -> None:
    """All messages stay, and who read which is not in the log: the broker locks nothing for it."""
    kafka.create_topic("orders")
    kafka.produce("orders", ["1", "2", "3"])
    before = contents(folder(kafka))
    for group in ("billing", "audit"):
        for unread in (3, 0):
            with barnabas.sync.Consumer(
                "orders", bootstrap_servers=kafka.bootstrap_servers, group_id=group,
                auto_offset_reset="earliest",
            ) as consumer:  # fmt: skip
                assert len(consumer.getmany(timeout=WAIT_S if unread else 0.1)) == unread
    assert contents(folder(kafka)) == before
    assert kafka.values("orders") == [b"1", b"2", b"3"]


def begins_with_a_segment(kafka: Kafka) -> bool:
    """Of what is left, the first record is the first of a segment: none is deleted in part."""
    left = kafka.records("orders")
    segments = [name for name in os.listdir(folder(kafka)) if name.endswith(".log")]
    return not left or left[0].offset == int(min(segments)[:20])


@pytest.mark.kafka(settings={"log.retention.check.interval.ms": 100})
@pytest.mark.parametrize("limit", [{"retention.ms": 60_000}, {"retention.bytes": 3_000}])
def test_whole_segments_are_deleted_by_age_and_by_size(kafka: Kafka, limit: dict[str, int]) -> None:
    options = {"segment.bytes": 1_000, "file.delete.delay.ms": 0, **limit}
    kafka.create_topic("orders", configs=options)
    kafka.produce("orders", ["first".ljust(300)])
    for number in range(30):
        kafka.produce("orders", [f"{number}".ljust(300)])
    kafka.clock.advance(minutes=5)
    first = f"{0:020d}"
    kafka.wait_until(lambda: not any(each.startswith(first) for each in os.listdir(folder(kafka))))
    kafka.wait_until(lambda: begins_with_a_segment(kafka))
    assert kafka.admin.offsets({barnabas.TopicPartition("orders", 0): -1}).popitem()[1].offset == 31


def test_the_lines_of_server_properties_are_understood() -> None:
    settings = {
        "log.retention.hours": 168,
        "log.segment.bytes": 1_073_741_824,
        "log.retention.check.interval.ms": 300_000,
        "log.cleaner.enable": "false",
        "num.partitions": 4,
    }
    with Kafka(settings=settings) as kafka:
        kafka.produce("orders", ["1"])
        assert len(kafka.admin.topic("orders").partitions) == 4
        values = {each.name: each.value for each in kafka.admin.broker_options(0)}
        for name, value in settings.items():
            assert values[name] == str(value), name


def test_partitions_can_be_added_and_not_taken_away(kafka: Kafka) -> None:
    kafka.create_topic("orders", 2)
    kafka.admin.create_partitions("orders", 3)
    assert len(kafka.admin.topic("orders").partitions) == 3
    with pytest.raises(barnabas.InvalidRequest, match="INVALID_PARTITIONS"):
        kafka.admin.create_partitions("orders", 2)


def test_a_reader_takes_some_of_the_partitions(kafka: Kafka) -> None:
    kafka.create_topic("orders", 4)
    for partition in range(4):
        kafka.produce("orders", [f"{partition}"], partition=partition)
    ends = {("orders", 1): 1, ("orders", 3): 1}
    with barnabas.sync.PartitionConsumer(
        ends, bootstrap_servers=kafka.bootstrap_servers, auto_offset_reset="earliest"
    ) as reader:
        reader.stop_at(ends)
        assert sorted(message.value or b"" for message in reader) == [b"1", b"3"]


def test_records_go_from_the_file_to_the_socket_inside_the_kernel(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka.create_topic("orders")
    kafka.produce("orders", ["x" * 100_000 for _ in range(10)])
    moved: list[int] = []
    splice = os.splice

    def counted(*arguments: int, **options: int) -> int:
        count = splice(*arguments, **options)
        moved.append(count)
        return count

    monkeypatch.setattr(os, "splice", counted)
    assert len(kafka.records("orders")) == 10
    assert sum(moved) >= 2 * 1_000_000, "into a pipe, and from it into the socket"
