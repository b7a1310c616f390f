"""Damages requests, the way that lengths, counts and versions get damaged.

In: whole request frames. Out: bytes for the wire, sizes included.
"""

from collections.abc import Callable, Sequence
from random import Random
from struct import pack

SIZE_MAX = 104_857_600  # socket.request.max.bytes
_BYTES = (0x00, 0x01, 0x7F, 0x80, 0xFE, 0xFF)
_EXTREMES = (
    b"\xff\xff",
    b"\x7f\xff",
    b"\x80\x00",
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\x00\x0f\x42\x40",  # a million
    b"\x00\x00\xff\xff",
    b"\x7f\xff\xff\xff\xff\xff\xff\xff",
    b"\x80\x00\x00\x00\x00\x00\x00\x00",
    b"\xff\xff\xff\xff\x0f",  # the largest varint of 5 bytes
    b"\xff\xff\xff\xff\x7f",  # one that overflows
    b"\xc1\x84\x3d",  # a million elements, as a varint
    b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",  # one that never ends
)


def flip_bits(body: bytearray, random: Random) -> None:
    for _ in range(random.choice((1, 1, 1, 2, 4, 16))):
        body[random.randrange(len(body))] ^= 1 << random.randrange(8)


def set_bytes(body: bytearray, random: Random) -> None:
    for _ in range(random.choice((1, 1, 2, 3))):
        body[random.randrange(len(body))] = random.choice(_BYTES)


def cut(body: bytearray, random: Random) -> None:
    del body[random.randrange(8, len(body) + 1) :]


def remove(body: bytearray, random: Random) -> None:
    at = random.randrange(len(body))
    del body[at : at + random.choice((1, 1, 2, 4, 8))]


def insert(body: bytearray, random: Random) -> None:
    at = random.randrange(len(body) + 1)
    body[at:at] = random.randbytes(random.choice((1, 1, 2, 4, 40)))


def overwrite(body: bytearray, random: Random) -> None:
    extreme = random.choice(_EXTREMES)
    at = random.randrange(8, len(body) + 1)
    body[at : at + len(extreme)] = extreme


def repeat(body: bytearray, random: Random) -> None:
    at = random.randrange(len(body))
    piece = body[at : at + random.randrange(1, 40)]
    body[at:at] = piece * random.choice((1, 2, 50))


def other_version(body: bytearray, random: Random) -> None:
    body[2:4] = pack(">h", random.choice((-1, 0, 1, 2, 3, 5, 9, 12, 14, 99, 32767, -32768)))


def other_api(body: bytearray, random: Random) -> None:
    body[0:2] = pack(">h", random.choice((-1, *range(100), 1000, 32767, -32768)))


def add_tags(body: bytearray, random: Random) -> None:
    """The last byte of a flexible request says that no tagged fields follow; some do."""
    count = random.choice((1, 2, 3, 127))
    tags = b"".join(bytes((tag, 3)) + b"tag" for tag in range(count))
    body[-1:] = bytes((random.choice((count, count, count + 1)),)) + tags


def garble(body: bytearray, random: Random) -> None:
    body[8:] = random.randbytes(random.randrange(200))


Mutation = Callable[[bytearray, Random], None]
MUTATIONS: Sequence[Mutation] = (
    flip_bits, flip_bits, flip_bits, set_bytes, set_bytes, cut, remove, insert, overwrite,
    overwrite, overwrite, repeat, other_version, other_api, add_tags, garble,
)  # fmt: skip


def mutated(body: bytes, random: Random) -> bytes:
    """Never shorter than a request header's fixed part."""
    damaged = bytearray(body)
    for _ in range(random.choice((1, 1, 1, 2, 5))):
        random.choice(MUTATIONS)(damaged, random)
        if len(damaged) < 8:
            damaged += bytes(8)
    return bytes(damaged)


def framed(body: bytes) -> bytes:
    return pack(">i", len(body)) + body


def misframed(body: bytes, random: Random) -> bytes:
    """With a size that is not its own; whatever follows on the connection is lost."""
    size = random.choice(
        (-1, 0, 1, 7, -(2**31), 2**31 - 1, SIZE_MAX, SIZE_MAX + 1, len(body) - 1, len(body) + 1)
    )
    return pack(">i", size) + body
