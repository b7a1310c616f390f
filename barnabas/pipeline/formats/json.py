"""JSON values, fitted to columns: what does not fit is an error of that row."""

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

Fit = Callable[[Any], Any]
_WHOLE = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}


def json_decoder(data_type: Any, *, framed: bool = False) -> Callable[[bytes], Any]:
    """`framed`: as a registry frames values."""
    import msgspec

    from barnabas.pipeline.formats.registry import FRAME_SIZE, unframed

    fit = _fit(data_type)
    decode = msgspec.json.Decoder().decode

    def decoded(value: bytes) -> Any:
        if framed:
            unframed(value)
            value = value[FRAME_SIZE:]
        found = decode(value)
        if not isinstance(found, dict):
            raise ValueError(f"expected an object, got {_kind(found)}")
        return fit(found)

    return decoded


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "an array", str: "a string", bool: "a truth value"}
    return names.get(type(value), "a number" if isinstance(value, int | float) else "null")


def _fit(data_type: Any) -> Fit:
    """A function from what JSON has to what the column wants. Null stays null."""
    name = data_type.typeName()
    if name == "struct":
        fields = [(field.name, _fit(field.dataType)) for field in data_type.fields]
        return lambda value: None if value is None else _struct(value, fields)
    if name == "array":
        element = _fit(data_type.elementType)
        return lambda value: None if value is None else [element(v) for v in _of(list, value)]
    if name == "map":
        inner = _fit(data_type.valueType)
        return lambda value: (
            None if value is None else [(k, inner(v)) for k, v in _of(dict, value).items()]
        )
    leaf = _leaf(data_type.simpleString().split("(")[0])
    return lambda value: None if value is None else leaf(value)


def _struct(value: Any, fields: list[tuple[str, Fit]]) -> dict[str, Any]:
    found = _of(dict, value)
    fitted = {}
    for name, fit in fields:
        try:
            fitted[name] = fit(found.get(name))
        except ValueError as problem:
            raise ValueError(f"{name}: {problem}") from None
    return fitted


def _leaf(name: str) -> Fit:
    if name in _WHOLE:
        return lambda value: _whole(value, _WHOLE[name])
    leaves: dict[str, Fit] = {
        "boolean": lambda value: _of(bool, value),
        "double": lambda value: float(_number(value)),
        "float": lambda value: float(_number(value)),
        "decimal": lambda value: Decimal(str(_number(value))),
        "timestamp": _moment,
        "date": lambda value: date.fromisoformat(_of(str, value)),
        "binary": lambda value: _of(str, value).encode(),
        "string": _string,
    }
    if name not in leaves:
        raise ValueError(f"valueSchema: JSON has nothing for a column of type {name}")
    return leaves[name]


def _of(kind: type, value: Any) -> Any:
    if not isinstance(value, kind):
        wanted = {dict: "an object", list: "an array", str: "a string", bool: "a truth value"}[kind]
        raise ValueError(f"expected {wanted}, got {_kind(value)}")
    return value


def _number(value: Any) -> float | int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"expected a number, got {_kind(value)}")
    return value


def _whole(value: Any, bits: int) -> int:
    number = _number(value)
    if number != int(number):
        raise ValueError(f"expected a whole number, got {number}")
    if not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
        raise ValueError(f"{number} is over {bits} bits")
    return int(number)


def _moment(value: Any) -> datetime:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return datetime.fromtimestamp(value, UTC)
    moment = datetime.fromisoformat(_of(str, value))
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _string(value: Any) -> str:
    if isinstance(value, str):
        return value
    import msgspec

    return msgspec.json.encode(value).decode()
