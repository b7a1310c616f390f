"""Random lives of one streams group: threads that join, stall and leave, replies that are lost, a
broker that fails, topics that come, grow and go, another number of standby tasks.

In: a seed. Out: an AssertionError when a promise was broken.
Checked at every step: what is in memory is what the log says; no task is active at two clients that
the group still knows; no process has a task twice; epochs rise. At the end, when all is well: every
task is active once, has its copies, and every client knows its own.
"""

from dataclasses import replace
from random import Random

from barnabas.coordinators.groups.limits import GroupLimits
from barnabas.coordinators.groups.streams.group import StreamsGroup
from barnabas.coordinators.groups.streams.stored import StreamsGroupState
from barnabas.model.errors import Code
from tests.coordinators.groups.streams.streams_world import (
    Held,
    beat,
    subtopology,
    topology,
)
from tests.coordinators.histories import Crash, MirroredJournal
from tests.coordinators.world import GROUP, Call, Cluster, World, broken_disk

STEPS = 150
REJOIN = (Code.UNKNOWN_MEMBER_ID, Code.FENCED_MEMBER_EPOCH, Code.GROUP_ID_NOT_FOUND)
APPLICATION = topology(
    subtopology("0", ["t"], sinks=("r",)),
    subtopology("1", ["u"], repartitions={"r": 0}, changelogs=("log",), together=True),
)
TOPICS = {"t": 2, "u": 3, "r": 3, "log": 3}
READ = {"0": "t", "1": "u"}
Task = tuple[str, int]


class StreamThreadClient:
    """What a client knows: its epoch, the tasks it was told to have, those it still works on."""

    def __init__(self, name: str, process: str) -> None:
        self.name = name
        self.process = process
        self.epoch = 0
        self.told: tuple[set[Task], set[Task]] = (set(), set())  # active, standby
        self.works: tuple[set[Task], set[Task]] = (set(), set())
        self.says_tasks = True  # in its next heartbeat

    def reset(self) -> None:
        self.epoch = 0
        self.told = self.works = (set(), set())
        self.says_tasks = True


def as_held(tasks: set[Task]) -> Held:
    held: Held = {}
    for id_, number in sorted(tasks):
        held.setdefault(id_, []).append(number)
    return held


class StreamsLife:
    """One history."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self.journal = MirroredJournal()
        self.limits = GroupLimits(
            streams_session_timeout_ms=random.choice((6_000, 45_000)),
            streams_assignment_interval_ms=random.choice((0, 1_000)),
            streams_initial_rebalance_delay_ms=random.choice((0, 3_000)),
            streams_join_pause_ms=random.choice((0, 100)),
            streams_num_standby_replicas=random.choice((0, 1, 2)),
            streams_members_max=random.choice((2, 200)),
        )
        self.world = World(self.limits, self.journal, topics=Cluster(TOPICS))
        self.clients = [
            StreamThreadClient(f"m{n}", f"p{random.randint(0, 2)}")
            for n in range(random.randint(1, 5))
        ]
        self.epoch = 0
        self.rebalance_ms = random.choice((20_000, 600_000))

    # What happens

    def step(self) -> None:
        random = self.random
        what = random.random()
        client = random.choice(self.clients)
        if what < 0.62:
            self.beat(client, lost=random.random() < 0.12)
        elif what < 0.74:
            self.pass_time(random.choice((50, 500, 1_000, 7_000)))
        elif what < 0.79:
            self.leave(client)
        elif what < 0.83:
            self.change_topics()
        elif what < 0.86:
            self.change_standbys(random.choice((0, 1, 2)))
        elif what < 0.90:
            self.journal.error = None if self.journal.error else broken_disk()
        elif what < 0.96:
            self.restart()
        else:
            self.journal.crash_after_append = True
        self.check()

    def pass_time(self, ms: int) -> None:
        try:
            self.world.advance(ms)
        except Crash:
            self.restart()

    def beat(self, client: StreamThreadClient, *, lost: bool) -> None:
        joins = client.epoch == 0
        try:
            if joins:
                call = beat(
                    self.world, client.name, 0, active={}, of=APPLICATION, process=client.process,
                    rebalance_timeout_ms=self.rebalance_ms,
                )  # fmt: skip
            else:
                active, standby = map(as_held, client.works)
                says = client.says_tasks
                call = beat(
                    self.world,
                    client.name,
                    client.epoch,
                    active=active if says else None,
                    standby=standby if says else None,
                )
        except Crash:
            client.says_tasks = True
            self.restart()
            return
        if lost or call.waits:
            client.says_tasks = True
            return
        self.hear(client, call, joins)

    def hear(self, client: StreamThreadClient, call: Call, joins: bool) -> None:
        response = call.response
        if call.code in REJOIN:
            client.reset()
            return
        if call.code is not Code.NONE:
            client.says_tasks = True
            return
        assert joins or response.member_epoch >= client.epoch, "a member's epoch went back"
        client.epoch = response.member_epoch
        client.says_tasks = False
        if response.active_tasks is not None:
            client.told = tuple(  # type: ignore[assignment]
                {(each.subtopology_id, number) for each in tasks for number in each.partitions}
                for tasks in (response.active_tasks, response.standby_tasks)
            )
        if client.works != client.told and self.random.random() < 0.8:
            # What must go goes first; what comes is begun in the same moment.
            client.works = client.told
            client.says_tasks = True
        for task in client.works[0]:
            self.check_one_owner(client, task)

    def check_one_owner(self, client: StreamThreadClient, task: Task) -> None:
        """Others that still work on the task, because they do not know better, may not commit."""
        group = self.world.shard.group(GROUP)
        assert isinstance(group, StreamsGroup)
        read = [(READ[task[0]], task[1])]
        for other in self.clients:
            if other is not client and task in other.works[0]:
                code = group.check_commit(other.name, other.epoch, 9, read)
                assert code is not Code.NONE, f"{client.name} and {other.name} have {task}"

    def leave(self, client: StreamThreadClient) -> None:
        try:
            call = beat(self.world, client.name, -1)
        except Crash:
            self.restart()
            return
        if not call.waits and call.code is Code.NONE:
            client.reset()

    def change_topics(self) -> None:
        topics, name = self.world.topics, self.random.choice(list(TOPICS))
        found = topics.find(name)
        if found is None:
            topics.create(name, TOPICS[name])
        elif self.random.random() < 0.5:
            topics.delete(name)
        else:
            topics.grow(name, found.partitions + 1)
        self.world.topics_changed(name)

    def change_standbys(self, count: int) -> None:
        self.limits = replace(self.limits, streams_num_standby_replicas=count)
        self.world.limits = self.limits
        group = self.world.shard.group(GROUP)
        if isinstance(group, StreamsGroup):
            group.limits = self.limits
        self.world.shard._state.limits = self.limits

    def restart(self) -> None:
        """Another broker continues."""
        self.journal.crash_after_append = False
        self.world.start()

    # What must hold

    def check(self) -> None:
        shard = self.world.shard
        assert shard.streams == self.journal.mirrored.streams, "memory and log differ"
        group = shard.group(GROUP)
        if not isinstance(group, StreamsGroup):
            return
        stored = group.stored
        assert stored.epoch >= self.epoch, "the epoch of the group went back"
        self.epoch = stored.epoch
        assert stored.target_epoch <= stored.epoch
        active: dict[Task, str] = {}
        held: dict[tuple[str, Task], str] = {}
        for member in stored.members.values():
            assert member.epoch <= stored.target_epoch, f"{member.id} is ahead of the target"
            for part in (member.assigned, member.revoking):
                for task in part.active_ids():
                    other = active.setdefault(task, member.id)
                    assert other == member.id, f"{task} is active at {other} and {member.id}"
                for task in (*part.active_ids(), *part.standby_ids()):
                    other = held.setdefault((member.process_id, task), member.id)
                    assert other == member.id, f"{member.process_id} has {task} twice"

    def rest(self) -> None:
        """All is well for a while; some clients are gone for good, and no other is removed."""
        self.journal.error, self.journal.crash_after_append = None, False
        topics = self.world.topics
        for name, count in TOPICS.items():
            if topics.find(name) is None:
                topics.create(name, count)
            else:
                topics.grow(name, count)
            self.world.topics_changed(name)
        gone = self.random.randrange(len(self.clients))
        for client in self.clients[:gone]:
            if client.epoch:
                self.leave(client)
        self.clients = self.clients[gone:]
        for turn in range(120):
            if turn == 90:
                self.change_standbys(self.random.choice((0, 1, 2)))
            for client in self.clients:
                self.beat(client, lost=False)
                client.works = client.told
                client.says_tasks = True
            self.check()
            self.world.advance(1_000)

    def check_rested(self) -> None:
        group = self.world.shard.group(GROUP)
        assert isinstance(group, StreamsGroup)
        members = [client for client in self.clients if client.name in group.stored.members]
        assert len(members) == min(len(self.clients), group.limits.streams_members_max)
        assert group.state is StreamsGroupState.STABLE
        every = {("0", n) for n in range(2)} | {("1", n) for n in range(3)}
        active = [task for client in members for task in client.works[0]]
        assert sorted(active) == sorted(every), "a task has nobody, or two"
        processes = {client.process for client in members}
        copies = min(group.limits.streams_num_standby_replicas, len(processes) - 1)
        standby = [task for client in members for task in client.works[1]]
        wanted = [task for task in sorted(every) if task[0] == "1" for _ in range(copies)]
        assert sorted(standby) == wanted, "a task has too few copies, or too many"
        for client in members:
            held = group.stored.members[client.name].assigned
            assert client.works == ({*held.active_ids()}, {*held.standby_ids()})


def live(seed: int) -> None:
    life = StreamsLife(seed)
    for _ in range(STEPS):
        life.step()
    life.rest()
    life.check_rested()
