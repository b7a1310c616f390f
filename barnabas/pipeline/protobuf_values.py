"""Protobuf values, by a file of descriptors and the name of a message."""

from collections.abc import Callable
from typing import Any

from barnabas.pipeline.errors import OptionError, PipelineError
from barnabas.pipeline.typed import TypedOptions, schema_path

_DEPTH_MAX = 20


def message_type(options: TypedOptions) -> Any:
    """The descriptor of the message."""
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool
        from google.protobuf.message import DecodeError
    except ImportError:
        raise PipelineError("Protobuf needs protobuf: pip install 'barnabas[schemas]'") from None
    path = schema_path(options)
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(path.read_bytes())
        pool = descriptor_pool.DescriptorPool()
        for each in files.file:
            pool.Add(each)
        return pool.FindMessageTypeByName(options.message or "")
    except OSError as problem:
        raise OptionError(f"valueSchema: {path}: {problem.strerror}") from None
    except KeyError:
        raise OptionError(f"valueMessage: there is no {options.message!r} in {path}") from None
    except (DecodeError, TypeError) as problem:
        raise OptionError(
            f"valueSchema: {path} is not a file of protoc --descriptor_set_out: {problem}"
        ) from None


def message_fields(message: Any, depth: int = 0) -> str:
    """The columns of a message, as Spark writes them."""
    if depth > _DEPTH_MAX:
        raise OptionError(f"valueMessage: {message.full_name} holds itself, which no column can")
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

    made = message_factory.GetMessageClass(message_type(options))
    return lambda value: _row(made.FromString(value))


def _row(message: Any) -> dict[str, Any]:
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
        return _row(value)
    if field.cpp_type == field.CPPTYPE_ENUM:
        named = field.enum_type.values_by_number.get(value)
        return named.name if named is not None else str(value)
    return value
