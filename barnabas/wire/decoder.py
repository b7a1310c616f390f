"""Makes the function that reads one version of a message.

Neighbouring fields of fixed width, and the length byte or bytes after them, are read by one
`unpack_from`. Nested structs and arrays are written inline. Reads past the end show as
IndexError or struct.error, so only lengths are checked by hand; the line that failed tells
which field it was about.

Always: what is allocated is bounded by the size of the input and by `elements_max`.
"""

import struct
from functools import cache
from typing import Any

from barnabas.wire.codec import Decoder, ProtocolMessage, Struct
from barnabas.wire.plan import WIDTH, FieldKind, PlannedField, SourceLines, least_size, plan_of
from barnabas.wire.primitives import (
    STRING_LENGTH_MAX,
    Malformed,
    next_tag,
    read_uvarint,
    skip_tags,
    uuid_from_bytes,
)

FAILURES = (IndexError, struct.error, ValueError, Malformed)


@cache
def unpacker(format_: str) -> Any:
    return struct.Struct(">" + format_).unpack_from


def compile_decoder(cls: type[ProtocolMessage], version: int) -> Decoder:
    return _Writer(cls, version).compile()


class _Writer:
    """Writes the source. `p` is the position, `end` the length of `data`."""

    def __init__(self, cls: type[ProtocolMessage], version: int) -> None:
        self.cls = cls
        self.version = version
        self.flexible = version >= cls.flexible_from
        self.source = SourceLines(cls.__name__, version)
        self.source.names.update(
            uvarint=read_uvarint,
            uuid=uuid_from_bytes,
            unpack_many=struct.unpack_from,
            bad_length=_bad_length,
            bad_count=_bad_count,
            next_tag=next_tag,
            skip_tags=skip_tags,
        )
        self.run: list[tuple[str, str]] = []  # formats and targets, not yet read

    def compile(self) -> Decoder:
        source = self.source
        source.names.update(FAILURES=FAILURES, malformed=self.malformed)
        source.line("def decode(data, p):")
        source.depth = 1
        # One copy makes every later slice cheap, but records must stay where they are.
        if self.cls.has_records:
            source.line("if type(data) is not memoryview: data = memoryview(data)")
        else:
            source.line("if type(data) is not bytes: data = bytes(data)")
        source.line("end = len(data)")
        source.line(f"budget = {self.cls.elements_max}")
        source.line("try:")
        source.depth = 2
        made = self.struct(self.cls)
        self.flush()
        source.line(f"return {made}")
        source.depth = 1
        source.line("except FAILURES as error:")
        source.line("    raise malformed(error, p, end) from None")
        return source.compile("decode")

    def malformed(self, error: Exception, position: int, end: int) -> Malformed:
        what = self.source.path_of(error) or "end"
        if isinstance(error, IndexError | struct.error):
            problem = f"cut short, {end - position} bytes are left"
        elif isinstance(error, UnicodeDecodeError):
            problem = f"not UTF-8 ({error.reason})"
        elif isinstance(error, Malformed):
            problem = error.detail
        else:
            problem = str(error)
        return Malformed(f"{self.source.title}: {what} at byte {position}: {problem}")

    # Runs of fixed width

    def read(self, format_: str, target: str) -> None:
        self.run.append((format_, target))

    def flush(self) -> None:
        """Read what has gathered. A byte that may open a longer varint is always the last."""
        if not self.run:
            return
        source = self.source
        formats = "".join(f for f, _ in self.run)
        width = sum(WIDTH[f] for f, _ in self.run)
        targets = [t for _, t in self.run]
        if formats == "B":
            source.line(f"{targets[0]} = data[p]")
        else:
            unpack = source.constant(unpacker(formats), "unpack")
            source.line(f"{', '.join(targets)}{',' * (len(targets) == 1)} = {unpack}(data, p)")
        source.line(f"p += {width}")
        last_format, last = self.run[-1]
        if last_format == "B":
            source.line(f"if {last} > 127: {last}, p = uvarint(data, p - 1)")
        self.run = []

    # Values

    def struct(self, cls: type[Struct]) -> str:
        """Read the fields; the answer is the expression that creates the instance."""
        source = self.source
        values = {}
        tags = []
        for field in plan_of(cls, self.version, self.flexible):
            source.path.append(field.name)
            if not field.present:
                values[field.name] = source.literal(field.default)
            elif field.tag is not None:
                tags.append(field)
            else:
                values[field.name] = self.value(field.kind)
            source.path.pop()
        if self.flexible:
            values.update(self.tags(tags))
        arguments = ", ".join(values[name] for name in cls.creation_order)
        return f"{source.constant(cls, cls.__name__)}({arguments})"

    def value(self, kind: FieldKind) -> str:
        """Read one value; the answer is an expression that holds it."""
        target = self.source.variable("v")
        if kind.shape == "fixed":
            self.read(kind.format, target)
            return f"uuid({target})" if kind.format == "16s" else target
        if kind.shape == "struct":
            return self.nested(kind, target)
        if kind.shape == "array":
            self.array(kind, target)
        else:
            self.sized(kind, target)
        return target

    def nested(self, kind: FieldKind, target: str, *, null: int = -1) -> str:
        """`null`: what stands for nothing, another byte in tagged fields than elsewhere."""
        assert kind.struct is not None
        source = self.source
        if not kind.nullable:
            return self.struct(kind.struct)
        self.read("b", target)
        self.flush()
        source.line(f"if {target} == {null}: {target} = None")
        source.line(f"elif {target} != 1: raise ValueError('neither null nor there')")
        source.line("else:")
        source.depth += 1
        made = self.struct(kind.struct)
        self.flush()
        source.line(f"{target} = {made}")
        source.depth -= 1
        return target

    def length(self, kind: FieldKind) -> tuple[str, str, str]:
        """Read a length: its variable, the test for null, the expression for the length."""
        n = self.source.variable("n")
        if self.flexible:
            self.read("B", n)
            self.flush()
            return n, f"{n} == 0", f"{n} - 1"
        self.read("h" if kind.shape == "str" else "i", n)
        self.flush()
        return n, f"{n} == -1", n

    def sized(self, kind: FieldKind, target: str) -> None:
        """A string, bytes or records."""
        source = self.source
        n, is_null, length = self.length(kind)
        if kind.nullable:
            source.line(f"if {is_null}: {target} = None")
            source.line("else:")
            source.depth += 1
        source.line(f"q = p + {length}")
        wrong = "q > end or q < p"
        if kind.shape == "str" and self.flexible:
            wrong += f" or {n} > {STRING_LENGTH_MAX + 1}"
        source.line(f"if {wrong}: raise ValueError(bad_length({length}, end - p))")
        if kind.shape == "str":
            text = "str(data[p:q], 'utf-8')" if self.cls.has_records else "data[p:q].decode()"
            source.line(f"{target} = {text}")
        elif kind.shape == "records" or not self.cls.has_records:
            source.line(f"{target} = data[p:q]")
        else:
            source.line(f"{target} = bytes(data[p:q])")
        source.line("p = q")
        if kind.nullable:
            source.depth -= 1

    def array(self, kind: FieldKind, target: str) -> None:
        element = kind.element
        assert element is not None
        source = self.source
        n, is_null, _ = self.length(kind)
        if kind.nullable:
            source.line(f"if {is_null}: {target} = None")
            source.line("else:")
            source.depth += 1
        if self.flexible:
            source.line(f"{n} -= 1")
        least = max(1, least_size(element, self.version, self.flexible))
        self.spend(n, least)
        if element.shape == "fixed" and element.format != "16s":
            source.line(f"{target} = list(unpack_many(f'>{{{n}}}{element.format}', data, p))")
            source.line(f"p += {n} * {WIDTH[element.format]}")
        else:
            source.line(f"{target} = []")
            source.line(f"for _ in range({n}):")
            source.depth += 1
            made = self.value(element)
            self.flush()
            source.line(f"{target}.append({made})")
            source.depth -= 1
        if kind.nullable:
            source.depth -= 1

    def spend(self, n: str, least: int) -> None:
        """Refuse a count that the rest of the input cannot hold, or that is too many in all."""
        self.source.line(f"budget -= {n}")
        self.source.line(f"if {n} < 0 or budget < 0 or {n} * {least} > end - p:")
        self.source.line(f"    raise ValueError(bad_count({n}, {least}, end - p))")

    # Tagged fields

    def tags(self, fields: list[PlannedField]) -> dict[str, str]:
        """Read the tagged fields; unknown ones are stepped over, nothing is made of them."""
        source = self.source
        source.path.append("tagged fields")
        count = source.variable("t")
        self.read("B", count)
        self.flush()
        if not fields:
            source.line(f"if {count}:")
            source.depth += 1
            self.spend(count, 2)
            source.line(f"p = skip_tags(data, p, {count})")
            source.depth -= 1
            source.path.pop()
            return {}
        values = {}
        for field in fields:
            values[field.name] = source.variable("v")
            source.line(f"{values[field.name]} = {source.literal(field.default)}")
        tag, last, size, limit = (source.variable(s) for s in ("tag", "last", "size", "limit"))
        source.line(f"if {count}:")
        source.depth += 1
        self.spend(count, 2)
        source.line(f"{last} = -1")
        source.line(f"for _ in range({count}):")
        source.depth += 1
        source.line(f"{tag}, {size}, p = next_tag(data, p, {last})")
        source.line(f"{last} = {tag}; {limit} = p + {size}")
        word = "if"
        for field in fields:
            source.line(f"{word} {tag} == {field.tag}:")
            source.path[-1] = field.name
            source.depth += 1
            if field.kind.shape == "struct":
                made = self.nested(field.kind, source.variable("v"), null=0)
            else:
                made = self.value(field.kind)
            self.flush()
            source.line(f"{values[field.name]} = {made}")
            source.line(f"if p != {limit}: raise ValueError(f'is not {{{size}}} bytes long')")
            source.depth -= 1
            source.path[-1] = "tagged fields"
            word = "elif"
        source.line(f"p = {limit}")
        source.depth -= 2
        source.path.pop()
        return values


def _bad_length(length: int, left: int) -> str:
    if length < 0:
        return f"length {length} where null is not allowed" if length == -1 else f"length {length}"
    return f"length {length}, {left} bytes are left"


def _bad_count(count: int, least: int, left: int) -> str:
    if count < 0:
        return "null is not allowed" if count == -1 else f"count {count}"
    if count * least > left:
        return f"{count} elements of {least} bytes or more, {left} bytes are left"
    return f"{count} elements: with those before, more than a message may have"
