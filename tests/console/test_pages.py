"""Each page answers its question, in HTML, JSON and CSV, whatever clients have written."""

import asyncio
import csv
import html
import io
import re
import time
from urllib.parse import quote

import pytest

from barnabas import Admin, Consumer, Producer
from barnabas.client.finding import problem, warning
from barnabas.client.workers.dead_letter_headers import LetterTrail, Origin
from barnabas.console.pages.routes import all_routes
from barnabas.pipeline.formats.framed import DecodedValue
from tests.conftest import broker_with
from tests.console.asgi import ask
from tests.console.conftest import Ask, StartConsole
from tests.process import BrokerProcess
from tests.waiting import WAIT_S

broker = broker_with()
HOSTILE = "<script>alert(1)</script>\u202e\x00'\"&"


@pytest.fixture
async def orders(broker: BrokerProcess, topic: str) -> str:
    """A topic of three partitions with 30 records."""
    servers = broker.bootstrap_servers
    async with Admin(bootstrap_servers=servers) as admin:
        await admin.create_topic(topic, partitions=3)
    first_ms = time.time_ns() // 1_000_000 - 30  # one each: the newest is the last one
    async with Producer(bootstrap_servers=servers) as producer:
        for number in range(30):
            value = b'{"order": %d}' % number
            key, at_ms = b"%d" % (number % 5), first_ms + number
            await producer.send(topic, value, key=key, headers=[("n", b"h")], timestamp=at_ms)
    return topic


async def committed(broker: BrokerProcess, topic: str, group: str) -> None:
    async with Consumer(
        topic,
        bootstrap_servers=broker.bootstrap_servers,
        group_id=group,
        client_id="worker",
        auto_offset_reset="earliest",
    ) as consumer:
        while not await consumer.getmany(10, timeout=WAIT_S):
            pass
        await consumer.commit()


async def test_the_overview_says_whether_anything_is_wrong(
    start_console: StartConsole, get: Ask, orders: str
) -> None:
    answer = await get("/")
    assert answer.status == 200
    document = (await get("/overview.json")).json()
    assert document["problems"] == []
    assert document["topics"] >= 1


async def test_the_sweep_knows_ends_groups_and_findings(
    start_console: StartConsole, broker: BrokerProcess, orders: str
) -> None:
    await committed(broker, orders, f"{orders}-group")
    app = start_console()
    sweep = await app.state.swept()
    assert sweep.records[orders] == 30
    (mine,) = [one for one in sweep.groups if one.listing.group == f"{orders}-group"]
    assert mine.lag is not None
    assert mine.lag > 0
    assert ("no-members" in {f.name for _, f in sweep.findings}) or sweep.findings


async def test_findings_of_any_severity_are_shown(
    start_console: StartConsole, broker: BrokerProcess
) -> None:
    app = start_console()
    for finding in (problem("slow-member", "a", "b"), warning("uneven", "c", "d")):
        app.state.sweep.findings.append(("group", finding))
    page = (await ask(app.guarded(), "/")).text
    assert "Slow member" in page
    assert "Uneven" in page


async def test_topics_are_found_sorted_and_counted(get: Ask, orders: str) -> None:
    rows = (await get(f"/topics.json?q={orders}")).json()
    assert [(row["topic"], row["partitions"], row["records"]) for row in rows] == [(orders, 3, 30)]
    page = await get(f"/topics?q={orders}&sort=-records")
    assert f'href="/topics/{orders}"' in page.text
    assert "1 topic of" in page.text


async def test_a_topic_shows_leaders_offsets_and_readers(
    get: Ask, orders: str, start_console: StartConsole
) -> None:
    table = list(csv.DictReader(io.StringIO((await get(f"/topics/{orders}.csv")).text)))
    assert [row["leader"] for row in table] == ["1", "1", "1"] or len(table) == 3
    assert sum(int(row["end"]) for row in table) == 30
    page = (await get(f"/topics/{orders}")).text
    assert "30 records in 3 partitions" in page


async def test_an_unknown_topic_is_an_error_page_with_the_nearest_name(
    get: Ask, orders: str
) -> None:
    answer = await get(f"/topics/{orders[:-1]}x")
    assert answer.status == 404
    assert orders in html.unescape(answer.text)
    assert (await get("/topics/nope.json")).json()["error"] == "UNKNOWN_TOPIC_OR_PARTITION"


async def test_a_topic_whose_name_ends_like_a_twin_has_a_page(
    get: Ask, broker: BrokerProcess, orders: str
) -> None:
    name = f"{orders}.json"
    async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        await admin.create_topic(name, partitions=1)
    assert f'href="/topics/{name}.html"' in (await get(f"/topics?q={name}")).text
    assert "0 records" in (await get(f"/topics/{name}.html")).text


async def test_options_have_their_meaning(get: Ask, orders: str) -> None:
    page = (await get(f"/topics/{orders}/config?all=1")).text
    assert "(7 d)" in page
    rows = (await get(f"/topics/{orders}/config.json?all=1")).json()
    assert all(row["doc"] for row in rows if row["name"].startswith("retention."))


async def test_a_group_is_explained_and_has_its_rebalances(
    get: Ask, broker: BrokerProcess, orders: str
) -> None:
    group = f"{orders}-group"
    await committed(broker, orders, group)
    page = (await get(f"/groups/{group}")).text
    assert "What to do" in page
    assert "generation 1" in page
    document = (await get(f"/groups/{group}.json")).json()
    assert document["findings"][0]["remedy"]
    assert document["rebalances"][0]["causes"]
    for _ in range(50):  # the age of its oldest unread record changes now and then
        live = await get(f"/groups/{group}.live")
        assert set(live.json()) >= {"lag", "catch_up", "state"}
        again = await get(f"/groups/{group}.live", headers={"if-none-match": live.headers["etag"]})
        if again.status == 304:
            break
    assert (again.status, again.body) == (304, b"")


async def test_records_are_shown_newest_first_and_from_an_offset(get: Ask, orders: str) -> None:
    newest = (await get(f"/topics/{orders}/records.json")).json()
    assert len(newest) == 30
    assert newest[0]["value"] == '{"order": 29}'
    some = (await get(f"/topics/{orders}/records.json?partition=1&from=2&n=3")).json()
    assert [row["offset"] for row in some] == [2, 3, 4]
    assert (await get(f"/topics/{orders}/records?partition=9")).status == 404
    assert (await get(f"/topics/{orders}/records?partition=x")).status == 400


async def test_a_key_is_looked_for_in_one_partition(get: Ask, orders: str) -> None:
    found = (await get(f"/topics/{orders}/records.json?key=3&plain=1")).json()
    assert [row["value"] for row in found] == [
        f'{{"order": {number}}}' for number in (28, 23, 18, 13, 8, 3)
    ]
    assert len({row["partition"] for row in found}) == 1
    lines = (await get(f"/topics/{orders}/scan?key=3")).text.splitlines()
    assert len([line for line in lines if "cells" in line]) == 6
    assert "Done: 6 records found" in lines[-1]


async def test_values_and_headers_are_looked_for_everywhere(get: Ask, orders: str) -> None:
    found = (await get(f"/topics/{orders}/records.json?value=%22order%22%3A+7&plain=1")).json()
    assert [row["value"] for row in found] == ['{"order": 7}']
    with_header = (await get(f"/topics/{orders}/records.json?header=n%3Dh&plain=1")).json()
    assert len(with_header) == 30
    assert (await get(f"/topics/{orders}/records.json?header=n%3Dx&plain=1")).json() == []


async def test_a_record_has_its_batch_and_its_bytes(get: Ask, orders: str) -> None:
    document = (await get(f"/topics/{orders}/0/1.json")).json()
    assert document["batch"]["base_offset"] <= 1 <= document["batch"]["last_offset"]
    assert document["headers"] == ["n", "h"]
    page = (await get(f"/topics/{orders}/0/1")).text
    assert "Checksum" in page
    raw = await get(f"/topics/{orders}/0/1/value")
    assert raw.body == document["payload"].encode()
    assert raw.headers["content-type"] == "application/octet-stream"
    assert "attachment" in raw.headers["content-disposition"]
    assert (await get(f"/topics/{orders}/0/999999")).status == 404


async def test_an_export_is_all_records(get: Ask, orders: str, start_console: StartConsole) -> None:
    lines = (await get(f"/topics/{orders}/export")).text.splitlines()
    assert len(lines) == 30
    table = (await get(f"/topics/{orders}/export?as=csv&partition=0")).text.splitlines()
    assert 1 < len(table) < 31


async def test_a_cell_of_csv_never_begins_like_a_formula(
    get: Ask, broker: BrokerProcess, orders: str
) -> None:
    async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        await producer.send(orders, b"=cmd|' /C calc'!A0", key=b"@x")
    text = (await get(f"/topics/{orders}/records.csv")).text
    assert "'=cmd" in text
    assert "'@x" in text
    assert ",=cmd" not in text


async def test_records_are_sent_with_a_form(get: Ask, orders: str) -> None:
    form = {"key": "k${i}", "value": "v${i}", "headers": "a: b", "count": "2", "partition": "1"}
    answer = await get(f"/topics/{orders}/produce", form=form)
    assert answer.status == 303
    rows = (await get(f"/topics/{orders}/records.json?n=2&partition=1")).json()
    assert {row["value"] for row in rows} == {"v0", "v1"}
    assert (await get(f"/topics/{orders}/produce", form={"count": "9999"})).status == 400
    both = {"value": "v", "null_value": "1"}
    assert (await get(f"/topics/{orders}/produce", form=both)).status == 400
    typed = {"key": "typed", "null_key": "1", "value": "v"}
    assert (await get(f"/topics/{orders}/produce", form=typed)).status == 303
    assert (await get(f"/topics/{orders}/records.json?n=1")).json()[0]["key"] == "typed"
    again = (await get(f"/topics/{orders}/produce?from=1:{rows[0]['offset']}")).text
    assert "a: b" in again


async def test_a_topic_is_deleted_only_by_its_name(get: Ask, orders: str) -> None:
    assert "for good" in (await get(f"/topics/{orders}/delete")).text
    assert (await get(f"/topics/{orders}/delete", form={"name": "other"})).status == 400
    assert (await get(f"/topics/{orders}")).status == 200
    assert (await get(f"/topics/{orders}/delete", form={"name": orders})).status == 303
    assert (await get(f"/topics/{orders}")).status == 404


async def test_a_seek_is_previewed_and_undone(get: Ask, broker: BrokerProcess, orders: str) -> None:
    group = f"{orders}-group"
    await committed(broker, orders, group)
    before = (await get(f"/groups/{group}.json")).json()["partitions"]
    preview = await get(f"/groups/{group}/seek?to=latest")
    assert "partitions that change" in preview.text
    assert (await get(f"/groups/{group}/seek", form={"to": "latest"})).status == 303
    async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        assert (await admin.group_report(group)).lag == 0
        assert (await get(f"/groups/{group}/undo", form={})).status == 303
        after = {tuple(p.at): p.committed for p in (await admin.group_report(group)).partitions}
    known = {(p["topic"], p["partition"]): p["committed"] for p in before}
    assert after == known
    assert (await get(f"/groups/{group}/seek", form={"to": "/etc/passwd"})).status == 400


async def test_letters_are_listed_by_cause_and_sent_back_once(
    get: Ask, broker: BrokerProcess, orders: str
) -> None:
    letters = f"{orders}.dlq"
    trail = LetterTrail("billing", Origin(orders, 0, 1), 1, "ValueError: bad amount 17", 3, 0, 5)
    async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        await admin.create_topic(letters, partitions=1)
    async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for number in range(3):
            again = trail._replace(cause=f"ValueError: bad amount {number}")
            await producer.send(letters, b"poison", headers=list(again.headers(())))
    rows = (await get("/dlq.json")).json()
    assert [(r["topic"], r["left"]) for r in rows if r["topic"] == letters] == [(letters, 3)]
    page = (await get(f"/dlq/{letters}")).text
    assert "ValueError: bad amount #" in page
    assert f"/topics/{letters}/0/2" in page
    preview = (await get(f"/dlq/{letters}/redrive?cause=bad")).text
    assert "Send 3 letters of" in preview
    one = (await get(f"/dlq/{letters}/redrive?partition=0&offset=1")).text
    assert "Send 1 letter of" in one
    assert (await get(f"/dlq/{letters}/redrive?offset=x")).status == 400
    for _ in range(2):
        assert (await get(f"/dlq/{letters}/redrive", form={"cause": "bad"})).status == 303
    found = (await get(f"/topics/{orders}/records.json?value=poison&plain=1")).json()
    assert len(found) == 3


@pytest.mark.parametrize("place", ["key", "value", "header", "group"])
async def test_hostile_text_stays_text(
    get: Ask, broker: BrokerProcess, orders: str, place: str
) -> None:
    servers = broker.bootstrap_servers
    given = HOSTILE.encode()
    async with Producer(bootstrap_servers=servers) as producer:
        sent = await producer.send(
            orders,
            given + b"\xff" if place == "value" else b"v",
            key=given if place == "key" else b"k",
            headers=[(HOSTILE, given)] if place == "header" else [],
        )
    paths = [f"/topics/{orders}/records", f"/topics/{orders}/{sent.partition}/{sent.offset}"]
    if place == "group":
        group = f"{HOSTILE}/{orders}"
        await committed(broker, orders, group)
        paths = [f"/groups/{quote(group, safe='')}", "/groups"]
    for path in paths:
        answer = await get(path)
        assert answer.status == 200
        assert "<script>alert" not in answer.text
        assert "\u202e" not in answer.text
        assert "\x00" not in answer.text


async def test_clients_are_listed_with_their_groups_and_topics(
    get: Ask, broker: BrokerProcess, orders: str
) -> None:
    group = f"{orders}-clients"
    async with Consumer(
        orders, bootstrap_servers=broker.bootstrap_servers, group_id=group, client_id=orders,
        auto_offset_reset="earliest",
    ) as consumer:  # fmt: skip
        while not await consumer.getmany(10, timeout=WAIT_S):
            pass
        rows = (await get(f"/clients.json?q={group}")).json()
        assert [(row["client_id"], row["groups"], row["reads"]) for row in rows] == [
            (orders, [group], [orders])
        ]
        page = (await get(f"/clients?q={orders}")).text
        assert f'href="/groups/{group}"' in page
        assert "1 client of" in page
        (row,) = rows
        assert row["requests"] > 0
        assert row["bytes_out"] > row["bytes_in"] > 0
        assert row["errors"] == 0
        assert row["requests_per_s"] is None or row["requests_per_s"] >= 0


async def test_the_segments_of_a_topic_are_listed(get: Ask, orders: str) -> None:
    rows = (await get(f"/topics/{orders}/log.json")).json()
    assert sorted(row["partition"] for row in rows) == [0, 1, 2]
    assert sum(row["next_offset"] - row["base_offset"] for row in rows) == 30
    assert {row["state"] for row in rows} == {"active"}
    assert "3 segments with" in (await get(f"/topics/{orders}/log")).text
    assert len((await get(f"/topics/{orders}/log.json?partition=1")).json()) == 1
    assert (await get(f"/topics/{orders}/log?partition=9")).status == 404


async def test_values_are_decoded_with_the_registry(
    start_console: StartConsole, broker: BrokerProcess, orders: str
) -> None:
    def decode(value: bytes) -> DecodedValue:
        if value[5:] == b"bad":
            raise ValueError("the registry has no schema 7")
        return DecodedValue("Avro", 7, '{"amount": 12}')

    frame = b"\0\0\0\0\x07"
    async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        good = await producer.send(orders, frame + b"good", partition=0)
        bad = await producer.send(orders, frame + b"bad", partition=0)
    guarded = start_console(decode=decode).guarded()
    assert "{&#34;amount&#34;: 12}" in (await ask(guarded, f"/topics/{orders}/records")).text
    page = (await ask(guarded, f"/topics/{orders}/0/{good.offset}")).text
    assert "Avro, schema 7 of the registry" in page
    assert "no schema 7" in (await ask(guarded, f"/topics/{orders}/0/{bad.offset}")).text
    shown = (await ask(guarded, f"/topics/{orders}/0/{good.offset}.json")).json()
    assert shown["decoded"]["text"] == '{"amount": 12}'
    assert "good" in (await ask(guarded, f"/topics/{orders}/0/{good.offset}?view=hex")).text


def test_every_address_has_a_page() -> None:
    routes = all_routes()
    assert all(callable(routes.page(name)) for name in routes.names())


async def test_records_of_the_last_hour_are_one_link_away(get: Ask, orders: str) -> None:
    page = (await get(f"/topics/{orders}/records")).text
    link = re.search(r'href="([^"]+)">hour</a>', page)
    assert link is not None
    found = await get(f"/topics/{orders}/records.json{html.unescape(link[1])}")
    assert len(found.json()) == 30


async def test_no_page_waits_for_the_end_of_a_transaction(
    get: Ask, broker: BrokerProcess, orders: str
) -> None:
    servers = broker.bootstrap_servers
    async with Producer(
        bootstrap_servers=servers, transactional_id=orders, transaction_timeout_ms=600_000
    ) as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        sent = await producer.send(orders, b"not committed", partition=0)
        async with asyncio.timeout(WAIT_S):
            assert (await get("/dlq")).status == 200
            rows = (await get(f"/topics/{orders}/records.json")).json()
            assert len(rows) == 30
            found = await get(f"/topics/{orders}/records.json?value=committed&plain=1")
            assert found.json() == []
            answer = await get(f"/topics/{orders}/0/{sent.offset}")
            assert "records of open transactions" in answer.text
            query = quote(f'select count(*) as n from "{orders}"')
            assert (await get(f"/sql.json?q={query}")).json() == [{"n": 30}]
        await producer.abort_transaction()


async def test_twins_of_odd_names_are_linked(get: Ask, broker: BrokerProcess, orders: str) -> None:
    group = f"a/b?c%d.json {orders}"
    await committed(broker, orders, group)
    page = (await get(f"/groups/{quote(group, safe='')}.html")).text
    twin = re.search(r'href="([^"]+)">JSON</a>', page)
    assert twin is not None
    assert (await get(html.unescape(twin[1]))).json()["group"] == group
