"""The suite "console": searches of the console, and SQL over topics.

In: settings. Out: a table; there is no peer. 1,000,000 JSON records of about 95 B, lz4, in three
partitions of one broker.
"""

import asyncio
import resource
import time
from contextlib import aclosing
from statistics import median

from barnabas.console.scanning import Wanted, scan
from barnabas.model.ids import TopicPartition
from barnabas.sql.running import QueryRequest, run_query
from barnabas.sync import Admin, Producer
from barnabas.wire.messages.list_offsets import LATEST
from bench.figures import Goal, Row, Table
from bench.sides import directory
from bench.suite import Settings, Suite, say
from tests.process import BrokerProcess

RECORDS = 1_000_000
PARTITIONS = 3
CUSTOMERS = 100_000
SECONDS_MAX = 600.0  # of a query: CPU counts here, and the machine may have other work
SEARCH, STOP, QUERY = "records per CPU second", "s", "CPU s"
SEARCHES = {
    "search by key": Wanted(key=b"77777"),
    "search by text in the value": Wanted(value=b'"customer": 4242,'),
    "search by header": Wanted(header="none"),
}
GOALS = {"search by key": Goal(least=2_000_000)}
QUERIES = {
    "select count(*)": "select count(*) from orders",
    "where key = '77777'": "select * from orders where key = '77777'",
    "sum of a JSON field by another": "select country, sum(amount) from orders group by 1",
    "the last record of each key": "select count(*) from latest('orders')",
    "limit 5": "select * from orders limit 5",
    "where partition = 1 and offset >= 300000": (
        'select count(*) from orders where partition = 1 and "offset" >= 300000'
    ),
}


def run(settings: Settings) -> list[Table]:
    records = RECORDS // 10 if settings.quick else RECORDS
    rounds = settings.rounds or (1 if settings.quick else 3)
    rows: list[Row] = []
    with directory("ram") as base:
        broker = BrokerProcess(base / "data", {}, log=base / "log")
        broker.start()
        try:
            servers = broker.bootstrap_servers
            _fill(servers, records)
            if settings.wants("search"):
                rows += asyncio.run(_searches(servers, records, rounds))
            if settings.wants("sql"):
                rows += asyncio.run(_queries(servers, rounds))
        finally:
            broker.stop()
    return [Table("Searches, and queries in a process of their own", rows, peer="-")]


def _fill(servers: str, records: int) -> None:
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topic("orders", partitions=PARTITIONS)
    options = {"bootstrap.servers": servers, "compression.type": "lz4", "linger.ms": "20"}
    with Producer(options) as producer:
        for number in range(records):
            value = (
                b'{"order": %d, "customer": %d, "amount": %d, "country": "%s", "note": "to us"}'
                % (number, number % CUSTOMERS, number % 997, (b"DE", b"FR", b"US")[number % 3])
            )
            producer.send_nowait("orders", value, key=b"%d" % (number % CUSTOMERS))
            if number % 1_000 == 0:
                producer.drain()


async def _searches(servers: str, records: int, rounds: int) -> list[Row]:
    settings = {"bootstrap.servers": servers}
    from barnabas import Admin as AsyncAdmin

    async with AsyncAdmin(bootstrap_servers=servers) as admin:
        places = {TopicPartition("orders", number): LATEST for number in range(PARTITIONS)}
        ends = await admin.offsets(places)
    spans = {at: (0, end.offset) for at, end in ends.items()}
    rows = []
    for what, wanted in SEARCHES.items():
        rates = []
        for number in range(rounds + 1):
            before = time.process_time()
            async for _ in scan(settings, spans, wanted):
                pass
            if number:  # the first one imports pyarrow
                rates.append(records / (time.process_time() - before))
        say(f"{what}: {median(rates):,.0f} {SEARCH}")
        rows.append(Row(what, SEARCH, median(rates), None, None, GOALS.get(what), plain=True))
    stopped = []
    for _ in range(rounds):
        async with aclosing(scan(settings, spans, Wanted(key=b"none"))) as steps:
            await anext(steps)
            began = time.perf_counter()
        stopped.append(time.perf_counter() - began)
    rows.append(Row("a search that is stopped ends after", STOP, max(stopped), None, None,
                    Goal(most=0.5), plain=True))  # fmt: skip
    return rows


async def _queries(servers: str, rounds: int) -> list[Row]:
    rows = []
    for what, query in QUERIES.items():
        used = []
        for _ in range(rounds):
            before = _children_s()
            async with aclosing(
                run_query(
                    QueryRequest(query, {"bootstrap.servers": servers}, seconds_max=SECONDS_MAX)
                )
            ) as lines:
                async for line in lines:
                    assert "error" not in line, line
            used.append(_children_s() - before)
        say(f"sql, {what}: {median(used):.2f} {QUERY}")
        rows.append(Row(f"sql: {what}", QUERY, median(used), None, None))
    return rows


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


SUITE = Suite(
    "console",
    "The console: searches, and SQL over topics",
    "1,000,000 JSON records of about 95 B, lz4, three partitions, one broker, RAM-backed directory."
    " A search runs in the console's process, without the first one, which imports pyarrow. A query"
    " runs in a process of its own; its CPU includes the start and the imports of that process.",
    ("search", "sql"),
    run,
)
