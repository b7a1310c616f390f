"""Searches and downloads take all conditions of their page; a page knows when it is out of date."""

import re
import time

import pytest

from barnabas import Admin, Producer
from barnabas.client.finding import problem
from barnabas.model.times import iso_time
from tests.conftest import broker_with
from tests.console.asgi import ask
from tests.console.conftest import Ask, StartConsole
from tests.process import BrokerProcess

broker = broker_with()
FIRST_MS = time.time_ns() // 1_000_000 - 3_600_000


@pytest.fixture
async def orders(broker: BrokerProcess, topic: str) -> str:
    """Twelve records of a key, one a second, four in each partition: no producer hashes so."""
    async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        await admin.create_topic(topic, partitions=3)
    async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for number in range(12):
            at_ms = FIRST_MS + number * 1_000
            await producer.send(topic, b"v%d" % number, key=b"k", partition=number % 3,
                                timestamp=at_ms)  # fmt: skip
    return topic


async def test_a_key_is_looked_for_everywhere_if_that_is_asked_for(get: Ask, orders: str) -> None:
    page = (await get(f"/topics/{orders}/records?key=k&everywhere=1")).text
    stream = re.search(r'data-stream="([^"]+)"', page)
    assert stream is not None
    lines = (await get(stream[1].replace("&amp;", "&"))).text.splitlines()
    assert "Done: 12 records found" in lines[-1]
    assert "Read all partitions" not in page


async def test_a_search_begins_at_the_time_of_its_page(get: Ask, orders: str) -> None:
    since = iso_time(FIRST_MS + 9_000)
    path = f"/topics/{orders}/records.json?key=k&everywhere=1&plain=1&time={since}"
    assert sorted(row["value"] for row in (await get(path)).json()) == ["v10", "v11", "v9"]


async def test_a_download_has_what_the_page_shows(get: Ask, orders: str) -> None:
    since = iso_time(FIRST_MS + 6_000)
    lines = (await get(f"/topics/{orders}/export?value=v1&time={since}")).text.splitlines()
    assert len(lines) == 2
    assert len((await get(f"/topics/{orders}/export?time={since}")).text.splitlines()) == 6


async def test_a_page_whose_findings_change_is_loaded_again(start_console: StartConsole) -> None:
    app = start_console()
    guarded = app.guarded()
    page = (await ask(guarded, "/")).text
    outline = re.search(r'data-outline="(\w+)"', page)
    assert outline is not None
    assert (await ask(guarded, "/overview.live")).json()["outline"] == outline[1]
    app.state.sweep.findings.append(("billing", problem("stuck", "a", "b")))
    assert (await ask(guarded, "/overview.live")).json()["outline"] != outline[1]


async def test_nothing_is_called_good_before_it_was_examined(start_console: StartConsole) -> None:
    page = (await ask(start_console().guarded(), "/")).text
    assert '<h1 id="title" class="">' in page
