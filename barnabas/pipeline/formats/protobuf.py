"""Protobuf values, read with a descriptor file and a message name, or with a schema registry."""

import base64
import binascii
from collections.abc import Callable
from importlib import import_module
from typing import Any

from barnabas.pipeline.errors import OptionError, PipelineError
from barnabas.pipeline.formats.registry import (
    FRAME_SIZE,
    SERIALIZED,
    RegisteredSchema,
    frame_of,
    latest_schema,
    schema_by_id,
    schema_of,
)
from barnabas.pipeline.formats.typed import TypedOptions, schema_path

_DEPTH_MAX = 20
_WELL_KNOWN = "google/protobuf/"
_VARINT_SIZE_MAX = 5


def message_type(options: TypedOptions) -> Any:
    """The descriptor of the message."""
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool
        from google.protobuf.message import DecodeError
    except ImportError:
        raise PipelineError("Protobuf needs protobuf: pip install 'barnabas[schemas]'") from None
    pool = descriptor_pool.DescriptorPool()
    if options.schema is None:
        return _registered_type(options, pool)
    path = schema_path(options)
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(path.read_bytes())
        for each in files.file:
            pool.Add(each)
        return pool.FindMessageTypeByName(options.message or "")
    except OSError as problem:
        raise OptionError(f"valueSchema: {path}: {problem.strerror}") from None
    except KeyError:
        raise OptionError(f"valueMessage: {path} has no message {options.message!r}") from None
    except (DecodeError, TypeError) as problem:
        raise OptionError(
            f"valueSchema: {path} was not written by protoc --descriptor_set_out: {problem}"
        ) from None


# --- descriptors from a registry ---


def _registered_type(options: TypedOptions, pool: Any) -> Any:
    """The descriptor of valueMessage, or of the first message of the latest schema."""
    address, subject = options.registry or "", options.subject or ""
    found = latest_schema(address, subject, SERIALIZED)
    file = _file(found)
    file.name = file.name or "latest.proto"
    try:
        _add(file, found, address, pool, 0)
    except TypeError as problem:
        raise OptionError(
            f"the registry: the schema of {subject!r} is not valid: {problem}"
        ) from None
    if not file.message_type:
        raise OptionError(f"the registry: the schema of {subject!r} has no message")
    package = f"{file.package}." if file.package else ""
    name = options.message or f"{package}{file.message_type[0].name}"
    try:
        return pool.FindMessageTypeByName(name)
    except KeyError:
        raise OptionError(f"valueMessage: {subject!r} in the registry has no {name!r}") from None


def _file(found: RegisteredSchema) -> Any:
    from google.protobuf import descriptor_pb2
    from google.protobuf.message import DecodeError

    try:
        data = base64.b64decode(found.text, validate=True)
        return descriptor_pb2.FileDescriptorProto.FromString(data)
    except (binascii.Error, ValueError, DecodeError):
        raise OptionError(
            "the registry returns no descriptors (format=serialized): set valueSchema to a file"
            " written by protoc --descriptor_set_out, and set valueMessage"
        ) from None


def _add(file: Any, found: RegisteredSchema, address: str, pool: Any, depth: int) -> None:
    """Adds a file to the pool, after the files it imports."""
    if depth > _DEPTH_MAX:
        raise OptionError(f"the registry: {file.name} imports itself")
    references = {name: (subject, version) for name, subject, version in found.references}
    for name in file.dependency:
        try:
            pool.FindFileByName(name)
            continue
        except KeyError:
            pass
        if name in references:
            imported = schema_of(address, *references[name], SERIALIZED)
            inner = _file(imported)
            inner.name = name
            _add(inner, imported, address, pool, depth + 1)
        elif name.startswith(_WELL_KNOWN):
            _add_well_known(name, pool)
        else:
            raise OptionError(
                f"the registry: {file.name} imports {name!r} but has no reference to it"
            )
    pool.Add(file)


def _add_well_known(name: str, pool: Any) -> None:
    from google.protobuf import descriptor_pb2

    try:
        module = import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
    except ImportError:
        raise OptionError(f"the registry: there is no {name!r}") from None
    file = descriptor_pb2.FileDescriptorProto()
    module.DESCRIPTOR.CopyToProto(file)
    pool.Add(file)


def _message_at(found: RegisteredSchema, path: list[int]) -> str:
    """The full name of the message at this path in the file. ValueError if there is none."""
    file = _file(found)
    names = [file.package] if file.package else []
    within = file.message_type
    for index in path:
        if not 0 <= index < len(within):
            raise ValueError(f"its schema has no message at {path}")
        names.append(within[index].name)
        within = within[index].nested_type
    return ".".join(names)


def registered_class(found: RegisteredSchema, path: list[int], address: str) -> Any:
    """The class of the message at this path in a registered file."""
    try:
        from google.protobuf import descriptor_pool, message_factory
    except ImportError:
        raise PipelineError("Protobuf needs protobuf: pip install 'barnabas[schemas]'") from None
    pool = descriptor_pool.DescriptorPool()
    file = _file(found)
    file.name = file.name or "registered.proto"
    _add(file, found, address, pool, 0)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(_message_at(found, path)))


def message_path(value: bytes, begin: int = FRAME_SIZE) -> tuple[list[int], int]:
    """The path of a framed value's message in its file, and where the value begins. `begin`: of
    the path.
    """
    count, position = _zigzag(value, begin)
    if count == 0:
        return [0], position
    if not 0 < count <= _DEPTH_MAX:
        raise ValueError(f"{count} is not a valid message depth")
    path = []
    for _ in range(count):
        index, position = _zigzag(value, position)
        path.append(index)
    return path, position


def _zigzag(value: bytes, position: int) -> tuple[int, int]:
    number = 0
    for shift in range(_VARINT_SIZE_MAX):
        if position >= len(value):
            raise ValueError("the value ends inside its prefix")
        byte = value[position]
        position += 1
        number |= (byte & 0x7F) << (7 * shift)
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), position
    raise ValueError("a number in the prefix is too long")


# --- columns and rows ---


def message_fields(message: Any, depth: int = 0) -> str:
    """The columns of a message, as Spark writes them."""
    if depth > _DEPTH_MAX:
        raise OptionError(
            f"valueMessage: {message.full_name} contains itself, which a column cannot"
        )
    return ", ".join(f"`{field.name}`: {_column(field, depth)}" for field in message.fields)


def _column(field: Any, depth: int) -> str:
    if _is_map(field):
        key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        return f"map<{_single(key, depth)}, {_single(value, depth)}>"
    one = _single(field, depth)
    return f"array<{one}>" if field.is_repeated else one


def _single(field: Any, depth: int) -> str:
    kinds = {
        field.CPPTYPE_INT32: "int",
        field.CPPTYPE_INT64: "bigint",
        field.CPPTYPE_UINT32: "bigint",
        field.CPPTYPE_UINT64: "decimal(20,0)",
        field.CPPTYPE_DOUBLE: "double",
        field.CPPTYPE_FLOAT: "float",
        field.CPPTYPE_BOOL: "boolean",
        field.CPPTYPE_ENUM: "string",
        field.CPPTYPE_STRING: "binary" if field.type == field.TYPE_BYTES else "string",
    }
    if field.cpp_type == field.CPPTYPE_MESSAGE:
        return f"struct<{message_fields(field.message_type, depth + 1)}>"
    return kinds[field.cpp_type]


def _is_map(field: Any) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def protobuf_decoder(options: TypedOptions) -> Callable[[bytes], Any]:
    from google.protobuf import message_factory

    wanted = message_type(options)
    made = message_factory.GetMessageClass(wanted)
    address = options.registry
    if address is None:
        return lambda value: row_of(made.FromString(value))
    named: dict[tuple[int | str, tuple[int, ...]], str] = {}

    def decode(value: bytes) -> Any:
        number, size = frame_of(value)
        path, begin = message_path(value, size)
        if options.schema is None:
            key = (number, tuple(path))
            if key not in named:
                named[key] = _message_at(schema_by_id(address, number, SERIALIZED), path)
            if named[key] != wanted.full_name:
                raise ValueError(f"expected a {wanted.full_name}, got a {named[key]}")
        return row_of(made.FromString(value[begin:]))

    return decode


def row_of(message: Any) -> dict[str, Any]:
    """The fields of a message; those that are not set are None."""
    found: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        if field.has_presence and not message.HasField(field.name):
            found[field.name] = None
            continue
        value = getattr(message, field.name)
        if _is_map(field):
            inner = field.message_type.fields_by_name["value"]
            found[field.name] = [(key, _value(inner, value[key])) for key in value]
        elif field.is_repeated:
            found[field.name] = [_value(field, each) for each in value]
        else:
            found[field.name] = _value(field, value)
    return found


def _value(field: Any, value: Any) -> Any:
    if field.cpp_type == field.CPPTYPE_MESSAGE:
        return row_of(value)
    if field.cpp_type == field.CPPTYPE_ENUM:
        named = field.enum_type.values_by_number.get(value)
        return named.name if named is not None else str(value)
    return value
