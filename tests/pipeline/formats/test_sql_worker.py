"""Queries over values that name their schema in a registry."""

from typing import Any

import pytest

from barnabas import Admin, Producer
from tests.conftest import broker_with
from tests.pipeline.registry_server import running_registry
from tests.process import BrokerProcess

pytest.importorskip("duckdb")

from barnabas.sql.running import QueryRequest, run_query

pytestmark = pytest.mark.slow
broker = broker_with()
WORKER = "barnabas.pipeline.formats.sql_worker"
FRAME = b"\0" + (11).to_bytes(4)


def _rows(line: dict[str, Any]) -> list[Any]:
    """The last line has a number there."""
    return line["rows"] if isinstance(line.get("rows"), list) else []


async def test_fields_of_framed_values_are_columns(broker: BrokerProcess, topic: str) -> None:
    settings = {"bootstrap.servers": broker.bootstrap_servers}
    async with Admin(settings) as admin:
        await admin.create_topic(topic, partitions=1)
    async with Producer(settings) as producer:
        await producer.send(topic, FRAME + b'{"amount": 12}', key=FRAME + b'"a key"')
        await producer.send(topic, b'{"amount": 30}', key=b"plain")
        await producer.send(topic, FRAME + b"not JSON")
    with running_registry("{}", 11, f"{topic}-value", kind="JSON") as address:
        query = f'select key, amount from "{topic}" order by "offset"'
        request = QueryRequest(query, settings, registry=address)
        said = [line async for line in run_query(request, WORKER)]
    rows = [row for line in said for row in _rows(line)]
    assert rows == [['"a key"', 12], ["plain", 30], [None, None]]
    assert any("could be decoded" in line.get("note", "") for line in said)
    assert "done" in said[-1]
