"""Aborted transactions: Kafka's bytes, searches against a plain one, damage."""

from random import Random

import pytest

from barnabas.log.transactions.aborted_index import ENTRY_SIZE, AbortedIndex, AbortedTransaction
from barnabas.model.errors import Corrupt
from tests.simulator.disk import SimulatedDisk

PATH = "/d/00000000000000000000.txnindex"
TWO = [AbortedTransaction(4000, 10, 25, 12), AbortedTransaction(4001, 12, 30, 31)]
WRITTEN_BY_KAFKA = (
    "00000000000000000fa0000000000000000a0000000000000019000000000000000c"
    "00000000000000000fa1000000000000000c000000000000001e000000000000001f"
)


def new(disk: SimulatedDisk) -> AbortedIndex:
    disk.make_directory("/d")
    return AbortedIndex(disk, PATH)


def test_the_file_has_the_bytes_that_kafka_writes(disk: SimulatedDisk) -> None:
    index = new(disk)
    assert not disk.exists(PATH)
    for each in TWO:
        index.append(each)
    assert disk.read_file(PATH).hex() == WRITTEN_BY_KAFKA
    assert list(AbortedIndex(disk, PATH)) == TWO
    index.replace(TWO[:1], sync=True)
    assert disk.read_file(PATH).hex() == WRITTEN_BY_KAFKA[: 2 * ENTRY_SIZE]
    index.replace([], sync=True)
    assert not disk.exists(PATH)


def test_a_torn_entry_is_not_there(disk: SimulatedDisk) -> None:
    index = new(disk)
    for each in TWO:
        index.append(each)
    file = disk.open(PATH)
    file.truncate(2 * ENTRY_SIZE - 1)
    found = AbortedIndex(disk, PATH)
    assert list(found) == TWO[:1]
    found.append(TWO[1])
    assert disk.read_file(PATH).hex() == WRITTEN_BY_KAFKA


def test_truncation_goes_by_the_marker(disk: SimulatedDisk) -> None:
    index = new(disk)
    for each in TWO:
        index.append(each)
    index.truncate(31)
    assert len(index) == 2
    index.truncate(30)
    assert list(index) == list(AbortedIndex(disk, PATH)) == TWO[:1]
    index.truncate(0)
    assert len(AbortedIndex(disk, PATH)) == 0


def test_a_marker_out_of_order_is_a_bug(disk: SimulatedDisk) -> None:
    index = new(disk)
    index.append(TWO[1])
    with pytest.raises(AssertionError, match="marker 25 after 30"):
        index.append(TWO[0])


@pytest.mark.parametrize(
    "entry",
    [
        AbortedTransaction(1, 10, 99, 100),
        AbortedTransaction(1, 10, 4, 5),
        AbortedTransaction(1, 30, 30, 31),
        AbortedTransaction(1, -1, 30, 31),
    ],
)
def test_entries_that_cannot_be_of_the_segment_are_corrupt(
    disk: SimulatedDisk, entry: AbortedTransaction
) -> None:
    index = new(disk)
    index.append(entry)
    with pytest.raises(Corrupt):
        index.check(5, 50)


def test_an_entry_of_another_version_is_corrupt(disk: SimulatedDisk) -> None:
    index = new(disk)
    for each in TWO:
        index.append(each)
    AbortedIndex(disk, PATH).check(0, 50)
    disk.open(PATH).write(1, b"\x01")
    with pytest.raises(Corrupt, match="version 1"):
        AbortedIndex(disk, PATH).check(0, 50)


@pytest.mark.parametrize("seed", range(30))
def test_a_search_finds_what_a_plain_one_finds(disk: SimulatedDisk, seed: int) -> None:
    """It stops early only where nothing more could be found."""
    rng = Random(seed)
    index = new(disk)
    running: dict[int, int] = {}
    entries: list[AbortedTransaction] = []
    for offset in range(200):
        producer = rng.randrange(4)
        if producer not in running:
            running[producer] = offset
        elif rng.random() < 0.4:
            first = running.pop(producer)
            stable = min(running.values(), default=offset + 1)
            entries.append(AbortedTransaction(producer, first, offset, stable))
            index.append(entries[-1])
    for _ in range(100):
        start = rng.randrange(200)
        end = rng.randint(start, 200)
        found, _ = index.find(start, end)
        assert found == [e for e in entries if e.last_offset >= start and e.first_offset < end]
