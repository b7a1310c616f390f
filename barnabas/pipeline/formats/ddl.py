"""Columns as Spark writes them ("id long, name string"), checked before Spark sees them.

Spark reports a mistake in such a text as a drawing over many lines, and far from the place where
the user wrote it. In: the text. Out: the columns, or OptionError with one line. `struct_type` makes
Spark's type of them, without Spark's Java.
"""

import re
from typing import Any, NamedTuple, NoReturn

from barnabas.config.option import nearest
from barnabas.pipeline.errors import OptionError

_TOKEN = re.compile(r"\s*(?:(`(?:[^`]|``)+`|[A-Za-z0-9_]+)|('(?:[^'\\]|\\.)*')|([<>(),:]))")
# The types that JSON values can have (json.py).
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


class TypeText(NamedTuple):
    """`of`: of an array its element, of a map key and value. `columns`: of a struct."""

    name: str
    sizes: tuple[int, ...] = ()
    of: tuple["TypeText", ...] = ()
    columns: tuple["ColumnText", ...] = ()


class ColumnText(NamedTuple):
    """A column, as the text has it."""

    name: str
    type: TypeText
    nullable: bool


def check_columns_text(text: str, option: str) -> tuple[ColumnText, ...]:
    """`option`: the option that holds the text, named in errors."""
    reader = _Reader(text, option)
    if not reader.tokens:
        reader.wrong("the text is empty")
    return reader.columns(end=None, depth=0)


def struct_type(text: str) -> Any:
    """Spark's type of the columns."""
    from pyspark.sql import types

    plain = {
        "boolean": types.BooleanType, "byte": types.ByteType, "tinyint": types.ByteType,
        "short": types.ShortType, "smallint": types.ShortType, "int": types.IntegerType,
        "integer": types.IntegerType, "long": types.LongType, "bigint": types.LongType,
        "float": types.FloatType, "real": types.FloatType, "double": types.DoubleType,
        "string": types.StringType, "char": types.StringType, "varchar": types.StringType,
        "binary": types.BinaryType, "date": types.DateType,
        "timestamp": types.TimestampType, "timestamp_ltz": types.TimestampType,
    }  # fmt: skip

    def struct(columns: tuple[ColumnText, ...]) -> Any:
        return types.StructType(
            [types.StructField(each.name, made(each.type), each.nullable) for each in columns]
        )

    def made(found: TypeText) -> Any:
        if found.name == "struct":
            return struct(found.columns)
        if found.name == "array":
            return types.ArrayType(made(found.of[0]))
        if found.name == "map":
            return types.MapType(made(found.of[0]), made(found.of[1]))
        if found.name in ("decimal", "dec", "numeric"):
            return types.DecimalType(*(found.sizes or (10, 0)))
        return plain[found.name]()

    return struct(check_columns_text(text, "schema"))


class _Reader:
    """Parses the text in one pass."""

    def __init__(self, text: str, option: str) -> None:
        self._option = option
        self._text = text
        self.tokens: list[str] = []
        position = 0
        text = text.rstrip()
        while position < len(text):
            found = _TOKEN.match(text, position)
            if found is None:
                self.wrong(f"{text[position : position + 20].strip()!r} is not allowed there")
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
            self.wrong(f"expected {token!r} after {after}, got {found!r}")

    def columns(self, end: str | None, depth: int) -> tuple[ColumnText, ...]:
        names: set[str] = set()
        found: list[ColumnText] = []
        while True:
            name = self._name()
            if name.lower() in names:
                self.wrong(f"there are two columns named {name}")
            names.add(name.lower())
            if self._peek() == ":":
                self._at += 1
            type_ = self._type(f"column {name}", depth)
            found.append(ColumnText(name, type_, nullable=self._comment(name)))
            following = self._peek()
            if following == end:
                return tuple(found)
            if following != ",":
                self.wrong(f"expected a comma after column {name}, got {following!r}")
            self._at += 1

    def _name(self) -> str:
        name = self._next("the name of a column")
        if name[0] in "<>(),:'":
            self.wrong(f"expected the name of a column, got {name!r}")
        return name.strip("`")

    def _comment(self, name: str) -> bool:
        """Whether the column may be null."""
        nullable = self._peek() != "not"
        if not nullable:
            self._at += 1
            if self._next("null").lower() != "null":
                self.wrong(f"expected NULL after NOT, in column {name}")
        if self._peek() == "comment":
            self._at += 1
            self._next("a comment")
            while (self._peek() or "").startswith("'"):  # a quote within is written twice
                self._at += 1
        return nullable

    def _type(self, what: str, depth: int) -> TypeText:
        if depth > _DEPTH_MAX:
            self.wrong("the type is nested too deeply")
        kind = self._next(f"the type of {what}")
        name = kind.lower()
        if name in _NESTED:
            self._expect("<", name)
            columns: tuple[ColumnText, ...] = ()
            of: tuple[TypeText, ...] = ()
            if name == "struct":
                columns = self.columns(end=">", depth=depth + 1)
            else:
                of = (self._type(f"the elements of {what}", depth + 1),)
                if name == "map":
                    self._expect(",", "the keys of a map")
                    of = (*of, self._type(f"the values of {what}", depth + 1))
            self._expect(">", f"what is in {name}")
            return TypeText(name, (), of, columns)
        if name not in _PLAIN:
            hint = nearest(name, {**_PLAIN, **dict.fromkeys(_NESTED)})
            self.wrong(f"{what} cannot be of type {kind!r}{hint.rstrip('?')}")
        sizes = []
        if name in _SIZED and self._peek() == "(":
            while (size := self._next("')'")) != ")":
                if size.isdecimal():
                    sizes.append(int(size))
        return TypeText(name, tuple(sizes))
