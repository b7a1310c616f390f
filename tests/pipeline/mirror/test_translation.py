"""Translated offsets skip no record."""

import random

import pytest

from barnabas.model.ids import TopicPartition as At
from barnabas.pipeline.mirror.translation import (
    Copied,
    Origins,
    TopicIds,
    TranslatedRun,
    Translation,
    origin_record,
    take_in,
)
from barnabas.wire.records import Record

HERE = At("t", 0)


def test_nothing_copied_is_nothing_to_translate() -> None:
    assert Translation("a").offset(HERE, 5) is None


def test_an_offset_in_a_run_is_exact_and_one_in_a_gap_waits_for_the_next_record() -> None:
    translation = Translation("a")
    list(
        translation.add(
            Copied(HERE, 40, [TranslatedRun(10, 10, 0, 10), TranslatedRun(30, 10, 10, 10)], 20, 0),
            0,
        )
    )
    assert [translation.offset(HERE, n) for n in (0, 10, 15, 20, 25, 30, 39, 40, 99)] == [
        0, 0, 5, 10, 10, 10, 19, 20, 20,
    ]  # fmt: skip


def test_runs_that_follow_each_other_are_one_record_of_the_topic() -> None:
    translation = Translation("a")
    first = list(translation.add(Copied(HERE, 10, [TranslatedRun(0, 10, 0, 10)], 10, 0), 0))
    second = list(translation.add(Copied(HERE, 20, [TranslatedRun(10, 10, 10, 10)], 10, 0), 0))
    assert first[0].key == second[0].key
    again, origins = Translation("a"), Origins()
    take_in([*first, *second], again, origins)
    assert again.offset(HERE, 15) == 15
    assert again.progress == {HERE: 20}


@pytest.mark.parametrize("seed", range(50))
def test_no_translated_offset_skips_a_record(seed: int) -> None:
    """Gaps, batches that were copied with gaps, rounds that were repeated, restarts."""
    chance = random.Random(seed)
    translation = Translation("a")
    written: list[Record] = []
    place: list[int] = []  # of the target: which source offset lies there
    offset = 0
    for _ in range(20):
        batches = []
        for _ in range(chance.randrange(4)):
            offset += chance.choice([0, 0, 3])
            step = chance.choice([1, 1, 2])
            batches.append(list(range(offset, offset + 5 * step, step)))
            offset = batches[-1][-1] + 1
        if chance.random() < 0.3:  # copied, in part, and not noted
            place += [n for batch in batches[: chance.randrange(4)] for n in batch]
        runs = []
        for batch in batches:
            runs.append(TranslatedRun(batch[0], batch[-1] + 1 - batch[0], len(place), len(batch)))
            place += batch
        written += translation.add(Copied(HERE, offset, runs, 0, 0), 0)
        if chance.random() < 0.3:
            translation = Translation("a")
            take_in(written, translation, Origins())
    for wanted in range(offset + 2):
        found = translation.offset(HERE, wanted)
        assert found is not None
        # Whatever is at or after the source offset is at or after the translated one as well.
        assert {n for n in place if n >= wanted} <= set(place[found:])


def test_rubbish_in_the_topic_is_left_out() -> None:
    translation, origins = Translation("a"), Origins()
    keys = [b"", b"[", b"[1,2,3]", b'["run","a","t",0,"x"]', b'["run","a",{},0,1]', b"[" * 50_000]
    values = [
        None,
        b"",
        b"1",
        b"{}",
        b'{"span":-1,"target":1,"records":1}',
        b"\xff",
        b'{"span":[]}',
    ]
    records = [Record(0, 0, key, value) for key in keys for value in values]
    take_in([Record(0, 0, None, b"{}"), *records], translation, origins)
    assert translation.offset(HERE, 0) is None


def test_what_was_forgotten_stays_so_and_may_start_again() -> None:
    translation = Translation("a")
    told = list(translation.add(Copied(HERE, 5, [TranslatedRun(0, 5, 3, 5)], 5, 0), 0))
    told += translation.forget(HERE.topic, 0)
    assert translation.offset(HERE, 2) is None
    again = Translation("a")
    take_in(told, again, Origins())
    assert (again.progress, again.offset(HERE, 2)) == ({}, None)
    told += translation.add(Copied(HERE, 2, [TranslatedRun(0, 2, 0, 2)], 2, 0), 0)
    take_in(told, again, Origins())
    assert (again.progress, again.offset(HERE, 4)) == ({HERE: 2}, 2)


def test_origins_name_all_clusters_that_a_topic_came_through() -> None:
    origins = Origins()
    told = origin_record("b", "t", ["b", "a"], TopicIds("1", "2"), 0)
    translation = Translation("b")
    take_in([told], translation, origins)
    assert translation.ids == {"t": TopicIds("1", "2")}
    assert origins.of("t") == ["b", "a"]
    assert origins.of("other") == []


def test_old_runs_are_merged_and_their_offsets_never_become_too_high(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each round of an exactly-once mirror ends a run, so there would be more and more of them."""
    most = 60
    monkeypatch.setattr("barnabas.pipeline.mirror.translation.RUNS_MAX", most)
    translation = Translation("c")
    at = HERE
    records: list[Record] = []
    truth: dict[int, int] = {}
    source = target = 0
    for number in range(20 * most):
        count = 1 + number % 3
        for each in range(count):
            truth[source + each] = target + each
        run = TranslatedRun(source, count, target, count)
        source, target = source + count, target + count + 1  # and a marker
        records += translation.add(Copied(at, source, [run], count, 0), 0)
    again = Translation("c")
    take_in(records, again, Origins())
    for known in (translation, again):
        assert len(known._runs[at]) <= most
        found = {offset: known.offset(at, offset) or 0 for offset in truth}
        assert all(found[offset] <= truth[offset] for offset in truth)
        newest = [offset for offset in truth if offset > source - most // 2]
        assert all(found[offset] == truth[offset] for offset in newest)
    assert translation.offset(at, source) == again.offset(at, source)
