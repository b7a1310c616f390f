"""Requests and responses with their headers: what goes between two sizes on a connection.

In: whole frames (without the 4 bytes of their size), or messages. Out: headers and messages,
or frames in parts (with their size).
Always: an ApiVersions response has the oldest header, so that every client can read it;
the size counts record payloads that stay in their files.
Not here: cutting a stream into frames (the connection does), who answers what.
"""

from struct import Struct
from typing import Any

from msgspec import Struct as MsgspecStruct

from barnabas.model.ports import Buffer, FileSlice
from barnabas.wire.apis import API_VERSIONS, APIS
from barnabas.wire.codec import ProtocolMessage, make_encoder
from barnabas.wire.primitives import Malformed, read_uvarint, skip_tags

SIZE_SIZE = 4
HEADER_TAGS_MAX = 1_000  # no version of Kafka sends any
FIXED_SIZE = 8  # of a request header: key, version, correlation id

_FIXED = Struct(">hhi")
_HEADER = Struct(">hhih")
_CORRELATION = Struct(">i")
_SIZED_V0 = Struct(">ii")
_SIZED_V1 = Struct(">iix")  # no tagged fields
_SIZED_REQUEST = Struct(">ihhih")
_NO_TAGS = b"\0"


class RequestHeader(MsgspecStruct, frozen=True, gc=False):
    """What stands in front of a request. The body starts at `body_position` of the frame.

    For an API or version that is not known, only the first three are: the client id is None
    and the body starts right after them.
    """

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_position: int


def read_request_header(frame: Buffer) -> RequestHeader:
    """Malformed if the frame cannot hold a header of its API and version."""
    if len(frame) < FIXED_SIZE:
        raise Malformed(f"request header: {len(frame)} bytes, {FIXED_SIZE} needed")
    key, version, correlation = _FIXED.unpack_from(frame)
    api = APIS.get(key)
    if api is None or not api.advertised_min <= version <= api.max_version:
        return RequestHeader(key, version, correlation, None, FIXED_SIZE)
    if len(frame) < FIXED_SIZE + 2:
        raise Malformed(f"request header: {len(frame)} bytes, {FIXED_SIZE + 2} needed")
    length = (frame[8] << 8) | frame[9]
    position = 10
    client_id = None
    if length != 0xFFFF:
        position += length
        if length > 0x7FFF or position > len(frame):
            raise Malformed(f"client id of {length} bytes: {len(frame) - 10} are left")
        try:
            client_id = str(frame[10:position], "utf-8")
        except UnicodeDecodeError:
            raise Malformed("client id is not UTF-8") from None
    if version >= api.flexible_from:
        if position < len(frame) and frame[position] == 0:
            position += 1
        else:
            position = _skip_header_tags(frame, position)
    return RequestHeader(key, version, correlation, client_id, position)


def response_parts(
    api_key: int, api_version: int, correlation_id: int, response: ProtocolMessage
) -> list[Buffer | FileSlice]:
    """A whole response, size first, to be sent in this order."""
    encoder = response.encoders.get(api_version) or make_encoder(type(response), api_version)
    pieces: list[Any] = [b""]
    encoder(response, pieces.append)
    if api_version >= response.flexible_from and api_key != API_VERSIONS:
        sized, size = _SIZED_V1, 5
    else:
        sized, size = _SIZED_V0, 4
    if not response.has_records:
        size += sum(map(len, pieces))
        pieces[0] = sized.pack(size, correlation_id)
        return [b"".join(pieces)]
    for piece in pieces:
        size += piece.length if type(piece) is FileSlice else len(piece)
    pieces[0] = sized.pack(size, correlation_id)
    return _merge_parts(pieces)


def request_parts(
    api_key: int,
    api_version: int,
    correlation_id: int,
    client_id: str | None,
    request: ProtocolMessage,
) -> list[Buffer | FileSlice]:
    """A whole request, size first, to be sent in this order."""
    encoder = request.encoders.get(api_version) or make_encoder(type(request), api_version)
    name = b"" if client_id is None else client_id.encode()
    pieces: list[Any] = [b"", name]
    if api_version >= request.flexible_from:
        pieces.append(_NO_TAGS)
    encoder(request, pieces.append)
    size = _HEADER.size + sum(map(len, pieces))
    length = -1 if client_id is None else len(name)
    pieces[0] = _SIZED_REQUEST.pack(size, api_key, api_version, correlation_id, length)
    return _merge_parts(pieces) if request.has_records else [b"".join(pieces)]


def request_frame(
    api_key: int,
    api_version: int,
    correlation_id: int,
    client_id: str | None,
    request: ProtocolMessage,
) -> bytes:
    """The same as one piece; record payloads are copied."""
    parts: list[Any] = request_parts(api_key, api_version, correlation_id, client_id, request)
    return b"".join(parts)


def read_response(frame: Buffer, api_key: int, api_version: int) -> tuple[int, ProtocolMessage]:
    """The correlation id and the response of a frame that answers such a request."""
    api = APIS[api_key]
    if len(frame) < _CORRELATION.size:
        raise Malformed(f"response header: {len(frame)} bytes, {_CORRELATION.size} needed")
    (correlation_id,) = _CORRELATION.unpack_from(frame)
    position = _CORRELATION.size
    if api_version >= api.flexible_from and api_key != API_VERSIONS:
        position = _skip_header_tags(frame, position)
    return correlation_id, api.response.decode(frame, api_version, position)


def _skip_header_tags(frame: Buffer, position: int) -> int:
    count, position = read_uvarint(frame, position)
    if count > HEADER_TAGS_MAX:
        raise Malformed(f"header with {count} tagged fields, {HEADER_TAGS_MAX} at most")
    return skip_tags(frame, position, count)


def _merge_parts(pieces: list[Any]) -> list[Buffer | FileSlice]:
    """Join neighbouring `bytes`; views and file slices stay as they are."""
    parts: list[Buffer | FileSlice] = []
    start = 0
    for index, piece in enumerate(pieces):
        if type(piece) is not bytes:
            if index > start:
                parts.append(b"".join(pieces[start:index]))
            parts.append(piece)
            start = index + 1
    if start < len(pieces):
        parts.append(b"".join(pieces[start:]))
    return parts


def drop_sent(unsent: list[memoryview], sent: int) -> None:
    """Take the bytes that a stream has taken off the front of the parts still to be sent."""
    done = 0
    while done < len(unsent) and sent >= len(unsent[done]):
        sent -= len(unsent[done])
        done += 1
    del unsent[:done]
    if sent:
        unsent[0] = unsent[0][sent:]
