"""The console on a large cluster: CPU, size and memory. `python -m tests.console.large`.

In: --topics, --groups, --brokers. Out: a table; the exit code is 1 if a limit is broken.
"""

import argparse
import http.client
import os
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

from barnabas.client.consumer.offset_lookup import Committed
from barnabas.model.ids import TopicPartition
from barnabas.sync import Admin, Producer

CPU_MS_MAX, BYTES_MAX, RSS_MB_MAX, IDLE_MAX, START_S_MAX = 50, 100_000, 100, 0.03, 0.5
ASKED = 20
PAGES = (
    "/", "/overview.live", "/topics", "/topics?q=topic-77", "/topics?sort=-records", "/topics/big",
    "/topics/big/records", "/groups", "/groups?q=group-5", "/groups/group-500", "/brokers",
    "/events", "/dlq",
)  # fmt: skip
TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def cpu_s(pid: int) -> float:
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * TICK_S


def rss_mb(pid: int) -> float:
    with open(f"/proc/{pid}/status") as status:
        found = re.search(r"VmRSS:\s+(\d+)", status.read())
    return int(found[1]) / 1024 if found else 0.0


def fill(servers: str, topics: int, groups: int) -> None:
    with Admin(bootstrap_servers=servers, request_timeout_ms=120_000) as admin:
        for number in range(topics):
            _create(admin, f"topic-{number}")
        admin.create_topic("big", partitions=64)
        for number in range(groups):
            at = TopicPartition(f"topic-{number % topics}", 0)
            admin.alter_group_offsets(f"group-{number}", {at: Committed(0)})
    with Producer(bootstrap_servers=servers) as producer:
        for number in range(20_000):
            producer.send_nowait("big", b'{"n": %d}' % number, key=b"%d" % number)


def _create(admin: Admin, name: str) -> None:
    admin.create_topic(name, partitions=1)


def get(address: str, path: str) -> tuple[int, int, float]:
    host, port = address.split(":")
    began = time.perf_counter()
    connection = http.client.HTTPConnection(host, int(port), timeout=60)
    connection.request("GET", path)
    answer = connection.getresponse()
    size = len(answer.read())
    connection.close()
    return answer.status, size, (time.perf_counter() - began) * 1000


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--groups", type=int, default=1_000)
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--servers", help="a cluster that is filled already")
    given = parser.parse_args()
    bad = 0
    with tempfile.TemporaryDirectory(dir="/dev/shm") as where:
        command = [sys.executable, "-m", "barnabas"]
        up = None
        servers = given.servers
        if servers is None:
            up = subprocess.Popen(
                [*command, "up", "-n", str(given.brokers), "--data", where, "--listen",
                 "127.0.0.1:0"],
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            )  # fmt: skip
            assert up.stdout is not None
            said = None
            while said is None:  # a line for each broker comes first
                line = up.stdout.readline()
                assert line, "the brokers did not start"
                said = re.search(r"ready on (\S+) \(", line)
            servers = said[1]
            began = time.monotonic()
            fill(servers, given.topics, given.groups)
            print(f"filled in {time.monotonic() - began:.0f} s", flush=True)
        began = time.monotonic()
        console = subprocess.Popen(
            [*command, "console", "-b", servers, "--listen", "127.0.0.1:0"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        try:
            assert console.stdout is not None
            at = re.search(r"http://([\w.:]+)/", console.stdout.readline())
            assert at is not None
            address = at[1]
            get(address, "/static/console.css")
            print(f"start to first answer: {time.monotonic() - began:.2f} s (limit {START_S_MAX})")
            time.sleep(15)  # two sweeps
            for path in PAGES:
                get(address, path)
                before = cpu_s(console.pid)
                results = [get(address, path) for _ in range(ASKED)]
                used_ms = (cpu_s(console.pid) - before) * 1000 / ASKED
                status, size, _ = results[0]
                middle = sorted(ms for _, _, ms in results)[ASKED // 2]
                broken = used_ms > CPU_MS_MAX or size > BYTES_MAX or status != 200
                bad += broken
                print(f"{path:24} {status} {used_ms:6.1f} ms CPU {middle:6.1f} ms {size:7} bytes"
                      f"{'  LIMIT' if broken else ''}", flush=True)  # fmt: skip
            with ThreadPoolExecutor(12) as tabs:
                began = time.perf_counter()
                list(tabs.map(lambda _: get(address, "/groups/group-500.live"), range(120)))
                print(f"12 tabs, 120 polls: {time.perf_counter() - began:.2f} s")
            before, began = cpu_s(console.pid), time.monotonic()
            time.sleep(70)
            idle = (cpu_s(console.pid) - before) / (time.monotonic() - began)
            memory = rss_mb(console.pid)
            print(f"idle: {idle * 100:.1f} % of a core (limit {IDLE_MAX * 100:.0f}),"
                  f" {memory:.0f} MB (limit {RSS_MB_MAX})")  # fmt: skip
            bad += idle > IDLE_MAX or memory > RSS_MB_MAX
        finally:
            console.terminate()
            if up is not None:
                up.terminate()
                up.wait()
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
