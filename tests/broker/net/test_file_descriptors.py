"""A broker that runs short of file descriptors refuses or waits; it takes no disk for dead."""

import errno
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from barnabas.broker.net.file_descriptors import OWN_FILES, SLICES_MAX, FileDescriptorBudget
from barnabas.model.errors import Code
from barnabas.wire.frames import request_frame
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from barnabas.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests.broker.running import running_broker
from tests.broker.sick_disks import SickDisk, log_dirs, produced, values
from tests.process import BrokerProcess
from tests.raw import RawClient, batch_of, records_in

pytestmark = pytest.mark.slow

LARGE = b"x" * 20_000  # more than a reply copies: it is sent from the file
OFFLINE = "log directory offline"


class FewFiles(BrokerProcess):
    """A broker that may open only so many files."""

    def __init__(self, directory: Path, limit: int) -> None:
        super().__init__(directory / "data", log=directory / "log")
        self.limit = limit

    def command(self) -> list[str]:
        return ["sh", "-c", f'ulimit -n {self.limit}; exec "$@"', "sh", *super().command()]


@contextmanager
def filled(directory: Path, limit: int, partitions: int) -> Iterator[FewFiles]:
    """A broker with a record in each partition of topic `t`."""
    broker = FewFiles(directory, limit)
    broker.start()
    try:
        with RawClient(broker.host, broker.port) as client:
            assert client.create_topic("t", partitions) == 0
            for first in range(0, partitions, 500):
                data = [
                    PartitionProduceData(index=index, records=batch_of(LARGE))
                    for index in range(first, min(first + 500, partitions))
                ]
                request = ProduceRequest(
                    acks=-1,
                    timeout_ms=10_000,
                    topic_data=[TopicProduceData(name="t", partition_data=data)],
                )
                answer = client.call(request, 9, ProduceResponse)
                codes = {each.error_code for each in answer.responses[0].partition_responses}
                assert codes == {0}
        yield broker
        assert broker.is_running()
        assert OFFLINE not in broker.log
    finally:
        broker.kill()  # a clean stop would sync each of the logs
    broker.check_log()


def fetch_of(wanted: list[int], session_id: int = 0, session_epoch: int = -1) -> FetchRequest:
    partitions = [
        FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20)
        for index in wanted
    ]
    return FetchRequest(
        max_wait_ms=100,
        min_bytes=1,
        max_bytes=1 << 30,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=[FetchTopic(topic="t", partitions=partitions)] if partitions else [],
    )


def read_all(broker: BrokerProcess, partitions: int) -> None:
    """Each partition's record arrives, though every fetch asks for all partitions."""
    with RawClient(broker.host, broker.port) as client:
        missing = set(range(partitions))
        while missing:
            answer = client.call(fetch_of(list(range(partitions))), 12, FetchResponse)
            for data in answer.responses[0].partitions:
                if len(records_in(data)):
                    missing.discard(data.partition_index)


def read_all_in_a_session(broker: BrokerProcess, partitions: int) -> None:
    with RawClient(broker.host, broker.port) as client:
        answer = client.call(fetch_of(list(range(partitions)), 0, 0), 12, FetchResponse)
        missing, epoch = set(range(partitions)), 1
        while True:
            for topic in answer.responses:
                for data in topic.partitions:
                    if len(records_in(data)):
                        missing.discard(data.partition_index)
            if not missing:
                return
            answer = client.call(fetch_of([], answer.session_id, epoch), 12, FetchResponse)
            epoch += 1


@pytest.mark.parametrize(("partitions", "limit"), [(2500, 1024), (600, 256)])
def test_a_consumer_of_more_partitions_than_descriptors_reads_them_all(
    tmp_path: Path, partitions: int, limit: int
) -> None:
    with filled(tmp_path, limit, partitions) as broker:
        read_all(broker, partitions)
        read_all_in_a_session(broker, partitions)
        assert f'"open_files_max": {limit}' in broker.log


def test_clients_that_do_not_read_leave_descriptors_to_those_that_do(tmp_path: Path) -> None:
    with filled(tmp_path, 256, 600) as broker, ExitStack() as held:
        for number in range(13):
            idle = held.enter_context(socket.socket())
            idle.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            idle.connect((broker.host, broker.port))
            wanted = [(number * 46 + each) % 600 for each in range(600)]
            idle.sendall(request_frame(1, 12, 1, "idle", fetch_of(wanted)) * 3)
        read_all(broker, 600)


async def test_a_request_that_finds_no_descriptor_is_refused_and_the_next_one_succeeds(
    tmp_path: Path,
) -> None:
    for number in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
        disk, directory = SickDisk(), tmp_path / str(number)
        settings = log_dirs([directory])
        async with running_broker(directory, settings, disk=disk) as running:
            assert (await running.create("t")).error_code == 0
            assert (await produced(running, "t", 0)).error_code == 0
            disk.broken[str(directory / "t-0")] = number
            refused = await produced(running, "t", 0)
            assert refused.error_code == Code.KAFKA_STORAGE_ERROR
            disk.broken.clear()
            assert (await produced(running, "t", 0)).error_code == 0
            assert len(await values(running, "t")) == 2
            assert not running.broker.failure
            assert OFFLINE not in running.log.getvalue()


async def test_a_checkpoint_without_a_descriptor_is_written_later(tmp_path: Path) -> None:
    disk = SickDisk()
    async with running_broker(tmp_path, log_dirs([tmp_path]), disk=disk) as running:
        assert (await running.create("t")).error_code == 0
        assert (await produced(running, "t", 0)).error_code == 0
        (log_directory,) = running.broker.logs.log_directories
        disk.broken[str(tmp_path)] = errno.EMFILE
        assert not await log_directory.checkpoint()
        disk.broken.clear()
        assert await log_directory.checkpoint()
        assert log_directory.online


def test_the_parts_of_the_budget_stay_below_the_limit() -> None:
    for limit in (128, 256, 1024, 1 << 20):
        parts = FileDescriptorBudget(limit, lambda: 0)
        used = 3 * parts.segments_max + parts.replies_max + parts.connections_max + OWN_FILES
        assert used <= limit


def test_a_reply_carries_no_more_slices_than_there_are_descriptors_for() -> None:
    open_files = 0
    parts = FileDescriptorBudget(256, lambda: open_files)
    assert parts.slices_max(0) == parts.segments_max + parts.replies_max
    assert not parts.crowded(0)
    open_files = parts.segments_max + parts.replies_max
    assert parts.slices_max(10) == 0
    assert parts.crowded(10)
    assert not parts.crowded(60_000)
    assert FileDescriptorBudget(1 << 20, lambda: 0).slices_max(0) == SLICES_MAX


def test_a_start_without_descriptors_ends_with_an_error_that_says_so(tmp_path: Path) -> None:
    broker = FewFiles(tmp_path, 7)
    with pytest.raises(RuntimeError, match="Too many open files"):
        broker.start()
