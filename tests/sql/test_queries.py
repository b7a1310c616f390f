"""Queries over topics, each in a process of its own; what a query must not reach."""

import time
from typing import Any

import pytest

from barnabas import Admin, Producer
from barnabas.sql.running import QueryRequest, run_query
from tests.conftest import broker_with
from tests.process import BrokerProcess
from tests.waiting import WAIT_S

pytestmark = pytest.mark.slow

broker = broker_with()

ESCAPES = [
    "select * from read_csv('/etc/passwd')",
    "select * from read_text('/etc/passwd')",
    "select * from read_blob('/etc/passwd')",
    "select * from read_parquet('/tmp/x.parquet')",
    "select * from read_json('/etc/passwd')",
    "select * from glob('/etc/*')",
    "from '/etc/passwd'",
    "from 'https://127.0.0.1/x.csv'",
    "select * from query('select * from read_text(''/etc/passwd'')')",
    "select * from query_table('request')",
    "copy (select 1) to '/tmp/barnabas-escape'",
    "attach '/tmp/barnabas-escape.db'",
    "install httpfs",
    "load httpfs",
    "set enable_external_access=true",
    "set lock_configuration=false",
    "pragma enable_object_cache",
    "export database '/tmp/barnabas-escape'",
    "create table t as select 1",
    "call pragma_version()",
    "select getenv('HOME')",
    "select 1; copy (select 1) to '/tmp/barnabas-escape'",
    "select * from sniff_csv('/etc/passwd')",
]


async def asked(broker: BrokerProcess, query: str, **given: Any) -> dict[str, Any]:
    """Columns, rows, notes and plans of a query, or its error."""
    found: dict[str, Any] = {"columns": [], "rows": [], "notes": [], "plans": [], "error": None}
    settings = {"bootstrap.servers": broker.bootstrap_servers}
    given = {"seconds_max": WAIT_S, **given}
    async for line in run_query(QueryRequest(query, settings, **given)):
        found["columns"] = line.get("columns", found["columns"])
        if isinstance(line.get("rows"), list):
            found["rows"] += line["rows"]
        found["notes"] += [line["note"]] if "note" in line else []
        found["plans"] += [line["plan"]] if "plan" in line else []
        found["error"] = line.get("error", found["error"])
    return found


@pytest.fixture
async def orders(broker: BrokerProcess, topic: str) -> str:
    servers, now_ms = broker.bootstrap_servers, int(time.time() * 1000)
    async with Admin(bootstrap_servers=servers) as admin:
        await admin.create_topic(topic, partitions=3)
    async with Producer(bootstrap_servers=servers) as producer:
        for number in range(30):
            value = b'{"order": %d, "amount": %d.5}' % (number, number)
            at_ms = now_ms - 60_000 + number * 1_000
            await producer.send(topic, value, key=b"%d" % (number % 5), timestamp=at_ms)
        await producer.send(topic, b"\xff not json", key=b"1")
    return topic


async def test_a_topic_is_a_table_with_the_fields_of_its_values(
    broker: BrokerProcess, orders: str
) -> None:
    found = await asked(broker, f'select count(*), sum("order"), max(amount) from "{orders}"')
    assert found["error"] is None
    assert found["rows"] == [[31, 435, 29.5]]


async def test_latest_is_the_last_record_of_each_key(broker: BrokerProcess, orders: str) -> None:
    found = await asked(
        broker, f"select key, \"order\" from latest('{orders}') where key <> '1' order by 2"
    )
    assert found["rows"] == [["0", 25], ["2", 27], ["3", 28], ["4", 29]]


async def test_a_topic_is_read_as_it_was(broker: BrokerProcess, orders: str) -> None:
    then = await asked(broker, f'select epoch_ms(timestamp) from "{orders}" where "order" = 10')
    ((as_of_ms,),) = then["rows"]
    query = f"select key, \"order\" from latest('{orders}') order by 2"
    found = await asked(broker, query, as_of_ms=as_of_ms)
    assert found["rows"] == [["0", 5], ["1", 6], ["2", 7], ["3", 8], ["4", 9]]
    assert found["plans"][0]["records"] == 10


async def test_a_topic_may_be_named_twice(broker: BrokerProcess, orders: str) -> None:
    found = await asked(
        broker,
        f'select count(*) from "{orders}" a join "{orders}" b on a."order" = b."order"',
    )
    assert found["rows"] == [[30]]


async def test_conditions_leave_out_partitions_and_offsets(
    broker: BrokerProcess, orders: str
) -> None:
    by_key = await asked(broker, f"from \"{orders}\" where key = '3'", explain=True)
    assert len(by_key["plans"][0]["ranges"]) == 1
    assert "hash as Java does" in by_key["notes"][0]
    by_offset = await asked(
        broker, f'from "{orders}" where partition = 1 and "offset" >= 2 and "offset" < 4'
    )
    assert by_offset["plans"][0]["ranges"] == {"1": [2, 4]}
    assert len(by_offset["rows"]) == 2
    past = await asked(
        broker, f'from "{orders}" where timestamp > now() + interval 1 hour', explain=True
    )
    assert past["plans"][0]["records"] == 0


async def test_a_limit_alone_takes_the_newest(broker: BrokerProcess, orders: str) -> None:
    found = await asked(broker, f'select "order" from "{orders}" where "order" >= 0 limit 3')
    assert [row[0] for row in found["rows"]] == [29, 28, 27]


async def test_what_is_not_read_is_said(broker: BrokerProcess, orders: str) -> None:
    found = await asked(broker, f'select count(*) from "{orders}"', records_max=10)
    assert found["rows"][0][0] <= 10
    assert "are not read: the limit is 10" in found["notes"][0]


async def test_a_query_that_takes_too_long_is_ended(broker: BrokerProcess) -> None:
    endless = "with recursive n as (select 1 x union all select x from n) select count(*) from n"
    found = await asked(broker, endless, seconds_max=3)
    assert "took longer than 3 s" in found["error"]


async def test_an_unknown_topic_is_an_error_with_the_nearest_name(
    broker: BrokerProcess, orders: str
) -> None:
    found = await asked(broker, f'from "{orders}x"')
    assert "does not exist" in found["error"]
    assert orders in found["error"]


@pytest.mark.parametrize("query", ESCAPES)
async def test_a_query_reaches_nothing_but_topics(broker: BrokerProcess, query: str) -> None:
    found = await asked(broker, query)
    assert found["error"] is not None
    assert not found["rows"]
