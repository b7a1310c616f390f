"""The keeper on a real ZooKeeper, opened and expired as tests/keeper/rooms.py has it."""

import itertools

from barnabas.keeper.keeper import Event, SessionState, WatchEventType
from barnabas.keeper.zookeeper import ZookeeperKeeper
from tests.keeper.rooms import Opened
from tests.support.zookeeper import Zookeeper
from tests.waiting import until

TIMEOUT_MS = 60_000  # a process that starves keeps its session
_roots = itertools.count()


class ZookeeperRoom:
    """With a root of its own."""

    def __init__(self, server: Zookeeper) -> None:
        self.server = server
        self.address = f"{server.address}/room-{next(_roots)}/root"
        self._opened: list[ZookeeperKeeper] = []

    def open(self, timeout_ms: int = TIMEOUT_MS) -> Opened:
        news: list[Event | SessionState] = []
        keeper = ZookeeperKeeper(self.address, timeout_ms, news.append)
        self._opened.append(keeper)
        return Opened(keeper, news)

    def expire(self, opened: Opened) -> None:
        assert isinstance(opened.keeper, ZookeeperKeeper)
        self.server.end_session(*opened.keeper._client.client_id)
        until(lambda: SessionState.EXPIRED in opened.news)

    def settle(self, opened: Opened) -> None:
        """A session hears in order: all before the change of the root that it makes itself."""
        mark = Event(WatchEventType.CHANGED, "/")
        opened.keeper.get("/", watch=True)
        opened.keeper.set("/", b"")
        until(lambda: mark in opened.news)
        opened.news.remove(mark)

    def close(self) -> None:
        for keeper in self._opened:
            keeper.close()
