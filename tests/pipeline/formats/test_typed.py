"""Values as columns: JSON, Avro and Protobuf, with bad rows told apart."""

import io
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from barnabas.pipeline.errors import OptionError, PipelineError
from barnabas.pipeline.formats.typed import columns_of, typed, typed_options
from tests.pipeline.registry_server import running_registry

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
types = pytest.importorskip("pyspark.sql.types", reason="pyspark is not installed")

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "lines", "type": {"type": "array", "items": "string"}},
        {"name": "more", "type": {"type": "map", "values": "int"}},
    ],
}


def read(options: dict[str, str], data_type: Any, values: list[bytes | None]) -> Any:
    found = typed_options(options)
    assert found is not None
    batch = pa.record_batch({"value": pa.array(values, pa.binary())})
    (made,) = typed(found, data_type, iter([batch]))
    made.validate(full=True)
    return made.column("data").to_pylist(), made.column("error").to_pylist()


def test_json_is_fitted_to_columns_and_bad_rows_are_marked() -> None:
    data_type = types.StructType(
        [
            types.StructField("id", types.LongType()),
            types.StructField("name", types.StringType()),
            types.StructField("tags", types.ArrayType(types.StringType())),
        ]
    )
    data, errors = read(
        {"valueFormat": "json", "valueSchema": "id long, name string, tags array<string>"},
        data_type,
        [
            b'{"id": 1, "name": "a", "tags": ["x"], "other": true}',
            b'{"id": 2}',
            None,
            b"{",
            b"[1]",
            b'{"id": "one"}',
            b'{"id": 99999999999999999999}',
            b'{"id": 3, "name": {"a": 1}}',
            b"\xff\xfe",
        ],
    )
    assert data[0] == {"id": 1, "name": "a", "tags": ["x"]}
    assert data[1] == {"id": 2, "name": None, "tags": None}
    assert data[7] == {"id": 3, "name": '{"a":1}', "tags": None}
    assert data[2:7] == [None] * 5
    assert data[8] is None
    assert errors[:3] == [None] * 3
    assert errors[4] == "expected an object, got an array"
    assert errors[5] == "id: expected a number, got a string"
    assert "64 bits" in errors[6]
    assert errors[3]
    assert errors[8]


def avro(row: dict[str, Any]) -> bytes:
    fastavro = pytest.importorskip("fastavro")
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(ORDER), row)
    return out.getvalue()


ROW = {"id": 7, "note": None, "at": 1_700_000_000_000, "lines": ["a"], "more": {"x": 1}}
AVRO_TYPE = types.StructType(
    [
        types.StructField("id", types.LongType()),
        types.StructField("note", types.StringType()),
        types.StructField("at", types.TimestampType()),
        types.StructField("lines", types.ArrayType(types.StringType())),
        types.StructField("more", types.MapType(types.StringType(), types.IntegerType())),
    ]
)


def test_avro_is_read_by_a_schema_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "order.avsc"
    path.write_text(json.dumps(ORDER))
    options = {"valueFormat": "avro", "valueSchema": str(path)}
    found = typed_options(options)
    assert found is not None
    assert columns_of(found) == (
        "data struct<`id`: bigint, `note`: string, `at`: timestamp, `lines`: array<string>,"
        " `more`: map<string, int>>, error string"
    )
    data, errors = read(options, AVRO_TYPE, [avro(ROW), b"\x01", avro(ROW) + b"more"])
    assert data[0]["id"] == 7
    assert data[0]["at"].timestamp() == 1_700_000_000
    assert data[0]["more"] == [("x", 1)]
    assert data[1:] == [None, None]
    assert errors[0] is None
    assert errors[2] == "4 bytes follow the record"


def test_avro_is_read_by_the_schema_of_a_registry() -> None:
    framed = b"\0" + (11).to_bytes(4) + avro(ROW)
    unknown = b"\0" + (12).to_bytes(4) + avro(ROW)
    with running_registry(json.dumps(ORDER), 11, "orders-value") as address:
        options = {"valueFormat": "avro", "schemaRegistry": address, "subscribe": "orders"}
        data, errors = read(options, AVRO_TYPE, [framed, avro(ROW), unknown])
    assert data[0]["id"] == 7
    assert errors[1].startswith("not framed")
    assert errors[2] == "the registry has no schema 12"
    with pytest.raises(PipelineError, match="did not answer"):
        columns_of(typed_options(options))  # type: ignore[arg-type]


def test_protobuf_is_read_by_a_file_of_descriptors(tmp_path: Path) -> None:
    pytest.importorskip("google.protobuf")
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    order = file.message_type.add(name="Order")
    order.field.add(name="id", number=1, type=3, label=1)
    order.field.add(name="tags", number=2, type=9, label=3)
    path = tmp_path / "shop.desc"
    path.write_bytes(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString())
    options = {
        "valueFormat": "protobuf",
        "valueSchema": str(path),
        "valueMessage": "shop.Order",
    }
    found = typed_options(options)
    assert found is not None
    assert columns_of(found) == "data struct<`id`: bigint, `tags`: array<string>>, error string"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    made = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))
    data_type = types.StructType(
        [
            types.StructField("id", types.LongType()),
            types.StructField("tags", types.ArrayType(types.StringType())),
        ]
    )
    value = made(id=5, tags=["a", "b"]).SerializeToString()
    data, errors = read(options, data_type, [value, b"\xff\xff"])
    assert data == [{"id": 5, "tags": ["a", "b"]}, None]
    assert errors[0] is None
    assert errors[1]
    with pytest.raises(OptionError, match=r"no message 'shop\.Nothing'"):
        columns_of(typed_options({**options, "valueMessage": "shop.Nothing"}))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"valueFormat": "xml"}, "expected json, avro, protobuf"),
        ({"valueFormat": "json"}, "needs valueSchema or schemaRegistry"),
        ({"valueFormat": "avro"}, "needs valueSchema or schemaRegistry"),
        ({"valueFormat": "protobuf", "valueSchema": "x"}, "needs valueMessage"),
        ({"valueSchema": "id long"}, "is set without valueFormat"),
        ({"valueFormat": "avro", "schemaRegistry": "http://x"}, "valueSubject must be set"),
    ],
)
def test_options_that_do_not_go_together_are_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        typed_options(given)


@pytest.mark.parametrize("schema", ["{", "[]", '"string"', '{"type":"int"}'])
def test_a_schema_that_is_none_is_refused(schema: str) -> None:
    found = typed_options({"valueFormat": "avro", "valueSchema": schema})
    assert found is not None
    with pytest.raises(OptionError, match="valueSchema: expected"):
        columns_of(found)


def test_decimals_keep_their_digits() -> None:
    """Through a double, 12345678901234567.125 would become 12345678901234568."""
    schema = "p decimal(30,3), d double, s string, i long"
    data_type = types.StructType(
        [
            types.StructField("p", types.DecimalType(30, 3)),
            types.StructField("d", types.DoubleType()),
            types.StructField("s", types.StringType()),
            types.StructField("i", types.LongType()),
        ]
    )
    data, errors = read(
        {"valueFormat": "json", "valueSchema": schema},
        data_type,
        [
            b'{"p": 12345678901234567.125, "d": 1.5, "s": {"a": [1.10, 2]}, "i": 3.0}',
            b'{"p": -0.001, "d": 2, "s": 1.50, "i": 1e3}',
            b'{"p": 1.2345}',
            b'{"d": 1e400}',
            b'{"i": 1e999999999}',
            b'{"i": 1.5}',
        ],
    )
    first = {"p": Decimal("12345678901234567.125"), "d": 1.5, "s": '{"a":[1.10,2]}', "i": 3}
    second = {"p": Decimal("-0.001"), "d": 2.0, "s": "1.50", "i": 1000}
    assert data == [first, second, None, None, None, None]
    assert errors[:2] == [None, None]
    assert "data loss" in errors[2]
    assert errors[3:] == [
        "d: 1E+400 does not fit in a double",
        "i: 1E+999999999 does not fit in 64 bits",
        "i: expected a whole number, got 1.5",
    ]


def test_a_field_that_is_missing_in_a_column_that_is_not_null_is_a_bad_row() -> None:
    """Spark would stop at the null, whatever the pipeline does with bad rows."""
    line = types.StructType([types.StructField("n", types.StringType(), False)])
    data_type = types.StructType(
        [
            types.StructField("id", types.LongType(), False),
            types.StructField("lines", types.ArrayType(line, False)),
        ]
    )
    data, errors = read(
        {"valueFormat": "json", "valueSchema": "id long not null, lines array<string>"},
        data_type,
        [b'{"id": 1}', b"{}", b'{"id": null}', b'{"id": 1, "lines": [{}]}', None],
    )
    why = "missing or null, and the column is NOT NULL"
    assert data == [{"id": 1, "lines": None}, None, None, None, None]
    assert errors == [None, f"id: {why}", f"id: {why}", f"lines: n: {why}", None]
