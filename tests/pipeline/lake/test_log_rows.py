"""Records of the brokers as rows of a table, as the pipeline would write them."""

from typing import Any

import pyarrow as pa
import pytest

from barnabas.client.workers import dead_letter_headers as header_names
from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.lake.log_rows import log_rows
from barnabas.pipeline.run.spec import parse

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("_topic", pa.string()),
        ("_partition", pa.int32()),
        ("_offset", pa.int64()),
        ("_ts", pa.timestamp("us", tz="UTC")),
        ("date", pa.date32()),
    ]
)
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
DAY_US = 86_400_000_000


def spec(**errors: Any) -> Any:
    return parse(
        {
            "name": "orders-lake",
            "kind": "lake",
            "source": {
                "servers": "h:1", "topics": ["orders"], "format": "json", "schema": "id long",
            },
            "sink": {"format": "delta", "path": "/lake"},
            "errors": errors,
            "run": {"checkpoint": "/state"},
        }
    )  # fmt: skip


def batch(topic: str, rows: list[dict[str, Any]]) -> pa.RecordBatch:
    kind = pa.struct([("id", pa.int64())])
    return pa.record_batch(
        {
            "topic": [topic] * len(rows),
            "partition": pa.array([0] * len(rows), pa.int32()),
            "offset": pa.array(range(len(rows)), pa.int64()),
            "timestamp": pa.array(
                [row.get("time", 0) for row in rows], pa.timestamp("us", tz="UTC")
            ),
            "headers": pa.array([row.get("headers") for row in rows], HEADERS),
            "data": pa.array([row.get("data") for row in rows], kind),
            "error": pa.array([row.get("error") for row in rows], pa.string()),
        }
    )


def test_bad_rows_are_left_out_and_a_record_without_a_value_is_a_row() -> None:
    rows: list[dict[str, Any]] = [
        {"data": {"id": 1}, "time": DAY_US},
        {"error": "no number"},
        {"data": None},
    ]
    found = log_rows(spec(dlq="dead"), batch("orders", rows), SCHEMA)
    assert found.schema.equals(SCHEMA)
    assert found["id"].to_pylist() == [1, None]
    assert found["_offset"].to_pylist() == [0, 2]
    assert [str(day) for day in found["date"].to_pylist()] == ["1970-01-02", "1970-01-01"]


def test_without_a_dead_letter_topic_a_bad_row_is_an_error() -> None:
    given = spec(dlq="dead")
    object.__setattr__(given.errors, "dlq", None)
    with pytest.raises(PipelineError, match="orders-0, offset 0: no number"):
        log_rows(given, batch("orders", [{"error": "no number"}]), SCHEMA)


def test_a_time_outside_of_the_calendar_is_null() -> None:
    rows = [{"data": {"id": 1}, "time": 2**62}, {"data": {"id": 2}, "time": -(2**62)}]
    found = log_rows(spec(dlq="dead"), batch("orders", rows), SCHEMA)
    assert found["_ts"].to_pylist() == [None, None]


def test_a_row_of_the_retry_topic_has_the_place_of_its_origin() -> None:
    """A header that is not valid is not used: any program may write there."""
    origin = {
        header_names.TOPIC: b"orders",
        header_names.PARTITION: b"7",
        header_names.OFFSET: b"42",
        header_names.TIMESTAMP: b"86400000",
    }
    headers = [{"key": key, "value": value} for key, value in origin.items()]
    odd = [
        {"key": header_names.OFFSET, "value": b"x" * 9},
        {"key": header_names.PARTITION, "value": None},
    ]
    rows = [
        {"data": {"id": 1}, "headers": headers, "time": 5},
        {"data": {"id": 2}, "headers": odd, "time": 5},
        {"data": {"id": 3}, "time": 5},
    ]
    given = spec(dlq="dead", retry_topic="retry", retries=2)
    found = log_rows(given, batch("retry", rows), SCHEMA)
    assert found["_topic"].to_pylist() == ["orders", "retry", "retry"]
    assert found["_partition"].to_pylist() == [7, 0, 0]
    assert found["_offset"].to_pylist() == [42, 1, 2]
    assert found["_ts"].cast(pa.int64()).to_pylist() == [DAY_US, 5, 5]
