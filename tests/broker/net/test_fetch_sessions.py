"""Incremental fetch sessions, as KIP-227 has them."""

import itertools

import pytest

from barnabas.broker.net import fetch_sessions
from barnabas.broker.net.fetch_sessions import (
    EPOCH_MAX,
    EVICTION_MS_MIN,
    FetchSessions,
    SessionPartition,
)
from barnabas.model.errors import Code, Retriable


def sessions(slots: int = 10) -> FetchSessions:
    return FetchSessions(slots, itertools.count(1).__next__)


def wanted(partition: int, offset: int = 0) -> SessionPartition:
    return SessionPartition("t", partition, offset, 1 << 20, -1)


def test_a_session_goes_from_epoch_to_epoch() -> None:
    all_ = sessions()
    created = all_.create([wanted(0)], now_ms=0)
    assert created is not None
    for epoch in (1, 2, 3):
        assert all_.resume(created.id, epoch, now_ms=0) is created


def test_an_epoch_used_twice_is_refused() -> None:
    all_ = sessions()
    created = all_.create([wanted(0)], now_ms=0)
    assert created is not None
    all_.resume(created.id, 1, now_ms=0)
    with pytest.raises(Retriable) as refused:
        all_.resume(created.id, 1, now_ms=0)
    assert refused.value.code is Code.INVALID_FETCH_SESSION_EPOCH


def test_an_epoch_wraps_to_one() -> None:
    all_ = sessions()
    created = all_.create([wanted(0)], now_ms=0)
    assert created is not None
    created.epoch = EPOCH_MAX
    all_.resume(created.id, EPOCH_MAX, now_ms=0)
    assert created.epoch == 1


def test_a_session_that_ended_is_not_found() -> None:
    all_ = sessions()
    created = all_.create([wanted(0)], now_ms=0)
    assert created is not None
    all_.end(created.id)
    with pytest.raises(Retriable) as refused:
        all_.resume(created.id, 1, now_ms=0)
    assert refused.value.code is Code.FETCH_SESSION_ID_NOT_FOUND


def test_a_full_cache_keeps_busy_sessions_and_evicts_idle_ones() -> None:
    all_ = sessions(slots=2)
    first = all_.create([wanted(0)], now_ms=0)
    second = all_.create([wanted(0)], now_ms=0)
    assert first is not None
    assert second is not None
    assert all_.create([wanted(0)], now_ms=EVICTION_MS_MIN - 1) is None
    all_.resume(first.id, 1, now_ms=EVICTION_MS_MIN)
    assert all_.create([wanted(0)], now_ms=EVICTION_MS_MIN) is not None
    assert len(all_) == 2
    all_.resume(first.id, 2, now_ms=EVICTION_MS_MIN)


def test_the_partitions_of_all_sessions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_sessions, "PARTITIONS_MAX", 4)
    all_ = sessions()
    first = all_.create([wanted(0), wanted(1)], now_ms=0)
    assert first is not None
    assert all_.create([wanted(0), wanted(1), wanted(2)], now_ms=0) is None
    second = all_.create([wanted(0)], now_ms=0)
    assert second is not None
    assert all_.update(second, [wanted(1)], [])
    assert all_.update(first, [wanted(2)], [("t", 0)])
    assert not all_.update(first, [wanted(3)], [])
    assert len(all_) == 1
    assert all_.create([wanted(0), wanted(1), wanted(2)], now_ms=EVICTION_MS_MIN) is not None
    assert len(all_) == 1


def test_changes_add_move_and_forget_partitions() -> None:
    all_ = sessions()
    session = all_.create([wanted(0), wanted(1)], now_ms=0)
    assert session is not None
    session.update([wanted(1, offset=5), wanted(2)], forgotten=[("t", 0), ("t", 9)])
    assert [(w.partition, w.offset) for w in session.wanted.values()] == [(1, 5), (2, 0)]


def test_partitions_that_got_records_go_behind_the_others() -> None:
    all_ = sessions()
    session = all_.create([wanted(0), wanted(1), wanted(2)], now_ms=0)
    assert session is not None
    session.served([("t", 0)])
    assert [w.partition for w in session.wanted.values()] == [1, 2, 0]
