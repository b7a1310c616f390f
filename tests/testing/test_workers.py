"""A worker's window is visible, and a blocking call that hangs does not hold it for ever."""

import asyncio
import threading
from typing import Any

from barnabas import Retry, parallel
from barnabas.testing import AsyncKafka
from tests.waiting import WAIT_S


async def test_a_blocking_call_that_hangs_is_retried_and_becomes_a_dead_letter() -> None:
    release = threading.Event()
    calls: list[int] = []

    @parallel(
        "orders",
        group_id="w",
        order="none",
        timeout=0.1,
        retry=Retry(1, backoff=(0.01, 0.01)),
        dlq="orders.dlq",
        commit_interval=0.05,
    )
    def handle(message: Any) -> None:
        calls.append(message.offset)
        if message.offset == 1:
            release.wait(WAIT_S)

    async with AsyncKafka() as kafka:
        await kafka.create_topic("orders")
        await kafka.produce("orders", [str(number) for number in range(20)])
        running = asyncio.create_task(
            handle.serve(bootstrap_servers=kafka.bootstrap_servers, auto_offset_reset="earliest")
        )
        try:
            # On a busy machine other calls may take 0.1 s too.
            await kafka.wait_until(lambda: b"1" in kafka.sync.values("orders.dlq"))
            (letter,) = [each for each in await kafka.records("orders.dlq") if each.value == b"1"]
            assert calls.count(1) == 2
            causes = dict(letter.headers)
            assert any(b"no end after 0.1 s" in (value or b"") for value in causes.values())
            await kafka.wait_for_lag("w")
            assert [str(view.at) for view in handle.windows()] == ["orders-0"]
            (view,) = handle.windows()
            assert (view.start, view.end, view.held) == (20, 20, ())
            assert "20 to 20" in str(view)
        finally:
            release.set()
            handle.stop()
            await running
    assert handle.windows() == []
