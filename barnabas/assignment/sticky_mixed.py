"""Sticky shares among members that subscribe to different topics.

In: who owns what, who subscribes to what. Out: shares.
Always: a partition moves from one member to another only if the other would still have fewer
than the first has now; where all moves together do not make shares more even, none is made.

First everybody keeps what it owns and wants. The rest goes, scarcest topics first, each to the
subscriber with the least. Then partitions move from larger to smaller shares until no move
helps: the new ones first, so that old ones need not move for their sake.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from barnabas.assignment.claims import Ownership
from barnabas.assignment.group import Assignment, GroupSubscriber
from barnabas.assignment.java_order import HashedPartitions, text_key
from barnabas.assignment.racks import Racks
from barnabas.model.ids import TopicPartition

# Kafka has no limit, and real groups need a handful; no input may keep a leader busy for ever.
PASSES_MAX = 200


def share_mixed(
    ownership: Ownership,
    members: Sequence[GroupSubscriber],
    subscribers: Mapping[str, Sequence[GroupSubscriber]],
    partitions: Sequence[TopicPartition],
    racks: Racks,
) -> Assignment:
    shares = _Shares(members, subscribers)
    dropped = shares.keep(ownership.owned, racks)
    starting = not shares.owner
    scarcest_first = sorted(partitions, key=lambda p: len(subscribers[p.topic]))
    new = [partition for partition in scarcest_first if partition not in shares.owner]
    left = new
    if racks.matter:
        left = shares.give(new, lambda member_id, partition: not racks.apart(member_id, partition))
    shares.give(left, lambda member_id, partition: True)

    movable = [p for p in scarcest_first if len(subscribers[p.topic]) > 1]
    fixed = shares.fixed_members(partitions)
    before = shares.copy()
    mover = _Mover(shares, ownership.previous)
    if not dropped:
        mover.level([p for p in new if len(subscribers[p.topic]) > 1])
    moved = mover.level(movable)
    if moved and not starting and _unevenness(shares.of, fixed) >= _unevenness(before, fixed):
        return before
    return shares.copy()


class _Shares:
    """Who has what so far."""

    def __init__(
        self,
        members: Sequence[GroupSubscriber],
        subscribers: Mapping[str, Sequence[GroupSubscriber]],
    ) -> None:
        self._rank = {
            member_id: rank
            for rank, member_id in enumerate(sorted((m.member_id for m in members), key=text_key))
        }
        self.topics = {member.member_id: frozenset(member.topics) for member in members}
        self._subscribers = {
            topic: [member.member_id for member in these] for topic, these in subscribers.items()
        }
        self.of: dict[str, dict[TopicPartition, None]] = {m.member_id: {} for m in members}
        self.owner: dict[TopicPartition, str] = {}

    def keep(self, owned: Mapping[str, Iterable[TopicPartition]], racks: Racks) -> bool:
        """Whether somebody lost a partition that no longer suits it."""
        dropped = False
        for member_id, partitions in owned.items():
            for partition in partitions:
                if partition.topic not in self.topics[member_id] or (
                    racks.matter and racks.apart(member_id, partition)
                ):
                    dropped = True
                else:
                    self._put(partition, member_id)
        return dropped

    def give(
        self,
        partitions: Iterable[TopicPartition],
        suits: Callable[[str, TopicPartition], bool],
    ) -> list[TopicPartition]:
        """Each to the subscriber with the least that it suits; returns those that suit nobody."""
        left = []
        for topic, group in groupby(partitions, lambda p: p.topic):
            queue = self.queue(topic)
            for partition in group:
                for member_id in queue:
                    if suits(member_id, partition):
                        self._put(partition, member_id)
                        queue.requeue(member_id, was=len(self.of[member_id]) - 1)
                        break
                else:
                    left.append(partition)
        return left

    def move(self, partition: TopicPartition, to: str) -> str:
        """The owner it is taken from."""
        owner = self.owner[partition]
        del self.of[owner][partition]
        self._put(partition, to)
        return owner

    def _put(self, partition: TopicPartition, member_id: str) -> None:
        self.of[member_id][partition] = None
        self.owner[partition] = member_id

    def queue(self, topic: str) -> "_Queue":
        return _Queue(self._subscribers[topic], self.of, self._rank)

    def fixed_members(self, partitions: Iterable[TopicPartition]) -> frozenset[str]:
        """Those that have all they asked for, and share none of it with anybody.

        They have no part in the levelling, nor in judging whether it was worth it.
        """
        sizes: dict[str, int] = {}
        for partition in partitions:
            sizes[partition.topic] = sizes.get(partition.topic, 0) + 1
        return frozenset(
            member_id
            for member_id, topics in self.topics.items()
            if len(self.of[member_id]) >= sum(sizes.get(topic, 0) for topic in topics)
            and all(len(self._subscribers[p.topic]) < 2 for p in self.of[member_id])
        )

    def copy(self) -> Assignment:
        return {member_id: list(partitions) for member_id, partitions in self.of.items()}


class _Queue:
    """The subscribers of one topic, those with the least first; equals by name."""

    def __init__(
        self,
        members: Iterable[str],
        shares: Mapping[str, Mapping[TopicPartition, None]],
        rank: Mapping[str, int],
    ) -> None:
        self._shares = shares
        self._rank = rank
        self._queue = sorted((len(shares[m]), rank[m], m) for m in members)

    def __iter__(self) -> Iterator[str]:
        return (member_id for _, _, member_id in self._queue)

    def first(self) -> str:
        return self._queue[0][2]

    def requeue(self, member_id: str, was: int) -> None:
        """Its share has changed: `was` is its size when it last queued."""
        rank = self._rank[member_id]
        del self._queue[bisect_left(self._queue, (was, rank, member_id))]
        insort(self._queue, (len(self._shares[member_id]), rank, member_id))


class _Mover:
    """Moves partitions from larger shares to smaller ones, and remembers which came whence.

    Where a partition is to go the way that another of its topic came from, that other goes back
    instead: two moves less.
    """

    def __init__(self, shares: _Shares, previous: Mapping[TopicPartition, str]) -> None:
        self._shares = shares
        self._previous = previous
        self._moves: dict[TopicPartition, tuple[str, str]] = {}
        self._between: dict[tuple[str, str, str], HashedPartitions] = {}

    def level(self, partitions: Sequence[TopicPartition]) -> bool:
        """Whether any was moved."""
        by_topic = [(t, list(group)) for t, group in groupby(partitions, lambda p: p.topic)]
        ever = False
        for _ in range(PASSES_MAX):
            moved = [self._level_topic(topic, group) for topic, group in by_topic]
            if not any(moved):
                break
            ever = True
        return ever

    def _level_topic(self, topic: str, partitions: Sequence[TopicPartition]) -> bool:
        # Only subscribers of the topic change, so one queue serves all of it.
        shares, queue = self._shares.of, self._shares.queue(topic)
        moved = False
        for partition in partitions:
            size = len(shares[self._shares.owner[partition]])
            to = self._previous.get(partition)
            if to is None or size <= len(shares[to]) + 1:
                to = queue.first()
                if size <= len(shares[to]) + 1:
                    continue
            actual = self._shorter(partition, to)
            owner = self._shares.move(actual, to)
            queue.requeue(owner, was=len(shares[owner]) + 1)
            queue.requeue(to, was=len(shares[to]) - 1)
            self._remember(actual, owner, to)
            moved = True
        return moved

    def _shorter(self, partition: TopicPartition, to: str) -> TopicPartition:
        came_from, _ = self._moves.get(partition, (self._shares.owner[partition], ""))
        back = self._between.get((partition.topic, to, came_from))
        return back.first() if back else partition

    def _remember(self, partition: TopicPartition, owner: str, to: str) -> None:
        topic = partition.topic
        came_from = owner
        if partition in self._moves:
            came_from, _ = self._moves.pop(partition)
            between = self._between[topic, came_from, owner]
            between.remove(partition)
            if not between:
                del self._between[topic, came_from, owner]
        if came_from != to:
            self._moves[partition] = (came_from, to)
            self._between.setdefault((topic, came_from, to), HashedPartitions()).add(partition)


def _unevenness(
    shares: Mapping[str, Sequence[TopicPartition] | Mapping[TopicPartition, None]],
    without: frozenset[str],
) -> int:
    """The sum of the differences of all pairs."""
    sizes = sorted(len(share) for member_id, share in shares.items() if member_id not in without)
    return sum(size * (2 * place - len(sizes) + 1) for place, size in enumerate(sizes))
