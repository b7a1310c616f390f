"""Hostile text in every place where a client can write, in a real browser: nothing runs, nothing
leaves the machine, no page breaks.

Names of topics allow letters, digits, dots, dashes and underscores only; there, names that look
like paths or twins are the hostile ones.
"""

import threading
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest

from barnabas.client.workers.dead_letter_headers import LetterTrail, Origin
from barnabas.sync import Admin, Consumer, Producer
from tests.conftest import broker_with
from tests.console.test_browser import console_process
from tests.process import BrokerProcess
from tests.support.browser import new_context
from tests.waiting import WAIT_S

pytestmark = pytest.mark.slow
broker = broker_with()

TEXTS = (
    "<script>alert('{place}')</script>",
    '"><img src=x onerror=alert("{place}")>',
    "</title></style></script><svg onload=alert('{place}')>",
    "javascript:alert('{place}')",
    "{{{{7*7}}}}${{alert('{place}')}}",
    "\u202e\u2066{place}\u0000\u001b]0;owned\u0007\u200b",
    "'; drop table orders; --{place}",
)
TOPICS = ("..-orders", "orders.json", "a.csv", "__proto__", "constructor", "live.live", "0")
GROUP, CLIENT = (f"{TEXTS[0]}{TEXTS[1]}{TEXTS[5]}".format(place=name) for name in ("group", "id"))
TRANSACTION = f"{TEXTS[1]}{TEXTS[5]}".format(place="transaction")


RAW = ("\u202e", "\u2066", "\0", "\x1b", "\x07")


class Pages(NamedTuple):
    """A console, and what its pages must not show as anything but text."""

    url: str
    browser: Any
    paths: list[str]


@pytest.fixture(scope="module")
def hostile(broker: BrokerProcess, browser: Any) -> Iterator[Pages]:
    servers = broker.bootstrap_servers
    paths = [
        "/", "/topics", "/groups", "/brokers", "/clients", "/transactions", "/dlq", "/events",
        "/delays",
        "/topics/orders", "/topics/orders/records", "/topics/orders/log", "/topics/orders/produce",
        "/dlq/orders.dlq", "/sql?q=select+*+from+orders+limit+50&plain=1",
    ]  # fmt: skip
    with Admin(bootstrap_servers=servers) as admin:
        for name in ("orders", "orders.dlq", *TOPICS):
            admin.create_topic(name, partitions=1)
    with Producer(bootstrap_servers=servers) as producer:
        for number, text in enumerate(TEXTS):
            key, value, header = (text.format(place=p).encode() for p in ("key", "value", "header"))
            headers = [(header.decode(), value), ("n", header)]
            producer.send("orders", value + b"\xff\xfe", key=key, headers=headers)
            paths += [f"/topics/orders/0/{number}", f"/topics/orders/0/{number}?view=text"]
            trail = LetterTrail(
                text.format(place="group"), Origin("orders", 0, number), 1,
                text.format(place="cause"), 3, 0, 5,
            )  # fmt: skip
            producer.send("orders.dlq", value, key=key, headers=list(trail.headers(())))
            paths.append(f"/dlq/orders.dlq?cause={quote(text.format(place='query'), safe='')}")
            paths.append(f"/topics?q={quote(text.format(place='query'), safe='')}")
            paths.append(f"/sql?q={quote(text.format(place='query'), safe='')}")
        producer.send("orders", b'{"a": "' + b"<b>" * 300_000 + b'"}', key=b"1 MB")
        paths.append(f"/topics/orders/0/{len(TEXTS)}")
    for name in TOPICS:
        ending = ".html" if name.endswith((".json", ".csv", ".live")) else ""
        paths += [f"/topics/{name}{ending}", f"/topics/{name}/records"]
    paths += [f"/groups/{quote(GROUP, safe='')}", f"/groups/{quote(GROUP, safe='')}/seek"]
    end = threading.Event()
    joined = threading.Event()

    def member() -> None:
        options = {"bootstrap.servers": servers, "group.id": GROUP, "client.id": CLIENT,
                   "group.instance.id": TEXTS[1].format(place="member")}  # fmt: skip
        with Consumer("orders", options, auto_offset_reset="earliest") as consumer:
            while not end.is_set():
                if consumer.getmany(10, timeout=0.2):
                    consumer.commit()
                    joined.set()

    thread = threading.Thread(target=member)
    thread.start()
    writing = Producer(
        bootstrap_servers=servers,
        transactional_id=TRANSACTION,
        client_id=CLIENT,
        transaction_timeout_ms=600_000,
    )
    try:
        assert joined.wait(WAIT_S)
        writing.init_transactions()
        writing.begin_transaction()
        writing.send("orders", b"in a transaction")
        with console_process(servers, "--allow-changes") as url:
            yield Pages(url.rstrip("/"), browser, paths)
        writing.abort_transaction()
    finally:
        end.set()
        writing.close()
        thread.join()


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no scripts"])
def test_hostile_text_stays_text_on_every_page(hostile: Pages, scripts: bool) -> None:
    context = new_context(hostile.browser, java_script_enabled=scripts)
    page = context.new_page()
    wrong: list[str] = []

    def asked(dialog: Any) -> None:
        wrong.append(f"{page.url}: dialog {dialog.message}")
        dialog.dismiss()

    page.on("dialog", asked)
    page.on("pageerror", lambda error: wrong.append(f"{page.url}: {error}"))
    page.on("console", lambda said: wrong.append(f"{page.url}: {said.text}")
            if "Content Security Policy" in said.text else None)  # fmt: skip
    page.on("request", lambda sent: wrong.append(f"{page.url}: asked {sent.url}")
            if not sent.url.startswith(hostile.url) else None)  # fmt: skip
    for path in hostile.paths:
        answer = page.goto(f"{hostile.url}{path}")
        assert answer is not None
        if answer.status >= 500 or page.locator("h1").count() != 1:
            wrong.append(f"{path}: status {answer.status}")
        body = answer.text() if "query" not in path else ""  # a field has what was typed
        wrong += [f"{path}: {raw!r}" for raw in RAW if raw in body]
        if scripts:
            made = "document.querySelectorAll('main img, main script, main svg[onload]').length"
            if page.evaluate(made):
                wrong.append(f"{path}: a payload became an element")
    context.close()
    assert wrong == []


def test_every_place_is_shown_as_text(hostile: Pages) -> None:
    """A page that left the text out would pass the test above."""
    context = new_context(hostile.browser)
    page = context.new_page()
    shown = {
        "key": "/topics/orders/records", "value": "/topics/orders/records",
        "header": "/topics/orders/0/0", "group": "/groups",
        "id": "/clients", "member": f"/groups/{quote(GROUP, safe='')}",
        "transaction": "/transactions", "cause": "/dlq/orders.dlq",
    }  # fmt: skip
    for place, path in shown.items():
        page.goto(f"{hostile.url}{path}")
        text = page.locator("main").inner_text()
        assert f"alert('{place}')" in text or f'alert("{place}")' in text, (place, text[:3000])
    context.close()
