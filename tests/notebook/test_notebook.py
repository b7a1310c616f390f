"""A notebook: three lines to a record, objects that show themselves, and the quickstart."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

import barnabas
from barnabas.model.errors import InvalidRequest
from barnabas.notebook.asking import QueryResult, open_clusters
from barnabas.notebook.reading import span_ms

QUICKSTART = Path(__file__).resolve().parents[2] / "docs/notebooks/quickstart.ipynb"


def test_three_lines_to_a_record() -> None:
    kafka = barnabas.start()
    try:
        kafka.topic("orders").send({"id": 1})
        assert kafka.topic("orders").to_arrow(json=True)["id"].to_pylist() == [1]
        assert repr(kafka.topic("orders")) == "<topic 'orders', 1 records>"
    finally:
        kafka.stop()
    assert repr(kafka) == "<barnabas, stopped>"


def test_records_show_themselves_without_any_other_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`pip install barnabas` alone brings no pyarrow."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    kafka = barnabas.start()
    try:
        orders = kafka.create_topic("orders", partitions=2)
        for number in range(60):
            orders.send({"id": number}, key=f"customer-{number}")
        records = orders.records()
        assert [json.loads(each.value)["id"] for each in records] == list(range(60))
        shown = records._repr_html_()
        assert "60 records, the newest" in shown
        assert shown.index("customer-59") < shown.index("customer-20")
        assert "customer-9<" not in shown, "50 are enough"
        assert {each.partition for each in orders.records(last=1)} == {0, 1}
        assert (len(orders.records(last=1)), len(orders.records(last="1h"))) == (2, 60)
        assert "customer-59" in orders._repr_html_()
        with pytest.raises(InvalidRequest, match=r"barnabas\[arrow\]"):
            orders.to_arrow()
    finally:
        kafka.stop()


def test_topics_are_asked_with_sql() -> None:
    kafka = barnabas.start()
    try:
        orders = kafka.create_topic("orders", partitions=2)
        for number, country in enumerate(("DE", "FR", "DE")):
            orders.send({"id": number, "country": country}, key=country)
        query = "select country, count(*) as orders from orders group by 1 order by 1"
        found = kafka.sql(query)
        assert (found.columns, list(found)) == (["country", "orders"], [("DE", 2), ("FR", 1)])
        assert found.to_pandas()["orders"].tolist() == [2, 1]
        assert "<td>DE</td>" in found._repr_html_()
        assert barnabas.sql(query, kafka.bootstrap_servers).to_dicts() == found.to_dicts()
        assert list(barnabas.sql(query)) == list(found), "the cluster that was started last"
        empty = kafka.sql("select id from orders where country = 'IT'")
        assert empty.to_arrow().num_rows == len(empty) == 0

        async def in_a_loop() -> int:
            return len(kafka.sql("select id from orders"))

        assert asyncio.run(in_a_loop()) == 3, "as in Jupyter, whose thread has a loop"
        with pytest.raises(InvalidRequest, match="no_such_topic"):
            kafka.sql("select * from no_such_topic")
    finally:
        kafka.stop()


def test_hostile_names_and_values_are_text() -> None:
    kafka = barnabas.start()
    try:
        topic = kafka.create_topic("orders")
        topic.send("<script>alert(1)</script>", b"\xff\x00", None, key="<b>")
        shown = topic._repr_html_() + kafka._repr_html_()
        assert "<script>" not in shown
        assert "<b>&lt;" not in shown
        assert "&lt;script&gt;" in shown
        assert list(topic.to_pandas(last=2)["value"]) == [b"\xff\x00", None]
    finally:
        kafka.stop()


def test_a_cluster_elsewhere_is_looked_at_with_the_options_of_a_client() -> None:
    here = barnabas.start()
    there = barnabas.connect(here.bootstrap_servers, request_timeout_ms=20_000)
    try:
        there.topic("orders").send("1")
        assert [each.value for each in here.topic("orders").records()] == [b"1"]
        assert there.settings["request.timeout.ms"] == "20000"
        assert open_clusters[-2:] == [here.settings, there.settings]
        with pytest.raises(InvalidRequest, match=r"no\.such\.option"):
            barnabas.connect(here.bootstrap_servers, no_such_option=1)
    finally:
        there.stop()
        here.stop()
    assert there.settings not in open_clusters


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("barnabas.notebook.frames.find_spec", lambda name: None)
    with pytest.raises(InvalidRequest, match="pandas is not installed: pip install pandas"):
        QueryResult().to_pandas()
    with pytest.raises(InvalidRequest, match="polars is not installed: pip install polars"):
        QueryResult().to_polars()


def test_the_time_of_last_is_checked() -> None:
    assert (span_ms("10s"), span_ms("1.5h"), span_ms("2 d")) == (10_000, 5_400_000, 172_800_000)
    with pytest.raises(InvalidRequest, match="expected a time"):
        span_ms("soon")


def test_the_quickstart_runs_cell_by_cell() -> None:
    """As Jupyter runs it, in one namespace; what a cell shows must have a representation."""
    names: dict[str, object] = {}
    for cell in json.loads(QUICKSTART.read_text())["cells"]:
        if cell["cell_type"] != "code":
            continue
        *before, last = "".join(cell["source"]).splitlines()
        source = "".join(cell["source"])
        try:
            compiled = compile(last, "cell", "eval")
        except SyntaxError:
            exec(compile(source, "cell", "exec"), names)
            continue
        exec(compile("\n".join(before), "cell", "exec"), names)
        shown = eval(compiled, names)
        show = getattr(shown, "_repr_html_", None) or shown.__repr__
        assert show()
