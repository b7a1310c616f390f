"""Retention and compaction in a running broker, with its real worker process."""

import os
import signal
from pathlib import Path

import pytest

from barnabas.broker.metrics import page
from barnabas.log.log import Log
from barnabas.wire.messages.describe_broker import (
    DescribeBrokerRequest,
    DescribeBrokerResponse,
)
from barnabas.wire.messages.describe_logs import DescribeLogsRequest, DescribeLogsResponse
from barnabas.wire.messages.offset_commit import OffsetCommitResponse
from barnabas.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from barnabas.wire.records import Record, encode_batch
from tests.broker.running import Running, running_broker
from tests.group_requests import commit_request
from tests.log.compacting import contents
from tests.waiting import eventually

pytestmark = pytest.mark.slow

QUICK = {
    "log.cleaner.backoff.ms": "50",
    "log.retention.check.interval.ms": "1",
    "log.initial.task.delay.ms": "0",
}
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.bytes": "3000",
    "min.cleanable.dirty.ratio": "0.01",
    "file.delete.delay.ms": "0",
}


async def put(running: Running, topic: str, *pairs: tuple[str, str], time: int = 0) -> None:
    now = time or running.broker.clock.wall_ms()
    records = [Record(n, now, k.encode(), v.encode()) for n, (k, v) in enumerate(pairs)]
    data = PartitionProduceData(index=0, records=bytes(encode_batch(records)))
    request = ProduceRequest(
        acks=-1,
        timeout_ms=1000,
        topic_data=[TopicProduceData(name=topic, partition_data=[data])],
    )
    response = await running.ask(request, ProduceResponse, 9)
    assert not response.responses[0].partition_responses[0].error_code


def log_of(running: Running, topic: str, partition: int = 0) -> Log:
    return running.broker.topics.existing(topic).partition(partition).log


async def test_old_segments_are_deleted_and_the_cause_is_logged(tmp_path: Path) -> None:
    async with running_broker(tmp_path, QUICK) as running:
        limits = {"retention.ms": "1000", "segment.bytes": "500", "file.delete.delay.ms": "0"}
        await running.create("t", configs=limits)
        log = log_of(running, "t")
        for number in range(6):
            await put(running, "t", (f"k{number}", "x" * 300), time=1_700_000_000_000)
        await eventually(lambda: log.start_offset == 6)
        files = tmp_path / "t-0"
        await eventually(lambda: len(list(files.glob("*.log*"))) == 1)
        assert "segment deleted" in running.log.getvalue()
        assert "retention.ms = 1000: its largest timestamp is" in running.log.getvalue()


async def test_retention_waits_for_the_table_of_a_lake_up_to_a_size(tmp_path: Path) -> None:
    async with running_broker(tmp_path, QUICK) as running:
        options = {
            "retention.ms": "1000", "segment.bytes": "500", "file.delete.delay.ms": "0",
            "lake": "iceberg", "lake.retention.wait": "true", "lake.offsets": "0:2",
        }  # fmt: skip
        await running.create("t", configs=options)
        log = log_of(running, "t")
        for number in range(6):
            await put(running, "t", (f"k{number}", "x" * 300), time=1_700_000_000_000)
        await eventually(lambda: log.start_offset == 2 and log.waiting_bytes == log.size)
        assert "retention waits for the lake's table" in running.log.getvalue()
        text = (await page(running.broker)).decode()
        waiting = 'barnabas_retention_waiting_bytes{partition="0",topic="t"}'
        assert f"{waiting} {float(log.size)}" in text
        told = await running.ask(DescribeBrokerRequest(), DescribeBrokerResponse)
        (found,) = told.waiting
        assert (found.topic, found.waiting_bytes) == ("t", log.size)
        topic = running.broker.topics.existing("t")
        new = {**options, "lake.retention.wait.bytes": str(log.size - 1)}
        await running.broker.catalog.configure_topic(topic, lambda _: new)
        await eventually(lambda: log.start_offset == 3)
        assert "records deleted before they were in the lake's table" in running.log.getvalue()
        new["lake.offsets"] = "0:6"
        await running.broker.catalog.configure_topic(topic, lambda _: new)
        await eventually(lambda: log.start_offset == 6 and not log.waiting_bytes)


async def test_limits_may_change_while_the_broker_runs(tmp_path: Path) -> None:
    async with running_broker(tmp_path, QUICK) as running:
        await running.create("t", configs={"segment.bytes": "500"})
        for number in range(6):
            await put(running, "t", (f"k{number}", "x" * 300))
        topic = running.broker.topics.existing("t")
        new = {"segment.bytes": "500", "retention.bytes": "700"}
        await running.broker.catalog.configure_topic(topic, lambda _: new)
        await eventually(lambda: 700 <= log_of(running, "t").size < 1200)


async def test_a_dirty_log_is_compacted_by_the_worker_which_then_ends(tmp_path: Path) -> None:
    async with running_broker(tmp_path, QUICK) as running:
        await running.create("t", configs=COMPACTED)
        log, cleaner = log_of(running, "t"), running.broker.cleaner
        for number in range(40):
            await put(running, "t", (f"k{number % 4}", f"{number}" * 50), (f"k{number % 3}", "v"))
        await eventually(lambda: cleaner.runs > 0 and log.cleaned_to > 60)
        newest = {}
        for record in contents(log):
            newest[record.key] = record.offset
        kept = [record for record in contents(log) if record.offset < log.cleaned_to]
        assert len({record.key for record in kept}) == len(kept) == 4
        assert newest[b"k3"] == 78
        await eventually(lambda: cleaner.worker_pid is None)
        line = running.log.getvalue()
        assert "log compacted" in line
        assert "is dirty, min.cleanable.dirty.ratio = 0.01" in line
        told = await running.ask(
            DescribeLogsRequest(topic="t", partitions=[0, 9]), DescribeLogsResponse
        )
        assert told.logs[0].cleaning == "clean"
        assert told.logs[0].cleaned_to == log.cleaned_to
        assert told.logs[1].error_code
        metrics = (await page(running.broker)).decode()
        assert 'barnabas_log_dirty_bytes{partition="0",topic="t"}' in metrics
        assert f"barnabas_compaction_runs_total {float(cleaner.runs)}" in metrics
        before, keeper = contents(log), running.keeper
    async with running_broker(tmp_path, QUICK, keeper=keeper) as running:
        assert running.broker.logs.log_directories[0].logs.clean
        assert contents(log_of(running, "t")) == before


async def test_max_compaction_lag_closes_segments_in_time(tmp_path: Path) -> None:
    async with running_broker(tmp_path, {"log.cleaner.enable": "false"}) as running:
        lag = {"max.compaction.lag.ms": "5000"}
        await running.create("kept", configs=lag)
        await running.create("compacted", configs={**lag, "cleanup.policy": "compact"})
        assert log_of(running, "kept").config.segment_ms > 5000
        assert log_of(running, "compacted").config.segment_ms == 5000


async def test_a_worker_that_is_killed_costs_a_pass_and_nothing_else(tmp_path: Path) -> None:
    slow = {**QUICK, "log.cleaner.io.max.bytes.per.second": "1000"}
    async with running_broker(tmp_path, slow) as running:
        await running.create("t", configs=COMPACTED)
        cleaner = running.broker.cleaner
        for number in range(40):
            await put(running, "t", (f"k{number % 4}", f"{number}" * 100))
        await eventually(lambda: cleaner.worker_pid is not None)
        before = contents(log_of(running, "t"))
        os.kill(cleaner.worker_pid or 0, signal.SIGKILL)
        await eventually(lambda: cleaner.failures > 0)
        assert "the compaction worker ended" in running.log.getvalue()
        assert contents(log_of(running, "t")) == before
        await put(running, "t", ("k0", "last"))


async def test_a_broker_stops_at_once_in_the_middle_of_a_pass(tmp_path: Path) -> None:
    slow = {**QUICK, "log.cleaner.io.max.bytes.per.second": "1000"}
    async with running_broker(tmp_path, slow) as running:
        await running.create("t", configs=COMPACTED)
        for number in range(40):
            await put(running, "t", (f"k{number % 4}", f"{number}" * 100))
        await eventually(lambda: running.broker.cleaner.worker_pid is not None)
        pid = running.broker.cleaner.worker_pid or 0
        keeper = running.keeper
        before = contents(log_of(running, "t"))
    assert not Path(f"/proc/{pid}").exists()
    settings = {"log.cleaner.enable": "false"}
    async with running_broker(tmp_path, settings, keeper=keeper) as running:
        assert running.broker.logs.log_directories[0].logs.clean
        assert contents(log_of(running, "t")) == before
        assert not list((tmp_path / "t-0").glob("*.cleaned"))


async def test_a_topic_that_is_deleted_in_the_middle_of_a_pass_is_no_fault(tmp_path: Path) -> None:
    slow = {**QUICK, "log.cleaner.io.max.bytes.per.second": "10000"}
    async with running_broker(tmp_path, slow) as running:
        await running.create("t", configs=COMPACTED)
        for number in range(40):
            await put(running, "t", (f"k{number % 4}", f"{number}" * 100))
        cleaner = running.broker.cleaner
        await eventually(lambda: cleaner.worker_pid is not None)
        await running.broker.catalog.delete_topic(running.broker.topics.existing("t"))
        await eventually(lambda: cleaner.worker_pid is None)
        assert cleaner.failures == 0
        assert "log not compacted" not in running.log.getvalue()


async def test_a_damaged_log_is_reported_once_and_left_alone(tmp_path: Path) -> None:
    async with running_broker(tmp_path, {**QUICK, "log.cleaner.enable": "false"}) as running:
        await running.create("t", configs=COMPACTED)
        for number in range(40):
            await put(running, "t", (f"k{number % 4}", f"{number}" * 100))
        keeper = running.keeper
        first = tmp_path / "t-0" / f"{0:020d}.log"
        data = bytearray(first.read_bytes())
        data[100] ^= 0xFF
        first.write_bytes(data)
    async with running_broker(tmp_path, QUICK, keeper=keeper) as running:
        cleaner = running.broker.cleaner
        await eventually(lambda: len(cleaner.unfit) == 1)
        log = log_of(running, "t")
        assert "checksum" in cleaner.unfit[log]
        told = await running.ask(
            DescribeLogsRequest(topic="t", partitions=[0]), DescribeLogsResponse
        )
        assert told.logs[0].cleaning.startswith("left alone until a restart: ")
        assert running.log.getvalue().count("log not compacted") == 1


async def test_groups_survive_the_compaction_of_their_offsets(tmp_path: Path) -> None:
    """Hazard 13: what was deleted stays deleted, what was committed stays committed."""
    settings = {
        **QUICK,
        "offsets.topic.num.partitions": "1",
        "offsets.topic.segment.bytes": "4000",
        "log.cleaner.min.cleanable.ratio": "0.01",
        "log.cleaner.delete.retention.ms": "0",
    }
    async with running_broker(tmp_path, settings) as running:
        from barnabas.broker.groups.coordination import coordination

        await running.create("t", partitions=3)
        await coordination(running.broker).ready()
        for number in range(120):
            await commit(running, f"group{number % 3}", number % 3, number)
        await commit(running, "group9", 1, 77)
        await deleted(running, "group9")
        log = log_of(running, "__consumer_offsets")
        for number in range(120, 240):
            await commit(running, f"group{number % 3}", number % 3, number)
        await eventually(lambda: log.cleaned_to > 200)
        keeper = running.keeper
    async with running_broker(tmp_path, settings, keeper=keeper) as running:
        from barnabas.broker.groups.coordination import coordination

        groups = coordination(running.broker)
        await groups.ready()
        await eventually(lambda: not groups.runtime.is_loading())
        offsets = groups.shard_of("group0").offsets
        for group in range(3):
            found = offsets.find(f"group{group}", "t", group)
            assert found is not None
            assert found.offset == 237 + group
        assert offsets.find("group9", "t", 1) is None


async def commit(running: Running, group: str, partition: int, offset: int) -> None:
    request = commit_request(group, {partition: offset}, metadata="x" * 40)
    response = await running.ask(request, OffsetCommitResponse, 8)
    assert not response.topics[0].partitions[0].error_code


async def deleted(running: Running, group: str) -> None:
    from barnabas.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse

    request = DeleteGroupsRequest(groups_names=[group])
    response = await running.ask(request, DeleteGroupsResponse)
    assert not response.results[0].error_code
