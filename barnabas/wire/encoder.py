"""Makes the function that writes one version of a message.

The pieces go to `w`, the `append` of a list: neighbouring fields of fixed width, and the
length after them, are packed together; strings and records stand by themselves.

Always: a piece that is not `bytes` is a record payload, uncopied.
"""

import struct
from functools import cache
from typing import Any

from barnabas.model.errors import Code, InvalidRequest, KafkaError
from barnabas.model.ports import FileSlice
from barnabas.wire.codec import Encoder, ProtocolMessage, Struct
from barnabas.wire.plan import FieldKind, PlannedField, SourceLines, plan_of
from barnabas.wire.primitives import ONE_BYTE, STRING_LENGTH_MAX, uvarint

FAILURES = (struct.error, ValueError, TypeError, AttributeError)


@cache
def packer(format_: str) -> Any:
    return struct.Struct(">" + format_).pack


def compile_encoder(cls: type[ProtocolMessage], version: int) -> Encoder:
    return _Writer(cls, version).compile()


class _Writer:
    """Writes the source. `m` is the message."""

    def __init__(self, cls: type[ProtocolMessage], version: int) -> None:
        self.cls = cls
        self.version = version
        self.flexible = version >= cls.flexible_from
        self.source = SourceLines(cls.__name__, version)
        self.source.names.update(
            uvarint=uvarint,
            ONE=ONE_BYTE,
            FileSlice=FileSlice,
            pack_many=struct.pack,
            unsupported=self.unsupported,
        )
        self.run: list[tuple[str, str]] = []  # formats and values, not yet written
        self.w = "w"

    def compile(self) -> Encoder:
        source = self.source
        source.names.update(FAILURES=FAILURES, unencodable=self.unencodable)
        source.line("def encode(m, w):")
        source.line("    try:")
        source.depth = 2
        self.struct(self.cls, "m")
        self.flush()
        source.line("pass")
        source.depth = 1
        source.line("except FAILURES as error:")
        source.line("    raise unencodable(error) from error")
        return source.compile("encode")

    def unencodable(self, error: Exception) -> KafkaError:
        what = self.source.path_of(error)
        return InvalidRequest(Code.INVALID_REQUEST, f"{self.source.title}: {what}: {error}")

    def unsupported(self, path: str, value: object) -> KafkaError:
        return InvalidRequest(
            Code.UNSUPPORTED_VERSION,
            f"{self.source.title} has no {path}, which is {value!r}: use a version that has it",
        )

    # Runs of fixed width

    def write(self, format_: str, value: str = "") -> None:
        self.run.append((format_, value))

    def flush(self) -> None:
        if self.run:
            self.source.line(f"{self.w}({self.packed(self.run)})")
            self.run = []

    def flush_with_varint(self, n: str) -> None:
        """What has gathered, then `n` as a varint: one piece in either case."""
        if not self.run:
            short, long = f"ONE[{n}]", f"uvarint({n})"
        else:
            short = self.packed([*self.run, ("B", n)])
            long = f"{self.packed(self.run)} + uvarint({n})"
        self.source.line(f"{self.w}({short} if {n} < 128 else {long})")
        self.run = []

    def packed(self, run: list[tuple[str, str]]) -> str:
        values = [value for _, value in run if value]
        if not values:
            return repr(b"\0" * len(run))
        pack = self.source.constant(packer("".join(f for f, _ in run)), "pack")
        return f"{pack}({', '.join(values)})"

    # Values

    def struct(self, cls: type[Struct], holder: str) -> None:
        source = self.source
        tags = []
        for field in plan_of(cls, self.version, self.flexible):
            source.path.append(field.name)
            value = f"{holder}.{field.name}"
            if not field.present:
                if not field.ignorable:
                    source.line(
                        f"if {self.differs(field, value)}: "
                        f"raise unsupported({'.'.join(source.path)!r}, {value})"
                    )
            elif field.tag is not None:
                tags.append(field)
            else:
                self.value(field.kind, value)
            source.path.pop()
        if tags:
            self.tags(tags, holder)
        elif self.flexible:
            self.write("x")

    def differs(self, field: PlannedField, value: str) -> str:
        default = self.source.literal(field.default)
        if field.default is None:
            return f"{value} is not None"
        if field.kind.shape == "array":
            return f"{value} or {value} is None" if field.kind.nullable else value
        if field.kind.shape == "struct" or field.kind.format == "16s":
            return f"{value} is not {default} and {value} != {default}"
        return f"{value} != {default}"

    def value(self, kind: FieldKind, value: str) -> None:
        source = self.source
        if kind.shape == "fixed":
            is_uuid = kind.format == "16s"
            self.write(kind.format, f"{value}.int.to_bytes(16, 'big')" if is_uuid else value)
        elif kind.shape == "struct":
            self.nested(kind, value)
        elif kind.shape == "array":
            self.array(kind, value)
        elif kind.shape == "records":
            self.records(kind, value)
        else:
            data = source.variable("b")
            encoded = f"{value}.encode()" if kind.shape == "str" else f"bytes({value})"
            n = self.length(kind, value, f"{data} = {encoded}", f"len({data})", f"{data} = b''")
            if kind.shape == "str":
                limit = STRING_LENGTH_MAX + self.flexible
                source.line(f"if {n} > {limit}: raise ValueError(f'{{{n}}} bytes are too long')")
            self.write_length(kind, n)
            source.line(f"if {data}: {self.w}({data})")

    def nested(self, kind: FieldKind, value: str, *, null: bytes = b"\xff") -> None:
        """`null`: what stands for nothing, another byte in tagged fields than elsewhere."""
        assert kind.struct is not None
        source = self.source
        holder = source.variable("s")
        if not kind.nullable:
            source.line(f"{holder} = {value}")
            self.struct(kind.struct, holder)
            return
        self.flush()
        source.line(f"{holder} = {value}")
        source.line(f"if {holder} is None: {self.w}({null!r})")
        source.line("else:")
        source.depth += 1
        self.write("b", "1")
        self.struct(kind.struct, holder)
        self.flush()
        source.depth -= 1

    def length(self, kind: FieldKind, value: str, take: str, count: str, none: str) -> str:
        """Set a variable to what stands for the length on the wire, null included."""
        source = self.source
        n = source.variable("n")
        plus = " + 1" if self.flexible else ""
        if kind.nullable:
            source.line(f"if {value} is None:")
            source.line(f"    {none}; {n} = {0 if self.flexible else -1}")
            source.line("else:")
            source.line(f"    {take}; {n} = {count}{plus}")
        else:
            source.line(f"{take}; {n} = {count}{plus}")
        return n

    def write_length(self, kind: FieldKind, n: str) -> None:
        if self.flexible:
            self.flush_with_varint(n)
        else:
            self.write("h" if kind.shape == "str" else "i", n)
            self.flush()

    def records(self, kind: FieldKind, value: str) -> None:
        source = self.source
        data = source.variable("r")
        count = f"({data}.length if type({data}) is FileSlice else len({data}))"
        n = self.length(kind, value, f"{data} = {value}", count, f"{data} = None")
        self.write_length(kind, n)
        piece = f"memoryview({data}) if type({data}) is bytes else {data}"
        source.line(f"if {n} > {int(self.flexible)}: {self.w}({piece})")

    def array(self, kind: FieldKind, value: str) -> None:
        element = kind.element
        assert element is not None
        source = self.source
        items = source.variable("a")
        n = self.length(kind, value, f"{items} = {value}", f"len({items})", f"{items} = ()")
        self.write_length(kind, n)
        if element.shape == "fixed" and element.format != "16s":
            many = f"pack_many(f'>{{len({items})}}{element.format}', *{items})"
            source.line(f"if {items}: {self.w}({many})")
            return
        item = source.variable("e")
        source.line(f"for {item} in {items}:")
        source.depth += 1
        if element.shape == "struct" and not element.nullable:
            assert element.struct is not None
            self.struct(element.struct, item)
        else:
            self.value(element, item)
        self.flush()
        source.depth -= 1

    # Tagged fields

    def tags(self, fields: list[PlannedField], holder: str) -> None:
        source = self.source
        self.flush()
        fields = sorted(fields, key=lambda field: field.tag or 0)
        flags = []
        for field in fields:
            flag = source.variable("f")
            flags.append(flag)
            source.line(f"{flag} = {self.differs(field, f'{holder}.{field.name}')}")
        source.line(f"if not ({' or '.join(flags)}): {self.w}(b'\\0')")
        source.line("else:")
        source.depth += 1
        count = " + ".join(f"bool({flag})" for flag in flags)
        source.line(f"{self.w}(ONE[{count}])")
        for field, flag in sorted(
            zip(fields, flags, strict=True), key=lambda pair: pair[0].tag or 0
        ):
            outer = self.w
            self.w = source.variable("w")
            pieces = source.variable("pieces")
            source.path.append(field.name)
            source.line(f"if {flag}:")
            source.depth += 1
            source.line(f"{pieces} = []; {self.w} = {pieces}.append")
            if field.kind.shape == "struct":
                self.nested(field.kind, f"{holder}.{field.name}", null=b"\0")
            else:
                self.value(field.kind, f"{holder}.{field.name}")
            self.flush()
            source.line(f"{pieces} = b''.join({pieces})")
            source.line(f"{outer}({uvarint(field.tag or 0)!r} + uvarint(len({pieces})))")
            source.line(f"{outer}({pieces})")
            source.depth -= 1
            source.path.pop()
            self.w = outer
        source.depth -= 1
