"""The examples of streams, run as pipelines: joins, enrichment, sessions.

Windowed counts and deduplication: test_pipelines.py.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.spark.specs import order, run, spec, write
from tests.spark.test_pipelines import read
from tests.spark.topics import create

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
MINUTE, HOUR = 60, 3600


def values(servers: str, topic: str) -> list[dict[str, Any]]:
    return [json.loads(value) for value, _ in read(servers, topic)]


def test_orders_find_their_payment_or_end_without_one(
    spark: Any, our_broker: Any, topic: str, tmp_path: Path
) -> None:
    servers = our_broker.bootstrap_servers
    payments, out = f"{topic}-payments", f"{topic}-paid"
    for name in (topic, payments, out):
        create(servers, name, 1)
    source = {
        "topics": [topic, payments],
        "schema": "id long, customer long, amount long, method string",
    }
    found = spec(
        "stream", servers, topic, tmp_path,
        transform="examples.paid_orders:paid", sink={"topic": out}, source=source,
    )  # fmt: skip

    def pay(second: int, number: int) -> None:
        write(servers, payments, [(second, json.dumps({"id": number, "method": "card"}).encode())])

    write(servers, topic, [(n * MINUTE, order(n)) for n in range(4)])
    pay(5 * MINUTE, 1)
    run(found, spark)
    assert [(each["order"], each["method"]) for each in values(servers, out)] == [(1, "card")]
    pay(10 * MINUTE, 2)  # in another batch than its order
    pay(2 * HOUR, 3)  # too late: more than an hour after
    write(servers, topic, [(5 * HOUR, order(100))])
    run(found, spark)
    pay(5 * HOUR, 999)
    run(found, spark)
    run(found, spark)
    got = {each["order"]: each.get("method") for each in values(servers, out)}
    assert got == {0: None, 1: "card", 2: "card", 3: None}


def test_orders_get_the_name_of_their_customer(
    spark: Any, our_broker: Any, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = our_broker.bootstrap_servers
    out = f"{topic}-named"
    for name in (topic, out):
        create(servers, name, 1)
    found = spec(
        "stream", servers, topic, tmp_path,
        transform="examples.enriched:with_customer", sink={"topic": out},
    )  # fmt: skip
    customers = tmp_path / "customers.csv"
    monkeypatch.chdir(tmp_path)
    customers.write_text("customer,name,country\n1,Ada,GB\n2,Grace,US\n")
    write(servers, topic, [(n, order(n, customer=n)) for n in range(3)])
    run(found, spark)
    assert [each.get("name") for each in values(servers, out)] == [None, "Ada", "Grace"]
    customers.write_text("customer,name,country\n0,Barbara,US\n")
    write(servers, topic, [(9, order(9, customer=0))])
    run(found, spark)
    assert values(servers, out)[-1]["name"] == "Barbara"


def test_orders_close_together_are_a_session_that_a_timer_ends(
    spark: Any, our_broker: Any, topic: str, tmp_path: Path
) -> None:
    pytest.importorskip("google.protobuf", reason="protobuf is not installed")
    servers = our_broker.bootstrap_servers
    out = f"{topic}-sessions"
    for name in (topic, out):
        create(servers, name, 1)
    found = spec(
        "stream", servers, topic, tmp_path,
        transform="examples.sessions:sessions", sink={"topic": out},
    )  # fmt: skip
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
    try:
        minutes = {1: (0, 10, 35), 2: (5, 50, 55)}  # of customer 2 two sessions
        orders = sorted((m, customer) for customer, times in minutes.items() for m in times)
        write(servers, topic, [(m * MINUTE, order(m, customer=c, amount=10)) for m, c in orders])
        run(found, spark)
        write(servers, topic, [(60 * MINUTE, order(60, customer=1, amount=5))])  # goes on
        run(found, spark)
        write(servers, topic, [(9 * HOUR, order(99, customer=3))])
        run(found, spark)
        run(found, spark)
    finally:
        spark.conf.unset("spark.sql.streaming.stateStore.providerClass")
    got = sorted(
        (each["customer"], each["minutes"], each["orders"], each["amount"])
        for each in values(servers, out)
    )
    assert got == [(1, 60, 4, 35), (2, 0, 1, 10), (2, 5, 2, 20)]
