"""Uniform assignment among members that subscribe to different topics.

In: each member's current target, topics, and the numbers of each topic's subscribers. Out: the
partitions of each member.
Always: when a topic has been balanced, no two of its subscribers differ by more than one, unless
the one with more has no partition of this topic. Balancing one topic may unbalance another, so the
rounds are limited: the difference after the last is small.
"""

from collections.abc import Iterator, Mapping, Sequence
from heapq import heapify, heapreplace

from barnabas.assignment.group import Topics
from barnabas.assignment.java_order import uuid_key
from barnabas.model.ids import TopicPartition

ROUNDS_MAX = 16


def share_mixed(
    owned: Sequence[Sequence[TopicPartition]],
    topics: Topics,
    subscribers: Mapping[str, Sequence[int]],
) -> list[list[TopicPartition]]:
    shares = _Shares(owned, topics)

    def scarcity(name: str) -> tuple[float, int, tuple[int, int], str]:
        count = len(subscribers[name])
        return -topics[name].partitions / count, count, uuid_key(topics[name].topic_id), name

    names = sorted(subscribers, key=scarcity)
    for name in names:
        shares.give_unowned(name, subscribers[name])
    _level_all(shares, [(name, subscribers[name]) for name in names if len(subscribers[name]) > 1])
    return shares.lists()


def _level_all(shares: "_Shares", topics: Sequence[tuple[str, Sequence[int]]]) -> None:
    """Balances all topics in rounds, until one complete round changes nothing."""
    unchanged = -1
    for _ in range(ROUNDS_MAX):
        for name, members in topics:
            unchanged = 0 if shares.level(name, members) else unchanged + 1
            if unchanged == len(topics) - 1:  # the next topic is the one that changed last
                return


class _Shares:
    def __init__(self, owned: Sequence[Sequence[TopicPartition]], topics: Topics) -> None:
        self._sizes = [len(target) for target in owned]
        self._owners: dict[str, list[int | None]] = {
            name: [None] * topic.partitions for name, topic in topics.items()
        }
        for member, target in enumerate(owned):
            for name, number in target:
                self._owners[name][number] = member

    def give_unowned(self, name: str, members: Sequence[int]) -> None:
        owners = self._owners[name]
        takers = _takers(self._by_size(members), self._sizes)
        for number, owner in enumerate(owners):
            if owner is None:
                _, member = next(takers)
                owners[number] = member
                self._sizes[member] += 1

    def level(self, name: str, members: Sequence[int]) -> bool:
        """Move partitions of one topic from members with the most to members with the fewest."""
        ordered = self._by_size(members)
        if self._sizes[ordered[-1]] - self._sizes[ordered[0]] <= 1:
            return False
        owners = self._owners[name]
        held: dict[int | None, list[int]] = {}
        for number, owner in enumerate(owners):
            held.setdefault(owner, []).append(number)
        givers = _givers(ordered, list(self._sizes), held)
        takers = _takers(ordered, self._sizes)
        moved = False
        for (most, giver), (least, taker) in zip(givers, takers, strict=False):
            if most - least <= 1:
                break
            owners[held[giver].pop()] = taker
            self._sizes[giver] -= 1
            self._sizes[taker] += 1
            moved = True
        return moved

    def lists(self) -> list[list[TopicPartition]]:
        shares: list[list[TopicPartition]] = [[] for _ in self._sizes]
        for name, owners in self._owners.items():
            for number, owner in enumerate(owners):
                if owner is not None:
                    shares[owner].append(TopicPartition(name, number))
        return shares

    def _by_size(self, members: Sequence[int]) -> list[int]:
        return sorted(members, key=self._sizes.__getitem__)


def _takers(ordered: Sequence[int], sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The count and the number of the member with the fewest, which is then counted
    with one more.
    """
    heap = [(sizes[member], place) for place, member in enumerate(ordered)]
    heapify(heap)
    while True:
        size, place = heap[0]
        heapreplace(heap, (size + 1, place))
        yield size, ordered[place]


def _givers(
    ordered: Sequence[int], sizes: Sequence[int], held: Mapping[int | None, Sequence[int]]
) -> Iterator[tuple[int, int]]:
    """The count and number of the member with the most that can give a partition.

    All members in `giving` have the same count, the level: each gives one in turn, then the level
    goes down by one and members with the new level join. A member with nothing to give is removed,
    and the first member takes its position: Kafka does the same, and it decides the order of later
    turns.
    """
    rest = list(ordered)
    giving: list[int] = []
    level = 0
    while rest or giving:
        level = level - 1 if giving else sizes[rest[-1]]
        while rest and sizes[rest[-1]] == level:
            giving.append(rest.pop())
        turn = 0
        while turn < len(giving):
            member = giving[turn]
            if held.get(member):
                yield level, member
                turn += 1
            else:
                giving[turn] = giving[0]
                del giving[0]
