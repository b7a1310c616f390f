"""Reads server.properties files: Java's properties format."""

import re

from barnabas.config.option import invalid

_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}
_PAIR = re.compile(r"((?:[^\\=:\s]|\\.)+)\s*[=:\s]?\s*(.*)", re.DOTALL)


def parse_properties(text: str) -> dict[str, str]:
    """Names and values; of a name given twice, the last value."""
    found: dict[str, str] = {}
    for number, line in _logical_lines(text):
        pair = _PAIR.fullmatch(line)
        if pair is None:
            raise invalid(f"line {number}: {line[:100]!r} is not name=value")
        found[_unescape(pair[1])] = _unescape(pair[2]).strip()
    return found


def _logical_lines(text: str) -> list[tuple[int, str]]:
    """Without comments and blank lines; a backslash at the end joins the next line."""
    lines: list[tuple[int, str]] = []
    pending = ""
    started = 0
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.rstrip("\r").lstrip()
        if not pending:
            if not line or line[0] in "#!":
                continue
            started = number
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            pending += line[:-1]
            continue
        lines.append((started, pending + line))
        pending = ""
    if pending:
        lines.append((started, pending))
    return lines


def _unescape(text: str) -> str:
    def replace(match: re.Match[str]) -> str:
        escaped = match[1]
        if escaped[0] == "u" and len(escaped) == 5:
            return chr(int(escaped[1:], 16))
        return _LETTERS.get(escaped, escaped)

    return _ESCAPE.sub(replace, text)
