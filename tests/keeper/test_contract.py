"""The contract, put to the keepers that need nothing from outside."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.keeper.keeper import Keeper
from barnabas.keeper.memory import MemoryKeeper
from barnabas.keeper.sqlite import SqliteKeeper
from tests.keeper.contract import Contract
from tests.keeper.histories import HISTORIES, play
from tests.keeper.rooms import MemoryRoom, Room, SqliteRoom


class TestMemory(Contract):
    @pytest.fixture
    def room(self) -> Room:
        return MemoryRoom()


class TestSqlite(Contract):
    @pytest.fixture
    def room(self, tmp_path: Path) -> Iterator[Room]:
        room = SqliteRoom(str(tmp_path / "keeper"))
        yield room
        room.close()


@pytest.fixture(params=["memory", "sqlite"])
def keeper(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Keeper]:
    """Without a session."""
    opened: Keeper = (
        MemoryKeeper() if request.param == "memory" else SqliteKeeper(str(tmp_path / "keeper"))
    )
    yield opened
    opened.close()


def test_without_a_session_there_is_nothing_ephemeral_and_no_watch(keeper: Keeper) -> None:
    assert keeper.session == 0
    with pytest.raises(ValueError, match="open it with a timeout"):
        keeper.create("/a", ephemeral=True)
    for watching in (keeper.get, keeper.exists, keeper.children):
        with pytest.raises(ValueError, match="watches require a session"):
            watching("/", watch=True)


def test_a_node_too_large_for_zookeeper_is_refused(keeper: Keeper) -> None:
    keeper.create("/a", bytes(1 << 20))
    with pytest.raises(ValueError, match="the limit is"):
        keeper.set("/a", bytes((1 << 20) + 1))


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_whatever_two_sessions_do_the_file_answers_as_the_model(seed: int, tmp_path: Path) -> None:
    room = SqliteRoom(str(tmp_path / "keeper"))
    try:
        play(seed, room)
    finally:
        room.close()
