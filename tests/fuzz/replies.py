"""Holds the replies of one connection against the requests that went out on it.

In: the bytes sent, the bytes received until the broker closed. Out: how many requests were dealt
with, or Unfit that says which reply was wrong.
Always: sizes are read as the broker reads them, so that a request with a false size counts as
whatever the broker takes it for.
"""

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from barnabas.model.errors import KafkaError
from barnabas.wire.apis import API_VERSIONS, APIS
from barnabas.wire.frames import read_response
from tests.fuzz.mutate import SIZE_MAX

HEADER_SIZE = 8
PRODUCE = 0
_SIZE = Struct(">i")
_HEADER = Struct(">hhi")


class Unfit(AssertionError):
    """A reply that no client could make sense of."""


class Sent(NamedTuple):
    """A request as the broker sees it."""

    key: int
    version: int
    correlation: int


def requests_in(data: bytes) -> tuple[list[Sent], bool]:
    """Whole requests, and whether the broker must close on what comes after them."""
    found: list[Sent] = []
    position = 0
    while position + _SIZE.size <= len(data):
        (size,) = _SIZE.unpack_from(data, position)
        if not HEADER_SIZE <= size <= SIZE_MAX:
            return found, True
        position += _SIZE.size
        if position + size > len(data):
            return found, True
        found.append(Sent(*_HEADER.unpack_from(data, position)))
        position += size
    return found, position < len(data)


def check(sent: bytes, received: bytes, *, whole: bool, deep: bool) -> int:
    """The number of requests that were answered, rightly passed over, or closed upon."""
    requests, broken = requests_in(sent)
    waiting = iter(requests)
    dealt = 0
    position = 0
    while position < len(received):
        size = int.from_bytes(received[position : position + _SIZE.size], signed=True)
        position += _SIZE.size
        reply = memoryview(received)[position : position + max(size, 0)]
        if len(reply) < size or size < _SIZE.size:
            if not whole:
                break
            raise Unfit(f"a reply of {size} bytes, of which {len(reply)} came")
        position += size
        dealt += _match(reply, waiting, deep)
    return dealt + (1 if broken or next(waiting, None) is not None else 0)


def check_before_login(sent: bytes, received: bytes) -> int:
    """As `check`, where a login may have turned the frames into bare tokens: sizes alone."""
    replies = 0
    position = 0
    while position + _SIZE.size <= len(received):
        (size,) = _SIZE.unpack_from(received, position)
        position += _SIZE.size + size
        replies += 1
    requests, broken = requests_in(sent)
    if replies > len(requests) + broken:
        raise Unfit(f"{replies} replies to {len(requests)} requests")
    return min(replies + 1, len(requests) + broken)


def _match(reply: memoryview, waiting: Iterator[Sent], deep: bool) -> int:
    (correlation,) = _SIZE.unpack_from(reply)
    passed = 1
    for request in waiting:
        if request.correlation == correlation:
            _decode(reply, request, deep)
            return passed
        if request.key != PRODUCE:  # acks=0 is the one request that gets no answer
            raise Unfit(f"reply {correlation} where {request} was to be answered")
        passed += 1
    raise Unfit(f"reply {correlation} to no request")


def _decode(reply: memoryview, request: Sent, deep: bool) -> None:
    key, version, _ = request
    api = APIS.get(key)
    if api is None:
        raise Unfit(f"a reply to {request}, which nobody knows")
    if key == API_VERSIONS and not api.min_version <= version <= api.max_version:
        version = 0
    try:
        _, response = read_response(reply, key, version)
    except KafkaError as error:
        raise Unfit(f"the reply to {request} does not decode: {error}") from error
    if deep:
        header = 5 if version >= api.flexible_from and key != API_VERSIONS else 4
        if response.encode(version) != reply[header:]:
            raise Unfit(f"the reply to {request} has bytes that mean nothing: {response}")
