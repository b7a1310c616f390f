"""Batches and logs for the tests of this folder."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from barnabas.log.config import LogConfig
from barnabas.log.directory.checkpoints import MetaProperties
from barnabas.log.directory.directory import LogDirectory
from barnabas.log.directory.opening import open_log_directory
from barnabas.log.log import Log
from barnabas.model.ids import TopicPartition
from barnabas.model.ports import Disk
from barnabas.wire.batch import BatchHeader, read_header
from barnabas.wire.records import Record, encode_batch

NOW = 1_700_000_000_000
DATA = "/data"
PARTITION = TopicPartition("orders", 0)
TOPIC_ID = UUID(int=0x1234_5678_9ABC_4DEF_8123_4567_89AB_CDEF)
SMALL = LogConfig(segment_bytes=2000, index_interval_bytes=300, segment_index_bytes=4096)
META = MetaProperties("cluster-cluster-cluste", 1, "AAAAAAAAAAAAAAAAAAAAAQ")


def batch(
    count: int = 1,
    *,
    size: int = 20,
    time: int = NOW,
    producer: int = -1,
    epoch: int = 0,
    sequence: int = -1,
    **options: Any,
) -> memoryview:
    """A batch as a client sends it: base offset 0, `time` on its last record."""
    records = [
        Record(number, time - count + 1 + number, b"key", bytes([number % 251]) * size, ())
        for number in range(count)
    ]
    return memoryview(
        encode_batch(
            records,
            producer_id=producer,
            producer_epoch=epoch if producer >= 0 else -1,
            base_sequence=sequence,
            **options,
        )
    )


def open_directory(
    disk: Disk, config: LogConfig | None = None, path: str = DATA, **options: Any
) -> LogDirectory:
    shared = config or LogConfig()
    return open_log_directory(disk, path, meta=META, config_for=lambda topic: shared, **options)


def new_log(
    disk: Disk, config: LogConfig | None = None, **options: Any
) -> tuple[LogDirectory, Log]:
    config = config or LogConfig()
    directory = open_directory(disk, config, **options)
    return directory, directory.create(PARTITION, TOPIC_ID, config)


def reopened(disk: Disk, config: LogConfig | None = None) -> Log:
    """The log as the next process finds it."""
    return open_directory(disk, config).logs[PARTITION]


def write_snapshots(log: Log) -> None:
    """Those of the last rolls, as the thread of the log directory does."""
    work = log.pending_snapshots()
    if work is not None:
        work.run()
        log.snapshots_written(work)


def read_batches(
    log: Log, *, start: int | None = None, bytes_max: int = 1 << 20, limit: int | None = None
) -> Iterator[tuple[BatchHeader, bytes]]:
    """Every batch that a consumer would get, fetch after fetch."""
    offset = log.start_offset if start is None else start
    limit = log.end_offset if limit is None else limit
    while offset < limit:
        slice_ = log.read(offset, bytes_max, limit)
        if slice_.file_slice is None:
            return
        part = slice_.file_slice
        data = part.file.read(part.position, part.length)
        assert len(data) == part.length
        position = 0
        while position < len(data):
            header = read_header(data, position)
            yield header, data[position : position + header.size]
            position += header.size
            offset = header.last_offset + 1
        assert slice_.next_offset == offset


def fill(log: Log, batches: int, count: int = 3, epoch: int = 1) -> None:
    for number in range(batches):
        log.append(batch(count, time=NOW + number), epoch, NOW)


def offsets(log: Log, **options: int) -> list[int]:
    return [header.base_offset for header, _ in read_batches(log, **options)]
