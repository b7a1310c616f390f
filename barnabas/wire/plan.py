"""The wire format of one version of a struct, and the source text generated from it.

In: a class from codec.py and a version. Out: `Plan`s, and `SourceLines` that compiles.
Not here: the statements themselves (decoder.py, encoder.py).
"""

from collections.abc import Callable
from types import CodeType, NoneType, UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin
from uuid import UUID

from barnabas.wire.codec import (
    REQUIRED,
    Field,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    Records,
    SlicedRecords,
    Struct,
    UInt16,
)

FIXED = {
    Int8: "b",
    Int16: "h",
    UInt16: "H",
    Int32: "i",
    Int64: "q",
    Float64: "d",
    bool: "?",
    UUID: "16s",
}
WIDTH = {"b": 1, "h": 2, "H": 2, "i": 4, "q": 8, "d": 8, "?": 1, "16s": 16, "B": 1, "x": 1}


class FieldKind(NamedTuple):
    """A field's type: `shape` is fixed, str, bytes, records, array or struct."""

    shape: str
    nullable: bool
    format: str = ""  # of fixed
    element: "FieldKind | None" = None  # of array
    struct: type[Struct] | None = None  # of struct


def kind_of(annotation: Any) -> FieldKind:
    """Read an annotation of a field."""
    nullable = False
    if get_origin(annotation) in (Union, UnionType) and annotation not in (Records, SlicedRecords):
        (annotation,) = (part for part in get_args(annotation) if part is not NoneType)
        nullable = True
    if annotation in FIXED:
        return FieldKind("fixed", nullable, format=FIXED[annotation])
    if annotation in (Records, SlicedRecords):
        return FieldKind("records", nullable)
    if annotation in (str, bytes):
        return FieldKind(annotation.__name__, nullable)
    if get_origin(annotation) is list:
        return FieldKind("array", nullable, element=kind_of(get_args(annotation)[0]))
    if isinstance(annotation, type) and issubclass(annotation, Struct):
        return FieldKind("struct", nullable, struct=annotation)
    raise TypeError(f"{annotation!r} is not a type of the wire")


class PlannedField(NamedTuple):
    """A field as one version has it."""

    name: str
    kind: FieldKind
    present: bool
    tag: int | None
    default: Any
    ignorable: bool


def plan_of(cls: type[Struct], version: int, flexible: bool) -> list[PlannedField]:
    """All fields, in wire order; those not in this version are marked."""
    plan = []
    for name, (annotation, field) in cls.wire_fields.items():
        kind = kind_of(annotation)
        if kind.nullable and version < field.nullable_from:
            kind = kind._replace(nullable=False)
        present = field.first <= version <= field.last
        if present and field.tag is not None and not flexible:
            raise TypeError(f"{cls.__name__}.{name} is tagged in version {version}, not flexible")
        plan.append(_planned(name, kind, field, present))
    return plan


def _planned(name: str, kind: FieldKind, field: Field, present: bool) -> PlannedField:
    return PlannedField(name, kind, present, field.tag, field.default, field.ignorable)


def least_size(kind: FieldKind, version: int, flexible: bool) -> int:
    """The least number of bytes of a value of this kind."""
    if kind.shape == "fixed":
        return WIDTH[kind.format]
    if kind.shape == "struct":
        assert kind.struct is not None
        if kind.nullable:
            return 1
        fields = plan_of(kind.struct, version, flexible)
        inner = [f.kind for f in fields if f.present and f.tag is None]
        return sum(least_size(k, version, flexible) for k in inner) + flexible
    if flexible:
        return 1
    return 2 if kind.shape == "str" else 4


class SourceLines:
    """Lines of a generated function, each with the field it is about."""

    def __init__(self, name: str, version: int) -> None:
        self.title = f"{name} version {version}"
        self.lines: list[str] = []
        self.paths: list[str] = []
        self.names: dict[str, Any] = {}
        self.path: list[str] = []
        self.depth = 0
        self._variables = 0

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)
        self.paths.append(".".join(self.path))

    def variable(self, stem: str) -> str:
        self._variables += 1
        return f"{stem}{self._variables}"

    def constant(self, value: Any, stem: str = "K") -> str:
        """A global name of the generated function for a value."""
        for name, known in self.names.items():
            if known is value:
                return name
        name = f"{stem}_{len(self.names)}"
        self.names[name] = value
        return name

    def literal(self, value: Any) -> str:
        """An expression for a default value; fresh where it could be changed."""
        if value is REQUIRED:
            raise TypeError(f"{self.title}: {'.'.join(self.path)} needs a default")
        if value is None or isinstance(value, int | str | bytes):
            return repr(value)
        if isinstance(value, list):
            if value:
                raise TypeError(f"{self.title}: a default array must be empty")
            return "[]"
        return self.constant(value)

    def compile(self, function: str) -> Callable[..., Any]:
        code: CodeType = compile("\n".join(self.lines), f"<{self.title}>", "exec")
        exec(code, self.names)
        made: Callable[..., Any] = self.names[function]
        return made

    def path_of(self, error: BaseException) -> str:
        """The field that the generated line raising `error` is about."""
        trace = error.__traceback__
        line = trace.tb_lineno if trace is not None else 0
        return self.paths[line - 1] if 0 < line <= len(self.paths) else ""
