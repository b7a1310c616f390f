"""One member of a group without a coordinator: it reads the keeper, computes its partitions and
claims them by itself.

In: a keeper, its events, time. Out: the owned partitions, the time of the next rebalance, and why a
claim failed.
Always: it releases all partitions before it claims; it claims all of its partitions or none; an
owner node exists once, so a partition has at most one owner. Nothing guarantees that it has one,
nor that all members see the same nodes: docs/ZOOKEEPER_CONSUMER.md.
Not here: reading (client/consumer/zookeeper_consumer.py), how nodes are written
(keeper/consumer_paths.py).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from barnabas.config.option import invalid
from barnabas.keeper import consumer_paths as paths
from barnabas.keeper.keeper import (
    Create,
    Delete,
    Event,
    Keeper,
    NodeExists,
    NoNode,
    Operation,
    SessionState,
    Set,
    ensure,
)
from barnabas.keeper.paths import BROKERS, TOPICS, read_topic
from barnabas.model.ids import TopicPartition

_TOGETHER_MAX = 1_000  # operations in one multi, which must fit into a message of ZooKeeper's


@dataclass(frozen=True, slots=True)
class GroupSnapshot:
    """The nodes as one member read them. Other members may have read something else."""

    members: Mapping[str, Sequence[str]]  # the topics of each
    partitions: Mapping[str, Sequence[int]]  # of each topic that is there

    def share(self, member_id: str) -> list[TopicPartition]:
        """Of each of its topics."""
        return [
            TopicPartition(topic, partition)
            for topic in sorted(self.members[member_id])
            for partition in share(
                self.partitions.get(topic, ()),
                [each for each, topics in self.members.items() if topic in topics],
                member_id,
            )
        ]


def share(partitions: Iterable[int], members: Iterable[str], member_id: str) -> list[int]:
    """The i-th member has N partitions from i * N on, where N = ceil(partitions / members)."""
    dealt, takers = sorted(partitions), sorted(members)
    count = -(-len(dealt) // len(takers))
    first = takers.index(member_id) * count
    return dealt[first : first + count]


@dataclass(frozen=True, slots=True)
class HeldPartition:
    """A partition that could not be claimed, and its owner."""

    at: TopicPartition
    by: str

    def __str__(self) -> str:
        return f"{self.at} is still owned by {self.by}"


class ZookeeperMember:
    """The member of one session. Its calls block, and raise the keeper's errors."""

    def __init__(self, keeper: Keeper, group: str, member_id: str, topics: Sequence[str]) -> None:
        self.keeper = keeper
        self.group = group
        self.member_id = member_id
        self.topics = tuple(topics)
        self.owned: list[TopicPartition] = []
        self._perhaps: list[TopicPartition] = []  # claimed, but without a response

    def look(self, wall_ms: int) -> GroupSnapshot:
        """Reads members, brokers and topics; the listener is called at their next change."""
        members: dict[str, Sequence[str]] = {}
        while self.member_id not in members:
            self._register(wall_ms)
            members = self._members()
        self._watch_brokers()
        return GroupSnapshot(members, {topic: self._partitions(topic) for topic in self.topics})

    def _register(self, wall_ms: int) -> None:
        self._ensure(paths.ids(self.group))
        path = paths.member(self.group, self.member_id)
        try:
            self.keeper.create(path, paths.member_data(self.topics, wall_ms), ephemeral=True)
        except NodeExists:
            if self._is_anothers(path):
                raise invalid(
                    f"group {self.group!r} has a member {self.member_id!r} already: give each"
                    " consumer an id of its own"
                ) from None

    def _is_anothers(self, path: str) -> bool:
        try:
            return self.keeper.get(path).owner != self.keeper.session
        except NoNode:
            return False  # it was just deleted

    def _members(self) -> dict[str, Sequence[str]]:
        found: dict[str, Sequence[str]] = {}
        for each in self.keeper.children(paths.ids(self.group), watch=True):
            path = paths.member(self.group, each)
            try:
                found[each] = paths.read_member(path, self.keeper.get(path).data)
            except NoNode:
                continue  # the watch reports it
        return found

    def _watch_brokers(self) -> None:
        while True:
            try:
                self.keeper.children(BROKERS, watch=True)
                return
            except NoNode:  # a lone broker is not registered
                if not self.keeper.exists(BROKERS, watch=True):
                    return

    def _partitions(self, topic: str) -> Sequence[int]:
        path = f"{TOPICS}/{topic}"
        while True:
            try:
                return list(read_topic(path, self.keeper.get(path, watch=True).data)[1])
            except NoNode:
                if not self.keeper.exists(path, watch=True):
                    return ()

    def claim(self, view: GroupSnapshot) -> HeldPartition | None:
        """Claim its partitions, or none: then returns the partition that is still owned."""
        assert not self.owned, "release first"
        wanted = view.share(self.member_id)
        for topic in dict.fromkeys(at.topic for at in wanted):
            self._ensure(paths.owners(self.group, topic))
        self._perhaps = wanted
        mine = self.member_id.encode()
        claims = [Create(paths.owner(self.group, at), mine, ephemeral=True) for at in wanted]
        try:
            self._write(claims)
        except NodeExists as taken:
            self.release()
            return self._holder(taken.path)
        self.owned, self._perhaps = wanted, []
        return None

    def _holder(self, path: str) -> HeldPartition:
        _, topic, partition = path.rsplit("/", 2)
        try:
            by = self.keeper.get(path).data.decode(errors="replace")
        except NoNode:
            by = "a member that has just released it"
        return HeldPartition(TopicPartition(topic, int(partition)), by)

    def release(self) -> None:
        """Release all partitions. Deletes only nodes of this session; another member may have
        claimed others.
        """
        own = []
        for at in {**dict.fromkeys(self.owned), **dict.fromkeys(self._perhaps)}:
            path = paths.owner(self.group, at)
            try:
                if self.keeper.get(path).owner == self.keeper.session:
                    own.append(Delete(path))
            except NoNode:
                continue
        self._write(own)
        self.owned, self._perhaps = [], []

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Writes offsets without a check that the partitions belong to this member."""
        for topic in dict.fromkeys(at.topic for at in offsets):
            self._ensure(paths.offsets(self.group, topic))
        writes: list[Operation] = []
        for at, offset in offsets.items():
            path, data = paths.offset(self.group, at), paths.offset_data(offset)
            writes.append(Set(path, data) if self.keeper.exists(path) else Create(path, data))
        self._write(writes)

    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The committed offsets, where there are any."""
        found = {}
        for at in partitions:
            path = paths.offset(self.group, at)
            try:
                found[at] = paths.read_offset(path, self.keeper.get(path).data)
            except NoNode:
                continue
        return found

    def _ensure(self, path: str) -> None:
        if not self.keeper.exists(path):  # a read is cheap, a refused write is not
            ensure(self.keeper, path)

    def _write(self, operations: Sequence[Operation]) -> None:
        for first in range(0, len(operations), _TOGETHER_MAX):
            self.keeper.multi(operations[first : first + _TOGETHER_MAX])


class Attempts:
    """When a member rebalances, and after how many attempts it gives up."""

    def __init__(self, tries_max: int, backoff_ms: int) -> None:
        self._tries_max = tries_max
        self._backoff_ms = backoff_ms
        self._tries = 0
        self._due_at: int | None = 0
        self.expired = False
        self.cause = "it has just joined"

    def hear(self, news: Event | SessionState) -> None:
        """Every change of a watched node is a reason: the event does not say what has changed."""
        if news is SessionState.EXPIRED:
            self.expired = True
        elif news is SessionState.SUSPENDED:
            return  # it reads on, although other members may own its partitions by now
        elif news is SessionState.CONNECTED:
            self._rebalance_again("the keeper is connected again, and its watches were lost")
        elif isinstance(news, Event):
            self._rebalance_again(_said(news))

    def _rebalance_again(self, cause: str) -> None:
        self.cause = cause
        self._tries = 0
        self._due_at = 0

    def reopened(self) -> None:
        self.expired = False
        self._rebalance_again("its session had expired")

    def due(self, now: int) -> bool:
        return self._due_at is not None and now >= self._due_at

    def done(self) -> None:
        self._tries = 0
        self._due_at = None

    def failed(self, now: int) -> bool:
        """Whether that was the last attempt; a later call starts counting again."""
        self._tries += 1
        over = self._tries >= self._tries_max
        if over:
            self._tries = 0
        self._due_at = now + self._backoff_ms
        return over

    def next_deadline(self) -> int | None:
        return self._due_at


def _said(event: Event) -> str:
    if event.path.startswith(paths.CONSUMERS):
        return "a member joined or left"
    if event.path == BROKERS:
        return "a broker joined or left"
    return f"topic {event.path.rpartition('/')[2]} was {event.what.value}"
