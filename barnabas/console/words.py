"""Filters of the templates: names and payloads as safe text, numbers, times.

Always: control and bidirectional characters are escaped, as in the terminal; a cell has at most
2,000 characters.
"""

import json
import time
from urllib.parse import quote

from barnabas.model.times import iso_time
from barnabas.model.words import duration, printable

CELL_MAX = 2_000
_BEGINNINGS = frozenset(
    {"a", "all", "an", "group", "it", "its", "members", "no", "nothing", "offsets", "one",
     "partition", "partitions", "records", "some", "the", "there", "this", "topic", "topics",
     "transactional"}
)  # fmt: skip
SUFFIXES = (".json", ".csv", ".html", ".live")


def text(value: object, longest: int = CELL_MAX) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        value = ", ".join(map(str, value))
    whole = str(value)
    shown = printable(whole[:longest])
    return shown if len(whole) <= longest else f"{shown}… ({len(whole):,} characters)"


def payload(value: bytes | None, longest: int = CELL_MAX) -> str:
    """The bytes as text; bytes that are not UTF-8 as \\xNN."""
    if value is None:
        return "null"
    shown = printable(value[:longest].decode(errors="backslashreplace"))
    return shown if len(value) <= longest else f"{shown}… ({len(value):,} bytes)"


def lines(value: bytes | None, longest: int) -> str:
    """As `payload`, with line feeds and tabs kept."""
    if value is None:
        return "null"
    whole = value[:longest].decode(errors="backslashreplace")
    shown = "\n".join(printable(line.replace("\t", "    ")) for line in whole.split("\n"))
    return shown if len(value) <= longest else f"{shown}\n… ({len(value):,} bytes)"


def pretty_json(value: bytes | None, longest: int) -> str | None:
    """Indented, or None if it is not a JSON object or array, or too long."""
    if value is None or len(value) > longest or value.lstrip()[:1] not in (b"{", b"["):
        return None
    try:
        found = json.dumps(json.loads(value), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return None
    return "\n".join(map(printable, found.split("\n")))


def hex_dump(value: bytes | None, longest: int = 4_096) -> str:
    if value is None:
        return "null"
    rows = []
    for start in range(0, min(len(value), longest), 16):
        piece = value[start : start + 16]
        shown = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in piece)
        rows.append(f"{start:08x}  {piece[:8].hex(' '):<23}  {piece[8:].hex(' '):<23}  {shown}")
    if len(value) > longest:
        rows.append(f"… {len(value):,} bytes in all")
    return "\n".join(rows)


def number(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else text(value)


def size(value: int | None) -> str:
    if value is None or value < 0:
        return "-"
    amount = float(value)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000:
            return (
                f"{amount:.0f} {unit}" if unit == "B" or amount >= 100 else f"{amount:.1f} {unit}"
            )
        amount /= 1000
    return f"{amount:.1f} TB"


def option_value(name: str, value: str | None) -> str:
    """What a number of milliseconds or bytes means; empty if that says no more."""
    if value is None or not (value.isascii() and value.isdigit()):
        return ""
    number = int(value)
    if number >= 1 << 62:
        return "no limit"
    if name.endswith(".ms") and number >= 1_000:
        return duration(number)
    return size(number) if name.endswith(".bytes") and number >= 1_000 else ""


def rate(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}/s" if value >= 10 or value == 0 else f"{value:.1f}/s"


def ago(time_ms: int | None, now_ms: int | None = None) -> str:
    if time_ms is None or time_ms < 0:
        return "-"
    passed = (int(time.time() * 1000) if now_ms is None else now_ms) - time_ms
    if passed < 0:
        return f"in {duration(-passed)}"
    return "just now" if passed < 1_000 else f"{duration(passed // 1_000 * 1_000)} ago"


def iso(time_ms: int | None) -> str:
    return "-" if time_ms is None or time_ms < 0 else iso_time(time_ms)


def path(*segments: object) -> str:
    """A path of this console. A name that ends like a twin gets `.html` behind it."""
    quoted = [quote(str(segment), safe="") for segment in segments]
    if quoted and quoted[-1].endswith(SUFFIXES):
        quoted[-1] += ".html"
    # A browser resolves a segment of dots away before it asks.
    quoted = [each.replace(".", "%2E") if set(each) == {"."} else each for each in quoted]
    return "/" + "/".join(quoted)


def sentence(value: str) -> str:
    """With a capital, unless it begins with a name."""
    first = value.partition(" ")[0]
    return value[:1].upper() + value[1:] if first in _BEGINNINGS else value


FILTERS = {
    "text": text, "sentence": sentence, "payload": payload, "number": number, "size": size,
    "rate": rate, "ago": ago, "iso": iso,
    "duration": lambda ms: "-" if ms is None else duration(ms),
}  # fmt: skip
