"""JSON values, converted to columns. A value that does not fit its column is an error
of that row.
"""

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from math import isinf
from typing import Any

Fit = Callable[[Any], Any]
_DIGITS_MAX = 20  # of a whole number of 64 bits
_WHOLE = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}


def json_decoder(data_type: Any, *, framed: bool = False) -> Callable[[bytes], Any]:
    """`framed`: values have the prefix of a schema registry."""
    import msgspec

    from barnabas.pipeline.formats.registry import frame_of

    fit = _fit(data_type)
    # A decimal that went through a double has other digits. Doubles are faster, if that is all.
    exact = Decimal if "decimal" in data_type.simpleString() else None
    decode = msgspec.json.Decoder(float_hook=exact).decode

    def decoded(value: bytes) -> Any:
        if framed:
            value = value[frame_of(value).size :]
        found = decode(value)
        if not isinstance(found, dict):
            raise ValueError(f"expected an object, got {_kind(found)}")
        return fit(found)

    return decoded


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "an array", str: "a string", bool: "a boolean"}
    is_number = isinstance(value, int | float | Decimal)
    return names.get(type(value), "a number" if is_number else "null")


def _fit(data_type: Any) -> Fit:
    """Returns a function that converts a JSON value to the column's type. Null stays null."""
    name = data_type.typeName()
    if name == "struct":
        fields = [(f.name, _present(_fit(f.dataType), f.nullable)) for f in data_type.fields]
        return lambda value: None if value is None else _struct(value, fields)
    if name == "array":
        element = _present(_fit(data_type.elementType), data_type.containsNull)
        return lambda value: None if value is None else [element(v) for v in _of(list, value)]
    if name == "map":
        inner = _present(_fit(data_type.valueType), data_type.valueContainsNull)
        return lambda value: (
            None if value is None else [(k, inner(v)) for k, v in _of(dict, value).items()]
        )
    leaf = _leaf(data_type.simpleString().split("(")[0])
    return lambda value: None if value is None else leaf(value)


def _present(fit: Fit, nullable: bool) -> Fit:
    """For a column that is NOT NULL: Spark would stop at a null in it."""
    if nullable:
        return fit

    def present(value: Any) -> Any:
        if value is None:
            raise ValueError("missing or null, and the column is NOT NULL")
        return fit(value)

    return present


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
        "double": _double,
        "float": _double,
        "decimal": lambda value: Decimal(_number(value)),
        "timestamp": _moment,
        "date": lambda value: date.fromisoformat(_of(str, value)),
        "binary": lambda value: _of(str, value).encode(),
        "string": _string,
    }
    if name not in leaves:
        raise ValueError(f"valueSchema: JSON has no values for a column of type {name}")
    return leaves[name]


def _of(kind: type, value: Any) -> Any:
    if not isinstance(value, kind):
        wanted = {dict: "an object", list: "an array", str: "a string", bool: "a boolean"}[kind]
        raise ValueError(f"expected {wanted}, got {_kind(value)}")
    return value


def _number(value: Any) -> float | int | Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise ValueError(f"expected a number, got {_kind(value)}")
    return value


def _double(value: Any) -> float:
    number = float(_number(value))
    if isinf(number):
        raise ValueError(f"{value} does not fit in a double")
    return number


def _whole(value: Any, bits: int) -> int:
    number = _number(value)
    if isinstance(number, Decimal) and number.adjusted() > _DIGITS_MAX:
        # A few bytes of JSON can stand for more digits than fit into memory.
        raise ValueError(f"{number} does not fit in {bits} bits")
    if number != int(number):
        raise ValueError(f"expected a whole number, got {number}")
    if not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
        raise ValueError(f"{number} does not fit in {bits} bits")
    return int(number)


def _moment(value: Any) -> datetime:
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return datetime.fromtimestamp(float(value), UTC)
    moment = datetime.fromisoformat(_of(str, value))
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _string(value: Any) -> str:
    if isinstance(value, str):
        return value
    import msgspec

    return msgspec.json.Encoder(decimal_format="number").encode(value).decode()
