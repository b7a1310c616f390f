"""Values framed by a registry's serializers: JSON and Protobuf. Avro: test_typed.py."""

import base64
import io
import json
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from barnabas.pipeline.errors import OptionError, PipelineError
from barnabas.pipeline.formats.json_schema import json_schema_fields
from barnabas.pipeline.formats.protobuf import message_path
from barnabas.pipeline.formats.registry import HEADER, latest_schema
from barnabas.pipeline.formats.typed import columns_of, typed, typed_options
from tests.pipeline.formats.test_typed import read
from tests.pipeline.registry_server import GUID, running_registry

types = pytest.importorskip("pyspark.sql.types", reason="pyspark is not installed")
descriptor_pb2: Any = pytest.importorskip("google.protobuf.descriptor_pb2")

FRAME = b"\0" + (11).to_bytes(4)
JSON_SCHEMA = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "note": {"oneOf": [{"type": "null"}, {"type": "string"}]},
        "at": {"type": ["null", "string"], "format": "date-time"},
        "lines": {"type": "array", "items": {"$ref": "#/definitions/Line"}},
        "more": {"type": "object", "additionalProperties": {"type": "number"}},
        "any": {},
    },
    "definitions": {"Line": {"type": "object", "properties": {"sku": {"type": "string"}}}},
}
LONG = types.StructType([types.StructField("id", types.LongType())])


def read_with_headers(
    options: dict[str, str], data_type: Any, rows: list[tuple[bytes | None, bytes | None]]
) -> tuple[list[Any], list[Any]]:
    """Values, and what a header of their records has."""
    found = typed_options(options)
    assert found is not None
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    headers = [None if frame is None else [{"key": HEADER, "value": frame}] for _, frame in rows]
    batch = pa.record_batch(
        {
            "value": pa.array([value for value, _ in rows], pa.binary()),
            "headers": pa.array(headers, kind),
        }
    )
    (made,) = typed(found, data_type, iter([batch]))
    return made.column("data").to_pylist(), made.column("error").to_pylist()


def columns(given: dict[str, str]) -> str:
    found = typed_options(given)
    assert found is not None
    return columns_of(found)


def test_a_json_schema_becomes_columns() -> None:
    assert json_schema_fields(json.dumps(JSON_SCHEMA)) == (
        "`id`: bigint, `note`: string, `at`: timestamp, `lines`: array<struct<`sku`: string>>,"
        " `more`: map<string, double>, `any`: string"
    )


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("{", "expected a JSON Schema"),
        ("[]", "expected a JSON Schema of an object"),
        ('{"type": "object"}', "has no properties"),
        ('{"properties": {"a": {"$ref": "http://x"}}}', "in another document"),
        ('{"properties": {"a": {"$ref": "#/properties/a"}}}', "contains itself"),
    ],
)
def test_a_json_schema_without_columns_is_refused(schema: str, said: str) -> None:
    with pytest.raises(OptionError, match=said):
        json_schema_fields(schema)


def test_framed_json_is_read_and_bare_json_is_an_error() -> None:
    with running_registry(json.dumps(JSON_SCHEMA), 11, "orders-value") as address:
        given = {"valueFormat": "json", "schemaRegistry": address, "subscribe": "orders"}
        assert columns(given).startswith("data struct<`id`: bigint, ")
        data, errors = read(given, LONG, [FRAME + b'{"id": 7}', b'{"id": 7}', FRAME + b"{", b"\0"])
        assert data == [{"id": 7}, None, None, None]
        assert errors[0] is None
        assert errors[1].startswith("not framed")
        assert all(errors[1:])
        with pytest.raises(PipelineError, match="has no subject 'other-value': set valueSubject"):
            columns({**given, "subscribe": "other"})
    # Columns of one's own: the registry is not even asked.
    own = {**given, "valueSchema": "id long"}
    assert read(own, LONG, [FRAME + b'{"id": 7}'])[0] == [{"id": 7}]


def shop() -> Any:
    file = descriptor_pb2.FileDescriptorProto(
        name="", package="shop", syntax="proto3",
        dependency=["money.proto", "google/protobuf/timestamp.proto"],
    )  # fmt: skip
    file.message_type.add(name="Customer").field.add(name="name", number=1, type=9, label=1)
    order = file.message_type.add(name="Order")
    order.field.add(name="id", number=1, type=3, label=1)
    order.field.add(name="price", number=2, type=11, label=1, type_name=".money.Amount")
    order.field.add(name="at", number=3, type=11, label=1, type_name=".google.protobuf.Timestamp")
    order.nested_type.add(name="Line").field.add(name="sku", number=1, type=9, label=1)
    return file


def money() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="x", package="money", syntax="proto3")
    file.message_type.add(name="Amount").field.add(name="cents", number=1, type=3, label=1)
    return file


def encoded(file: Any) -> str:
    return base64.b64encode(file.SerializeToString()).decode()


def test_framed_protobuf_is_read_with_the_files_it_imports() -> None:
    imports = {"money.proto": encoded(money())}
    value = b"\x08\x07\x12\x02\x08\x63"  # id 7, price 99 cents
    path = b"\x02\x02"  # one step: to message 1
    with running_registry("x", 11, "o-value", serialized=encoded(shop()), imports=imports) as at:
        given = {"valueFormat": "protobuf", "schemaRegistry": at, "subscribe": "o"}
        assert columns(given) == "data struct<`name`: string>, error string"
        given["valueMessage"] = "shop.Order"
        assert columns(given) == (
            "data struct<`id`: bigint, `price`: struct<`cents`: bigint>,"
            " `at`: struct<`seconds`: bigint, `nanos`: int>>, error string"
        )
        data, errors = read(
            given,
            LONG,
            [
                FRAME + path + value,
                FRAME + b"\0" + value,  # message 0, said the short way
                FRAME + b"\x04\x02\x00" + value,  # message 0 within message 1
                FRAME + b"\x02\x12" + value,
                FRAME + b"\x02",
                value,
                b"\0" + (12).to_bytes(4) + path + value,
            ],
        )
        assert data[0] == {"id": 7}
        assert data[1:] == [None] * 6
        assert errors == [
            None,
            "expected a shop.Order, got a shop.Customer",
            "expected a shop.Order, got a shop.Order.Line",
            "its schema has no message at [9]",
            "the value ends inside its prefix",
            "not framed by a schema registry: a byte 0 and a schema id are missing, and there is no"
            " header __value_schema_id (headers are read with includeHeaders)",
            "the registry has no schema 12",
        ]
        with pytest.raises(OptionError, match=r"has no 'shop\.Nothing'"):
            columns({**given, "valueMessage": "shop.Nothing"})
        # The path of the message is in the header too.
        header = b"\1" + UUID(GUID).bytes + path
        assert read_with_headers(given, LONG, [(value, header)]) == ([{"id": 7}], [None])


def test_the_schema_may_be_named_in_a_header() -> None:
    """By a GUID, as serializers with HeaderSchemaIdSerializer write it, or by an id."""
    guid = b"\1" + UUID(GUID).bytes
    rows = [
        (b'{"id": 7}', guid),
        (b'{"id": 8}', FRAME),
        (FRAME + b'{"id": 9}', None),
        (b'{"id": 1}', None),
        (None, guid),
        (b'{"id": 1}', b"\1short"),
    ]
    with running_registry(json.dumps(JSON_SCHEMA), 11, "orders-value") as address:
        given = {"valueFormat": "json", "schemaRegistry": address, "subscribe": "orders"}
        data, errors = read_with_headers(given, LONG, rows)
    assert data == [{"id": 7}, {"id": 8}, {"id": 9}, None, None, None]
    assert [error is None for error in errors] == [True, True, True, False, True, False]


def test_avro_is_read_with_the_schema_of_its_header() -> None:
    fastavro = pytest.importorskip("fastavro")
    schema = {"type": "record", "name": "o", "fields": [{"name": "id", "type": "long"}]}
    written = io.BytesIO()
    fastavro.schemaless_writer(written, schema, {"id": 7})
    value, other = written.getvalue(), b"\1" + bytes(16)
    with running_registry(json.dumps(schema), 11, "orders-value") as address:
        given = {"valueFormat": "avro", "schemaRegistry": address, "subscribe": "orders"}
        guid = b"\1" + UUID(GUID).bytes
        data, errors = read_with_headers(given, LONG, [(value, guid), (value, other)])
    assert data == [{"id": 7}, None]
    assert errors == [None, f"the registry has no schema {UUID(int=0)}"]


def test_a_registry_that_gives_no_descriptors_is_an_error_with_the_remedy() -> None:
    with running_registry('syntax = "proto3"; message A {}', 11, "o-value") as address:
        given = {"valueFormat": "protobuf", "schemaRegistry": address, "subscribe": "o"}
        with pytest.raises(OptionError, match="set valueSchema to a file written by protoc"):
            columns(given)


def test_an_import_that_is_nowhere_is_named() -> None:
    with running_registry("x", 11, "o-value", serialized=encoded(shop())) as address:
        given = {"valueFormat": "protobuf", "schemaRegistry": address, "subscribe": "o"}
        with pytest.raises(OptionError, match=r"imports 'money\.proto' but has no reference to it"):
            columns(given)


@pytest.mark.parametrize(
    ("frame", "path", "begin"),
    [(b"\0", [0], 6), (b"\x02\x00", [0], 7), (b"\x04\x02\x80\x02", [1, 128], 9)],
)
def test_the_way_to_a_message_is_read(frame: bytes, path: list[int], begin: int) -> None:
    assert message_path(FRAME + frame + b"rest") == (path, begin)


@pytest.mark.parametrize("frame", [b"", b"\x01", b"\xff\xff\xff\xff\xff\xff", b"\x7e" * 3])
def test_a_way_that_cannot_be_is_an_error_of_the_row(frame: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        message_path(FRAME + frame)


def test_a_registry_that_is_down_is_one_line_and_makes_no_row_bad() -> None:
    down = "http://127.0.0.1:1"
    with pytest.raises(PipelineError, match=r"schema registry: .* did not answer: ") as refused:
        latest_schema(down, "orders-value")
    assert len(str(refused.value).splitlines()) == 1
    pytest.importorskip("fastavro")
    schema = {"type": "record", "name": "o", "fields": [{"name": "id", "type": "long"}]}
    given = {
        "valueFormat": "avro", "schemaRegistry": down, "subscribe": "orders",
        "valueSchema": json.dumps(schema),
    }  # fmt: skip
    with pytest.raises(PipelineError, match="did not answer"):
        read(given, LONG, [FRAME + b"\x0e"])
