"""Logs that are read back while they move, or while the process is out of file descriptors."""

import errno
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from barnabas.broker import log_reading
from barnabas.broker.log_reading import read_batches
from barnabas.broker.partition import Partition
from barnabas.wire.records import iter_batches
from tests.broker.running import running_broker
from tests.waiting import eventually

RECORDS = 20


async def read_one(partition: Partition, offset: int) -> tuple[list[int], int]:
    found = await read_batches(partition, offset, partition.log.end_offset, 1)
    assert found is not None
    return [header.base_offset for header, _ in iter_batches(found.data)], found.next_offset


async def test_a_log_that_moves_is_read_on_where_it_has_moved_to(tmp_path: Path) -> None:
    directories = {"log.dirs": f"{tmp_path / 'one'},{tmp_path / 'two'}"}
    async with running_broker(tmp_path, directories) as running:
        await running.create("t", 1, {"segment.bytes": "100"})
        for _ in range(RECORDS):
            await running.produce("t", 1)
        broker = running.broker
        (partition,) = broker.topics.existing("t").partitions
        found, offset = await read_one(partition, 0)
        (other,) = (each for each in broker.logs.online() if each is not partition.log_directory)
        broker.moves.begin(partition, other)
        await eventually(lambda: broker.moves.of(partition.name) is None)
        assert partition.log_directory is other
        while offset < RECORDS:
            more, offset = await read_one(partition, offset)
            found += more
        assert found == list(range(RECORDS))
        assert await read_batches(partition, offset, RECORDS, 1) is None


async def test_a_read_waits_while_there_are_no_file_descriptors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_reading, "AGAIN_S", 0)
    async with running_broker(tmp_path) as running:
        await running.create("t", 1)
        await running.produce("t", 1)
        (partition,) = running.broker.topics.existing("t").partitions
        problems = [OSError(errno.EMFILE, "too many open files"), OSError(errno.ENOMEM, "memory")]

        def read(*given: Any) -> Any:
            if problems:
                raise problems.pop()
            return partition.log.read(*given)

        stub = cast(Partition, SimpleNamespace(log=SimpleNamespace(read=read)))
        assert (await read_batches(stub, 0, 1, 1)) is not None
        problems = [OSError(errno.EIO, "the disk is broken")]
        with pytest.raises(OSError, match="broken"):
            await read_batches(stub, 0, 1, 1)
