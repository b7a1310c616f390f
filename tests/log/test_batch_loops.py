"""Many batches for one call, and each by itself: the same files, plain and compiled."""

from random import Random
from typing import Any

import pytest

from barnabas.log import batch_loops as imported
from barnabas.log.compaction import compaction
from barnabas.log.compaction.cleanable import job_for, look
from barnabas.log.compaction.compaction import Compaction
from barnabas.log.compaction.key_loops import OffsetMap
from barnabas.wire.batch import ATTRIBUTES_POSITION
from barnabas.wire.compression import Codec
from tests.log.batches import NOW, new_log
from tests.log.compacting import KEYS_BYTES, SECRET, compacted, keyed, put
from tests.plain import from_source
from tests.simulator.disk import SimulatedDisk

PLAIN = from_source("barnabas.log.batch_loops")


class OneByOne:
    """Loops that stop before every batch."""

    @staticmethod
    def map_batches(keys: Any, data: bytes, at: int, *rest: Any) -> tuple[int, int]:
        return at, -1

    @staticmethod
    def keep_batches(keys: Any, data: bytes, at: int, *rest: Any) -> tuple[int, int, int, int]:
        return at, 0, 0, 0


def outcome(seed: int, loops: Any, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The files that one pass over a random log writes, and what it says of them."""
    monkeypatch.setattr(compaction, "map_batches", loops.map_batches)
    monkeypatch.setattr(compaction, "keep_batches", loops.keep_batches)
    rng = Random(seed)
    disk = SimulatedDisk()
    _, log = new_log(disk, compacted(segment_bytes=3000, index_interval_bytes=100))
    for _ in range(rng.randrange(1, 60)):
        pairs = [
            (f"key{rng.randrange(20)}", None if rng.random() < 0.05 else "x" * rng.randrange(90))
            for _ in range(rng.randrange(1, 8))
        ]
        codec = Codec.ZSTD if rng.random() < 0.1 else Codec.NONE
        put(log, *pairs, time=NOW + rng.randrange(1000), codec=codec)
    log.roll(NOW)
    job = job_for(look(log, NOW), NOW, rng.choice((KEYS_BYTES, KEYS_BYTES, 500)))
    told: list[int] = []
    work = Compaction(disk, job, SECRET, told.append)
    work.map_keys()
    parts: list[object] = [work.end_offset, work.keys]
    for group in work.groups():
        cleaned = work.clean(group)
        stem = f"{job.path}/{cleaned.bases[0]:020d}"
        parts.append(cleaned)
        parts += [
            disk.read_file(f"{stem}{kind}.cleaned") for kind in (".log", ".index", ".timeindex")
        ]
    return [sum(told), *parts]


@pytest.mark.parametrize("seed", range(40))
def test_batches_come_out_as_if_taken_one_by_one(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = outcome(seed, OneByOne, monkeypatch)
    assert outcome(seed, PLAIN, monkeypatch) == expected
    assert outcome(seed, imported, monkeypatch) == expected


@pytest.mark.parametrize("loops", [PLAIN, imported], ids=["plain", "as imported"])
def test_what_is_damaged_or_not_all_there_is_left_to_the_caller(loops: Any) -> None:
    rng = Random(4)
    first = bytes(keyed([("a", "1"), ("b", "2")]))
    whole = first + bytes(keyed([("a", "3")]))
    for _ in range(500):
        cut = rng.randrange(len(whole) + 1)
        flipped = rng.randrange(ATTRIBUTES_POSITION, len(whole))  # from there the checksum counts
        data = bytearray(whole[:cut])
        if flipped < cut:
            data[flipped] ^= 1 << rng.randrange(8)
        sound = len(first) if min(cut, flipped) >= len(first) else 0
        keys = OffsetMap(1 << 16, SECRET, 100)
        stopped, next_offset = loops.map_batches(keys, bytes(data), 0, 0, 1000)
        assert (stopped, next_offset) == ((sound, 2) if sound else (0, -1))
        out = bytearray()
        stopped, read, kept, _ = loops.keep_batches(
            keys, bytes(data), 0, -1, 1000, {}, frozenset(), out, 0, lambda *batch: None
        )
        assert (stopped, read, kept, bytes(out)) == (
            (sound, 2, 2, first) if sound else (0, 0, 0, b"")
        )
