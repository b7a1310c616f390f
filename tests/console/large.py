"""The console on a large cluster: CPU, size, first paint, tabs, memory.

`python -m tests.console.large`. In: --topics, --groups, --brokers, or --servers of a cluster that
is filled already. Out: a table in Markdown; the exit code is 1 if a limit is broken.
CPU is counted on all threads of the console; of the 20 requests for a page, the median, because a
sweep a minute runs beside some of them.
"""

import argparse
import asyncio
import http.client
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from barnabas.client.aio import open_cluster
from barnabas.client.consumer.offset_lookup import Committed
from barnabas.model.ids import TopicPartition
from barnabas.sync import Admin, Producer
from barnabas.wire.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tests.support.browser import chromium

CPU_MS_MAX, BYTES_MAX, RSS_MB_MAX, IDLE_MAX, START_S_MAX, PAINT_MS_MAX = (
    50,
    100_000,
    100,
    3,
    0.5,
    300,
)
ASKED = 20
CREATED_AT_ONCE = 200
PAGES = (
    "/", "/overview.live", "/topics", "/topics?q=topic-77", "/topics?sort=-size", "/topics/big",
    "/topics/big.live", "/topics/big/records", "/topics/big/log", "/topics/big/0/1", "/groups",
    "/groups?q=group-5", "/groups/group-500", "/brokers", "/clients", "/events", "/transactions",
    "/dlq",
)  # fmt: skip
PAINTED = ("/", "/topics", "/topics/big", "/groups", "/groups/group-500", "/topics/big/records")
FIRST_PAINT = """() => new Promise(resolve => new PerformanceObserver(list => {
  for (const entry of list.getEntries())
    if (entry.name === "first-contentful-paint") resolve(entry.startTime);
}).observe({ type: "paint", buffered: true }))"""
COMMAND = [sys.executable, "-m", "barnabas"]


def cpu_ms(pid: int) -> float:
    found = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += int((task / "schedstat").read_text().split()[0])
    return found / 1e6


def rss_mb(pid: int) -> float:
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) / 1024 if found else 0.0


# --- the cluster ---


def fill(servers: str, topics: int, groups: int) -> None:
    """A quarter of the topics has four partitions, the others one; every group has unread ones."""
    asyncio.run(_create(servers, [(f"topic-{n}", 1 if n % 4 else 4) for n in range(topics)]))
    with Admin(bootstrap_servers=servers, request_timeout_ms=120_000) as admin:
        admin.create_topic("big", partitions=64)
        with Producer(bootstrap_servers=servers) as producer:
            for number in range(20_000):
                producer.send_nowait("big", b'{"n": %d}' % number, key=b"%d" % number)
        for number in range(groups):
            read = {TopicPartition("big", (number + each) % 64): Committed(1) for each in range(3)}
            admin.alter_group_offsets(f"group-{number}", read)


async def _create(servers: str, topics: list[tuple[str, int]]) -> None:
    with open_cluster({"bootstrap.servers": servers, "request.timeout.ms": "120000"}, {}) as opened:
        controller = await opened.controller()
        for start in range(0, len(topics), CREATED_AT_ONCE):
            wanted = [
                CreatableTopic(name=name, num_partitions=partitions, replication_factor=1,
                               assignments=[], configs=[])
                for name, partitions in topics[start : start + CREATED_AT_ONCE]
            ]  # fmt: skip
            request = CreateTopicsRequest(topics=wanted, timeout_ms=120_000)
            answer = await controller.call(request, CreateTopicsResponse, timeout_ms=120_000)
            failed = [each.error_message for each in answer.topics if each.error_code]
            assert not failed, failed[:3]


@contextmanager
def large_cluster(brokers: int, topics: int, groups: int) -> Iterator[str]:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as where:
        up = subprocess.Popen(
            [*COMMAND, "up", "-n", str(brokers), "--data", where, "--listen", "127.0.0.1:0"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        try:
            assert up.stdout is not None
            said = None
            while said is None:  # a line for each broker comes first
                line = up.stdout.readline()
                assert line, "the brokers did not start"
                said = re.search(r"ready on (\S+) \(", line)
            began = time.monotonic()
            fill(said[1], topics, groups)
            print(f"filled in {time.monotonic() - began:.0f} s\n", flush=True)
            yield said[1]
        finally:
            up.terminate()
            up.wait()


# --- measuring ---


class Report:
    """Lines of the table, and how many limits were broken."""

    def __init__(self) -> None:
        self.broken = 0

    def line(self, what: str, *values: str, ok: bool = True) -> None:
        self.broken += not ok
        mark = "" if ok else " **over the limit**"
        print(f"| {what} | {' | '.join(values)}{mark} |", flush=True)


def get(address: str, path: str) -> tuple[int, bytes, float]:
    host, port = address.split(":")
    began = time.perf_counter()
    connection = http.client.HTTPConnection(host, int(port), timeout=60)
    connection.request("GET", path)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, body, (time.perf_counter() - began) * 1000


def measure_pages(report: Report, address: str, pid: int) -> None:
    print("| page | CPU, ms | wall, ms | bytes |\n|---|---|---|---|")
    for path in PAGES:
        get(address, path)
        used, took = [], []
        for _ in range(ASKED):
            before = cpu_ms(pid)
            status, body, wall_ms = get(address, path)
            used.append(cpu_ms(pid) - before)
            took.append(wall_ms)
        ok = median(used) <= CPU_MS_MAX and len(body) <= BYTES_MAX and status == 200
        report.line(f"`{path}`", f"{median(used):.1f}", f"{median(took):.1f}", f"{len(body):,}",
                    ok=ok)  # fmt: skip


def measure_browser(report: Report, address: str) -> None:
    """First paint of pages, and twelve tabs that poll."""
    print("\n| in Chromium | |\n|---|---|")
    with chromium() as browser:
        context = browser.new_context()
        page = context.new_page()
        for path in PAINTED:
            paints = []
            for _ in range(5):
                page.goto(f"http://{address}{path}")
                paints.append(page.evaluate(FIRST_PAINT))
            report.line(f"first paint of `{path}`", f"{median(paints):.0f} ms",
                        ok=median(paints) <= PAINT_MS_MAX)  # fmt: skip
        tabs = [context.new_page() for _ in range(12)]
        for number, tab in enumerate(tabs):
            tab.goto(f"http://{address}/groups/group-{number}")
        page.wait_for_timeout(5_000)
        began = time.perf_counter()
        page.goto(f"http://{address}/topics")
        took_ms = (time.perf_counter() - began) * 1000
        report.line("`/topics` beside twelve open tabs", f"{took_ms:.0f} ms", ok=took_ms < 1_000)
        context.close()


def measure(servers: str) -> int:
    report = Report()
    began = time.monotonic()
    with subprocess.Popen(
        [*COMMAND, "console", "-b", servers, "--listen", "127.0.0.1:0"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    ) as console:  # fmt: skip
        try:
            assert console.stdout is not None
            at = re.search(r"http://([\w.:]+)/", console.stdout.readline())
            assert at is not None
            address = at[1]
            start_ms, start_s = cpu_ms(console.pid), time.monotonic() - began
            get(address, "/static/console.css")
            while json.loads(get(address, "/overview.json")[1])["swept_ms"] == 0:
                time.sleep(0.5)
            time.sleep(15)  # the second sweep comes after ten seconds
            measure_pages(report, address, console.pid)
            measure_browser(report, address)
            print("\n| the console | |\n|---|---|")
            report.line("start to first answer", f"{start_s:.2f} s, {start_ms:.0f} ms of CPU",
                        ok=start_ms <= START_S_MAX * 1000)  # fmt: skip
            with ThreadPoolExecutor(12) as tabs:
                began = time.perf_counter()
                list(tabs.map(lambda _: get(address, "/groups/group-500.live"), range(120)))
                report.line("120 polls from 12 tabs", f"{time.perf_counter() - began:.2f} s")
            before, began = cpu_ms(console.pid), time.monotonic()
            time.sleep(120)
            idle = (cpu_ms(console.pid) - before) / 10 / (time.monotonic() - began)
            report.line("CPU without a tab", f"{idle:.1f} % of a core", ok=idle <= IDLE_MAX)
            memory = rss_mb(console.pid)
            report.line("memory", f"{memory:.0f} MB", ok=memory <= RSS_MB_MAX)
        finally:
            console.terminate()
    return report.broken


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--groups", type=int, default=1_000)
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--servers", help="a cluster that is filled already")
    given = parser.parse_args()
    print(f"load of the machine: {os.getloadavg()[0]:.1f}")
    if given.servers is not None:
        return 1 if measure(given.servers) else 0
    with large_cluster(given.brokers, given.topics, given.groups) as servers:
        return 1 if measure(servers) else 0


if __name__ == "__main__":
    sys.exit(main())
