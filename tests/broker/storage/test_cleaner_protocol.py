"""What the broker and its worker say to each other is checked on both sides."""

import asyncio
import sys

import msgspec
import pytest

from barnabas.broker.storage.cleaner_process import CleanerProcess
from barnabas.broker.storage.cleaner_protocol import (
    FRAME_SIZE_MAX,
    LENGTH,
    CompactedSegment,
    CompactionDone,
    CompactionOrder,
    CompactionStopped,
    Report,
    frame,
    length_of,
    read_order,
    read_report,
)
from barnabas.log.compaction.job import CleanedSegment, CompactionJob, SealedSegment
from tests.waiting import WAIT_S

JOB = CompactionJob(
    path="/data/t-0",
    sources=[SealedSegment(0, 10, 1000, has_aborted=True)],
    dirty_from=0,
    dirty_to=10,
    wall_ms=1,
    segment_bytes=1 << 30,
    segment_index_bytes=1 << 20,
    index_interval_bytes=4096,
    delete_retention_ms=5,
    producers={2**62: 9, 7: 3},
    epoch_starts=[3],
    marked_epochs={8: 1},
    aborted_behind=[(7, 2, 12, 13)],
    keys_bytes_max=1 << 20,
    cuts=2,
)


def test_messages_come_out_as_they_went_in() -> None:
    order = CompactionOrder(JOB, 1.7e308)
    data = frame(order)
    assert length_of(data[: LENGTH.size]) == len(data) - LENGTH.size
    assert read_order(data[LENGTH.size :]) == order
    reports: list[Report] = [
        CompactedSegment(CleanedSegment([0, 10], 5, 6, 7, 8, 0, 0, True)),
        CompactionDone(10, 3),
        CompactionStopped("no room", gone=False, damaged=True),
    ]
    for report in reports:
        assert read_report(frame(report)[LENGTH.size :]) == report


@pytest.mark.parametrize(
    "body",
    [b"", b"{}", b"[]", b'{"type":"part"}', b'{"type":"done","end_offset":"x","keys":1}', b"\xff"],
)
def test_what_is_no_report_is_refused(body: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        read_report(body)


def test_no_frame_is_larger_than_the_bound() -> None:
    with pytest.raises(ValueError, match="the limit is"):
        length_of(LENGTH.pack(FRAME_SIZE_MAX + 1))


@pytest.mark.parametrize(
    "program",
    [
        "",  # ends at once
        "import sys; sys.stdout.write('rubbish that is no frame'); sys.stdout.flush()",
        "import os; os.write(1, b'\\x00\\x00\\x00\\x02{}')",
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    ],
)
async def test_a_worker_that_talks_rubbish_or_dies_is_ended_and_reported(
    program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = CleanerProcess()
    started = asyncio.create_subprocess_exec

    async def other(*_command: str, **options: object) -> asyncio.subprocess.Process:
        return await started(sys.executable, "-c", program, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", other)
    async with asyncio.timeout(WAIT_S):
        reports = [report async for report in process.carry_out(CompactionOrder(JOB, 1.0))]
    assert len(reports) == 1
    assert isinstance(reports[0], CompactionStopped)
    assert process.pid is None


async def test_a_worker_that_was_being_started_at_the_close_does_no_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A broker that stops would wait for the whole compaction."""
    process = CleanerProcess()
    starting, go = asyncio.Event(), asyncio.Event()
    started = asyncio.create_subprocess_exec

    async def held(*_command: str, **options: object) -> asyncio.subprocess.Process:
        starting.set()
        await go.wait()
        works_long = "import time; time.sleep(3600)"
        return await started(sys.executable, "-c", works_long, **options)  # type: ignore[arg-type]

    async def carried_out() -> list[Report]:
        return [report async for report in process.carry_out(CompactionOrder(JOB, 1.0))]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", held)
    async with asyncio.timeout(WAIT_S):
        working = asyncio.create_task(carried_out())
        await starting.wait()
        await process.close()
        go.set()
        (report,) = await working
    assert isinstance(report, CompactionStopped)
    assert process.pid is None
