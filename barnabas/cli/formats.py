"""How a record looks on standard output: kcat's format letters, or JSON lines.

In: a format as given to -f. Out: a function from a message to bytes.
Always: `produce -J` reads what `consume -J` wrote, byte for byte the same key, value and
headers.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.model.times import iso_time

if TYPE_CHECKING:
    from barnabas.client.consumer.message import RawMessage as Message

Formatter = Callable[["Message"], bytes]

_ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\", "'": b"'", '"': b'"'}


def raw(argument: str) -> bytes:
    """The bytes of the command line that Python made this text of."""
    return argument.encode(errors="surrogateescape")


def _text(value: bytes | None) -> bytes:
    return b"" if value is None else value


def _length(value: bytes | None) -> int:
    return -1 if value is None else len(value)


def _number(field: Callable[["Message"], int]) -> Formatter:
    return lambda message: b"%d" % field(message)


def _headers(message: "Message") -> bytes:
    return b",".join(
        name.encode() + b"=" + (b"NULL" if value is None else value)
        for name, value in message.headers
    )


LETTERS: dict[str, Formatter] = {
    "s": lambda m: _text(m.value),
    "v": lambda m: _text(m.value),
    "S": _number(lambda m: _length(m.value)),
    "R": lambda m: _length(m.value).to_bytes(4, signed=True),
    "k": lambda m: _text(m.key),
    "K": _number(lambda m: _length(m.key)),
    "T": _number(lambda m: m.timestamp),
    "h": _headers,
    "t": lambda m: m.topic.encode(),
    "p": _number(lambda m: m.partition),
    "o": _number(lambda m: m.offset),
    "d": lambda m: iso_time(m.timestamp).encode() if m.timestamp >= 0 else b"",
    "e": _number(lambda m: m.batch.leader_epoch),
    "x": _number(lambda m: m.batch.producer_id),
    "y": _number(lambda m: m.batch.producer_epoch),
    "[": _number(lambda m: m.marks.log_start),
    "|": _number(lambda m: m.marks.last_stable),
    "]": _number(lambda m: m.marks.high_watermark),
}


def compile_format(text: str, null: bytes | None = None) -> Formatter:
    """ValueError names the letter or escape that is not known. `null` stands for null."""
    parts: list[Formatter] = []
    literal = bytearray()

    def close_literal() -> None:
        if literal:
            fixed = bytes(literal)
            parts.append(lambda message: fixed)
            literal.clear()

    position = 0
    while position < len(text):
        character = text[position]
        if character == "\\":
            escaped, position = _escape(text, position + 1)
            literal += escaped
        elif character == "%" and text[position + 1 : position + 2] == "%":
            literal += b"%"
            position += 2
        elif character == "%":
            close_literal()
            part, position = _letter(text, position + 1, null)
            parts.append(part)
        else:
            literal += raw(character)
            position += 1
    close_literal()
    return lambda message: b"".join([part(message) for part in parts])


def unescape(text: str) -> bytes:
    """\\n, \\t, \\xNN and the like, in a delimiter."""
    found = bytearray()
    position = 0
    while position < len(text):
        if text[position] == "\\":
            escaped, position = _escape(text, position + 1)
            found += escaped
        else:
            found += raw(text[position])
            position += 1
    return bytes(found)


def _escape(text: str, position: int) -> tuple[bytes, int]:
    letter = text[position : position + 1]
    if letter == "x":
        digits = text[position + 1 : position + 3]
        try:
            return bytes.fromhex(digits), position + 3
        except ValueError:
            pass
    elif letter in _ESCAPES:
        return _ESCAPES[letter], position + 1
    raise ValueError(f"\\{letter} is not an escape: use \\n, \\t, \\r, \\0, \\\\ or \\xNN")


def _letter(text: str, position: int, null: bytes | None) -> tuple[Formatter, int]:
    letter = text[position : position + 1]
    if letter not in LETTERS or not letter:
        known = " ".join(f"%{known}" for known in LETTERS)
        raise ValueError(f"%{letter} is not a format letter: use {known} or %%")
    if letter == "d" and text.startswith("{strftime[", position + 1):
        start = position + 1 + len("{strftime[")
        end = text.find("]}", start)
        if end < 0:
            raise ValueError("%d{strftime[...]} is not closed with ]}")
        return _strftime(text[start:end]), end + 2
    if null is not None and letter in "svk":
        return (_or_null(letter, null)), position + 1
    return LETTERS[letter], position + 1


def _or_null(letter: str, null: bytes) -> Formatter:
    if letter == "k":
        return lambda m: null if m.key is None else m.key
    return lambda m: null if m.value is None else m.value


def _strftime(pattern: str) -> Formatter:
    from datetime import UTC, datetime

    def format_(message: "Message") -> bytes:
        try:
            moment = datetime.fromtimestamp(message.timestamp / 1000, UTC)
        except (OverflowError, ValueError, OSError):  # past the year 9999
            return b"%d" % message.timestamp
        return raw(moment.strftime(pattern))

    return format_
