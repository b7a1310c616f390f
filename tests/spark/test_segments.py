"""Ranges read from segment files are those that the leader sends; of our broker and of Kafka's."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from barnabas.model.errors import Corrupt
from barnabas.model.ids import TopicPartition
from barnabas.pipeline.spark import fetching, segments
from barnabas.pipeline.spark.brokers import opened
from barnabas.pipeline.spark.fetching import RangeFetcher
from barnabas.pipeline.spark.offsets import OffsetRange
from barnabas.pipeline.spark.segments import SegmentFiles, local_files
from tests.spark.topics import cut
from tests.waiting import WAIT_S

ROWS = 24_000


@pytest.fixture(autouse=True)
def _look_again() -> Iterator[None]:
    segments._directories.clear()
    yield
    segments._directories.clear()


def filled(servers: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    config = {"segment.bytes": "1048576", "index.interval.bytes": "1000"}
    admin.create_topics([NewTopic(topic, 1, 1, config=config)])[topic].result(WAIT_S)
    options = {"bootstrap.servers": servers, "batch.num.messages": 500, "linger.ms": 5}
    producer = Producer(options)
    for number in range(ROWS):
        producer.produce(topic, b"%d " % number * 20, partition=0)
        if number % 1000 == 0:
            producer.flush(WAIT_S)
    assert producer.flush(WAIT_S) == 0


def batches(servers: str, topic: str, start: int, stop: int) -> list[tuple[int, bytes]]:
    cluster = opened({"bootstrap.servers": servers})
    found = RangeFetcher(
        cluster, OffsetRange(topic, 0, start, stop), committed_only=False
    ).batches()
    return [(header.base_offset, bytes(batch)) for header, batch in found]


def test_files_and_leader_give_the_same_batches(
    servers: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(servers, topic)
    ranges = [(0, ROWS), (1, ROWS - 1), (7_777, 19_999), (12_000, ROWS), (ROWS - 3, ROWS)]
    monkeypatch.setattr(fetching, "_FROM_FILES_MIN", 1 << 62)
    by_socket = [batches(servers, topic, *each) for each in ranges]
    monkeypatch.setattr(fetching, "_FROM_FILES_MIN", 0)
    monkeypatch.setattr(RangeFetcher, "_answer", lambda *_: pytest.fail("the leader was asked"))
    assert [batches(servers, topic, *each) for each in ranges] == by_socket


def test_records_that_were_deleted_are_not_looked_for_in_files(servers: str, topic: str) -> None:
    filled(servers, topic)
    cut(servers, topic, 0, 500)
    cluster = opened({"bootstrap.servers": servers})
    at = TopicPartition(topic, 0)
    assert local_files(cluster, at, 499) is None
    found = local_files(cluster, at, 500)
    assert found is not None
    found.close()
    assert local_files(cluster, TopicPartition(f"{topic}-none", 0), 0) is None


def test_a_directory_of_another_cluster_is_not_read(
    our_broker: Any, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(our_broker.bootstrap_servers, topic)
    monkeypatch.setattr(segments, "_belongs", lambda *_: False)
    cluster = opened({"bootstrap.servers": our_broker.bootstrap_servers})
    assert local_files(cluster, TopicPartition(topic, 0), 0) is None
    assert not segments._directories[next(iter(segments._directories))]


def test_files_that_end_early_or_are_rubbish_leave_the_rest_to_the_leader(
    our_broker: Any, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = our_broker.bootstrap_servers
    filled(servers, topic)
    whole = batches(servers, topic, 0, ROWS)
    good = next(our_broker.data.glob(f"**/{topic}-0"))
    names = sorted(path.name for path in good.glob("*.log"))
    assert len(names) > 2
    second = (good / names[1]).read_bytes()
    for number, content in enumerate((second[:9_000], os.urandom(9_000), b"", bytes(9_000))):
        copy = tmp_path / str(number)
        copy.mkdir()
        (copy / names[0]).write_bytes((good / names[0]).read_bytes())
        (copy / names[1]).write_bytes(content)
        monkeypatch.setattr(
            fetching, "local_files", lambda *_, path=str(copy): SegmentFiles(path, 0)
        )
        assert batches(servers, topic, 0, ROWS) == whole
    with pytest.raises((OSError, Corrupt)):
        SegmentFiles(str(tmp_path / "2"), int(names[1][:-4])).chunk(int(names[1][:-4]))
