"""Finds the topics that ask for a table, without describing every topic each time.

In: the topics of a cluster and their options. Out: the options of topics with `lake`.
Always: each call describes at most TOPICS_PER_LOOK topics, new ones first, then those that were
described longest ago. A topic whose options cannot be read keeps those that were read before; the
others are not affected.
"""

from collections.abc import Callable, Iterable, Mapping

from barnabas.client.blocking.admin import Admin
from barnabas.model.errors import Code, KafkaError

OPTIONS = ("lake", "lake.table", "lake.lag.ms", "lake.retention.wait")
TOPICS_PER_LOOK = 1_000


class Rotation:
    """Which names are due. Pure."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._turn = 0
        self._turns: dict[str, int] = {}  # the last turn of each name; 0: none yet

    def due(self, names: Iterable[str]) -> list[str]:
        self._turn += 1
        self._turns = {name: self._turns.get(name, 0) for name in names}
        found = sorted(self._turns, key=lambda name: (self._turns[name], name))[: self._at_once]
        self._turns |= dict.fromkeys(found, self._turn)
        return found


class LakeTopics:
    """The topics of one cluster that ask for a table."""

    def __init__(self, client: Mapping[str, str], say: Callable[[str], None]) -> None:
        self._client = dict(client)
        self._say = say
        self._opened: Admin | None = None
        self._rotation = Rotation(TOPICS_PER_LOOK)
        self._asking: dict[str, dict[str, str]] = {}
        self._problems: dict[str, str] = {}

    @property
    def admin(self) -> Admin:
        """Stays open between calls."""
        if self._opened is None:
            self._opened = Admin(self._client)
        return self._opened

    def close(self) -> None:
        """The next call opens it again."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def asking(self) -> dict[str, dict[str, str]]:
        """The options of each topic that asks for a table, as far as they are known."""
        names = {name for name in self.admin.topics().topics if not name.startswith("__")}
        due = self._rotation.due(names)
        for name, found in self.admin.topics_options(due, OPTIONS).items():
            if isinstance(found, KafkaError):
                self._report(name, found)
                continue
            self._problems.pop(name, None)
            if found.get("lake", "none") == "none":
                self._asking.pop(name, None)
            else:
                self._asking[name] = found
        self._asking = {name: each for name, each in self._asking.items() if name in names}
        self._problems = {name: each for name, each in self._problems.items() if name in names}
        return dict(self._asking)

    def _report(self, name: str, problem: KafkaError) -> None:
        """Once, until another problem follows."""
        if problem.code is Code.UNKNOWN_TOPIC_OR_PARTITION:  # deleted since
            self._asking.pop(name, None)
        elif self._problems.get(name) != problem.detail:
            self._problems[name] = problem.detail
            self._say(f"topic {name}: its options cannot be read: {problem.detail}")
