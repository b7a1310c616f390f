"""One definition per message for all of its versions.

A message is a class whose annotations are its fields in wire order. The code that reads or writes
one version of it is generated on first use (decoder.py, encoder.py), and branches only on the bytes
themselves.

In: class definitions. Out: frozen, slotted classes with `decode` and `encode`.
Always: decoding raises only Malformed, or InvalidRequest for an unsupported version; a value that a
version cannot carry is an error unless its field is ignorable.
Not here: request and response headers (frames.py), which API is which (apis.py).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, TypeVar, dataclass_transform

from barnabas.model.errors import Code, InvalidRequest
from barnabas.model.ports import Buffer, FileSlice

if TYPE_CHECKING:  # msgspec's own declaration would have fields in another order
    _Struct = object
    _Meta = type
else:
    from msgspec import Struct as _Struct
    from msgspec import StructMeta as _Meta

Int8 = Annotated[int, "int8"]
Int16 = Annotated[int, "int16"]
UInt16 = Annotated[int, "uint16"]
Int32 = Annotated[int, "int32"]
Int64 = Annotated[int, "int64"]
Float64 = Annotated[float, "float64"]
Records = Annotated[Buffer, "records"]
"""Record batches; read as a memoryview of the input."""
SlicedRecords = Annotated[Buffer | FileSlice, "records"]
"""The same, where a response may also leave them in their file."""

VERSION_MAX = 0x7FFF
ELEMENTS_MAX = 250_000
"""The most array elements and tags in one request, including nested ones; a frame of 100 MB could
contain 50 million empty strings.
"""
RESPONSE_ELEMENTS_MAX = 4_000_000
"""The same for a response: the metadata of a large cluster names its brokers many times."""


class _Required:
    def __repr__(self) -> str:
        return "required"


REQUIRED: Any = _Required()


class Field:
    """The properties of a field in addition to its type."""

    __slots__ = ("default", "first", "ignorable", "last", "nullable_from", "tag")

    def __init__(
        self,
        default: Any,
        *,
        first: int = 0,
        last: int = VERSION_MAX,
        nullable: int = 0,
        tag: int | None = None,
        ignorable: bool = False,
    ) -> None:
        self.default = default
        self.first = first
        self.last = last
        self.nullable_from = nullable
        self.tag = tag
        self.ignorable = ignorable


def since(
    first: int,
    *,
    default: Any,
    last: int = VERSION_MAX,
    nullable: int = 0,
    ignorable: bool = False,
) -> Any:
    """Only in versions `first` to `last`. Elsewhere it reads as the default, and writing
    another value is an error unless `ignorable`. `nullable`: the first version to allow null."""
    return Field(default, first=first, last=last, nullable=nullable, ignorable=ignorable)


def until(last: int, *, default: Any, nullable: int = 0, ignorable: bool = False) -> Any:
    """Only in versions up to `last`."""
    return Field(default, last=last, nullable=nullable, ignorable=ignorable)


def nullable_since(first: int) -> Any:
    """In every version, but null only from `first`."""
    return Field(REQUIRED, nullable=first)


def tagged(tag: int, *, since: int, default: Any, ignorable: bool = False) -> Any:
    """A tagged field: on the wire only when it differs from its default."""
    return Field(default, first=since, tag=tag, ignorable=ignorable)


@dataclass_transform(
    kw_only_default=True,
    frozen_default=True,
    field_specifiers=(since, until, nullable_since, tagged),
)
class _StructMeta(_Meta):
    """Takes the field marks out of the class body and orders the fields for creation.

    Fields without a default come first, so that generated code creates instances by position,
    which is the cheapest way there is (`creation_order`). `wire_fields` has the wire's order.
    """

    def __new__(mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> Any:
        annotations = namespace.get("__annotations__", {})
        fields = {}
        required = {}
        optional = {}
        for field_name, kind in annotations.items():
            if getattr(kind, "__origin__", None) is ClassVar:
                required[field_name] = kind
                continue
            mark = namespace.get(field_name, REQUIRED)
            field = mark if type(mark) is Field else Field(mark)
            fields[field_name] = field
            if field.default is REQUIRED:
                namespace.pop(field_name, None)
                required[field_name] = kind
            else:
                namespace[field_name] = field.default
                optional[field_name] = kind
        namespace["__annotations__"] = required | optional
        made: Any = super().__new__(mcls, name, bases, namespace, frozen=True, gc=False)
        made.creation_order = tuple(n for n in required | optional if n in fields)
        made.wire_fields = {n: (annotations[n], field) for n, field in fields.items()}
        return made


class Struct(_Struct, metaclass=_StructMeta):
    """A part of a message: the element of an array, or a field with fields of its own."""

    creation_order: ClassVar[tuple[str, ...]]
    wire_fields: ClassVar[dict[str, tuple[Any, Field]]]


S = TypeVar("S", bound=Struct)


def by_position(kind: type[S]) -> Callable[..., S]:
    """Creates it by position, in `creation_order`: for loops, a quarter of the time by name."""
    return kind


Decoder = Callable[[Buffer, int], Any]
Encoder = Callable[[Any, Callable[[Any], None]], None]


class ProtocolMessage(Struct):
    """A whole request or response. Give its versions with `@message`."""

    api_key: ClassVar[int]
    version_min: ClassVar[int]
    version_max: ClassVar[int]
    flexible_from: ClassVar[int]
    elements_max: ClassVar[int]
    has_records: ClassVar[bool]
    decoders: ClassVar[dict[int, Decoder]]
    encoders: ClassVar[dict[int, Encoder]]

    @classmethod
    def decode(cls, view: Buffer, version: int, position: int = 0) -> Self:
        """The message at `position`. Bytes after its end are ignored, as in Kafka."""
        decoder = cls.decoders.get(version) or make_decoder(cls, version)
        message: Self = decoder(view, position)
        return message

    def encode(self, version: int) -> bytes:
        """The bytes of this version; records must be in memory."""
        encoder = self.encoders.get(version) or make_encoder(type(self), version)
        out: list[bytes] = []
        encoder(self, out.append)
        return b"".join(out)


M = TypeVar("M", bound=type[ProtocolMessage])


def message(
    *,
    versions: str,
    flexible: str = "none",
    api_key: int = -1,
    records: bool = False,
    large: bool = False,
) -> Callable[[M], M]:
    """Which API, which versions ("0-4"), flexible from where ("4+" or "none").

    `large`: a request that describes a whole cluster, with the limits of a response.
    """
    first, _, last = versions.partition("-")

    def declare(made: M) -> M:
        made.api_key = api_key
        made.version_min = int(first)
        made.version_max = int(last or first)
        made.flexible_from = VERSION_MAX if flexible == "none" else int(flexible.rstrip("+"))
        response = made.__name__.endswith("Response")
        made.elements_max = RESPONSE_ELEMENTS_MAX if response or large else ELEMENTS_MAX
        made.has_records = records
        made.decoders = {}
        made.encoders = {}
        return made

    return declare


def check_version(cls: type[ProtocolMessage], version: int) -> None:
    if not cls.version_min <= version <= cls.version_max:
        raise InvalidRequest(
            Code.UNSUPPORTED_VERSION,
            f"{cls.__name__} version {version}: "
            f"versions {cls.version_min} to {cls.version_max} are supported",
        )


def make_decoder(cls: type[ProtocolMessage], version: int) -> Decoder:
    """Generate and store the code that reads one version."""
    from barnabas.wire.decoder import compile_decoder

    check_version(cls, version)
    decoder = cls.decoders[version] = compile_decoder(cls, version)
    return decoder


def make_encoder(cls: type[ProtocolMessage], version: int) -> Encoder:
    """Generate and store the code that writes one version."""
    from barnabas.wire.encoder import compile_encoder

    check_version(cls, version)
    encoder = cls.encoders[version] = compile_encoder(cls, version)
    return encoder
