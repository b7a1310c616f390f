"""Small static HTML for notebooks: text only, escaped, without scripts and styles of others.

Always: names, keys and values are not trusted; a cell is short.
"""

from collections.abc import Iterable, Sequence
from html import escape

CELL_MAX = 120


def text_of(value: object) -> str:
    """A value on one line, shortened; bytes as UTF-8 where they are."""
    if value is None:
        return "null"
    text = value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)
    text = text[: CELL_MAX + 1]
    plain = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return plain if len(plain) <= CELL_MAX else f"{plain[:CELL_MAX]}…"


def table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], more: str = ""
) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(text_of(cell))}</td>" for cell in row) + "</tr>"
        for row in rows
    )
    rest = f"<p>{escape(more)}</p>" if more else ""
    return (
        f"<div><b>{escape(title)}</b><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table>{rest}</div>"
    )
