"""Records as JSON lines, with the fields of kcat -J.

Always: `from_json` reads what `to_json` wrote, byte for byte the same key, value and headers.
"""

import json
from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Any

from barnabas.wire.batch import LOG_APPEND_TIME

if TYPE_CHECKING:
    from barnabas.client.consumer.message import RawMessage as Message
    from barnabas.wire.records import Headers


def to_json(message: "Message") -> bytes:
    """One line. Bytes that are no UTF-8 go as base64, under another name."""
    fields: dict[str, Any] = {
        "topic": message.topic,
        "partition": message.partition,
        "offset": message.offset,
        "tstype": "logappend" if message.batch.attributes & LOG_APPEND_TIME else "create",
        "ts": message.timestamp,
    }
    if message.headers:
        flat: list[Any] = []
        for name, value in message.headers:
            flat += [name, _json_value(value)]
        fields["headers"] = flat
    _put(fields, "key", message.key)
    _put(fields, "payload", message.value)
    return json.dumps(fields, ensure_ascii=False).encode() + b"\n"


def from_json(
    line: bytes,
) -> "tuple[bytes | None, bytes | None, Headers, int | None]":
    """Key, value, headers and timestamp of a line that `to_json` wrote. ValueError if not."""
    try:
        fields = json.loads(line)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(fields, dict):
        raise ValueError("expected an object")
    flat = fields.get("headers") or []
    if not isinstance(flat, list) or len(flat) % 2:
        raise ValueError('"headers": expected names and values in turn')
    headers = tuple(
        (_name(name), _from_json_value("headers", value))
        for name, value in zip(flat[::2], flat[1::2], strict=True)
    )
    timestamp = fields.get("ts")
    if timestamp is not None and (type(timestamp) is not int or not -1 <= timestamp < 2**63):
        raise ValueError('"ts": expected milliseconds since 1970')
    known = None if timestamp is None or timestamp < 0 else timestamp
    return _get(fields, "key"), _get(fields, "payload"), headers, known


def _json_value(value: bytes | None) -> Any:
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(value).decode()}


def _put(fields: dict[str, Any], name: str, value: bytes | None) -> None:
    shown = _json_value(value)
    if isinstance(shown, dict):
        fields[f"{name}_base64"] = shown["base64"]
    else:
        fields[name] = shown


def _get(fields: dict[str, Any], name: str) -> bytes | None:
    if f"{name}_base64" in fields:
        return _from_json_value(name, {"base64": fields[f"{name}_base64"]})
    return _from_json_value(name, fields.get(name))


def _from_json_value(name: str, value: Any) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict) and isinstance(value.get("base64"), str):
        return b64decode(value["base64"], validate=True)
    raise ValueError(f'"{name}": expected text or null')


def _name(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError('"headers": a name is not text')
    value.encode()  # a lone surrogate is a UnicodeEncodeError, which is a ValueError
    return value
