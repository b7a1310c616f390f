"""`barnabas log` on real files: what is in them, what is wrong, what can be saved."""

import json
from pathlib import Path

import pytest

from barnabas.log.config import LogConfig
from barnabas.log.directory.checkpoints import HIGH_WATERMARK, encode_offsets
from barnabas.log.log import Log
from barnabas.system.disk import DirectoryLock, SystemDisk
from barnabas.wire.records import decode_batch, iter_batches
from tests.cli.command import barnabas
from tests.log.batches import NOW, PARTITION, batch, new_log, open_directory

pytestmark = pytest.mark.slow

CONFIG = LogConfig(segment_bytes=4000, index_interval_bytes=500)
BATCHES = 40
RECORDS = 3


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory that a broker left in order: several segments of three-record batches."""
    directory, log = new_log(SystemDisk(), CONFIG, path=str(tmp_path))
    for number in range(BATCHES):
        log.append(batch(RECORDS, time=NOW + number), 0, NOW + number)
    log.advance_high_watermark(log.end_offset)
    directory.close()
    return tmp_path


def segments(data: Path) -> list[Path]:
    return sorted((data / str(PARTITION)).glob("*.log"))


def offsets(log: Log) -> list[int]:
    found: list[int] = []
    offset = log.start_offset
    while (piece := log.read(offset, 1 << 20, log.end_offset)).file_slice is not None:
        file_slice = piece.file_slice
        view = file_slice.file.read(file_slice.position, file_slice.length)
        found += [r.offset for _, b in iter_batches(view) for r in decode_batch(b)]
        offset = piece.next_offset
    return found


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 0xFF
    path.write_bytes(content)


def rows(*arguments: str) -> list[dict[str, object]]:
    ended = barnabas("log", *arguments, "-J")
    return [json.loads(line) for line in ended.out.splitlines()]


def test_every_batch_is_shown_with_its_offsets(data: Path) -> None:
    found = rows("dump", str(data))
    assert [row["first"] for row in found] == list(range(0, BATCHES * RECORDS, RECORDS))
    assert {row["records"] for row in found} == {RECORDS}
    shown = barnabas("log", "dump", str(data / str(PARTITION)), "--records")
    assert shown.code == 0
    assert f"{BATCHES * RECORDS - 1}  {NOW + BATCHES - 1}  key" in shown.out
    assert shown.out.endswith(f"log end {BATCHES * RECORDS}\n")
    (data / HIGH_WATERMARK).write_bytes(encode_offsets([(PARTITION, 7)]))
    shown = barnabas("log", "dump", str(data))
    assert shown.out.endswith(f"{PARTITION}: high watermark 7, log end {BATCHES * RECORDS}\n")


def test_a_log_in_order_is_said_to_be(data: Path) -> None:
    ended = barnabas("log", "verify", str(data))
    assert (ended.code, ended.out) == (0, "nothing is wrong\n")
    assert barnabas("log", "repair", str(data)).out == "nothing to repair\n"


def test_a_flipped_byte_is_found_where_it_is_and_the_batches_around_it_are_saved(
    data: Path,
) -> None:
    damaged = segments(data)[1]
    before = rows("dump", str(data))
    victim = [row for row in before if row["path"] == str(damaged)][2]
    flip(damaged, int(str(victim["position"])) + 80)
    ended = barnabas("log", "verify", str(data))
    assert ended.code == 6
    (problem, *_) = rows("verify", str(data))
    assert (problem["path"], problem["position"]) == (str(damaged), victim["position"])
    preview = barnabas("log", "repair", str(data))
    assert "would be repaired: -y" in preview.out
    assert not list(damaged.parent.glob("*.damaged"))
    (repaired,) = rows("repair", str(data), "--yes")
    assert repaired["bytes_lost"] == victim["size"]
    assert list(damaged.parent.glob("*.damaged"))
    assert barnabas("log", "verify", str(data)).code == 6, "its indexes are not there yet"
    directory = open_directory(SystemDisk(), CONFIG, path=str(data))
    lost = range(int(str(victim["first"])), int(str(victim["last"])) + 1)
    expected = [offset for offset in range(BATCHES * RECORDS) if offset not in lost]
    assert offsets(directory.logs[PARTITION]) == expected
    directory.close()
    assert barnabas("log", "verify", str(data)).code == 0


def test_what_was_saved_survives_a_start_after_a_crash(data: Path) -> None:
    """A gap beyond the recovery point would pass for damage, and all behind it be cut."""
    damaged = segments(data)[0]
    flip(damaged, 80)
    rows("repair", str(data), "--yes")
    (data / ".kafka_cleanshutdown").unlink()
    directory = open_directory(SystemDisk(), CONFIG, path=str(data))
    assert offsets(directory.logs[PARTITION]) == list(range(RECORDS, BATCHES * RECORDS))


def test_an_index_that_lies_is_found(data: Path) -> None:
    index = segments(data)[0].with_suffix(".index")
    flip(index, 7)
    (problem,) = rows("verify", str(data))
    assert problem["path"] == str(index)
    assert "no batch begins" in str(problem["problem"])


@pytest.mark.parametrize("cut", [1, 30, 61, 100])
def test_a_torn_end_is_reported_and_cut(data: Path, cut: int) -> None:
    last = segments(data)[-1]
    last.write_bytes(last.read_bytes()[:-cut])
    assert barnabas("log", "verify", str(data)).code == 6
    rows("repair", str(data), "--yes")
    assert rows("dump", str(data))[-1]["last"] == (BATCHES - 1) * RECORDS - 1


def test_a_directory_that_a_broker_has_open_is_not_repaired(data: Path) -> None:
    lock = DirectoryLock(str(data))
    try:
        ended = barnabas("log", "repair", str(data), "--yes")
    finally:
        lock.release()
    assert ended.code == 1
    assert "in use by another broker" in ended.err


def test_a_directory_without_segments_is_named(tmp_path: Path) -> None:
    ended = barnabas("log", "dump", str(tmp_path))
    assert ended.code == 2
    assert "has no segments" in ended.err


def test_rubbish_is_no_batch_and_no_crash(data: Path) -> None:
    last = segments(data)[-1]
    last.write_bytes(bytes(range(256)) * 200)
    ended = barnabas("log", "verify", str(data))
    assert ended.code == 6
    assert "Traceback" not in ended.err
