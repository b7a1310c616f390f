"""Random histories of two sessions, played to a keeper and to the model, step by step.

The model is the keeper in memory; tests/support hold it against a real ZooKeeper.
"""

import os
from collections.abc import Callable
from random import Random

from barnabas.keeper.keeper import (
    Check,
    Create,
    Delete,
    KeeperError,
    Node,
    Operation,
    SessionState,
    Set,
    Unavailable,
)
from tests.keeper.rooms import MemoryRoom, Opened, Room
from tests.share import IN_FULL

HISTORIES = int(os.environ.get("HISTORIES", "40" if IN_FULL else "15"))
STEPS = 40
PATHS = ["/a", "/b", "/a/c", "/a/d", "/b/e", "/a/c/f"]

Step = Callable[[Opened], object]


class Stage:
    """One room, its two sessions, and numbers that can be compared with another room's."""

    def __init__(self, room: Room) -> None:
        self.room = room
        self.sessions = [room.open(), room.open()]
        self._owners: dict[int, int] = {0: 0}
        self._created: dict[int, int] = {0: 0}
        self._know(0)
        self._know(1)

    def do(self, who: int, step: Step) -> object:
        try:
            return self._plain(step(self.sessions[who]))
        except KeeperError as problem:
            return type(problem).__name__, problem.path
        except Unavailable as problem:
            return type(problem).__name__

    def end(self, who: int, *, expire: bool) -> list[object]:
        """And open another in its place; what it was told last."""
        over = self.sessions[who]
        if expire:
            self.room.expire(over)
        told: list[object] = [news for news in over.news if isinstance(news, SessionState)]
        over.keeper.close()
        self.sessions[who] = self.room.open()
        self._know(who)
        return told

    def news(self) -> list[list[str]]:
        heard = []
        for opened in self.sessions:
            self.room.settle(opened)
            heard.append(sorted(str(news) for news in opened.news))
            opened.news.clear()
        return heard

    def tree(self, path: str = "/") -> dict[str, object]:
        keeper, found = self.sessions[0].keeper, {}
        for name in keeper.children(path):
            child = f"{path.rstrip('/')}/{name}"
            found[child] = self._plain(keeper.get(child))
            found |= self.tree(child)
        return found

    def _know(self, who: int) -> None:
        self._owners[self.sessions[who].keeper.session] = len(self._owners)

    def _plain(self, answer: object) -> object:
        if not isinstance(answer, Node):
            return answer
        owner = self._owners[answer.owner]
        return answer._replace(owner=owner, created=self._rank(answer.created))

    def _rank(self, created: int) -> int:
        """Of those seen so far: alike in both, as they are asked for alike."""
        return self._created.setdefault(created, len(self._created))


def play(seed: int, room: Room, steps: int = STEPS, expiries: bool = True) -> None:
    random = Random(seed)
    stages = [Stage(MemoryRoom()), Stage(room)]
    for number in range(steps):
        who = random.randrange(2)
        if random.random() < 0.05:
            expire = expiries and random.random() < 0.5
            ends = [stage.end(who, expire=expire) for stage in stages]
            assert ends[0][-1:] == ends[1][-1:], (seed, number)
        else:
            name, step = _step(random)
            answers = [stage.do(who, step) for stage in stages]
            assert answers[0] == answers[1], (seed, number, name)
        heard = [stage.news() for stage in stages]
        assert heard[0] == heard[1], (seed, number)
        trees = [stage.tree() for stage in stages]
        assert trees[0] == trees[1], (seed, number)


def _step(random: Random) -> tuple[str, Step]:
    path, watch = random.choice(PATHS), random.random() < 0.7
    kind = random.choice(["get", "exists", "children", "write", "write", "write", "multi"])
    if kind == "get":
        return f"get {path}", lambda on: on.keeper.get(path, watch=watch)
    if kind == "exists":
        return f"exists {path}", lambda on: on.keeper.exists(path, watch=watch)
    if kind == "children":
        return f"children {path}", lambda on: on.keeper.children(path, watch=watch)
    operations = [_write(random, path)]
    if kind == "multi":
        other = random.choice([each for each in PATHS if each != path])
        more: list[Operation] = [Check(other, random.randint(-1, 2)), Set(other, b"too")]
        operations.insert(random.randrange(2), random.choice(more))
    return str(operations), lambda on: on.keeper.multi(operations)


def _write(random: Random, path: str) -> Operation:
    version = random.choice([-1, -1, 0, 1])
    match random.randrange(5):
        case 0:
            return Delete(path, version)
        case 1:
            return Set(path, random.randbytes(2), version)
        case _:
            return Create(path, b"new", random.random() < 0.4, random.random() < 0.2)
