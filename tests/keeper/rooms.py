"""The keepers, opened and expired alike, so that one contract can be put to each.

`settle`: all that a session is to be told by now is in `news`.
"""

from dataclasses import dataclass, field
from typing import Protocol

from barnabas.keeper.keeper import Event, Keeper, SessionState
from barnabas.keeper.memory import MemoryKeeper, MemoryStore
from barnabas.keeper.sqlite import SqliteKeeper

TIMEOUT_MS = 3_000


@dataclass
class Opened:
    keeper: Keeper
    news: list[Event | SessionState] = field(default_factory=list)


class Room(Protocol):
    def open(self) -> Opened: ...

    def expire(self, opened: Opened) -> None: ...

    def settle(self, opened: Opened) -> None: ...

    def close(self) -> None: ...


class MemoryRoom:
    def __init__(self) -> None:
        self.store = MemoryStore()

    def open(self) -> Opened:
        news: list[Event | SessionState] = []
        return Opened(MemoryKeeper(self.store, TIMEOUT_MS, news.append), news)

    def expire(self, opened: Opened) -> None:
        self.store.expire(opened.keeper.session)

    def settle(self, opened: Opened) -> None:
        pass

    def close(self) -> None:
        pass


class SqliteRoom:
    """Time is given: the session that is to expire does not tick while the others do."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.now_ms = 1_000_000
        self.keepers: list[SqliteKeeper] = []

    def clock(self) -> int:
        return self.now_ms

    def open(self) -> Opened:
        news: list[Event | SessionState] = []
        keeper = SqliteKeeper(self.file, TIMEOUT_MS, news.append, clock=self.clock)
        self.keepers.append(keeper)
        return Opened(keeper, news)

    def expire(self, opened: Opened) -> None:
        witness = self.open()
        for _ in range(4):
            self.now_ms += TIMEOUT_MS // 3
            for keeper in self.keepers:
                if keeper is not opened.keeper:
                    keeper.tick()
        witness.keeper.close()
        opened.keeper.tick()  # type: ignore[attr-defined]

    def settle(self, opened: Opened) -> None:
        opened.keeper.tick()  # type: ignore[attr-defined]

    def close(self) -> None:
        for keeper in self.keepers:
            keeper.close()
