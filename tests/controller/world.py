"""A keeper in memory, brokers that register in it, and controllers on it, step by step.

Writes are watched: each carries the check of its controller's epoch, and leaves partitions that
keep the rules (`check`).
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from random import Random
from typing import Any, TypeVar
from uuid import UUID

from barnabas.broker.controller.store import ControllerStore, Deposed, stand
from barnabas.controller.controller import Controller
from barnabas.controller.in_sync import InSyncProposal, ProposalResult
from barnabas.controller.proof import ReplicaCompleteness, ReplicaReport
from barnabas.controller.state import NO_LEADER, Assignment, PartitionLeadership, PartitionView
from barnabas.controller.steps import (
    Conflict,
    LogLine,
    SendRequest,
    Step,
    Steps,
    Write,
    WriteTooLarge,
)
from barnabas.controller.tenure import UNCLEAN, ControllerOptions
from barnabas.keeper import controller_paths as nodes
from barnabas.keeper import paths
from barnabas.keeper.keeper import (
    Check,
    Create,
    Delete,
    Operation,
    Result,
    Set,
    Unavailable,
    check_size,
    ensure,
)
from barnabas.keeper.memory import MemoryKeeper, MemoryStore
from barnabas.model.errors import Code
from barnabas.model.ids import BrokerId, TopicPartition
from barnabas.wire.codec import ProtocolMessage
from barnabas.wire.messages.describe_replicas import (
    DescribedReplica,
    DescribedTopic,
    DescribeReplicasRequest,
    DescribeReplicasResponse,
)

T = TypeVar("T")
COMPLETE = ReplicaReport(ReplicaCompleteness.COMPLETE, True, 0, 0)
SESSION_MS = 1_000_000
_PARENTS = (
    paths.BROKERS,
    paths.KNOWN_BROKERS,
    paths.TOPICS,
    paths.TOPIC_CONFIGS,
    paths.BROKER_CONFIGS,
    paths.CONFIG_CHANGES,
    paths.DELETED_TOPICS,
)


class World:
    """`sent`: what brokers were told, by whichever controller."""

    def __init__(self, seed: int = 0) -> None:
        self.random = Random(seed)
        self.store = MemoryStore()
        self.sessions: dict[int, MemoryKeeper] = {}
        self.keeper = MemoryKeeper(self.store)
        for path in _PARENTS:
            ensure(self.keeper, path)
        self.sent: list[tuple[BrokerId, ProtocolMessage]] = []
        self.said: list[LogLine] = []
        self.leaders: dict[tuple[UUID, int, int], int] = {}
        self.before: dict[tuple[UUID, int], PartitionLeadership] = {}
        self.unclean_allowed = False
        self.write_bytes_max = 1_000_000
        self.min_insync = 1  # in the configuration file of brokers
        self.writes = 0
        # What brokers report of their replicas; a broker that is None here does not answer.
        self.reports: dict[int, ReplicaReport | None] = {}
        self.silent_then: list[int] = []  # brokers that answer once and then no more

    # For a transcript

    def step_done(self, step: Step) -> None:
        """A step of a controller was executed."""

    def reported(self, broker: BrokerId, report: ReplicaReport) -> None:
        """A broker has described its replicas."""

    # Brokers

    def up(self, *ids: int, rack: str | None = None, disk: str = "") -> None:
        for id_ in ids:
            assert id_ not in self.sessions
            session = self.sessions[id_] = WatchedKeeper(self)
            endpoint = paths.Endpoint("PLAINTEXT", f"host{id_}", 9092)
            directories = (disk or f"disk{id_}",)
            registration = paths.Registration((endpoint,), rack, directories, self.min_insync)
            data = paths.broker_data(registration, 0)
            session.create(paths.broker(id_), data, ephemeral=True)

    def down(self, *ids: int) -> None:
        for id_ in ids:
            self.store.expire(self.sessions.pop(id_).session)

    def bounce(self, id_: int) -> None:
        """Away and back before anybody has looked."""
        self.down(id_)
        self.up(id_)

    def epoch(self, id_: int) -> int:
        return self.keeper.get(paths.broker(id_)).created

    def elect(self, id_: int, **options: Any) -> "ControllerAtWork":
        """A controller that has taken over."""
        active_controller = self.elected(id_, **options)
        active_controller.do(lambda machine, now: machine.take_over(now))
        return active_controller

    def elected(self, id_: int, **options: Any) -> "ControllerAtWork":
        session = self.sessions[id_]
        if self.keeper.exists(nodes.CONTROLLER):
            self.keeper.delete(nodes.CONTROLLER)  # its broker has not learned it yet
        found = None
        while found is None:
            session.reconnect()
            with suppress(Unavailable):  # its outcome may be unknown: it looks again
                found = stand(session, BrokerId(id_), 0, holding=False)
        assert found.store is not None
        return ControllerAtWork(
            self, BrokerId(id_), found.epoch, found.store, ControllerOptions(**options)
        )

    # What the keeper has

    def state(self, topic: str, index: int = 0) -> PartitionLeadership:
        node = self.keeper.get(nodes.state(topic, index))
        found = nodes.read_state("", node.data)
        return PartitionLeadership(
            BrokerId(found.leader),
            found.leader_epoch,
            tuple(map(BrokerId, found.isr)),
            found.controller_epoch,
            node.version,
            found.recovering,
            tuple(found.isr_epochs),
            tuple(map(BrokerId, found.elr)),
        )

    def topic(self, name: str) -> nodes.TopicNode:
        return nodes.read_topic("", self.keeper.get(paths.topic(name)).data)

    def topics(self) -> list[str]:
        return self.keeper.children(paths.TOPICS)

    def marks(self) -> list[str]:
        return self.keeper.children(paths.DELETED_TOPICS)

    # The rules

    def check(self, operations: Sequence[Operation]) -> None:
        """After every write, what it has changed."""
        for name, asked in _touched(operations).items():
            if not self.keeper.exists(paths.topic(name)):
                continue
            topic = self.topic(name)
            unclean = self.unclean_allowed or self._allows_unclean(name)
            for index in topic.replicas if asked is None else asked:
                if self.keeper.exists(nodes.state(name, index)):
                    state = self.state(name, index)
                    self._check_state((topic.id, index), state, topic.replicas[index], unclean)

    def _check_state(
        self,
        key: tuple[UUID, int],
        state: PartitionLeadership,
        replicas: Sequence[int],
        unclean: bool,
    ) -> None:
        before = self.before.get(key)
        assert state.isr, "somebody is in sync, even if nobody is there"
        assert set(state.isr) <= set(replicas), "the ISR is within the replicas"
        assert len(set(replicas)) == len(replicas)
        assert state.leader == NO_LEADER or state.leader in state.isr, "the leader is in sync"
        if state.leader != NO_LEADER:
            leader = self.leaders.setdefault((*key, state.leader_epoch), state.leader)
            assert leader == state.leader, "one leader per epoch"
        if before is not None and before != state:
            assert state.version > before.version
            assert state.leader_epoch >= before.leader_epoch, "epochs only grow"
            assert state.controller_epoch >= before.controller_epoch
            if state.leader not in (before.leader, NO_LEADER):
                assert state.leader_epoch > before.leader_epoch
                eligible = (*before.isr, *before.elr)
                assert unclean or state.leader in eligible, "who is not in sync does not lead"
        self.before[key] = state

    def _allows_unclean(self, topic: str) -> bool:
        path = paths.topic_config(topic)
        if not self.keeper.exists(path):
            return False
        return paths.read_config(path, self.keeper.get(path).data).get(UNCLEAN) == "true"


class WatchedKeeper(MemoryKeeper):
    """A broker's session."""

    def __init__(self, world: World) -> None:
        super().__init__(world.store, SESSION_MS, lambda news: None)
        self._world = world

    def multi(self, operations: Sequence[Operation]) -> list[Result]:
        """A controller's writes carry the check; a broker registers, or stands, without."""
        for operation in operations:
            if isinstance(operation, Set | Delete) or (
                isinstance(operation, Create) and not operation.ephemeral
            ):
                own = operation.path in (nodes.CONTROLLER_EPOCH, nodes.CONTROLLER)
                checked = operations[0]
                assert own or (
                    isinstance(checked, Check) and checked.path == nodes.CONTROLLER_EPOCH
                ), f"{operation.path} is written without a check of the epoch"
        check_size(operations, self._world.write_bytes_max)
        try:
            return super().multi(operations)
        finally:  # it may be done, whatever is said
            self._world.check(operations)


def _touched(operations: Sequence[Operation]) -> dict[str, list[int] | None]:
    """Topics, and which of their partitions; None: all."""
    touched: dict[str, list[int] | None] = {}
    for operation in operations:
        match operation.path.split("/")[1:]:
            case ["brokers", "topics", name]:
                touched[name] = None
            case ["brokers", "topics", name, "partitions", index, "state"]:
                some = touched.setdefault(name, [])
                if some is not None:
                    some.append(int(index))
    return touched


class ControllerAtWork:
    """A controller, and whoever carries out what it says."""

    def __init__(
        self,
        world: World,
        id_: BrokerId,
        epoch: int,
        store: ControllerStore,
        options: ControllerOptions,
    ) -> None:
        self.world = world
        self.id = id_
        self.store = store
        self.options = options
        random = world.random
        self.machine = Controller(
            id_, epoch, options, random.randrange, lambda: UUID(int=random.getrandbits(128))
        )
        self.now = 0

    def do(self, verb: Callable[[Controller, int], Steps[T]]) -> T:
        """To its end."""
        work = Work(self, verb(self.machine, self.now))
        work.finish()
        answer: T = work.answer
        self._report()
        return answer

    def _report(self) -> None:
        """Brokers answer what they are asked of their replicas."""
        sent, self.world.sent = self.world.sent, []
        for broker, message in sent:
            if not isinstance(message, DescribeReplicasRequest):
                self.world.sent.append((broker, message))
                continue
            report = self.world.reports.get(broker, COMPLETE)
            if broker in self.world.silent_then:
                self.world.reports[broker] = None
            if report is not None and self.machine.cluster.epoch(broker) == message.broker_epoch:
                self.world.reported(broker, report)
                answer = described(message, report)
                steps = self.machine.answered(broker, message, answer, self.now)
                Work(self, steps).finish()
        if any(isinstance(message, DescribeReplicasRequest) for _, message in self.world.sent):
            self._report()

    def brokers_changed(self) -> None:
        self.do(lambda machine, now: machine.brokers_changed(now))

    def create(
        self,
        name: str,
        partitions: int = 1,
        factor: int = 3,
        placed: list[list[int]] | None = None,
        **settings: str,
    ) -> None:
        at = None if placed is None else [[BrokerId(b) for b in each] for each in placed]
        said = {key.replace("_", "."): value for key, value in settings.items()}
        self.do(lambda machine, now: machine.create_topic(name, partitions, factor, said, at, now))

    def partition(self, topic: str, index: int = 0) -> PartitionView:
        found = self.machine.cluster.find(TopicPartition(topic, index))
        assert found is not None
        return found

    def assignment(self, topic: str, index: int = 0) -> Assignment:
        return self.partition(topic, index).assignment

    def told(self) -> dict[int, list[ProtocolMessage]]:
        """What each broker was told since last asked."""
        sent, self.world.sent = self.world.sent, []
        by_broker: defaultdict[int, list[ProtocolMessage]] = defaultdict(list)
        for broker, message in sent:
            by_broker[broker].append(message)
        return by_broker


class Work:
    """One event, which others may interrupt between its steps."""

    def __init__(self, active_controller: ControllerAtWork, steps: Steps[Any]) -> None:
        self._active_controller = active_controller
        self._steps = steps
        self._answer: Any = None
        self._problem: Conflict | WriteTooLarge | None = None
        self.over = False
        self.answer: Any = None

    def finish(self) -> None:
        while not self.over:
            self.step()

    def step(self) -> None:
        """Deposed, when its controller is one no longer."""
        world, store = self._active_controller.world, self._active_controller.store
        try:
            if self._problem is not None:
                problem, self._problem = self._problem, None
                step = self._steps.throw(problem)
            else:
                step = self._steps.send(self._answer)
        except StopIteration as end:
            self.over, self.answer = True, end.value
            return
        self._answer = None
        if isinstance(step, SendRequest):
            world.sent.append((step.broker, step.message))
        elif isinstance(step, LogLine):
            world.said.append(step)
        elif isinstance(step, Write):
            world.writes += 1
            try:
                self._answer = store.write(step.changes)
            except (Conflict, WriteTooLarge) as found:
                self._problem = found
        else:
            self._answer = store.read(step)
        if self._problem is None:
            world.step_done(step)


def described(message: DescribeReplicasRequest, report: ReplicaReport) -> DescribeReplicasResponse:
    """The same of every replica."""
    return DescribeReplicasResponse(
        error_code=0,
        topics=[
            DescribedTopic(
                topic_id=topic.topic_id,
                replicas=[
                    DescribedReplica(partition_index=index, **report._asdict())
                    for index in topic.partitions
                ],
            )
            for topic in message.topics
        ],
    )


__all__ = ["ControllerAtWork", "Deposed", "Work", "World"]


def propose(
    active_controller: ControllerAtWork, isr: list[int], topic: str = "t", /, **others: int
) -> Code | ProposalResult:
    """By the leader, on the last state, unless told otherwise."""
    partition = active_controller.partition(topic)
    state = partition.state
    assert state is not None
    leader = BrokerId(others.get("leader", state.leader))
    proposal = InSyncProposal(
        partition.topic.id,
        0,
        others.get("leader_epoch", state.leader_epoch),
        others.get("partition_epoch", state.version),
        [
            (
                BrokerId(id_),
                others.get(f"epoch{id_}", active_controller.machine.cluster.epoch(BrokerId(id_))),
            )
            for id_ in isr
        ],
    )
    epoch = others.get("broker_epoch", active_controller.machine.cluster.epoch(leader))
    answer = active_controller.do(lambda m, now: m.alter_partitions(leader, epoch, [proposal], now))
    return answer if isinstance(answer, Code) else answer[0]
