"""Every message at every version, against another implementation where it knows the version."""

import io
from dataclasses import fields
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.index import (
    UnknownAPIKey,
    UnknownEntity,
    load_entity_schema,
    load_request_schema,
    load_response_schema,
)
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from barnabas.wire.apis import APIS
from barnabas.wire.codec import Message
from tests.wire.samples import CASES, MESSAGES, case_name, few, messages


def kio_schema(message: type[Message], version: int) -> Any:
    """The other implementation's class for it; UnknownEntity if it has none."""
    if message.api_key < 0:
        name = "_".join(("consumer", "protocol", message.__name__.removeprefix("ConsumerProtocol")))
        return load_entity_schema(name.lower(), version, EntityType.data)
    if message.__name__.endswith("Request"):
        return load_request_schema(message.api_key, version)
    return load_response_schema(message.api_key, version)


def known_to_kio(message: type[Message], version: int) -> bool:
    try:
        kio_schema(message, version)
    except (UnknownAPIKey, UnknownEntity):
        return False
    return True


KNOWN_TO_KIO = [case for case in CASES if known_to_kio(*case)]


def plain(value: object) -> object:
    """A value of either implementation, in words that both share."""
    if isinstance(value, ErrorCode):
        return int(value.value)
    if isinstance(value, timedelta):
        return value // timedelta(milliseconds=1)
    if isinstance(value, datetime):
        return round(value.timestamp() * 1000)
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, memoryview):
        return bytes(value)
    if value == UUID(int=0):
        return None
    return value


def assert_same(ours: Any, theirs: Any) -> None:
    names = {name.removesuffix("_ms"): name for name in type(ours).wire_fields}
    names |= {name: name for name in type(ours).wire_fields}
    for field in fields(theirs):
        mine, other = getattr(ours, names[field.name]), getattr(theirs, field.name)
        if hasattr(other, "__type__"):
            assert_same(mine, other)
        elif isinstance(other, tuple) and other and hasattr(other[0], "__type__"):
            assert len(mine) == len(other)
            for my_item, other_item in zip(mine, other, strict=True):
                assert_same(my_item, other_item)
        elif other is None and mine == -1:
            pass  # a time that is not there
        else:
            assert plain(mine) == plain(other), field.name


@pytest.mark.parametrize(("message", "version"), KNOWN_TO_KIO, ids=case_name)
def test_another_implementation_reads_and_writes_the_same_bytes(
    message: type[Message], version: int
) -> None:
    schema = kio_schema(message, version)
    read, write = entity_reader(schema), entity_writer(schema)

    @few
    @given(messages(message, version))
    def check(ours: Message) -> None:
        data = ours.encode(version)
        theirs, size = read(data, 0)
        assert size == len(data)
        assert_same(ours, theirs)
        out = io.BytesIO()
        write(out, theirs)
        assert out.getvalue() == data
        assert message.decode(out.getvalue(), version) == ours

    check()


@pytest.mark.parametrize(("message", "version"), CASES, ids=case_name)
def test_what_is_written_reads_back_from_any_buffer_and_position(
    message: type[Message], version: int
) -> None:
    @few
    @given(messages(message, version), st.sampled_from([bytes, bytearray, memoryview]))
    def check(sent: Message, buffer: Any) -> None:
        data = sent.encode(version)
        assert message.decode(buffer(data), version) == sent
        assert message.decode(buffer(b"front" + data + b"rest"), version, 5) == sent
        assert b"".join(sent.encode_parts(version)) == data  # type: ignore[arg-type]

    check()


def test_the_other_implementation_covers_most_versions() -> None:
    """Else the property above proves little."""
    assert len(KNOWN_TO_KIO) >= 0.9 * len(CASES)


def test_the_table_and_the_messages_agree_on_versions() -> None:
    for api in APIS.values():
        for message in (api.request, api.response):
            assert message.api_key == api.key
            assert (message.version_min, message.version_max) == (api.min_version, api.max_version)
            assert min(message.flexible_from, 99) == min(api.flexible_from, 99)


def test_every_message_says_what_it_is() -> None:
    assert all(message.__doc__ for message in MESSAGES)
