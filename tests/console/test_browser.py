"""The console in a real browser, on Barnabas and on Apache Kafka: what a person does, by mouse and
by keyboard, with hostile records; and what axe says about every page.
"""

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest

from barnabas.client.workers.dead_letter_headers import LetterTrail, Origin
from barnabas.model.times import iso_time
from barnabas.sync import Admin, Consumer, Producer
from tests.conftest import _or_skip
from tests.console.test_pipeline_page import entry
from tests.support.browser import axe, new_context
from tests.waiting import WAIT_S, until

pytestmark = pytest.mark.slow

HOSTILE = "<img src=x onerror=alert(1)>\u202e<script>alert(2)</script>"
TOPIC = "orders"
GROUP = f"billing {HOSTILE}"
TOKEN = "a-token-of-enough-length"
PIPELINE = "orders-lake"
FIRST_MS = time.time_ns() // 1_000_000 - 3_600_000
MEMBER = """import sys
from barnabas.sync import Consumer
servers, group, topic = sys.argv[1:]
with Consumer(topic, bootstrap_servers=servers, group_id=group, client_id="doomed",
              session_timeout_ms=6000, auto_offset_reset="earliest") as consumer:
    while True:
        if consumer.getmany(10, timeout=1):
            consumer.commit()
            print("joined", flush=True)
"""


class Console(NamedTuple):
    """A console as a process, the cluster behind it, and a browser."""

    url: str
    servers: str
    browser: Any
    kind: str


@contextmanager
def console_process(servers: str, *options: str, **env: str) -> Iterator[str]:
    import os

    command = [sys.executable, "-m", "barnabas", "console", "-b", servers]
    with subprocess.Popen(
        [*command, "--listen", "127.0.0.1:0", *options],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env={**os.environ, **env},
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            said = re.search(r"on (http\S+)", process.stdout.readline())
            assert said is not None
            yield said[1]
        finally:
            process.terminate()


@pytest.fixture(scope="module", params=["barnabas", "kafka"])
def console(
    request: pytest.FixtureRequest, browser: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Console]:
    name = "broker" if request.param == "barnabas" else "kafka"
    servers = request.getfixturevalue(name).bootstrap_servers
    _fill(servers)
    state = tmp_path_factory.mktemp("state")
    runs = state / "barnabas/pipelines"
    runs.mkdir(parents=True)
    failed = entry(PIPELINE, group=GROUP, state="failed", error=f"{TOPIC}-0, offset 2: not JSON")
    (runs / f"{PIPELINE}.json").write_text(json.dumps(failed))
    with console_process(servers, "--allow-changes", XDG_STATE_HOME=str(state)) as url:
        yield Console(url.rstrip("/"), servers, browser, request.param)


def _fill(servers: str) -> None:
    with Admin(bootstrap_servers=servers) as admin:
        for name, partitions in ((TOPIC, 3), ("orders.dlq", 1)):
            admin.create_topic(name, partitions=partitions)
        for number in range(60):
            admin.create_topic(f"filler-{number}", partitions=1)
    with Producer(bootstrap_servers=servers) as producer:
        for number in range(200):
            value = f'{{"order": {number}, "customer": {number % 50}}}'
            producer.send(TOPIC, value.encode(), key=str(number % 50).encode(),
                          timestamp=FIRST_MS + number * 1_000)  # fmt: skip
        trail = LetterTrail(GROUP, Origin("filler-6", 0, 1), 1, "ValueError: no amount", 3, 0, 5)
        producer.send("orders.dlq", b"{}", headers=list(trail.headers(())))
        producer.send(TOPIC, HOSTILE.encode() + b"\xff\x00", key=HOSTILE.encode(),
                      headers=[(HOSTILE, HOSTILE.encode())])  # fmt: skip
        producer.send("orders.dlq", b"x" * 900_000, key=b"large")
    with Consumer(
        TOPIC,
        bootstrap_servers=servers,
        group_id=GROUP,
        client_id=HOSTILE,
        auto_offset_reset="earliest",
    ) as consumer:
        while not consumer.getmany(50, timeout=WAIT_S):
            pass
        consumer.commit()


@pytest.fixture
def page(console: Console) -> Iterator[Any]:
    """A page that fails the test if anything runs that should not, or leaves the machine."""
    context = new_context(console.browser)
    opened = context.new_page()
    wrong: list[str] = []

    def asked(dialog: Any) -> None:
        wrong.append(f"dialog {dialog.message}")
        dialog.dismiss()

    def requested(request: Any) -> None:
        if not request.url.startswith(console.url):
            wrong.append(f"request {request.url}")

    def said(message: Any) -> None:
        if "Content Security Policy" in message.text:
            wrong.append(message.text)

    opened.on("dialog", asked)
    opened.on("pageerror", lambda error: wrong.append(f"error {error}"))
    opened.on("request", requested)
    opened.on("console", said)
    yield opened
    context.close()
    assert wrong == []


def test_a_topic_is_found_among_many_by_keyboard_alone(console: Console, page: Any) -> None:
    page.goto(f"{console.url}/")
    page.keyboard.press("g")
    page.keyboard.press("t")
    page.wait_for_url("**/topics")
    page.keyboard.press("/")
    page.keyboard.type("orders")
    page.keyboard.press("Enter")
    page.wait_for_url("**q=orders**")
    page.get_by_role("link", name="orders", exact=True).focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/topics/orders")
    assert "records in 3 partitions" in page.title()


def test_a_record_is_found_by_its_key(console: Console, page: Any) -> None:
    """The last order of customer 42."""
    page.goto(f"{console.url}/topics/orders/records")
    page.get_by_label("Key", exact=True).fill("42")
    page.get_by_role("button", name="Show").click()
    page.get_by_text("Done: 4 records found").wait_for()
    page.locator("tbody tr").first.get_by_role("link").click()
    page.get_by_role("heading", name="Batch").wait_for()
    assert '"order": 192' in page.locator("pre").nth(1).inner_text()


def test_records_are_found_by_their_time(console: Console, page: Any) -> None:
    page.goto(f"{console.url}/topics/orders/records")
    page.get_by_label("From time").fill(iso_time(FIRST_MS + 150_000))
    page.get_by_role("button", name="Show").click()
    page.get_by_text('"order": 150,').wait_for()
    assert page.get_by_text('"order": 149,').count() == 0


def test_the_cause_of_a_lost_member_is_shown(console: Console, page: Any) -> None:
    with Producer(bootstrap_servers=console.servers) as producer:
        producer.send("filler-5", b"x")
    command = [sys.executable, "-c", MEMBER, console.servers, "watched", "filler-5"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as member:
        assert member.stdout is not None
        assert member.stdout.readline() == "joined\n"
        page.goto(f"{console.url}/groups/watched")
        page.locator("#members", has_text="1").wait_for()
        member.kill()
    page.locator("#members", has_text="0").wait_for()
    if console.kind == "barnabas":
        page.get_by_text("session").first.wait_for()


def test_letters_that_are_sent_back_twice_are_sent_once(console: Console, page: Any) -> None:
    page.goto(f"{console.url}/dlq/orders.dlq")
    page.get_by_role("link", name="Send back…").click()
    page.get_by_role("button", name="Send 1 back").click()
    page.get_by_text("sent back").first.wait_for()
    page.get_by_role("link", name="Send these back…").click()
    page.get_by_text("There is nothing to change.").wait_for()


def test_the_counts_of_a_pipeline_add_up(console: Console, page: Any) -> None:
    page.goto(f"{console.url}/pipelines")
    page.get_by_role("link", name=PIPELINE).click()
    page.get_by_text(re.compile(r"records kept = .* read \+ .* waiting")).wait_for()
    page.get_by_role("link", name="Show the record that it failed at").click()
    page.get_by_role("heading", name="Batch").wait_for()


def test_the_keys_are_listed(console: Console, page: Any) -> None:
    page.goto(f"{console.url}/topics")
    page.keyboard.press("?")
    page.get_by_role("heading", name="Keys").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("heading", name="Keys").wait_for(state="hidden")
    page.keyboard.press("g")
    page.keyboard.press("x")
    page.wait_for_url("**/transactions")


def test_a_shared_address_shows_the_same(console: Console, page: Any) -> None:
    page.goto(f"{console.url}/topics/orders/records?partition=1&from=3&n=2")
    assert page.locator("tbody tr").count() == 2
    assert page.locator("tbody tr").first.locator("td").nth(1).inner_text() == "3"


def test_new_records_are_followed_until_it_is_stopped(console: Console, page: Any) -> None:
    page.goto(f"{console.url}/topics/filler-1/records")
    page.get_by_role("link", name="Follow new records").click()
    page.get_by_text("0 new records").wait_for()
    with Producer(bootstrap_servers=console.servers) as producer:
        producer.send("filler-1", b"fresh", key=b"k")
    page.get_by_text("fresh").wait_for()
    page.get_by_role("button", name="Stop").click()
    page.get_by_text("Stopped.").wait_for()


def test_a_group_is_explained(console: Console, page: Any) -> None:
    """Why group X is behind; on Barnabas also what happened to its members."""
    page.goto(f"{console.url}/groups/{quote(GROUP, safe='')}")
    page.get_by_text("What to do:").first.wait_for()
    if console.kind == "barnabas":
        page.get_by_text("left: the consumer was closed").wait_for()
    else:
        page.get_by_text("keeps no history of its groups").wait_for()


def test_offsets_are_set_after_a_preview_and_taken_back(console: Console, page: Any) -> None:
    page.goto(f"{console.url}/groups/{quote(GROUP, safe='')}/seek")
    page.get_by_label("To: earliest").fill("latest")
    page.get_by_role("button", name="Preview").click()
    page.get_by_role("button", name=re.compile("Move . partition")).click()
    page.get_by_text("nothing unread").first.wait_for()
    page.goto(f"{console.url}/groups/{quote(GROUP, safe='')}/undo")
    page.get_by_role("button", name=re.compile("Move . partition")).click()
    page.get_by_text("unread").first.wait_for()
    assert "nothing unread" not in page.title()


def test_a_record_is_sent_with_the_form(console: Console, page: Any) -> None:
    page.goto(f"{console.url}/topics/filler-2/produce")
    page.get_by_label("Value", exact=True).fill("from the form ${i}")
    page.get_by_label("How many").fill("2")
    page.get_by_role("button", name="Send").click()
    page.get_by_text("2 records sent").wait_for()
    page.get_by_role("link", name="Show the newest records").click()
    page.get_by_text("from the form 1").wait_for()


def test_a_topic_is_not_deleted_without_its_name(console: Console, page: Any) -> None:
    page.goto(f"{console.url}/topics/filler-3/delete")
    page.get_by_label("Type the name").fill("filler")
    page.get_by_role("button", name="Delete the topic").click()
    page.get_by_text("nothing was deleted").first.wait_for()


def test_a_query_is_run_and_stopped(console: Console, page: Any) -> None:
    page.goto(f"{console.url}/sql")
    page.get_by_label("Query").fill("select count(*) as many from orders")
    page.get_by_role("button", name="Run").click()
    page.get_by_text("1 rows from").wait_for()
    assert page.locator("tbody td").first.inner_text() == "201"
    page.get_by_label("Query").fill("select count(*) from range(1000000000) a, range(100000000) b")
    page.keyboard.press("Control+Enter")
    page.get_by_role("button", name="Stop").click()
    page.get_by_text("Stopped.").wait_for()


def test_hostile_records_stay_text(console: Console, page: Any) -> None:
    for path in ("/topics/orders/records", "/groups", f"/groups/{quote(GROUP, safe='')}"):
        page.goto(f"{console.url}{path}")
        page.get_by_text("<img src=x onerror").first.wait_for()
    page.goto(f"{console.url}/topics/orders.dlq/0/0")
    page.get_by_role("heading", name="Batch").wait_for()


def test_values_change_without_a_reload(console: Console, page: Any) -> None:
    page.goto(f"{console.url}/topics/filler-4")
    assert page.locator("#e0").inner_text() == "0"
    with Producer(bootstrap_servers=console.servers) as producer:
        producer.send("filler-4", b"x")
    page.locator("#e0", has_text="1").wait_for()


def test_pages_work_without_scripts(console: Console) -> None:
    context = new_context(console.browser, java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{console.url}/topics/orders/records?key=42")
    page.get_by_role("link", name="Search without scripts").click()
    found = page.get_by_text("4 records found")
    # On a slow machine a search ends before it has read all, and says so.
    until(lambda: found.count() or (page.reload() and found.count()))
    context.close()


def test_a_login_needs_the_token(console: Console) -> None:
    with console_process(console.servers, "--token", BARNABAS_CONSOLE_TOKEN=TOKEN) as url:
        address = url.partition("?")[0]
        context = new_context(console.browser)
        page = context.new_page()
        page.goto(f"{address}topics")
        page.get_by_label("Token").fill("wrong")
        page.get_by_role("button", name="Log in").click()
        page.get_by_text("not the token").wait_for()
        page.get_by_label("Token").fill(TOKEN)
        page.get_by_role("button", name="Log in").click()
        page.get_by_role("heading", level=1).wait_for()
        page.goto(f"{address}topics")
        assert "topics" in page.title()
        assert TOKEN not in page.url
        context.close()


OF_GROUP = f"/groups/{quote(GROUP, safe='')}"
PAGES = (
    "/", "/topics", "/topics?q=nothing-has-this-name", "/topics/orders",
    "/topics/orders/config?all=1", "/topics/orders/log", "/clients",
    "/topics/orders/records", "/topics/orders/0/1",
    "/topics/orders/0/1?view=hex", "/topics/orders/produce", "/topics/orders/delete", "/groups",
    OF_GROUP, f"{OF_GROUP}/seek", "/brokers", "/events", "/transactions", "/dlq", "/delays",
    "/dlq/orders.dlq", "/dlq/orders.dlq/redrive", f"{OF_GROUP}/seek?to=latest", "/pipelines",
    f"/pipelines/{PIPELINE}", "/topics/orders/records?key=42&plain=1", "/sql",
    "/sql?q=select+1&plain=1", "/nope",
)  # fmt: skip


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_on_any_page(console: Console, scheme: str) -> None:
    script = _or_skip(axe).read_text()
    # Only to let axe itself in: the pages are the same.
    context = new_context(console.browser, color_scheme=scheme, bypass_csp=True)
    page = context.new_page()
    found = {}
    for path in PAGES:
        page.goto(f"{console.url}{path}")
        page.evaluate(script)
        result = page.evaluate("() => axe.run()")
        if result["violations"]:
            found[path] = [
                (each["id"], each["nodes"][0]["html"][:200], each["nodes"][0]["failureSummary"])
                for each in result["violations"]
            ]
    context.close()
    assert found == {}
