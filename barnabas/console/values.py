"""Values and keys as text, decoded with a schema registry if the console has one.

In: bytes, and the function that the command line gives. Out: text for pages.
Always: the registry is asked in a thread, once for a page of records; a value that cannot be
decoded is shown as bytes, and a record's own page says why.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from barnabas.console.masking import FieldMask

DecodeValue = Callable[[bytes], Any]
"""From a framed value: its `kind`, `schema` and `text`. ValueError says why it is not decoded."""
SIZE_MAX = 1 << 20
_FRAMES = (b"\0", b"\1")
_HEADERS = ("__value_schema_id", "__key_schema_id")


class ShownValue(NamedTuple):
    """`problem`: why it is not decoded; empty if it is, or if it is not framed."""

    kind: str = ""
    schema: str = ""
    text: str = ""
    problem: str = ""


def framed(value: bytes | None, headers: Sequence[tuple[str, bytes | None]] = ()) -> bytes | None:
    """The value with its frame, which may be in a header; None: it has none."""
    if value is None:
        return None
    for name, frame in headers:
        if name == _HEADERS[0] and frame:
            return frame + value
    return value if value[:1] in _FRAMES and len(value) >= 5 else None


def shown_value(decode: DecodeValue, value: bytes | None) -> ShownValue | None:
    """`value` with its frame. None if it has none. Blocks."""
    if value is None or len(value) > SIZE_MAX:
        return None
    try:
        found = decode(value)
    except ValueError as problem:
        return ShownValue(problem=str(problem))
    return ShownValue(found.kind, str(found.schema), found.text)


async def shown_values(
    decode: DecodeValue | None, values: Sequence[bytes | None]
) -> list[ShownValue | None]:
    """Of framed values."""
    if decode is None or not any(value is not None for value in values):
        return [None] * len(values)
    return await asyncio.to_thread(lambda: [shown_value(decode, value) for value in values])


async def decode_rows(
    decode: DecodeValue | None,
    rows: list[dict[str, Any]],
    mask: FieldMask | None = None,
    containing: bytes | None = None,
) -> list[dict[str, Any]]:
    """The rows with the text of decoded keys and values, without what is masked. `containing`: what
    was looked for in values: a row that has it only in what is masked is left out."""
    for name in ("key", "value") if decode is not None else ():
        headers = "headers" if name == "value" else ""
        wanted = [framed(row[name], row.get(headers, ())) for row in rows]
        for row, shown in zip(rows, await shown_values(decode, wanted), strict=True):
            if shown is not None and not shown.problem:
                row[name] = shown.text.encode()
    if not mask:
        return rows
    for row in rows:
        row["key"], row["value"] = mask.key(row["key"]), mask.value(row["value"])
    return [row for row in rows if containing is None or containing in (row["value"] or b"")]
