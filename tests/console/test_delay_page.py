"""The pages about records that are delivered at a time."""

from barnabas import Admin
from barnabas.client.delay.delay_rows import why_late
from barnabas.client.delay.holding_reader import PendingRecord
from barnabas.client.delay.schedule import PlannedMove
from tests.client_e2e.delaying import DelayedSend, now_ms, send
from tests.console.conftest import Ask
from tests.process import BrokerProcess

DAY_MS = 86_400_000
MARKED = {"barnabas.scheduler": "true", "retention.ms": "-1"}


async def test_waiting_records_are_shown_with_what_is_late_and_why(
    get: Ask, broker: BrokerProcess, topic: str
) -> None:
    servers, holding = broker.bootstrap_servers, f"{topic}-later"
    async with Admin(bootstrap_servers=servers) as admin:
        await admin.create_topic(holding, partitions=2, configs=MARKED)
    now = now_ms()
    times = {"tomorrow": now + DAY_MS, "yesterday": now - DAY_MS, "next week": now + 6 * DAY_MS}
    send(servers, holding, [DelayedSend(value, str(at), topic, "k") for value, at in times.items()])
    (row,) = [row for row in (await get("/delays.json")).json() if row["topic"] == holding]
    assert (row["pending"], row["late"], row["late_by"]) == (3, 1, "1 d")
    assert row["why"] == f"no delayer reads it: run `barnabas delay run {holding}`"
    page = await get("/delays")
    assert page.status == 200
    assert f'href="/delays/{holding}"' in page.text
    assert f"{holding},3,1," in (await get("/delays.csv")).text
    one = (await get(f"/delays/{holding}")).text
    assert "3 records waiting, 1 late" in one
    assert "no delayer reads it" in one
    rows = (await get(f"/delays/{holding}.json")).json()
    assert [row["value"] for row in rows] == ["yesterday", "tomorrow", "next week"]
    assert {row["to"] for row in rows} == {topic}
    assert (await get(f"/delays/{holding}.csv")).text.startswith("at,due,to,key,value,state")
    assert (await get("/delays/no-such-topic")).status == 404


def test_a_late_record_whose_topic_is_missing_says_so() -> None:
    late = [PendingRecord(0, PlannedMove(5, 0, "gone", 1), None, None)]
    assert why_late("later", late, is_read=True, topics={}) == "topic gone does not exist"
    assert "its log says" in why_late("later", [], is_read=True, topics={})
