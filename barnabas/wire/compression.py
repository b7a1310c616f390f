"""The five codecs of record batches, each with bounded output.

In: bytes and a codec. Out: bytes, or Corrupt.
Always: decompressing writes into one buffer of at most `size_max` bytes, so a small input that
claims to be larger, or decompresses to more, is refused before it uses more memory.
Not here: a topic's codec (config/), the records inside (records.py).

The size of the buffer is read from the frames before anything is decompressed. The system allocates
pages when they are written, so a bound that is too large costs almost nothing.
"""

from enum import IntEnum
from struct import Struct
from typing import Any

from barnabas.model.errors import Code, Corrupt, InvalidRequest
from barnabas.model.ports import Buffer


class Codec(IntEnum):
    """The codec, by the low three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @property
    def text(self) -> str:
        """The name that configurations use."""
        return self.name.lower()

    @classmethod
    def named(cls, text: str) -> "Codec":
        for codec in cls:
            if codec.text == text:
                return codec
        known = ", ".join(codec.text for codec in cls)
        raise InvalidRequest(
            Code.INVALID_CONFIG, f"compression type {text[:100]!r} is not known; there are {known}"
        )


GZIP_LEVEL = 6
LZ4_LEVEL = 1
ZSTD_LEVEL = 3

_INT32 = Struct(">i")
_UINT32_LITTLE = Struct("<I")

# Xerial's frame: magic, version, oldest version that can read it; then length-prefixed chunks.
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + _INT32.pack(1) + _INT32.pack(1)
_XERIAL_CHUNK = 32 * 1024

_GZIP_WINDOW = 31  # the largest, with gzip's header and trailer
_GZIP_RATIO_MAX = 1032  # of deflate: 258 bytes for 2 bits
_LZ4_MAGIC = 0x184D2204
_LZ4_RATIO_MAX = 255
_LZ4_STORED = 1 << 31
_ZSTD_MAGIC = 0xFD2FB528
_ZSTD_BLOCK_MAX = 128 * 1024
_ZSTD_RAW, _ZSTD_RLE, _ZSTD_COMPRESSED, _ZSTD_RESERVED = range(4)
# A frame that may be skipped, in both formats.
_SKIPPABLE_MAGIC = 0x184D2A50
_SKIPPABLE_MASK = 0xFFFFFFF0


def compress(codec: Codec, data: Buffer, level: int | None = None) -> Buffer:
    """`data` as Kafka's Java client would write it; `level` is for gzip, lz4 and zstd."""
    if codec is Codec.NONE:
        return data
    import zlib

    import cramjam

    try:
        if codec is Codec.GZIP:
            # Up to twice as fast as cramjam; for reading, both are equally fast.
            return zlib.compress(data, GZIP_LEVEL if level is None else level, _GZIP_WINDOW)
        if codec is Codec.SNAPPY:
            return _compress_snappy(cramjam, data)
        if codec is Codec.LZ4:
            # Kafka reads no frames whose blocks depend on each other.
            compressor = cramjam.lz4.Compressor(
                level=LZ4_LEVEL if level is None else level,
                block_linked=False,
                content_checksum=False,
            )
            compressor.compress(bytes(data))  # it takes nothing else
            return bytes(compressor.finish())
        return bytes(cramjam.zstd.compress(data, ZSTD_LEVEL if level is None else level))
    except (cramjam.CompressionError, zlib.error, OverflowError, OSError) as problem:
        raise InvalidRequest(
            Code.INVALID_CONFIG, f"cannot compress as {codec.text}, level {level}: {problem}"
        ) from None


def decompress(codec: Codec, data: Buffer, size_max: int) -> Buffer:
    """Decompresses `data`; Corrupt if it is malformed or larger than `size_max`."""
    if codec is Codec.NONE:
        return _checked(codec, data, size_max)
    import cramjam

    if not data:
        raise Corrupt(f"{codec.text}: there are no bytes to decompress")
    if codec is Codec.SNAPPY:
        return _decompress_snappy(cramjam, data, size_max)
    if codec is Codec.GZIP:
        return _decompress_gzip(cramjam, data, size_max)
    if codec is Codec.LZ4:
        return _unfold(codec, cramjam.lz4, data, _lz4_size(data, size_max), size_max)
    return _unfold(codec, cramjam.zstd, data, _zstd_size(data, size_max), size_max)


def _checked(codec: Codec, data: Buffer, size_max: int) -> Buffer:
    if len(data) > size_max:
        raise Corrupt(f"{codec.text}: {len(data)} bytes of records, {size_max} at most")
    return data


def _unfold(codec: Codec, module: Any, data: Buffer, bound: int, size_max: int) -> Buffer:
    """Into a buffer of `bound` bytes, `size_max` at most; the codec stops where the buffer ends."""
    import cramjam

    out = bytearray(min(bound, size_max))
    try:
        size = module.decompress_into(data, out)
    except (cramjam.DecompressionError, OSError, ValueError) as problem:
        if bound > size_max:
            raise Corrupt(
                f"{codec.text}: {len(data)} bytes do not decompress into {size_max} bytes, the most"
                f" allowed: {problem}"
            ) from None
        raise Corrupt(f"{codec.text}: {len(data)} bytes do not decompress: {problem}") from None
    return memoryview(out)[:size]


def _decompress_gzip(cramjam: Any, data: Buffer, size_max: int) -> Buffer:
    """The last member's trailer says how large it is; with several members, that is too little."""
    bound = _GZIP_RATIO_MAX * len(data)
    if len(data) >= _UINT32_LITTLE.size:
        stated: int = _UINT32_LITTLE.unpack_from(data, len(data) - _UINT32_LITTLE.size)[0]
        if stated < bound and stated <= size_max:
            try:
                return _unfold(Codec.GZIP, cramjam.gzip, data, stated, size_max)
            except Corrupt:
                pass
    return _unfold(Codec.GZIP, cramjam.gzip, data, bound, size_max)


def _compress_snappy(cramjam: Any, data: Buffer) -> bytes:
    view = memoryview(data)
    out = bytearray(_XERIAL_HEADER)
    for start in range(0, len(view), _XERIAL_CHUNK):
        chunk = cramjam.snappy.compress_raw(view[start : start + _XERIAL_CHUNK])
        out += _INT32.pack(len(chunk))
        out += chunk
    return bytes(out)


def _decompress_snappy(cramjam: Any, data: Buffer, size_max: int) -> Buffer:
    """Xerial's frame, or one bare block as librdkafka can be configured to write."""
    view = memoryview(data)
    snappy = cramjam.snappy
    try:
        chunks, sizes = _snappy_chunks(snappy, view, size_max)
        out = bytearray(sum(sizes))
        room = memoryview(out)
        at = 0
        for chunk, size in zip(chunks, sizes, strict=True):
            if size:
                at += snappy.decompress_raw_into(chunk, room[at : at + size])
            elif len(snappy.decompress_raw(chunk)):
                raise Corrupt("snappy: a chunk holds more than it states")
    except (cramjam.DecompressionError, OSError, ValueError) as problem:
        raise Corrupt(f"snappy: {len(data)} bytes do not decompress: {problem}") from None
    return room[:at]


def _snappy_chunks(
    snappy: Any, view: memoryview, size_max: int
) -> tuple[list[memoryview], list[int]]:
    """Each chunk with its stated size, which is the most that it can decompress to."""
    chunks: list[memoryview] = []
    sizes: list[int] = []
    total = 0
    framed = view[: len(_XERIAL_MAGIC)] == _XERIAL_MAGIC
    # The version numbers are not looked at: some producers write them in the wrong byte order.
    at = len(_XERIAL_HEADER) if framed else 0
    if at > len(view):
        raise Corrupt(f"snappy: frame header cut short: {len(view)} bytes, {at} needed")
    while at < len(view):
        end = len(view)
        if framed:
            if end - at < _INT32.size:
                raise Corrupt(
                    f"snappy: {end - at} bytes at the end, where a chunk length should be"
                )
            size = _INT32.unpack_from(view, at)[0]
            at += _INT32.size
            if not 0 <= size <= end - at:
                raise Corrupt(f"snappy: chunk of {size} bytes at {at}, {end - at} are there")
            end = at + size
        chunk = view[at:end]
        size = snappy.decompress_raw_len(chunk)
        total += size
        if total > size_max:
            raise Corrupt(f"snappy: decompresses to {total} bytes or more, {size_max} at most")
        chunks.append(chunk)
        sizes.append(size)
        at = end
    return chunks, sizes


def _lz4_size(data: Buffer, size_max: int) -> int:
    """The most that the frames in `data` can decompress to, counted until it is over `size_max`."""
    total = 0
    at = 0
    end = len(data)
    while at < end and total <= size_max:
        magic = _uint(data, at, 4, "lz4")
        at += 4
        if magic & _SKIPPABLE_MASK == _SKIPPABLE_MAGIC:
            at += 4 + _uint(data, at, 4, "lz4")
            continue
        if magic != _LZ4_MAGIC:
            raise Corrupt(f"lz4: no frame starts with {magic:#010x}")
        flags = _uint(data, at, 1, "lz4")
        block_max = 1 << (8 + 2 * (_uint(data, at + 1, 1, "lz4") >> 4 & 7))
        block_extra = 4 if flags & 0x10 else 0
        at += 2 + (8 if flags & 0x08 else 0) + (4 if flags & 0x01 else 0) + 1
        while total <= size_max:
            word = _uint(data, at, 4, "lz4")
            at += 4
            if word == 0:
                at += 4 if flags & 0x04 else 0
                break
            size = word & ~_LZ4_STORED
            total += size if word & _LZ4_STORED else min(block_max, _LZ4_RATIO_MAX * size)
            at += size + block_extra
    return total


def _zstd_size(data: Buffer, size_max: int) -> int:
    """The most that the frames in `data` can decompress to, counted until it is over `size_max`."""
    total = 0
    at = 0
    end = len(data)
    while at < end and total <= size_max:
        magic = _uint(data, at, 4, "zstd")
        at += 4
        if magic & _SKIPPABLE_MASK == _SKIPPABLE_MAGIC:
            at += 4 + _uint(data, at, 4, "zstd")
            continue
        if magic != _ZSTD_MAGIC:
            raise Corrupt(f"zstd: no frame starts with {magic:#010x}")
        flags = _uint(data, at, 1, "zstd")
        single_segment = flags >> 5 & 1
        at += 1 + (1 - single_segment) + (0, 1, 2, 4)[flags & 3]
        at += (single_segment, 2, 4, 8)[flags >> 6]
        last = 0
        while not last and total <= size_max:
            word = _uint(data, at, 3, "zstd")
            at += 3
            last = word & 1
            kind = word >> 1 & 3
            size = word >> 3
            total += _ZSTD_BLOCK_MAX if kind == _ZSTD_COMPRESSED else size
            at += 1 if kind == _ZSTD_RLE else size
        at += 4 if flags & 4 else 0
    return total


def _uint(data: Buffer, at: int, size: int, codec: str) -> int:
    """A little-endian number inside a frame's headers."""
    if at + size > len(data):
        raise Corrupt(f"{codec}: frame cut short: {len(data)} bytes, more than {at} needed")
    return int.from_bytes(data[at : at + size], "little")
