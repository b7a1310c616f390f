"""Framed values as JSON for people, whatever their schema is."""

import base64
import io
import json
from typing import Any

import pytest

from barnabas.pipeline.formats.framed import FramedValues
from tests.pipeline.registry_server import running_registry

FRAME = b"\0" + (11).to_bytes(4)
SCHEMA = {
    "type": "record",
    "name": "order",
    "fields": [{"name": "id", "type": "long"}, {"name": "raw", "type": "bytes"}],
}


def avro_value(row: dict[str, Any]) -> bytes:
    fastavro = pytest.importorskip("fastavro")
    written = io.BytesIO()
    fastavro.schemaless_writer(written, SCHEMA, row)
    return FRAME + written.getvalue()


def test_avro_is_shown_as_json_and_the_schema_is_asked_for_once() -> None:
    with running_registry(json.dumps(SCHEMA), 11, "orders-value") as address:
        values = FramedValues(address)
        shown = values.decode(avro_value({"id": 7, "raw": b"\xff"}))
    assert (shown.kind, shown.schema) == ("Avro", 11)
    assert json.loads(shown.text) == {"id": 7, "raw": "\\xff"}
    again = values.decode(avro_value({"id": 8, "raw": b""}))  # the registry is gone
    assert json.loads(again.text)["id"] == 8


def test_protobuf_is_shown_as_json() -> None:
    descriptors = pytest.importorskip("google.protobuf.descriptor_pb2")
    file = descriptors.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    file.message_type.add(name="Customer").field.add(name="name", number=1, type=9, label=1)
    file.message_type.add(name="Order").field.add(name="id", number=1, type=3, label=1)
    text = base64.b64encode(file.SerializeToString()).decode()
    with running_registry("x", 11, "o-value", serialized=text, kind="PROTOBUF") as address:
        values = FramedValues(address)
        shown = values.decode(FRAME + b"\x02\x02" + b"\x08\x07")  # message 1, id 7
        assert (shown.kind, json.loads(shown.text)) == ("Protobuf", {"id": 7})
        with pytest.raises(ValueError, match="no message at"):
            values.decode(FRAME + b"\x02\x09" + b"\x08\x07")


def test_json_with_a_frame_is_shown() -> None:
    with running_registry("{}", 11, "o-value", kind="JSON") as address:
        assert FramedValues(address).decode(FRAME + b'{"a": 1}').text == '{"a": 1}'


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (b"{}", "not framed"),
        (b"\0" + (12).to_bytes(4) + b"x", "no schema 12"),
        (FRAME + b"", "not a value of schema 11"),
    ],
)
def test_what_cannot_be_decoded_says_why(value: bytes, said: str) -> None:
    pytest.importorskip("fastavro")
    with (
        running_registry(json.dumps(SCHEMA), 11, "orders-value") as address,
        pytest.raises(ValueError, match=said),
    ):
        FramedValues(address).decode(value)


def test_a_registry_that_does_not_answer_is_not_asked_for_every_value() -> None:
    now = 0.0
    values = FramedValues("http://127.0.0.1:1", now=lambda: now)
    for _ in range(2):
        with pytest.raises(ValueError, match="did not answer"):
            values.decode(FRAME + b"x")
    assert len(values._failed) == 1
