"""Random lives of one group: consumers that join, stall, die and return, and a broker that crashes.

In: a seed. Out: an AssertionError when a promise was broken.
Checked at every step: one owner per partition and generation, offsets never go back unless asked,
what is in memory is what the log says. At the end: every wait has ended, and a group that is left
in peace gets to share out all partitions.
"""

from itertools import count
from random import Random

from barnabas.coordinators.groups.classic.group import ClassicGroup
from barnabas.coordinators.groups.classic.states import ClassicGroupState
from barnabas.coordinators.groups.consumer.group import ConsumerGroup
from barnabas.coordinators.groups.consumer.member import AWAY
from barnabas.coordinators.groups.limits import GroupLimits
from barnabas.coordinators.groups.shard import GroupShard
from barnabas.coordinators.runtime import Runtime
from barnabas.model.errors import Code
from tests.coordinators.consumers import PARTITIONS, ClassicConsumer, NewConsumer
from tests.coordinators.world import (
    GROUP,
    PARTITION,
    Cluster,
    MemoryJournal,
    World,
    broken_disk,
)

STEPS = 200
PEACE_MS = 120_000


class Crash(BaseException):
    """The broker is gone, right after a write."""


class MirroredJournal(MemoryJournal):
    """Every batch is also replayed elsewhere, from its bytes, as after a failover."""

    def __init__(self) -> None:
        super().__init__()
        self.crash_after_append = False
        self.mirror: Runtime[GroupShard] = Runtime()
        self.mirror.start_loading(PARTITION, GroupShard(GroupLimits()), MemoryJournal())
        self.mirrored = self.mirror._contexts[PARTITION].shard

    def append(self, batch: bytearray, wall_ms: int) -> int:
        last = super().append(batch, wall_ms)
        self.mirror.load(PARTITION, bytes(batch))
        if self.crash_after_append:
            self.crash_after_append = False
            raise Crash
        return last


class Life:
    """One history."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.journal = MirroredJournal()
        self.world = World(
            self._limits(), self.journal, topics=Cluster({"t": PARTITIONS, "u0": 1, "u1": 2})
        )
        self.names = count(1)
        number = self.random.randint(1, 5)
        self.static = [self.random.random() < 0.4 for _ in range(number)]
        self.kinds = self.random.choice(
            ((ClassicConsumer,), (NewConsumer,), (ClassicConsumer, NewConsumer))
        )
        self.consumers: list[ClassicConsumer | NewConsumer] = [
            self.random.choice(self.kinds)(self, each) for each in range(number)
        ]
        self.owners: dict[tuple[int, int], str] = {}
        self.offsets: dict[int, int] = {}
        self.stalled: list[ClassicConsumer | NewConsumer] = []
        self.asked = False  # an administrator is at work
        self.lost: set[int] = set()  # calls whose broker is gone: nobody waits for them

    def _limits(self) -> GroupLimits:
        size = self.random.choice((2, 4, 100))
        return GroupLimits(
            initial_rebalance_delay_ms=self.random.choice((0, 500, 3_000)),
            members_max=size,
            consumer_members_max=size,
            consumer_session_timeout_ms=self.random.choice((6_000, 15_000, 45_000)),
            consumer_assignment_interval_ms=self.random.choice((0, 1_000, 1_000, 5_000)),
            consumer_join_pause_ms=self.random.choice((0, 100, 1_000)),
            consumer_upgrade=self.random.random() < 0.8,
            consumer_downgrade=self.random.random() < 0.8,
        )

    # What must hold

    def owns(self, consumer: ClassicConsumer, generation: int, indexes: list[int]) -> None:
        for index in indexes:
            owner = self.owners.setdefault((generation, index), consumer.identity)
            assert owner == consumer.identity, (
                f"partition {index} in generation {generation}: {owner} and {consumer.identity}"
            )

    def committed(self, index: int, offset: int) -> None:
        before = self.offsets.get(index, -1)
        assert offset >= before, f"partition {index} went back from {before} to {offset}"
        self.offsets[index] = offset

    def check(self) -> None:
        shard, mirrored = self.world.shard, self.journal.mirrored
        assert shard.generations == mirrored.generations
        assert shard.consumers == mirrored.consumers
        assert not shard.consumers.keys() & shard.generations.keys(), "two groups of one name"
        assert shard.offsets.by_group == mirrored.offsets.by_group
        for index, offset in self.offsets.items():
            assert self.world.fetch("t", index)[0] == offset
        group = shard.group(GROUP)
        if isinstance(group, ConsumerGroup):
            self.check_new(group)
            return
        if (
            group is not None
            and group.state is ClassicGroupState.EMPTY
            and GROUP in shard.generations
        ):
            assert shard.generations[GROUP].generation == group.generation
            assert not shard.generations[GROUP].members
        if group is not None and group.state is ClassicGroupState.STABLE:
            kept = shard.generations[GROUP]
            assert kept.generation == group.generation
            assert kept.leader == group.members.leader
            assert {m.member_id: m.assignment for m in kept.members} == {
                m.id: m.assignment for m in group.members.by_id.values()
            }

    def check_new(self, group: ConsumerGroup) -> None:
        """Who holds what has one answer, and nobody who may still speak thinks otherwise."""
        kept = group.stored
        held = [partition for member in kept.members.values() for partition in member.partitions()]
        assert len(held) == len(set(held)), "a partition has two owners"
        assert {p: kept.owners[p] for p in held} == kept.owners
        wanted = [
            (t, p) for target in kept.targets.values() for t, ps in target.items() for p in ps
        ]
        assert len(wanted) == len(set(wanted)), "a partition is in two targets"
        assert set(kept.targets) <= set(kept.members)
        topic = self.world.topics.id_of("t")
        for consumer in self.consumers:
            member = kept.members.get(consumer.member)
            if member is None or member.epoch == AWAY or consumer.epoch <= 0:
                continue
            assert (consumer.protocol == "classic") == (member.classic is not None)
            if consumer.protocol == "classic" and consumer.epoch != member.epoch:
                continue  # of an old generation: it may think what it likes
            holds = {index for id_, index in member.partitions() if id_ == topic}
            assert consumer.holds() <= holds, (
                f"{consumer.member} has {consumer.holds()}, and may have {holds}"
            )

    # What happens

    def run(self) -> None:
        for _ in range(STEPS):
            try:
                self.step()
            except Crash:
                self.crash()
                self.accept_unanswered()
            self.check()
        self.journal.error = None
        self.journal.crash_after_append = False
        self.make_peace()
        self.world.advance(3 * 3_600_000)
        waiting = [call for call in self.world.calls if call.waits and id(call) not in self.lost]
        assert not waiting, f"{len(waiting)} requests were never answered"

    def step(self) -> None:
        chance = self.random.random()
        if chance < 0.68:
            self.random.choice(self.awake()).act()
        elif chance < 0.70:
            self.random.choice(self.consumers).commit_late()
        elif chance < 0.88:
            self.world.advance(self.random.choice((10, 500, 3_000, 8_000, 30_000)))
        elif chance < 0.92:
            self.random.choice(self.consumers).misbehave()
        elif chance < 0.93:
            self.swap(self.random.choice(self.consumers), self.random.choice(self.kinds))
        elif chance < 0.945:
            self.journal.crash_after_append = True
        elif chance < 0.96:
            self.crash()
        elif chance < 0.98:
            self.journal.error = broken_disk() if self.journal.error is None else None
        elif chance < 0.985:
            self.change_topics()
        else:
            self.administer()

    def swap(
        self,
        consumer: ClassicConsumer | NewConsumer,
        kind: type[ClassicConsumer] | type[NewConsumer],
    ) -> None:
        """An upgrade or a downgrade of one: it leaves, or dies, and comes back as another."""
        if consumer.member and self.random.random() < 0.7:
            consumer.leave()
        self.consumers[self.consumers.index(consumer)] = kind(self, consumer.number)

    def change_topics(self) -> None:
        topics, name = self.world.topics, self.random.choice(("u0", "u1", "u2"))
        found = topics.find(name)
        if found is None:
            topics.create(name, self.random.randint(1, 3))
        elif self.random.random() < 0.5:
            topics.delete(name)
        else:
            topics.grow(name, found.partitions + 1)
        self.world.topics_changed(name)

    def awake(self) -> list[ClassicConsumer | NewConsumer]:
        """Some stall for a while; never all of them."""
        if self.random.random() < 0.05:
            self.stalled = self.random.sample(self.consumers, len(self.consumers) // 2)
        return [consumer for consumer in self.consumers if consumer not in self.stalled]

    def administer(self) -> None:
        self.asked = True
        self.administer_now()
        self.asked = False

    def administer_now(self) -> None:
        chance = self.random.random()
        if chance < 0.4 and self.world.delete() is Code.NONE:
            self.group_deleted()
        elif chance < 0.7:
            index = self.random.randrange(PARTITIONS)
            if self.world.commit_code(1, partition=index) is Code.NONE:
                self.offsets[index] = 1
        else:
            index = self.random.randrange(PARTITIONS)
            answer = self.world.delete_offset("t", index).response
            if not answer.error_code and not answer.topics[0].partitions[0].error_code:
                self.offsets.pop(index, None)

    def crash(self) -> None:
        self.lost.update(id(call) for call in self.world.calls if call.waits)
        self.world.start()
        for consumer in self.consumers:
            consumer.broker_gone()

    def accept_unanswered(self) -> None:
        """What was written but not answered when the broker died may count, or may not."""
        if self.asked and self.world.state() is None:
            self.group_deleted()
        for index in range(PARTITIONS):
            found = self.world.fetch("t", index)[0]
            assert self.asked or found >= self.offsets.get(index, -1)
            if found >= 0:
                self.offsets[index] = found
            else:
                self.offsets.pop(index, None)
        self.asked = False

    def group_deleted(self) -> None:
        self.owners.clear()
        self.offsets.clear()
        for consumer in self.consumers:
            consumer.restart()

    def make_peace(self) -> None:
        """Everybody does as it should; as many as fit into the group."""
        self.consumers = self.consumers[: self.world.limits.members_max]
        limits = self.world.limits
        if not (limits.consumer_upgrade and limits.consumer_downgrade):
            kind = self.random.choice(self.kinds)
            for consumer in self.consumers:
                if not isinstance(consumer, kind):
                    self.swap(consumer, kind)
        for consumer in self.consumers:
            consumer.topics = ["t"]
            if isinstance(consumer, NewConsumer):
                consumer.regex = None
            consumer.rejoin()
        end = self.world.ms + PEACE_MS * 6
        while self.world.ms < end:
            for consumer in self.consumers:
                consumer.act()
            self.world.advance(500)
            self.check()
            if self.all_shared_out():
                return
        raise AssertionError(f"no peace in {PEACE_MS * 6} ms: {self.world.state()}")

    def all_shared_out(self) -> bool:
        group = self.world.shard.group(GROUP)
        if group is None or group.state.value != "Stable":
            return False
        if isinstance(group, ClassicGroup):
            here = [c for c in self.consumers if c.epoch == group.generation]
        else:
            here = [c for c in self.consumers if c.epoch == group.stored.epoch]
        owned = [index for consumer in here for index in consumer.holds()]
        return len(here) == len(self.consumers) and sorted(owned) == list(range(PARTITIONS))


def live(seed: int) -> None:
    """One whole history from a seed."""
    Life(seed).run()
