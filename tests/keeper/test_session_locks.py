"""Locks of sessions: held, given back, and told apart."""

from pathlib import Path

from barnabas.keeper.session_locks import SessionLocks


def test_a_lock_is_seen_by_others_until_its_holder_goes(tmp_path: Path) -> None:
    one, two = (SessionLocks(str(tmp_path / "keeper")) for _ in range(2))
    assert one.hold(7)
    assert one.hold(9)
    assert not two.is_free(7)
    assert not two.is_free(9)
    assert two.is_free(8)
    assert not two.hold(7)
    assert two.hold(8)
    one.close()
    assert two.is_free(7)
    assert two.is_free(9)
    two.close()


def test_a_file_that_cannot_be_opened_makes_nobody_dead(tmp_path: Path) -> None:
    locks = SessionLocks(str(tmp_path / "nowhere" / "keeper"))
    assert not locks.hold(1)
    assert not locks.is_free(1)
    locks.close()
