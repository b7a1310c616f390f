"""Columns as Spark writes them ("id long, name string"), checked before Spark sees them.

Spark says what is wrong with such a text in a drawing over many lines, and from a place where a
user did not write it. In: the text. Out: nothing, or OptionError with one line.
"""

import re
from typing import NoReturn

from barnabas.config.option import nearest
from barnabas.pipeline.errors import OptionError

_TOKEN = re.compile(r"\s*(?:(`(?:[^`]|``)+`|[A-Za-z0-9_]+)|('(?:[^'\\]|\\.)*')|([<>(),:]))")
# Those that JSON has something for (json.py).
_PLAIN = dict.fromkeys(
    (
        "boolean", "byte", "tinyint", "short", "smallint", "int", "integer", "long", "bigint",
        "float", "real", "double", "decimal", "dec", "numeric", "string", "char", "varchar",
        "binary", "date", "timestamp", "timestamp_ltz",
    )
)  # fmt: skip
_SIZED = ("decimal", "dec", "numeric", "char", "varchar")
_NESTED = ("array", "map", "struct")
_DEPTH_MAX = 50


def check_columns_text(text: str, option: str) -> None:
    """`option` is where it comes from."""
    reader = _Reader(text, option)
    if not reader.tokens:
        reader.wrong("it is empty")
    reader.columns(end=None, depth=0)


class _Reader:
    """Goes through the text once."""

    def __init__(self, text: str, option: str) -> None:
        self._option = option
        self._text = text
        self.tokens: list[str] = []
        position = 0
        text = text.rstrip()
        while position < len(text):
            found = _TOKEN.match(text, position)
            if found is None:
                self.wrong(f"{text[position : position + 20].strip()!r} cannot be there")
            self.tokens.append(found[1] or found[2] or found[3])
            position = found.end()
        self._at = 0

    def wrong(self, what: str) -> NoReturn:
        raise OptionError(
            f'{self._option}: {what}: expected columns such as "id long, name string",'
            f" got {self._text[:200]!r}"
        )

    def _next(self, wanted: str) -> str:
        if self._at >= len(self.tokens):
            self.wrong(f"{wanted} is missing at the end")
        self._at += 1
        return self.tokens[self._at - 1]

    def _peek(self) -> str | None:
        return self.tokens[self._at].lower() if self._at < len(self.tokens) else None

    def _expect(self, token: str, after: str) -> None:
        found = self._next(f"{token!r}")
        if found != token:
            self.wrong(f"expected {token!r} after {after}, and there is {found!r}")

    def columns(self, end: str | None, depth: int) -> None:
        names: set[str] = set()
        while True:
            name = self._name()
            if name.lower() in names:
                self.wrong(f"there are two columns named {name}")
            names.add(name.lower())
            if self._peek() == ":":
                self._at += 1
            self._type(f"column {name}", depth)
            self._comment(name)
            following = self._peek()
            if following == end:
                return
            if following != ",":
                self.wrong(f"expected a comma after column {name}, and there is {following!r}")
            self._at += 1

    def _name(self) -> str:
        name = self._next("the name of a column")
        if name[0] in "<>(),:'":
            self.wrong(f"expected the name of a column, and there is {name!r}")
        return name.strip("`")

    def _comment(self, name: str) -> None:
        if self._peek() == "not":
            self._at += 1
            if self._next("null").lower() != "null":
                self.wrong(f"expected NULL after NOT, in column {name}")
        if self._peek() == "comment":
            self._at += 1
            self._next("a comment")
            while (self._peek() or "").startswith("'"):  # a quote within is written twice
                self._at += 1

    def _type(self, what: str, depth: int) -> None:
        if depth > _DEPTH_MAX:
            self.wrong("it is nested too deeply")
        kind = self._next(f"the type of {what}")
        name = kind.lower()
        if name in _NESTED:
            self._expect("<", name)
            if name == "struct":
                self.columns(end=">", depth=depth + 1)
            else:
                self._type(f"the elements of {what}", depth + 1)
                if name == "map":
                    self._expect(",", "the keys of a map")
                    self._type(f"the values of {what}", depth + 1)
            self._expect(">", f"what is in {name}")
            return
        if name not in _PLAIN:
            hint = nearest(name, {**_PLAIN, **dict.fromkeys(_NESTED)})
            self.wrong(f"{what} cannot be of type {kind!r}{hint.rstrip('?')}")
        if name in _SIZED and self._peek() == "(":
            while self._next("')'") != ")":
                pass
