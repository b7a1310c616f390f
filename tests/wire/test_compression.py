"""Five codecs: there and back, other people's frames, and bombs."""

import gzip
import itertools
import struct
import zlib
from pathlib import Path
from random import Random

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.model.errors import Code, Corrupt, InvalidRequest
from barnabas.wire.compression import Codec, compress, decompress
from tests.share import examples, some

MIB = 1024 * 1024
COMPRESSED = [codec for codec in Codec if codec is not Codec.NONE]
TEXT = b"".join(b"order %d for customer %d; " % (i, i * 7919 % 1000) for i in range(20_000))


def test_codecs_have_kafkas_numbers_and_names() -> None:
    assert [(codec.value, codec.text) for codec in Codec] == [
        (0, "none"),
        (1, "gzip"),
        (2, "snappy"),
        (3, "lz4"),
        (4, "zstd"),
    ]
    assert all(Codec.named(codec.text) is codec for codec in Codec)


def test_an_unknown_codec_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidRequest, match="none, gzip, snappy, lz4, zstd") as caught:
        Codec.named("brotli")
    assert caught.value.code is Code.INVALID_CONFIG


@given(
    codec=st.sampled_from(Codec),
    parts=st.lists(st.tuples(st.binary(max_size=300), st.integers(1, 500)), max_size=8),
)
def test_what_is_compressed_comes_back(codec: Codec, parts: list[tuple[bytes, int]]) -> None:
    data = b"".join(part * times for part, times in parts)
    for given_as in (data, bytearray(data), memoryview(b"." + data)[1:]):
        packed = compress(codec, given_as)
        assert bytes(decompress(codec, packed, len(data))) == data
        assert bytes(decompress(codec, memoryview(packed), len(data) + 100)) == data


@pytest.mark.parametrize("codec", Codec)
def test_one_byte_more_than_allowed_is_refused(codec: Codec) -> None:
    packed = compress(codec, TEXT)
    assert bytes(decompress(codec, packed, len(TEXT))) == TEXT
    with pytest.raises(Corrupt, match=codec.text):
        decompress(codec, packed, len(TEXT) - 1)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_a_higher_level_packs_tighter(codec: Codec) -> None:
    words = [bytes(part) for part in itertools.permutations(b"sentence")]
    text = b" ".join(Random(1).choices(words[:2_000], k=20_000))
    low, high = compress(codec, text, 1), compress(codec, text, 9)
    assert len(high) < len(low)
    assert bytes(decompress(codec, high, len(text))) == text


def test_an_impossible_level_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="gzip, level -7"):
        compress(Codec.GZIP, TEXT, -7)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_every_cut_of_compressed_bytes_is_corrupt(codec: Codec) -> None:
    data = TEXT[:2_000]
    packed = compress(codec, data)
    # Without any chunk, a snappy frame is whole and empty.
    for size in set(range(len(packed))) - ({16} if codec is Codec.SNAPPY else set()):
        with pytest.raises(Corrupt, match=codec.text):
            decompress(codec, packed[:size], len(data))


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_flipped_bit_gives_corrupt_or_bytes_within_the_bound(codec: Codec) -> None:
    data = TEXT[:3_000]
    packed = bytearray(compress(codec, data))
    for position in some(range(len(packed))):
        for bit in range(8):
            packed[position] ^= 1 << bit
            try:
                assert len(decompress(codec, packed, 4_000)) <= 4_000
            except Corrupt:
                pass
            packed[position] ^= 1 << bit


@settings(max_examples=examples(300))
@given(codec=st.sampled_from(COMPRESSED), data=st.binary(max_size=200))
def test_random_bytes_give_corrupt_or_bytes_within_the_bound(codec: Codec, data: bytes) -> None:
    magic = {Codec.GZIP: "1f8b0800", Codec.LZ4: "04224d18", Codec.ZSTD: "28b52ffd"}
    start = bytes.fromhex(magic.get(codec, "82534e4150505900 0000000100000001"))
    for packed in (data, start + data):
        try:
            assert len(decompress(codec, packed, 10_000)) <= 10_000
        except Corrupt:
            pass


# --- frames that others write -------------------------------------------------------------------


def test_snappy_is_written_as_xerial_frames_of_32_kib() -> None:
    packed = bytes(compress(Codec.SNAPPY, bytes(70_000)))
    assert packed[:16] == b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    sizes = []
    at = 16
    while at < len(packed):
        (size,) = struct.unpack_from(">i", packed, at)
        sizes.append(len(cramjam.snappy.decompress_raw(packed[at + 4 : at + 4 + size])))
        at += 4 + size
    assert sizes == [32_768, 32_768, 70_000 - 65_536]


def test_bare_snappy_is_read() -> None:
    packed = bytes(cramjam.snappy.compress_raw(TEXT))
    assert bytes(decompress(Codec.SNAPPY, packed, len(TEXT))) == TEXT


def test_snappy_frames_with_versions_in_the_wrong_byte_order_are_read() -> None:
    packed = bytearray(compress(Codec.SNAPPY, TEXT))
    struct.pack_into("<ii", packed, 8, 1, 1)
    assert bytes(decompress(Codec.SNAPPY, packed, len(TEXT))) == TEXT


@pytest.mark.parametrize("size", [-1, -(2**31), 2**31 - 1, 5])
def test_a_snappy_chunk_that_does_not_fit_is_corrupt(size: int) -> None:
    frame = b"\x82SNAPPY\x00" + struct.pack(">iii", 1, 1, size) + b"1234"
    with pytest.raises(Corrupt, match=f"chunk of {size} bytes"):
        decompress(Codec.SNAPPY, frame, MIB)


def test_several_gzip_members_are_one_stream() -> None:
    packed = gzip.compress(TEXT) + gzip.compress(b"short")
    assert bytes(decompress(Codec.GZIP, packed, 2 * len(TEXT))) == TEXT + b"short"


def test_lz4_blocks_do_not_depend_on_each_other() -> None:
    """Kafka's Java client reads no others."""
    flags = compress(Codec.LZ4, TEXT)[4]
    assert flags >> 6 == 1  # the frame's version
    assert flags & 0b0010_0000


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("checksum", [False, True])
def test_lz4_frames_of_every_kind_are_read(linked: bool, checksum: bool) -> None:
    compressor = cramjam.lz4.Compressor(block_linked=linked, content_checksum=checksum)
    compressor.compress(TEXT)
    assert bytes(decompress(Codec.LZ4, bytes(compressor.finish()), len(TEXT))) == TEXT


def test_zstd_frames_without_a_stated_size_are_read() -> None:
    """As a client writes them that compresses while records come in."""
    compressor = cramjam.zstd.Compressor()
    compressor.compress(TEXT[:1_000])
    packed = bytes(compressor.flush())
    compressor.compress(TEXT[1_000:])
    packed += bytes(compressor.finish())
    assert bytes(decompress(Codec.ZSTD, packed, len(TEXT))) == TEXT


@pytest.mark.parametrize("codec", [Codec.LZ4, Codec.ZSTD])
def test_several_frames_and_skippable_ones_are_read(codec: Codec) -> None:
    skippable = struct.pack("<II", 0x184D2A53, 5) + b"notes"
    packed = bytes(compress(codec, TEXT)) + skippable + bytes(compress(codec, b"short"))
    assert bytes(decompress(codec, packed, 2 * len(TEXT))) == TEXT + b"short"


# --- bombs --------------------------------------------------------------------------------------

UNFOLDED = 512 * MIB
ALLOWED = 4 * MIB


def gzip_bomb() -> bytes:
    """One block over and over: after a full flush it needs nothing that came before."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    first = packer.compress(bytes(MIB)) + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(bytes(MIB)) + packer.flush(zlib.Z_FULL_FLUSH)
    return first + block * (UNFOLDED // MIB - 1) + packer.flush()


def gzip_bomb_that_states_little() -> bytes:
    return gzip_bomb()[:-4] + struct.pack("<I", 1_000)


def gzip_bomb_of_members() -> bytes:
    return gzip.compress(bytes(MIB)) * (UNFOLDED // MIB)


def snappy_bomb() -> bytes:
    chunk = bytes(cramjam.snappy.compress_raw(bytes(MIB)))
    chunks = (struct.pack(">i", len(chunk)) + chunk) * (UNFOLDED // MIB)
    return b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + chunks


def snappy_bomb_that_states_much() -> bytes:
    return b"\xff\xff\xff\xff\x0f" + bytes(100)


def lz4_bomb() -> bytes:
    packer = cramjam.lz4.Compressor(block_linked=False, content_checksum=False)
    packer.compress(bytes(64 * 1024))
    frame = bytes(packer.finish())
    return frame[:7] + frame[7:-4] * (UNFOLDED // (64 * 1024)) + frame[-4:]


def lz4_bomb_of_frames() -> bytes:
    return bytes(compress(Codec.LZ4, bytes(MIB))) * (UNFOLDED // MIB)


def zstd_bomb(flags: bytes = b"\x00\x58") -> bytes:
    """Every four bytes unfold to 128 KiB, the steepest of all."""
    block = 128 * 1024 << 3 | 1 << 1
    blocks = (block.to_bytes(3, "little") + b"\0") * (UNFOLDED // (128 * 1024))
    return b"\x28\xb5\x2f\xfd" + flags + blocks + (1 | 1 << 1).to_bytes(3, "little") + b"\0"


def zstd_bomb_that_states_little() -> bytes:
    return zstd_bomb(b"\x80\x58" + struct.pack("<I", 1_000))


def zstd_bomb_with_a_wide_window() -> bytes:
    return zstd_bomb(b"\x00\x88")  # 128 MiB


BOMBS = [
    (Codec.GZIP, gzip_bomb),
    (Codec.GZIP, gzip_bomb_that_states_little),
    (Codec.GZIP, gzip_bomb_of_members),
    (Codec.SNAPPY, snappy_bomb),
    (Codec.SNAPPY, snappy_bomb_that_states_much),
    (Codec.LZ4, lz4_bomb),
    (Codec.LZ4, lz4_bomb_of_frames),
    (Codec.ZSTD, zstd_bomb),
    (Codec.ZSTD, zstd_bomb_that_states_little),
    (Codec.ZSTD, zstd_bomb_with_a_wide_window),
]


def memory(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise AssertionError(field)


@pytest.mark.parametrize(("codec", "bomb"), BOMBS, ids=[bomb.__name__ for _, bomb in BOMBS])
def test_a_bomb_is_refused_before_it_takes_more_memory_than_allowed(
    codec: Codec, bomb: object
) -> None:
    assert callable(bomb)
    packed = bomb()
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from here
    before = memory("VmRSS")
    with pytest.raises(Corrupt, match=codec.text):
        decompress(codec, packed, ALLOWED)
    # The output, and zstd's window, of which no more is filled than of the output.
    assert memory("VmHWM") - before < 3 * ALLOWED
