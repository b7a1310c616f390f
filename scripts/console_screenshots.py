"""Makes the pictures of the console in docs/images: `python scripts/console_screenshots.py`.

Starts a broker with a stream of orders, a group with one slow member and dead letters, then a
console, and takes pictures with Chromium. So the pictures show what the pages are.
"""

import json
import random
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.request import urlopen

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from barnabas.client.workers.dead_letter_headers import LetterTrail, Origin  # noqa: E402
from barnabas.sync import Admin, Consumer, Producer  # noqa: E402
from tests.support.browser import chromium  # noqa: E402

IMAGES = ROOT / "docs/images"
PAGES = {
    "overview": "/",
    "group": "/groups/billing",
    "records": "/topics/orders/records?n=12",
    "topic": "/topics/clicks",
    "letters": "/dlq/orders.dlq",
    "clients": "/clients",
}
READY = re.compile(r"on (?:http://)?([\w.]+:\d+)")


def started(*arguments: str) -> tuple[subprocess.Popen[str], str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "barnabas", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    found = READY.search(process.stdout.readline())
    return process, found[1]


def fill(servers: str) -> None:
    chance = random.Random(1)
    now_ms = int(time.time() * 1000)
    with Admin(bootstrap_servers=servers) as admin:
        for name, partitions in (("orders", 6), ("payments", 3), ("clicks", 96), ("orders.dlq", 1)):
            admin.create_topic(name, partitions=partitions)
    with Producer(bootstrap_servers=servers) as producer:
        for number in range(30_000):
            order = {
                "order": number,
                "customer": number % 97,
                "amount": chance.randint(100, 99_900) / 100,
                "country": chance.choice(["DE", "FR", "IT", "PL", "US"]),
            }
            at = now_ms - (30_000 - number) * 20
            producer.send_nowait("orders", json.dumps(order).encode(), key=b"%d" % (number % 97),
                                 timestamp=at)  # fmt: skip
            if number % 3 == 0:
                producer.send_nowait("payments", b'{"paid": %d}' % number, key=b"%d" % number)
            producer.send_nowait(
                "clicks", b"click", partition=min(95, int(chance.expovariate(0.04)))
            )
        for number in range(40):
            cause = "ValueError: amount is missing" if number % 4 else "KeyError: 'country'"
            trail = LetterTrail("billing", Origin("orders", number % 6, number), now_ms, cause, 3)
            headers = list(trail._replace(failed_at=now_ms - number * 60_000).headers(()))
            producer.send("orders.dlq", b'{"order": %d}' % number, headers=headers)


def read(
    servers: str, client: str, pause_s: float, until: threading.Event, begun: threading.Event
) -> None:
    options = {"bootstrap_servers": servers, "group_id": "billing", "client_id": client}
    patient = {"session_timeout_ms": 300_000, "request_timeout_ms": 300_000}
    with Consumer("orders", auto_offset_reset="earliest", **options, **patient) as consumer:
        while not until.is_set():
            if consumer.getmany(10 if pause_s else 500, timeout=0.3):
                consumer.commit()
                begun.set()
            until.wait(pause_s)


def worth_a_picture(address: str) -> bool:
    """After some looks at the cluster: rates are known, and why the group is behind."""
    with urlopen(f"http://{address}/topics.json", timeout=600) as answer:
        rates = any(row["rate"] for row in json.load(answer))
    with urlopen(f"http://{address}/overview.json", timeout=600) as answer:
        return rates and bool(json.load(answer)["findings"])


def write(servers: str, until: threading.Event) -> None:
    """New orders, some each second."""
    with Producer(bootstrap_servers=servers) as producer:
        number = 30_000
        while not until.wait(0.5):
            for _ in range(10):
                order = {"order": number, "customer": number % 97, "amount": 12.5, "country": "DE"}
                key = b"%d" % (number % 97)
                producer.send_nowait("orders", json.dumps(order).encode(), key=key)
                number += 1
            producer.drain()


def main() -> None:
    broker, servers = started("up", "--ephemeral", "--listen", "127.0.0.1:0")
    ends = [threading.Event() for _ in range(3)]
    begun = threading.Event()
    members = [
        threading.Thread(target=read, args=(servers, f"worker-{n + 1}", pause, ends[n], begun))
        for n, pause in enumerate((0.0, 0.5, 0.0))
    ]
    writing = threading.Thread(target=write, args=(servers, ends[0]))
    console = None
    try:
        fill(servers)
        writing.start()
        members[1].start()
        begun.wait()  # the quick ones would have read everything before it came
        members[0].start()
        members[2].start()
        time.sleep(12)
        ends[2].set()
        members[2].join()
        console, address = started("console", "-b", servers, "--listen", "127.0.0.1:0")
        IMAGES.mkdir(exist_ok=True)
        while not worth_a_picture(address):
            time.sleep(1)
        with chromium() as browser:
            for scheme, names in (("light", PAGES), ("dark", ("group",))):
                context = browser.new_context(
                    color_scheme=scheme, viewport={"width": 1200, "height": 760}
                )
                context.set_default_timeout(600_000)  # the machine may have other work
                page = context.new_page()
                for name in names:
                    page.goto(f"http://{address}{PAGES[name]}")
                    page.wait_for_timeout(300)
                    suffix = "" if scheme == "light" else "-dark"
                    page.screenshot(path=IMAGES / f"console-{name}{suffix}.png")
                context.close()
    finally:
        for end in ends:
            end.set()
        for thread in (*members, writing):
            if thread.ident is not None:
                thread.join()
        for process in (console, broker):
            if process is not None:
                process.terminate()


if __name__ == "__main__":
    main()
