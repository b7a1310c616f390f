"""The loops of compaction, plain and compiled: the same answers, and no crash on rubbish."""

from contextlib import suppress
from functools import partial
from random import Random
from typing import Any

import pytest

from barnabas.log.compaction import key_loops as imported
from barnabas.model.errors import Corrupt
from barnabas.wire.batch import HEADER_SIZE
from barnabas.wire.records import Record, encode_batch
from tests.log.compacting import SECRET
from tests.plain import flavours, from_source

PLAIN = from_source("barnabas.log.compaction.key_loops")
FLAVOURS = flavours(PLAIN, imported)


def body_of(records: list[Record]) -> bytes:
    return bytes(encode_batch(records))[HEADER_SIZE:]


def some_records(rng: Random, count: int) -> list[Record]:
    return [
        Record(
            number,
            rng.randrange(-5, 10**12),
            None if rng.random() < 0.1 else rng.randbytes(rng.choice((0, 1, 7, 8, 9, 40))),
            None if rng.random() < 0.2 else rng.randbytes(rng.randrange(200)),
            (("h", None),) if rng.random() < 0.3 else (),
        )
        for number in range(count)
    ]


@pytest.mark.parametrize("loops", FLAVOURS)
def test_the_last_offset_of_each_key_is_known(loops: Any) -> None:
    rng = Random(1)
    known = loops.OffsetMap(1 << 20, SECRET, 2000)
    last: dict[bytes, int] = {}
    for base in range(0, 1000, 20):
        records = some_records(rng, 20)
        body = body_of(records)
        assert known.add(body, 0, len(body), 20, base, 100)
        last |= {r.key: base + r.offset for r in records if r.key is not None and base >= 100}
    assert known.count == len(last)
    assert {key: known.get(key) for key in last} == last
    assert known.get(b"never seen") == -1


@pytest.mark.parametrize("loops", FLAVOURS)
def test_a_full_table_says_so_and_takes_known_keys_still(loops: Any) -> None:
    known = loops.OffsetMap(8 * loops.SLOT_BYTES, SECRET, 10**6)
    assert known.capacity == 6
    body = body_of([Record(n, 0, b"key%d" % n, b"v") for n in range(8)])
    assert not known.add(body, 0, len(body), 8, 0, 0)
    assert known.count == 6
    again = body_of([Record(0, 0, b"key0", b"v")])
    assert known.add(again, 0, len(again), 1, 50, 0)
    assert known.get(b"key0") == 50
    assert known.get(b"key7") == -1


def test_both_flavours_agree_on_who_survives() -> None:
    rng = Random(2)
    for _ in range(60):
        records = some_records(rng, rng.randint(1, 30))
        body = b"front" + body_of(records)
        tables = [loops.OffsetMap(1 << 16, SECRET, 100) for loops in (PLAIN, imported)]
        answers = []
        latest, drop = rng.randrange(-1, 40), rng.random() < 0.5
        for table in tables:
            assert table.add(body, 5, len(body), len(records), 0, rng.choice((0, 0)))
            answers.append(
                table.survey(
                    body, 5, len(body), len(records), 0, records[0].timestamp, latest, drop
                )
            )
        assert answers[0] == answers[1]
        runs = answers[0][4]
        assert PLAIN.rebased(body, runs, -12345) == imported.rebased(body, runs, -12345)
        kept = [
            r
            for r in records
            if r.offset > latest
            or (
                r.key is not None
                and not any(o.key == r.key for o in records[r.offset + 1 :])
                and (r.value is not None or not drop)
            )
        ]
        assert answers[0][0] == len(kept)
        assert b"".join(body[a:b] for a, b in zip(runs[::2], runs[1::2], strict=True)) == b"".join(
            one_by_one(records, kept)
        )


def one_by_one(records: list[Record], kept: list[Record]) -> list[bytes]:
    """The bytes of each record that is kept, from the batch that holds them all."""
    sizes = [len(body_of(records[: number + 1])) for number in range(len(records))]
    starts = [0, *sizes]
    body = body_of(records)
    return [body[starts[r.offset] : starts[r.offset + 1]] for r in kept]


@pytest.mark.parametrize("loops", FLAVOURS)
def test_moving_the_base_moves_no_timestamp(loops: Any) -> None:
    records = [Record(n, 1000 + n * n, b"k", b"v" * n) for n in range(50)]
    body = body_of(records)
    moved = loops.rebased(body, [0, len(body)], 1000 - 10**13)
    from barnabas.wire.record_loops import decode_records

    back = decode_records(bytes(moved), 50, 0, 49, 10**13, 0, False)
    assert back == records


@pytest.mark.parametrize("loops", FLAVOURS)
def test_a_record_without_a_key_is_found(loops: Any) -> None:
    body = body_of([Record(0, 0, b"", b"v"), Record(1, 0, b"k", None), Record(2, 0, None, b"v")])
    assert loops.invalid_records(body, 0, len(body), 3, True, 0, 0, 9, 9) == [(2, False, 0)]
    assert loops.invalid_records(body, 0, len(body), 2, True, 0, 0, 9, 9) == []
    assert loops.invalid_records(body, 0, len(body), 3, False, 0, 0, 9, 9) == []


@pytest.mark.parametrize("loops", FLAVOURS)
def test_records_out_of_the_range_of_time_are_found(loops: Any) -> None:
    times = (1000, 999, 2001, -1, 2000, 3000)
    body = body_of([Record(n, time, None, b"v") for n, time in enumerate(times)])

    def found(found_max: int) -> list[int]:
        invalid = loops.invalid_records(
            body, 0, len(body), len(times), False, 1000, 1000, 2000, found_max
        )
        assert all(time == times[number] for number, _, time in invalid)
        return [number for number, _, _ in invalid]

    assert found(9) == [1, 2, 5]
    assert found(2) == [1, 2]


@pytest.mark.parametrize("loops", FLAVOURS)
def test_rubbish_is_refused_and_never_read_past(loops: Any) -> None:
    rng = Random(3)
    body = body_of(some_records(rng, 12))
    known = loops.OffsetMap(1 << 16, SECRET, 1000)
    for _ in range(1500):
        data = bytearray(body[: rng.randrange(len(body) + 1)])
        for _ in range(rng.randrange(4)):
            if data:
                data[rng.randrange(len(data))] = rng.randrange(256)
        d = bytes(data)
        for call in (
            partial(known.add, d, 0, len(d), 12, 0, 0),
            partial(known.survey, d, 0, len(d), 12, 0, 0, 100, False),
            partial(loops.invalid_records, d, 0, len(d), 12, True, 0, 0, 9, 9),
            partial(loops.rebased, d, [0, len(d)], 5),
        ):
            with suppress(Corrupt):
                call()
