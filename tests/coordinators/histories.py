"""Random lives of one group: consumers that join, stall, die and return, and a broker that crashes.

In: a seed. Out: an AssertionError when a promise was broken.
Checked at every step: one owner per partition and generation, offsets never go back unless asked,
what is in memory is what the log says. At the end: every wait has ended, and a group that is left
in peace gets to share out all partitions.
"""

from collections.abc import Callable
from random import Random

from barnabas.coordinators.groups.limits import Limits
from barnabas.coordinators.groups.shard import GroupShard
from barnabas.coordinators.groups.states import State
from barnabas.coordinators.groups.subscription import partitions_of
from barnabas.coordinators.runtime import Runtime
from barnabas.model.errors import Code
from tests.coordinators.world import (
    GROUP,
    PARTITION,
    Call,
    MemoryJournal,
    World,
    assignment,
    broken_disk,
)

PARTITIONS = 4
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
        self.mirror.start_loading(PARTITION, GroupShard(Limits()), MemoryJournal())
        self.mirrored = self.mirror._seats[PARTITION].shard

    def append(self, batch: bytearray) -> int:
        last = super().append(batch)
        self.mirror.load(PARTITION, bytes(batch))
        if self.crash_after_append:
            self.crash_after_append = False
            raise Crash
        return last


class Consumer:
    """A client that follows the protocol, more or less in time."""

    def __init__(self, life: "Life", number: int) -> None:
        self.life = life
        self.random = life.random
        self.name = f"c{number}"
        self.instance = f"i{number}" if life.random.random() < 0.4 else None
        self.topics = ["t"]
        self.session = self.random.choice((6_000, 10_000, 30_000))
        self.rebalance = self.random.choice((5_000, 20_000, 60_000))
        self.restart()

    def restart(self) -> None:
        """A new process: it remembers nothing."""
        self.member = ""
        self.generation = -1
        self.call: Call | None = None
        self.heard: Callable[[Call], None] | None = None
        self.positions: dict[int, int] = {}
        self.before: tuple[str, int, dict[int, int]] = ("", -1, {})

    @property
    def identity(self) -> str:
        return self.instance or self.member

    def act(self) -> None:
        """Whatever is next: hear an answer, or say something."""
        if self.call is not None:
            call, heard = self.call, self.heard
            if not call.waits and heard is not None:
                self.call = None
                heard(call)
            elif self.random.random() < 0.02:
                self.call = None  # the request timed out here; over there it still waits
        elif self.generation < 0:
            self.join()
        elif self.random.random() < 0.5:
            self.commit()
        else:
            self.heartbeat()

    def misbehave(self) -> None:
        chance = self.random.random()
        if chance < 0.3:
            self.restart()
        elif chance < 0.5 and self.member:
            self.life.world.leave(self.member, instance=self.instance)
            self.restart()
        elif chance < 0.7:
            self.topics = ["t", f"u{self.random.randrange(3)}"]
            self.rejoin()
        elif chance < 0.75:
            self.life.world.sync("nobody", self.generation)
        else:
            self.rejoin()

    def rejoin(self) -> None:
        if self.call is None:
            self.before = (self.member, self.generation, self.positions)
            self.generation = -1
            self.positions = {}

    def commit_late(self) -> None:
        """A commit that was on its way when the member rejoined."""
        member, generation, positions = self.before
        if positions and 0 <= generation != self.generation:
            self.say_committed(member, generation, positions)

    def join(self) -> None:
        self.heard = self.joined
        self.call = self.life.world.join(
            self.member,
            instance=self.instance,
            topics=self.topics,
            client=self.name,
            session=self.session,
            rebalance=self.rebalance,
            protocols=["range", "sticky"] if self.random.random() < 0.5 else ["range"],
            version=self.random.choice((5, 9)),
        )

    def joined(self, call: Call) -> None:
        response = call.response
        if call.code is Code.MEMBER_ID_REQUIRED:
            self.member = response.member_id
            self.join()
        elif call.code is Code.NONE:
            self.member = response.member_id
            leads = response.leader == self.member and not response.skip_assignment
            given: dict[str, list[int]] = {m.member_id: [] for m in response.members}
            if leads:
                ids = list(given)
                for index in range(PARTITIONS):
                    given[ids[index % len(ids)]].append(index)
            self.sync(response.generation_id, given if leads else {})
        else:
            self.refused(call.code)

    def sync(self, generation: int, given: dict[str, list[int]]) -> None:
        def synced(call: Call) -> None:
            if call.code is not Code.NONE:
                self.refused(call.code)
                return
            self.generation = generation
            partitions = partitions_of(call.response.assignment)
            assert partitions is not None
            self.life.owns(self, generation, [index for _, index in partitions])
            self.positions = {
                index: self.life.world.fetch("t", index)[0] for _, index in partitions
            }

        self.heard = synced
        self.call = self.life.world.sync(
            self.member,
            generation,
            {member: assignment({"t": indexes}) for member, indexes in given.items()},
            instance=self.instance,
        )

    def refused(self, code: Code) -> None:
        if code is Code.FENCED_INSTANCE_ID:
            self.restart()
        elif code in (Code.UNKNOWN_MEMBER_ID, Code.ILLEGAL_GENERATION):
            self.member = ""
        self.generation = -1
        self.positions = {}

    def heartbeat(self) -> None:
        code = self.life.world.heartbeat(self.member, self.generation, instance=self.instance)
        if code is Code.REBALANCE_IN_PROGRESS:
            if self.random.random() < 0.5:
                self.commit()
            self.rejoin()
        elif code:
            self.refused(code)

    def commit(self) -> None:
        """Reads on in one of its partitions and says so; a stalled member may be long out."""
        if self.positions:
            code = self.say_committed(self.member, self.generation, self.positions)
            if code not in (Code.NONE, Code.NOT_COORDINATOR):
                self.rejoin()

    def say_committed(self, member: str, generation: int, positions: dict[int, int]) -> Code:
        index = self.random.choice(list(positions))
        positions[index] += self.random.randrange(5) + 1
        code = self.life.world.commit_code(
            positions[index],
            partition=index,
            member=member,
            generation=generation,
            instance=self.instance,
        )
        if code is Code.NONE:
            self.life.committed(index, positions[index])
        return code


class Life:
    """One history."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        delay = self.random.choice((0, 500, 3_000))
        size = self.random.choice((2, 4, 100))
        self.journal = MirroredJournal()
        limits = Limits(initial_rebalance_delay_ms=delay, members_max=size)
        self.world = World(limits, self.journal)
        self.consumers = [Consumer(self, number) for number in range(self.random.randint(1, 5))]
        self.owners: dict[tuple[int, int], str] = {}
        self.offsets: dict[int, int] = {}
        self.stalled: list[Consumer] = []
        self.asked = False  # an administrator is at work
        self.lost: set[int] = set()  # calls whose broker is gone: nobody waits for them

    # What must hold

    def owns(self, consumer: Consumer, generation: int, indexes: list[int]) -> None:
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
        assert shard.offsets.by_group == mirrored.offsets.by_group
        for index, offset in self.offsets.items():
            assert self.world.fetch("t", index)[0] == offset
        group = shard.group(GROUP)
        if group is not None and group.state is State.EMPTY and GROUP in shard.generations:
            assert shard.generations[GROUP].generation == group.generation
            assert not shard.generations[GROUP].members
        if group is not None and group.state is State.STABLE:
            kept = shard.generations[GROUP]
            assert kept.generation == group.generation
            assert kept.leader == group.roster.leader
            assert {m.member_id: m.assignment for m in kept.members} == {
                m.id: m.assignment for m in group.roster.members.values()
            }

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
        elif chance < 0.93:
            self.random.choice(self.consumers).misbehave()
        elif chance < 0.945:
            self.journal.crash_after_append = True
        elif chance < 0.96:
            self.crash()
        elif chance < 0.98:
            self.journal.error = broken_disk() if self.journal.error is None else None
        else:
            self.administer()

    def awake(self) -> list[Consumer]:
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
            if consumer.call is not None and consumer.call.waits:
                consumer.call = None

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
        end = self.world.ms + PEACE_MS * 6
        while self.world.ms < end:
            for consumer in self.consumers:
                if consumer.topics != ["t"]:
                    consumer.topics = ["t"]
                    consumer.rejoin()
                consumer.act()
            self.world.advance(500)
            self.check()
            if self.all_shared_out():
                return
        raise AssertionError(f"no peace in {PEACE_MS * 6} ms: {self.world.state()}")

    def all_shared_out(self) -> bool:
        group = self.world.shard.group(GROUP)
        if group is None or group.state is not State.STABLE:
            return False
        members = [c for c in self.consumers if c.generation == group.generation]
        owned = [index for consumer in members for index in consumer.positions]
        return len(members) == len(self.consumers) and sorted(owned) == list(range(PARTITIONS))


def live(seed: int) -> None:
    """One whole history from a seed."""
    Life(seed).run()
