"""A group of the old kind over a keeper in memory, whose members look when a test says so."""

from collections.abc import Sequence
from uuid import UUID

from barnabas.client.consumer.membership.zookeeper import (
    Attempts,
    GroupSnapshot,
    HeldPartition,
    ZookeeperMember,
)
from barnabas.keeper.keeper import Event, Node, Operation, Result, SessionState, ensure
from barnabas.keeper.memory import MemoryKeeper, MemoryStore
from barnabas.keeper.paths import TOPICS, topic_data
from barnabas.model.ids import TopicPartition

GROUP, TOPIC = "g", "t"
TIMEOUT_MS = 6_000


class CountingKeeper(MemoryKeeper):
    """Counts what it is asked."""

    asked = 0

    def get(self, path: str, *, watch: bool = False) -> Node:
        self.asked += 1
        return super().get(path, watch=watch)

    def children(self, path: str, *, watch: bool = False) -> list[str]:
        self.asked += 1
        return super().children(path, watch=watch)

    def multi(self, operations: Sequence[Operation]) -> list[Result]:
        self.asked += 1
        return super().multi(operations)


class OldMember:
    """`told`: events and changes of its session, as its listener gets them."""

    def __init__(self, store: MemoryStore, name: str, tries_max: int = 4) -> None:
        self.told: list[Event | SessionState] = []
        self.keeper = CountingKeeper(store, TIMEOUT_MS, self.told.append)
        self.member = ZookeeperMember(self.keeper, GROUP, name, [TOPIC])
        self.attempts = Attempts(tries_max, backoff_ms=2_000)
        self.rebalances = 0
        self.given_up = 0  # partitions that it stopped reading, ever

    @property
    def owns(self) -> list[int]:
        return [at.partition for at in self.member.owned]

    def let_go(self) -> None:
        self.given_up += len(self.member.owned)
        self.member.release()

    def look(self) -> GroupSnapshot:
        return self.member.look(wall_ms=0)

    def claim(self, view: GroupSnapshot) -> HeldPartition | None:
        return self.member.claim(view)

    def hear(self) -> None:
        while self.told:
            self.attempts.hear(self.told.pop(0))

    def rebalance(self, now: int) -> bool:
        """One try; whether it was the last for now."""
        self.rebalances += 1
        self.let_go()
        if self.claim(self.look()) is None:
            self.attempts.done()
            return False
        return self.attempts.failed(now)


class OldGroup:
    """Members act in the order of their names, each by its own clock of tries."""

    def __init__(self, partitions: int, names: Sequence[str] = ()) -> None:
        self.store = MemoryStore()
        self.now = 0
        self.partitions = partitions
        self.root = MemoryKeeper(self.store)
        ensure(self.root, TOPICS)
        self.root.create(f"{TOPICS}/{TOPIC}", self._topic(partitions))
        self.members: dict[str, OldMember] = {}
        for name in names:
            self.join(name)
        self.settle()

    def _topic(self, partitions: int) -> bytes:
        return topic_data(UUID(int=1), {p: [1] for p in range(partitions)})

    def grow(self, partitions: int) -> None:
        self.root.set(f"{TOPICS}/{TOPIC}", self._topic(partitions))

    def join(self, name: str) -> OldMember:
        self.members[name] = OldMember(self.store, name)
        return self.members[name]

    def leave(self, name: str) -> None:
        self.members.pop(name).keeper.close()

    def settle(self) -> None:
        """Until nobody has a reason to try again."""
        for _ in range(100):
            for each in self.members.values():
                each.hear()
                if each.attempts.due(self.now):
                    each.rebalance(self.now)
            waits = [each.attempts.next_deadline() for each in self.members.values()]
            due = [at for at in waits if at is not None]
            if not due and not any(each.told for each in self.members.values()):
                return
            self.now = max(self.now, min(due, default=0))
        raise AssertionError("the group never came to rest")

    def owners(self) -> dict[int, list[str]]:
        """Who believes to own each partition."""
        found: dict[int, list[str]] = {p: [] for p in range(self.partitions)}
        for name, each in self.members.items():
            for partition in each.owns:
                found[partition].append(name)
        return found


def at(partition: int) -> TopicPartition:
    return TopicPartition(TOPIC, partition)
