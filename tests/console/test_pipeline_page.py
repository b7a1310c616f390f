"""A pipeline's page: what it read, wrote and gave up on, and whether the counts agree."""

from typing import Any

import pytest

from barnabas import Admin, Producer
from barnabas.client.consumer.offset_lookup import Committed
from barnabas.client.workers.dead_letter_headers import LetterTrail, Origin
from barnabas.model.ids import TopicPartition
from tests.conftest import broker_with
from tests.console.asgi import ask
from tests.console.conftest import StartConsole
from tests.process import BrokerProcess

broker = broker_with()


def entry(name: str, **changes: Any) -> dict[str, Any]:
    return {
        "name": name, "kind": "lake", "state": "running", "pid": 7, "spec": "/orders.yml",
        "servers": "here", "group": name, "master": "local[2]", "checkpoint": None,
        "started_ms": 1, "updated_ms": 1, "batches": 3, "rows": 8, "rows_per_s": 100,
        "batch_ms": 40, "lag": 0, "metrics": None, "error": None, "alerts": {}, "managed": False,
        "phases_ms": {"source": 5, "commit": 35}, "reads": [name], "retry_topic": None,
        "dlq": f"{name}.dlq", "target": "/lake/orders", "row_per_record": True, "table_rows": 6,
        **changes,
    }  # fmt: skip


@pytest.fixture
async def lake(broker: BrokerProcess, topic: str) -> str:
    """Ten records, of which eight are read: six rows and two letters. Another group's letter is in
    the same topic."""
    servers = broker.bootstrap_servers
    async with Admin(bootstrap_servers=servers) as admin:
        await admin.create_topic(topic, partitions=1)
        await admin.create_topic(f"{topic}.dlq", partitions=1)
        async with Producer(bootstrap_servers=servers) as producer:
            for number in range(10):
                await producer.send(topic, b"%d" % number)
            for group, offset in ((topic, 3), (topic, 5), ("another", 3)):
                trail = LetterTrail(group, Origin(topic, 0, offset), 1, "not JSON", 1, 0, 5)
                await producer.send(f"{topic}.dlq", b"x", headers=list(trail.headers(())))
        await admin.alter_group_offsets(topic, {TopicPartition(topic, 0): Committed(8)})
    return topic


async def test_records_are_rows_letters_and_waiting(start_console: StartConsole, lake: str) -> None:
    guarded = start_console(pipelines=lambda: [entry(lake)]).guarded()
    page = (await ask(guarded, f"/pipelines/{lake}")).text
    assert "runs, 2 records waiting, 2 dead letters" in page
    counts = "10 records written = 6 rows + 2 dead letters + 0 waiting to be tried again + 2"
    assert counts in page
    assert f"/dlq/{lake}.dlq?group={lake}" in page
    assert (await ask(guarded, f"/pipelines/{lake}.json")).json()["sum"]["differ"] == 0
    assert f'href="/pipelines/{lake}"' in (await ask(guarded, "/pipelines")).text


async def test_a_difference_is_shown(start_console: StartConsole, lake: str) -> None:
    guarded = start_console(pipelines=lambda: [entry(lake, table_rows=4)]).guarded()
    page = (await ask(guarded, f"/pipelines/{lake}")).text
    assert "10 records written ≠ 4 rows" in page
    assert "The difference is 2." in page


async def test_the_record_that_ends_a_pipeline_is_linked(
    start_console: StartConsole, lake: str
) -> None:
    said = f"{lake}-0, offset 3: not JSON; set errors.dlq to continue without such rows"
    failed = entry(lake, state="failed", error=said, dlq=None)
    guarded = start_console(pipelines=lambda: [failed]).guarded()
    page = (await ask(guarded, f"/pipelines/{lake}")).text
    assert "has failed" in page
    assert f'href="/topics/{lake}/0/3"' in page


async def test_a_pipeline_whose_file_is_gone_has_a_page(
    start_console: StartConsole, lake: str
) -> None:
    known = entry(lake)
    for name in ("reads", "retry_topic", "dlq", "target", "row_per_record", "table_rows"):
        del known[name]
    guarded = start_console(pipelines=lambda: [known]).guarded()
    assert "10 records kept = 8 read + 2 waiting" in (await ask(guarded, f"/pipelines/{lake}")).text


async def test_an_unknown_pipeline_is_an_error_page(start_console: StartConsole) -> None:
    guarded = start_console(pipelines=lambda: [entry("orders-lake")]).guarded()
    answer = await ask(guarded, "/pipelines/orders-lak")
    assert answer.status == 404
    assert "orders-lake" in answer.text
