"""A worker's window is visible, and a blocking call that hangs does not hold it for ever."""

import asyncio
import re
import signal
import subprocess
import sys
import threading
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest

from barnabas import Retry, parallel
from barnabas.testing import AsyncKafka, Kafka
from tests.waiting import WAIT_S, eventually

WORKER = """
import sys, threading
from barnabas import parallel

@parallel("orders", group_id="billing", order="none")
def handle(message):
    if message.offset == 1:
        print("it hangs", flush=True)
        threading.Event().wait()

handle.run(bootstrap_servers=sys.argv[1], auto_offset_reset="earliest")
"""


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


async def test_a_record_that_hovers_is_in_the_metrics_of_its_worker() -> None:
    release = threading.Event()

    @parallel("orders", group_id="billing", order="none", commit_interval=0.05)
    def handle(message: Any) -> None:
        if message.offset == 5:
            release.wait(600)

    registry = CollectorRegistry(auto_describe=True)
    registry.register(handle)
    of_window = {"group": "billing", "topic": "orders", "partition": "0"}

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"barnabas_worker_window_{name}", of_window | labels)

    async with AsyncKafka() as kafka:
        await kafka.create_topic("orders")
        await kafka.produce("orders", [str(number) for number in range(20)])
        running = asyncio.create_task(
            handle.serve(bootstrap_servers=kafka.bootstrap_servers, auto_offset_reset="earliest")
        )
        try:
            await eventually(lambda: value("finished") == 14, lambda: generate_latest(registry))
            await eventually(lambda: value("committed") == 5)
            assert (value("start"), value("end"), value("records")) == (5, 20, 15)
            assert (value("running"), value("full")) == (1, 0)
            assert value("held", state="running") == 1
        finally:
            release.set()
            handle.stop()
            await running
    assert value("start") is None


def test_a_worker_logs_its_windows_on_sigusr1(kafka: Kafka) -> None:
    kafka.create_topic("orders")
    kafka.produce("orders", ["0", "1", "2"])
    command = [sys.executable, "-c", WORKER, kafka.bootstrap_servers]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as worker:
        try:
            assert worker.stdout is not None
            assert worker.stderr is not None
            assert worker.stdout.readline() == "it hangs\n"
            worker.send_signal(signal.SIGUSR1)
            said = worker.stderr.readline()
        finally:
            worker.kill()
    assert re.search(r"window of orders-0: \d to 3, .*\b1 in the handler", said), said
