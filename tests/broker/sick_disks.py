"""Disks that fail, fill up or stall, and what a broker on several directories is asked."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from barnabas.model.ports import Buffer
from barnabas.system.disk import SystemDisk, SystemFile
from barnabas.wire.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from barnabas.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from barnabas.wire.records import Record, decode_batch, encode_batch, iter_batches
from tests.broker.running import Running, Wire
from tests.waiting import WAIT_S

TIME = 1_700_000_000_000
NAMES = ("one", "two", "three")  # of directories


class SickFile(SystemFile):
    __slots__ = ("disk",)
    disk: "SickDisk"

    def write(self, position: int, data: Buffer) -> None:
        self.disk.ail(self.path)
        super().write(position, data)

    def cached(self, position: int, length: int) -> bool:
        return self.disk.cold is None or self.disk.cold.is_set()

    def read(self, position: int, length: int) -> bytes:
        if length > 100_000 and self.disk.cold is not None:  # no look at a header: the records
            assert threading.current_thread() is not threading.main_thread() or self.cached(0, 1)
            assert self.disk.cold.wait(WAIT_S)
        return super().read(position, length)

    def sync(self) -> None:
        self.disk.ail(self.path, sync=True)
        super().sync()


class SickDisk(SystemDisk):
    """A disk whose directories can be made to fail, or to wait with every sync."""

    def __init__(self) -> None:
        self.broken: dict[str, int] = {}  # directories, and with what they answer
        self.gates: dict[str, threading.Event] = {}  # directories whose syncs wait for it
        self.cold: threading.Event | None = None  # records are not in memory until it is set
        self.syncs = 0

    def ail(self, path: str, *, sync: bool = False) -> None:
        if sync:
            self.syncs += 1
            for directory, gate in tuple(self.gates.items()):
                if path.startswith(directory + "/"):
                    assert gate.wait(WAIT_S)
        for directory, number in tuple(self.broken.items()):
            if path.startswith(directory + "/"):
                raise OSError(number, "sick", path)

    def open(self, path: str, *, create: bool = False) -> SystemFile:
        if create:
            self.ail(path)
        found = super().open(path, create=create)
        file = SickFile(path, found.fileno())
        found._fd = -1
        file.disk = self
        return file

    def list(self, path: str) -> list[str]:
        self.ail(path + "/")
        return super().list(path)

    def replace_file(self, path: str, data: bytes) -> None:
        self.ail(path)
        super().replace_file(path, data)


@contextmanager
def stalled(disk: SickDisk, directory: Path) -> Iterator[None]:
    gate = disk.gates[str(directory)] = threading.Event()
    try:
        yield
    finally:
        gate.set()
        del disk.gates[str(directory)]


def log_dirs(directories: list[Path]) -> dict[str, str]:
    return {"log.dirs": ",".join(map(str, directories))}


def request_for(topic: str, partition: int, records: int = 1, base: int = 0) -> ProduceRequest:
    batch = encode_batch([Record(n, TIME, b"key", b"%d" % (base + n), ()) for n in range(records)])
    data = PartitionProduceData(index=partition, records=memoryview(batch))
    return ProduceRequest(
        transactional_id=None,
        acks=1,
        timeout_ms=1000,
        topic_data=[TopicProduceData(name=topic, partition_data=[data])],
    )


async def produced(
    running: Running, topic: str, partition: int, wire: Wire | None = None
) -> PartitionProduceResponse:
    response = await running.ask(request_for(topic, partition), ProduceResponse, 12, wire)
    return response.responses[0].partition_responses[0]


async def described(running: Running) -> dict[str, DescribeLogDirsResult]:
    response = await running.ask(DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse)
    return {Path(result.log_dir).name: result for result in response.results}


async def values(running: Running, topic: str, partition: int = 0) -> list[bytes | None]:
    found: list[bytes | None] = []
    while True:
        before = len(found)
        wanted = FetchPartition(
            partition=partition, fetch_offset=before, partition_max_bytes=1 << 24
        )
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=1 << 24,
            topics=[FetchTopic(topic=topic, partitions=[wanted])],
        )
        response = await running.ask(request, FetchResponse, 12)
        (answer,) = response.responses[0].partitions
        assert not answer.error_code
        records = bytes(answer.records or b"")  # type: ignore[arg-type]
        for _, batch in iter_batches(records):
            found += [r.value for r in decode_batch(batch) if r.offset >= before]
        if len(found) == before:
            return found
