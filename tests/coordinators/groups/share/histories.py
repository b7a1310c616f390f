"""Random lives of one share group: members that join, stall and leave, replies that are lost, a
share coordinator that is slow or refuses, a broker that fails, topics that come, grow and go.

In: a seed. Out: an AssertionError when a promise was broken.
Checked at every step: what is in memory is what the log says; a member has only partitions whose
state has begun; epochs rise. At the end, when all is well: every partition has state and a member,
every member a partition, and knows its own.
"""

from random import Random

from barnabas.coordinators.groups.limits import GroupLimits
from barnabas.coordinators.groups.share.group import ShareGroup
from barnabas.coordinators.groups.share.heartbeats import StateInitialization
from barnabas.model.errors import Code
from tests.coordinators.histories import Crash, MirroredJournal
from tests.coordinators.world import GROUP, PARTITION, Cluster, World, broken_disk

STEPS = 120
REJOIN = (
    Code.UNKNOWN_MEMBER_ID,
    Code.FENCED_MEMBER_EPOCH,
    Code.GROUP_ID_NOT_FOUND,
)


class ShareMemberClient:
    """What a client knows: its epoch, and the partitions that it was told to read."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.epoch = 0
        self.topics = ["t"]
        self.says_topics = True  # in its next heartbeat
        self.has: set[tuple[object, int]] = set()
        self.alive = True


class ShareLife:
    """One history."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self.journal = MirroredJournal()
        limits = GroupLimits(
            share_session_timeout_ms=random.choice((6_000, 45_000)),
            share_assignment_interval_ms=random.choice((0, 1_000, 5_000)),
            share_members_max=random.choice((2, 200)),
        )
        topics = Cluster({"t": random.randint(1, 4), "u": 1})
        self.world = World(limits, self.journal, topics=topics)
        self.clients = [ShareMemberClient(f"m{n}") for n in range(random.randint(1, 5))]
        self.begun: set[tuple[object, int]] = set()  # what the share coordinator has
        self.late: list[StateInitialization] = []
        self.epoch = 0

    # What happens

    def step(self) -> None:
        random = self.random
        what = random.random()
        client = random.choice(self.clients)
        if what < 0.55:
            self.beat(client, lost=random.random() < 0.15)
        elif what < 0.65:
            self.take_up_state(refused=random.random() < 0.3)
        elif what < 0.75:
            self.pass_time(random.choice((50, 500, 1_000, 7_000)))
        elif what < 0.80:
            self.leave(client)
        elif what < 0.85:
            client.topics = random.choice((["t"], ["u"], ["t", "u"], ["t", "missing"]))
            client.says_topics = True
        elif what < 0.89:
            self.change_topics()
        elif what < 0.93:
            self.journal.error = None if self.journal.error else broken_disk()
        elif what < 0.97:
            self.restart()
        else:
            self.journal.crash_after_append = True
        self.check()

    def pass_time(self, ms: int) -> None:
        try:
            self.world.advance(ms)
        except Crash:
            self.restart()

    def beat(self, client: ShareMemberClient, *, lost: bool) -> None:
        joins = client.epoch == 0
        names = client.topics if joins or client.says_topics else None
        try:
            call = self.world.share(client.name, client.epoch, topics=names)
        except Crash:
            self.restart()
            return
        self.late += self.world.shard.share.take_initializations()
        if lost or call.waits:
            client.says_topics = True
            return
        response = call.response
        if call.code is Code.NONE:
            assert joins or response.member_epoch >= client.epoch, "a member's epoch went back"
            client.epoch = response.member_epoch
            client.says_topics = False
            if response.assignment is not None:
                given = response.assignment.topic_partitions
                client.has = {(each.topic_id, n) for each in given for n in each.partitions}
        elif call.code in REJOIN:
            client.epoch, client.has = 0, set()

    def leave(self, client: ShareMemberClient) -> None:
        try:
            call = self.world.share(client.name, -1)
        except Crash:
            self.restart()
            return
        if not call.waits and call.code is Code.NONE:
            client.epoch, client.has = 0, set()

    def take_up_state(self, *, refused: bool) -> None:
        """Some of what was asked is done now, in any order; an answer may get lost."""
        random = self.random
        random.shuffle(self.late)
        while self.late and random.random() < 0.7:
            group, _, keys = self.late.pop()
            if not refused:
                self.begun.update(keys)
            if random.random() < 0.1:
                continue
            share, now = self.world.shard.share, self.world.now
            act = share.not_initialized if refused else share.initialized
            try:
                self.world.runtime.carry_out(PARTITION, act(group, keys, now), now)
            except Crash:
                self.restart()

    def change_topics(self) -> None:
        topics, name = self.world.topics, self.random.choice(("t", "u"))
        found = topics.find(name)
        if found is None:
            topics.create(name, self.random.randint(1, 3))
        elif self.random.random() < 0.6:
            topics.grow(name, min(6, found.partitions + 1))
        else:
            topics.delete(name)
            outcome = self.world.shard.share.forget_topics(frozenset((name,)))
            try:
                self.world.runtime.carry_out(PARTITION, outcome, self.world.now)
            except Crash:
                self.restart()
        self.world.topics_changed(name)

    def restart(self) -> None:
        """Another broker continues; what it was about to ask is lost."""
        self.journal.crash_after_append = False
        self.late.clear()
        self.world.start()

    # What must hold

    def check(self) -> None:
        shard = self.world.shard
        assert shard.shares == self.journal.mirrored.shares, "memory and log differ"
        group = shard.group(GROUP)
        if not isinstance(group, ShareGroup):
            return
        stored = group.stored
        assert stored.epoch >= self.epoch, "the epoch of the group went back"
        self.epoch = stored.epoch
        assert stored.target_epoch <= stored.epoch
        for member in stored.members.values():
            assert member.epoch <= stored.target_epoch, f"{member.id} is ahead of the target"
        for client in self.clients:
            for key in client.has:
                assert key in self.begun, f"{client.name} has {key}, which has no state"

    def rest(self) -> None:
        """All is well for a while."""
        self.journal.error, self.journal.crash_after_append = None, False
        for name in ("t", "u"):
            if self.world.topics.find(name) is None:
                self.world.topics.create(name, 1)
                self.world.topics_changed(name)
        for client in self.clients:
            client.topics, client.says_topics = ["t", "u"], True
        for _ in range(60):
            for client in self.clients:
                self.beat(client, lost=False)
            for group, _, keys in self.late:
                self.begun.update(keys)
                share, now = self.world.shard.share, self.world.now
                outcome = share.initialized(group, keys, now)
                self.world.runtime.carry_out(PARTITION, outcome, now)
            self.late.clear()
            self.check()
            self.world.advance(1_000)

    def check_rested(self) -> None:
        group = self.world.shard.group(GROUP)
        assert isinstance(group, ShareGroup)
        every = {
            (found.topic_id, number)
            for name in ("t", "u")
            if (found := self.world.topics.find(name)) is not None
            for number in range(found.partitions)
        }
        members = [client for client in self.clients if client.name in group.stored.members]
        assert len(members) == min(len(self.clients), group.limits.share_members_max)
        assert set().union(*(client.has for client in members)) == every, "a partition has nobody"
        for client in members:
            assert client.has, f"{client.name} has nothing"
            assert client.epoch == group.stored.epoch
            target = group.stored.targets[client.name]
            assert client.has == {(id_, n) for id_, numbers in target.items() for n in numbers}


def live(seed: int) -> None:
    life = ShareLife(seed)
    for _ in range(STEPS):
        life.step()
    life.rest()
    life.check_rested()
