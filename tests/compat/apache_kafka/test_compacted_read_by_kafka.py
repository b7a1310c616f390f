"""A compacted, trimmed and recovered log of ours is one of Kafka's to Kafka.

Its tool reads the files without complaint; its broker, given them, serves the same bytes.
"""

import shutil
from pathlib import Path
from random import Random

import pytest

from barnabas.log.log import Log
from barnabas.log.segments.scan import BatchScanner
from barnabas.system.disk import SystemDisk
from barnabas.wire.batch import DELETE_HORIZON
from barnabas.wire.compression import Codec
from barnabas.wire.records import Record, encode_batch, iter_batches
from tests.log.batches import NOW, PARTITION, new_log, open_directory
from tests.log.compacting import compact, compacted, on_disk
from tests.raw import RawClient, records_in
from tests.support import kafka
from tests.support.java import Java

TOOL = "org.apache.kafka.tools.DumpLogSegments"
CONFIG = compacted(
    segment_bytes=20_000,
    index_interval_bytes=500,
    segment_index_bytes=1 << 16,
    delete_retention_ms=10_000,
    timestamp_before_max_ms=1 << 62,
)


def fill(log: Log, rng: Random, sequences: dict[int, int], batches: int) -> None:
    for _ in range(batches):
        producer, count = rng.choice((-1, 0, 1, 2)), rng.randint(1, 6)
        records = [
            Record(
                number,
                NOW + rng.randrange(1000),
                b"key-%d" % rng.randrange(60),
                None if rng.random() < 0.1 else rng.randbytes(rng.choice((5, 80, 300))),
                (("h", b"1"),),
            )
            for number in range(count)
        ]
        idempotent = producer >= 0
        data = encode_batch(
            records,
            codec=rng.choice(list(Codec)),
            producer_id=producer,
            producer_epoch=0 if idempotent else -1,
            base_sequence=sequences.get(producer, 0) if idempotent else -1,
        )
        if idempotent:
            sequences[producer] = sequences.get(producer, 0) + count
        log.append(memoryview(data), 0, NOW)
    log.advance_high_watermark(log.end_offset)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Log:
    """Compacted twice, trimmed, killed, recovered, and stopped cleanly."""
    disk, rng = SystemDisk(), Random(5)
    home = tmp_path_factory.mktemp("ours") / "data"
    directory, log = new_log(disk, CONFIG, path=str(home))
    sequences: dict[int, int] = {}
    # A producer whose only record is overwritten, and that is remembered all the same.
    once = encode_batch(
        [Record(0, NOW, b"key-0", b"x")], producer_id=9, producer_epoch=0, base_sequence=0
    )
    log.append(memoryview(once), 0, NOW)
    for number in range(3):
        fill(log, rng, sequences, 150)
        log.flush()
        directory.checkpoint()
        if number < 2:
            compact(disk, directory, log, NOW + number * 20_000, keys_bytes=1 << 20)
    log.delete_before(log.segments[0].base_offset + 3)
    log.flush()
    directory.checkpoint()
    again = home.parent / "again"
    shutil.copytree(home, again)  # as a process that was killed left it
    after = open_directory(disk, CONFIG, path=str(again))
    found = after.logs[PARTITION]
    found.advance_high_watermark(found.end_offset)
    after.close()
    return open_directory(disk, CONFIG, path=str(again)).logs[PARTITION]


def test_the_log_is_as_wild_as_it_should_be(log: Log) -> None:
    headers = on_disk(log)
    assert [header for header in headers if not header.record_count]
    assert [header for header in headers if header.attributes & DELETE_HORIZON]
    assert len(log.segments) > 3
    assert log.start_offset > log.segments[0].base_offset


def test_kafkas_tool_reads_it_without_complaint(log: Log, kafka_lib: Path) -> None:
    java = Java(f"{kafka_lib}/*")
    files = sorted(Path(log.path).iterdir())

    def dump(suffix: str, *options: str) -> str:
        chosen = ",".join(str(file) for file in files if file.name.endswith(suffix))
        done = java.run(TOOL, *options, "--files", chosen)
        assert done.returncode == 0, done.stderr
        said = [
            line
            for line in done.stderr.splitlines()
            if line.strip()
            and not line.startswith(("SLF4J", "Non-consecutive offsets"))
            # Offsets are missing, which is what compaction is.
            and "is followed by" not in line
        ]
        assert said == []
        return done.stdout

    out = dump(".log", "--deep-iteration")
    assert "isvalid: false" not in out
    records = out.count("| offset:")
    assert records == sum(header.record_count for header in on_disk(log))
    dump(".index")
    dump(".timeindex")
    dump(".snapshot")
    assert "passed sanity check" in dump(".index", "--index-sanity-check")


def test_kafka_serves_our_files_byte_for_byte(log: Log, kafka_lib: Path, tmp_path: Path) -> None:
    assert kafka_lib.exists()
    properties, port = kafka.prepare(tmp_path / "kafka", {"log.cleaner.enable": "true"})
    broker = kafka.start(properties, port, kafka.SHORT_LIVED)
    configs = (("cleanup.policy", "compact"), ("min.cleanable.dirty.ratio", "1.0"))
    with RawClient(broker.host, port) as client:
        assert client.create_topic("orders", configs=configs) == 0
    broker.stop()
    home = broker.data / "orders-0"
    for file in home.iterdir():
        if file.name != "partition.metadata":
            file.unlink()
    for file in Path(log.path).iterdir():
        if file.name != "partition.metadata":
            shutil.copy(file, home)
    start = log.start_offset
    (broker.data / "log-start-offset-checkpoint").write_text(f"0\n1\norders 0 {start}\n")
    broker = kafka.start(properties, port, kafka.SHORT_LIVED)
    try:
        served = b""
        offset = start
        with RawClient(broker.host, port) as client:
            while offset < log.end_offset:
                batches = whole(bytes(records_in(client.fetch("orders", offset))))
                assert batches
                served += b"".join(batch for _, batch in batches)
                offset = batches[-1][0]
        assert served == b"".join(data_of(log, start))
    finally:
        broker.stop()


def whole(data: bytes) -> list[tuple[int, bytes]]:
    return [(header.last_offset + 1, bytes(batch)) for header, batch in iter_batches(data)]


def data_of(log: Log, start: int) -> list[bytes]:
    """Every batch on disk from the one that holds `start`."""
    found = []
    for segment in log.segments:
        reader = BatchScanner(segment.file(), segment.size)
        while header := reader.peek():
            at = reader.take(header)
            if header.last_offset >= start:
                found.append(reader.chunk[at : at + header.size])
    return found
