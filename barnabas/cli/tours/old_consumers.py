"""Consumers of a group without a coordinator, over a keeper in memory, for the chapters."""

from collections.abc import Iterable
from uuid import UUID

from barnabas.client.consumer.membership.zookeeper import GroupSnapshot, ZookeeperMember
from barnabas.keeper.keeper import Event, SessionState, ensure
from barnabas.keeper.memory import MemoryKeeper, MemoryStore
from barnabas.keeper.paths import TOPICS, topic_data

GROUP, TOPIC = "billing", "orders"
_SESSION_MS = 6_000
_ROUNDS_MAX = 50


class OldConsumer:
    """One member. `woken`: the events of its watches that it has not acted on."""

    def __init__(self, store: MemoryStore, name: str) -> None:
        self.woken: list[Event | SessionState] = []
        self.released = 0  # partitions that it stopped reading, ever
        self._keeper = MemoryKeeper(store, _SESSION_MS, self.woken.append)
        self._member = ZookeeperMember(self._keeper, GROUP, name, [TOPIC])
        self.has_claimed = False

    @property
    def owns(self) -> list[int]:
        return [at.partition for at in self._member.owned]

    def look(self) -> GroupSnapshot:
        self.woken.clear()
        return self._member.look(wall_ms=0)

    def release(self) -> None:
        self.released += len(self._member.owned)
        self._member.release()

    def claim(self, seen: GroupSnapshot) -> bool:
        """False if another member still owns one of its partitions."""
        self.has_claimed = self._member.claim(seen) is None
        return self.has_claimed

    def leave(self) -> None:
        self._keeper.close()


class OldConsumers:
    """A group of them, and its topic."""

    def __init__(self, partitions: int, names: Iterable[str]) -> None:
        self._store = MemoryStore()
        root = MemoryKeeper(self._store)
        ensure(root, TOPICS)
        content = topic_data(UUID(int=1), {number: [1] for number in range(partitions)})
        root.create(f"{TOPICS}/{TOPIC}", content)
        self.members = {name: OldConsumer(self._store, name) for name in names}
        self.rebalance()

    def rebalance(self) -> None:
        """Until nobody is woken any more, and everybody has its share."""
        for _ in range(_ROUNDS_MAX):
            waiting = [each for each in self.members.values() if each.woken or not each.has_claimed]
            if not waiting:
                return
            for each in waiting:
                each.release()
                each.claim(each.look())
        raise AssertionError("the group never came to rest")

    def leave(self, name: str) -> None:
        self.members.pop(name).leave()

    @property
    def owners(self) -> dict[str, list[int]]:
        return {name: each.owns for name, each in self.members.items()}
