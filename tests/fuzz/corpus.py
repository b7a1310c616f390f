"""Requests recorded from real clients (capture.py), kept in one file beside this module.

Always: a frame is stored without its size; each is a request that Apache Kafka answered.
"""

import zlib
from collections.abc import Iterable
from pathlib import Path
from struct import Struct

FILE = Path(__file__).with_name("corpus.bin")
_SIZE = Struct(">i")


def store(frames: Iterable[bytes], path: Path = FILE) -> int:
    """The size of the file."""
    whole = b"".join(_SIZE.pack(len(frame)) + frame for frame in frames)
    return path.write_bytes(zlib.compress(whole, 9))


def load(path: Path = FILE) -> list[bytes]:
    whole = zlib.decompress(path.read_bytes())
    frames = []
    position = 0
    while position < len(whole):
        (size,) = _SIZE.unpack_from(whole, position)
        position += _SIZE.size
        frames.append(whole[position : position + size])
        position += size
    return frames
