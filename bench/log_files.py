"""Writes logs of any size as a producer would have left them, without one.

In: a directory, sizes. Out: a partition's files, in Kafka's layout, which both brokers open.
"""

import os
import shutil
from pathlib import Path
from random import Random
from uuid import UUID

from barnabas.log.config import LogConfig
from barnabas.log.directory.checkpoints import MetaProperties
from barnabas.log.directory.opening import open_log_directory
from barnabas.model.ids import TopicPartition
from barnabas.system.disk import SystemDisk
from barnabas.wire.records import BatchBuilder

RECORD_BYTES = 1000
BATCH_RECORDS = 16  # the default batch.size of Java's producer
BASE_MS = 1_700_000_000_000
DISTINCT_BATCHES = 64


def write_log(home: Path, total_bytes: int, keys: int, segment_bytes: int) -> tuple[Path, int]:
    """The partition's directory and its end offset. `keys`: 0 for a few batches over and over."""
    config = LogConfig(segment_bytes=segment_bytes, timestamp_before_max_ms=1 << 62)
    meta = MetaProperties("bench-bench-bench-ben", 1, "AAAAAAAAAAAAAAAAAAAAAQ")
    directory = open_log_directory(
        SystemDisk(), str(home), meta=meta, config_for=lambda topic: config
    )
    partition = TopicPartition("filled", 0)
    log = directory.create(partition, UUID(int=1), config)
    rng = Random(1)
    value = rng.randbytes(RECORD_BYTES - 30)
    made: list[bytearray] = []
    time_ms = BASE_MS
    while log.size < total_bytes:
        if keys or len(made) < DISTINCT_BATCHES:
            batch = _batch(rng, value, keys or 1_000_000, time_ms)
            made.append(batch)
        if keys:
            made.clear()
        else:
            batch = bytearray(made[log.end_offset % DISTINCT_BATCHES % len(made)])
        log.append(memoryview(batch), 0, time_ms)
        time_ms += 1
    end = log.end_offset
    log.roll(time_ms)  # all of it may be compacted
    directory.close()
    return home / str(partition), end


def _batch(rng: Random, value: bytes, keys: int, time_ms: int) -> bytearray:
    builder = BatchBuilder()
    for _ in range(BATCH_RECORDS):
        builder.append(b"%012d" % rng.randrange(keys), value, (), time_ms)
    return builder.build()


def put_in_place(files: Path, partition: Path) -> None:
    """The files of a log instead of an empty one's; log files are shared, not copied."""
    for old in partition.iterdir():
        if old.name != "partition.metadata":
            old.unlink()
    for file in files.iterdir():
        if file.suffix == ".log":
            os.link(file, partition / file.name)
        elif file.name != "partition.metadata":
            shutil.copy(file, partition / file.name)
