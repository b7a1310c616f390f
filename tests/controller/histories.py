"""Random histories of a cluster under its controllers, from a seed.

Brokers die, come back and register again; controllers are cut off in the middle of work, continue
when another has taken over, or meet a keeper that does not answer. Messages reach brokers in order,
late or never. Brokers obey as they do: by the epochs of controller, broker, leader and partition.
After every write the keeper is looked at (world.py); at the end everything must be well.
"""

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any
from uuid import UUID

from barnabas.controller.controller import Controller
from barnabas.controller.in_sync import InSyncProposal
from barnabas.controller.messages import ALL, DELETED, EPOCH_DELETED
from barnabas.controller.proof import ReplicaCompleteness, ReplicaReport
from barnabas.controller.reassignment import ReassignmentRequest
from barnabas.controller.requested_elections import ElectionKind
from barnabas.controller.state import NO_LEADER
from barnabas.controller.steps import Conflict, Steps
from barnabas.controller.tenure import UNCLEAN
from barnabas.keeper.keeper import Unavailable
from barnabas.model.errors import KafkaError
from barnabas.model.ids import BrokerId, TopicPartition
from barnabas.wire.codec import ProtocolMessage
from barnabas.wire.messages.describe_replicas import (
    DescribedReplica,
    DescribedTopic,
    DescribeReplicasRequest,
    DescribeReplicasResponse,
)
from barnabas.wire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from barnabas.wire.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from barnabas.wire.messages.update_metadata import UpdateMetadataRequest
from tests.controller.world import COMPLETE, ControllerAtWork, Deposed, Work, World

BROKERS = range(1, 6)
NAMES = ("a", "b", "c")
Key = tuple[str, UUID, int]
Verb = Callable[[Controller, int], Steps[Any]]


class Replica:
    """What one broker believes of one of its partitions."""

    def __init__(self) -> None:
        self.age = (-1, -1)
        self.leader = int(NO_LEADER)
        self.isr: list[int] = []
        self.replicas: list[int] = []


class Obeying:
    """A broker, as far as the controller can tell."""

    def __init__(self, id_: int, epoch: int) -> None:
        self.id = id_
        self.epoch = epoch
        self.controller_epoch = 0
        self.logs: dict[Key, Replica] = {}
        self.known: dict[UUID, dict[int, int]] = {}  # leaders by partition

    def take(self, message: ProtocolMessage) -> ProtocolMessage | None:
        """The answer, or None if it is too old."""
        assert isinstance(
            message,
            LeaderAndIsrRequest
            | StopReplicaRequest
            | UpdateMetadataRequest
            | DescribeReplicasRequest,
        )
        if message.controller_epoch < self.controller_epoch or message.broker_epoch != self.epoch:
            return None
        self.controller_epoch = message.controller_epoch
        if isinstance(message, LeaderAndIsrRequest):
            return self._lead(message)
        if isinstance(message, StopReplicaRequest):
            return self._stop(message)
        if isinstance(message, DescribeReplicasRequest):
            return self._describe(message)
        self._learn(message)
        return None

    def _lead(self, message: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        named = set()
        for topic in message.topic_states:
            for state in topic.partition_states:
                key = (topic.topic_name, topic.topic_id, state.partition_index)
                named.add(key)
                for other in [each for each in self.logs if each[::2] == key[::2]]:
                    if other[1] != key[1]:
                        del self.logs[other]  # of an older topic of the name
                replica = self.logs.setdefault(key, Replica())
                age = (state.leader_epoch, state.partition_epoch)
                if age > replica.age:
                    replica.age, replica.leader = age, state.leader
                    replica.isr, replica.replicas = list(state.isr), list(state.replicas)
        if message.type == ALL:
            self.logs = {key: replica for key, replica in self.logs.items() if key in named}
        return LeaderAndIsrResponse(error_code=0, topics=[])

    def _describe(self, message: DescribeReplicasRequest) -> DescribeReplicasResponse:
        topics = []
        for topic in message.topics:
            replicas = []
            for index in topic.partitions:
                there = (topic.topic_name, topic.topic_id, index) in self.logs
                report = (
                    COMPLETE
                    if there
                    else ReplicaReport(ReplicaCompleteness.LOST, False, -1, 0, "lost its log")
                )
                replicas.append(DescribedReplica(partition_index=index, **report._asdict()))
            topics.append(DescribedTopic(topic_id=topic.topic_id, replicas=replicas))
        return DescribeReplicasResponse(error_code=0, topics=topics)

    def _stop(self, message: StopReplicaRequest) -> StopReplicaResponse:
        for topic in message.topic_states:
            for state in topic.partition_states:
                for key, replica in list(self.logs.items()):
                    if key[::2] == (topic.topic_name, state.partition_index):
                        epoch = state.leader_epoch
                        if epoch == EPOCH_DELETED or epoch >= replica.age[0]:
                            del self.logs[key]
        return StopReplicaResponse(error_code=0, partition_errors=[])

    def _learn(self, message: UpdateMetadataRequest) -> None:
        if message.type == ALL:
            self.known = {}
        for topic in message.topic_states:
            leaders = self.known.setdefault(topic.topic_id, {})
            for state in topic.partition_states:
                leaders[state.partition_index] = state.leader
            if DELETED in leaders.values():
                del self.known[topic.topic_id]


class History:
    """One seed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.world = World(seed)
        self.active_controller: ControllerAtWork | None = None
        self.queue: deque[Verb] = deque()
        self.work: Work | None = None
        self.zombies: list[Work] = []
        self.brokers: dict[int, Obeying] = {}
        self.mail: dict[int, deque[ProtocolMessage]] = {id_: deque() for id_ in BROKERS}
        self.trace: list[str] = []
        for id_ in list(BROKERS)[:3]:
            self._up(id_)

    def run(self, steps: int) -> None:
        actions = (
            [self._work] * 12
            + [self._deliver] * 8
            + [self._propose] * 4
            + [self._topics, self._move, self._elect, self._stop_one] * 2
            + [self._up_one, self._down_one, self._bounce_one, self._configure]
            + [self._zombie] * 2
            + [self._new_controller, self._keeper_fails]
        )
        for _ in range(steps):
            action = self.random.choice(actions)
            self.trace.append(action.__name__)
            action()
        self._heal()

    # Brokers

    def _up(self, id_: int) -> None:
        self.world.up(id_)
        # Its logs are as they were; what it believed of them is gone.
        before = self.brokers.get(id_)
        broker = self.brokers[id_] = Obeying(id_, self.world.epoch(id_))
        if before is not None and self.random.random() < 0.8:
            broker.logs = {key: Replica() for key in before.logs}
        self.queue.append(lambda machine, now: machine.brokers_changed(now))

    def _down(self, id_: int) -> None:
        self.world.down(id_)
        if self.active_controller is not None and self.active_controller.id == id_:
            self._lose_office()
        self.queue.append(lambda machine, now: machine.brokers_changed(now))

    def _alive(self) -> list[int]:
        return sorted(self.world.sessions)

    def _up_one(self) -> None:
        dead = [id_ for id_ in BROKERS if id_ not in self.world.sessions]
        if dead:
            self._up(self.random.choice(dead))

    def _down_one(self) -> None:
        if len(self._alive()) > 1:
            self._down(self.random.choice(self._alive()))

    def _bounce_one(self) -> None:
        id_ = self.random.choice(self._alive())
        self._down(id_)
        self._up(id_)

    def _stop_one(self) -> None:
        id_ = self.random.choice(self._alive())
        epoch = self.world.epoch(id_)
        if self.random.random() < 0.3:
            self.queue.append(lambda machine, now: machine.shut_down(BrokerId(id_), epoch, now))

    # Controllers

    def _new_controller(self) -> None:
        self._lose_office()
        self.active_controller = self.world.elected(self.random.choice(self._alive()))
        self.queue.clear()
        self.queue.append(lambda machine, now: machine.take_over(now))

    def _lose_office(self) -> None:
        """Its unfinished work may go on for a while."""
        if self.work is not None:
            self.zombies.append(self.work)
        self.active_controller = self.work = None

    def _keeper_fails(self) -> None:
        """The next write of the controller is done, or not, and nobody knows."""
        if self.active_controller is not None and self.active_controller.id in self.world.sessions:
            session = self.world.sessions[self.active_controller.id].session
            self.world.store.fail_next_write(session, done=self.random.random() < 0.5)

    def _zombie(self) -> None:
        if self.zombies:
            zombie = self.random.choice(self.zombies)
            try:
                zombie.step()
            except (Deposed, Unavailable, KafkaError, Conflict):
                zombie.over = True
            if zombie.over:
                self.zombies.remove(zombie)

    def _work(self) -> None:
        """Some steps of what the controller has to do."""
        if self.active_controller is None:
            self._new_controller()
        for _ in range(self.random.randrange(1, 8)):
            if self.work is None:
                if not self.queue or self.active_controller is None:
                    return
                verb = self.queue.popleft()
                self.work = Work(
                    self.active_controller,
                    verb(self.active_controller.machine, self.active_controller.now),
                )
            try:
                self.work.step()
            except (Conflict, Unavailable, Deposed):
                active_controller, self.active_controller, self.work = (
                    self.active_controller,
                    None,
                    None,
                )
                if active_controller is not None and active_controller.id in self.world.sessions:
                    self.world.sessions[active_controller.id].reconnect()
                return
            except KafkaError:
                self.work = None
                continue
            self._collect()
            if self.work.over:
                self.work = None

    def _collect(self) -> None:
        sent, self.world.sent = self.world.sent, []
        for broker, message in sent:
            self.mail[broker].append(message)

    def _deliver(self) -> None:
        for _ in range(self.random.randrange(1, 6)):
            full = [id_ for id_, mail in self.mail.items() if mail]
            if not full:
                return
            id_ = self.random.choice(full)
            message = self.mail[id_].popleft()
            if self.random.random() < 0.1:
                self.mail[id_].appendleft(message)  # the answer was lost: it comes again
            if id_ in self.world.sessions:
                self._answer(id_, message, self.brokers[id_].take(message))

    def _answer(self, id_: int, message: ProtocolMessage, answer: ProtocolMessage | None) -> None:
        active_controller = self.active_controller
        if answer is None or active_controller is None:
            return
        if getattr(message, "controller_epoch", -1) == active_controller.machine.epoch:
            self.queue.append(lambda m, now: m.answered(BrokerId(id_), message, answer, now))

    # What is asked for

    def _propose(self) -> None:
        id_ = self.random.choice(self._alive())
        broker = self.brokers[id_]
        led = [(key, each) for key, each in broker.logs.items() if each.leader == id_]
        proposals = []
        for (_, topic, index), replica in self.random.sample(led, min(len(led), 3)):
            others = [each for each in replica.replicas if each != id_]
            isr = [id_, *self.random.sample(others, self.random.randrange(len(others) + 1))]
            epochs = [
                (BrokerId(e), self.world.epoch(e) if e in self.world.sessions else -1) for e in isr
            ]
            proposals.append(InSyncProposal(topic, index, *replica.age, epochs))
        if proposals:
            epoch = broker.epoch
            self.queue.append(
                lambda machine, now: machine.alter_partitions(BrokerId(id_), epoch, proposals, now)
            )

    def _topics(self) -> None:
        name = self.random.choice(NAMES)
        partitions = self.random.randrange(1, 5)
        factor = self.random.randrange(1, 4)
        choice = self.random.random()

        def create(machine: Controller, now: int) -> Steps[Any]:
            return machine.create_topic(name, partitions, factor, {}, None, now)

        def grow(machine: Controller, now: int) -> Steps[Any]:
            return machine.add_partitions(name, partitions + 2, None, now)

        def delete(machine: Controller, now: int) -> Steps[Any]:
            topic = machine.cluster.topics.get(name)
            return machine.delete_topic(name, UUID(int=0) if topic is None else topic.id, now)

        self.queue.append(create if choice < 0.5 else grow if choice < 0.8 else delete)

    def _name(self) -> TopicPartition:
        return TopicPartition(self.random.choice(NAMES), self.random.randrange(4))

    def _move(self) -> None:
        to = self.random.sample(list(BROKERS), self.random.randrange(1, 4))
        cancel = self.random.random() < 0.2
        requested = ReassignmentRequest(
            self._name(), None if cancel else [BrokerId(id_) for id_ in to]
        )
        self.queue.append(lambda machine, now: machine.reassign([requested], True, now))

    def _elect(self) -> None:
        name = self._name()
        every = self.random.random() < 0.3
        if self.active_controller is not None:
            self.active_controller.now += 5_000
        self.queue.append(
            lambda m, now: (
                m.elect(ElectionKind.PREFERRED, None if every else [name], now)
                if self.random.random() < 0.7
                else m.tick(now)
            )
        )

    def _configure(self) -> None:
        name = self.random.choice(NAMES)
        settings = {UNCLEAN: "true"} if self.random.random() < 0.3 else {}
        self.queue.append(
            lambda machine, now: machine.configure("topics", name, lambda before: settings, now)
        )

    # The end

    def _heal(self) -> None:
        self._lose_office()
        for zombie in self.zombies:
            with suppress(Deposed, Unavailable, KafkaError, Conflict):
                zombie.finish()
        for id_ in BROKERS:
            if id_ in self.world.sessions:
                self._down(id_)  # a broker that is about to stop does, and comes back
            self._up(id_)
        self.world.sent.clear()
        self._new_controller()
        self._settle()
        assert self.active_controller is not None
        if self.active_controller.machine.cluster.leaderless:  # all members have lost their logs
            self.world.unclean_allowed = True
            self.queue.append(lambda m, now: m.elect(ElectionKind.UNCLEAN, None, now))
            self._settle()
        self._check_end()

    def _settle(self) -> None:
        for _ in range(60):
            while self.queue or self.work is not None:
                self._work()
            for id_ in BROKERS:
                while self.mail[id_]:
                    message = self.mail[id_].popleft()
                    self._answer(id_, message, self.brokers[id_].take(message))
            if not self._catch_up() and not self.queue:
                break

    def _catch_up(self) -> bool:
        """Every follower draws level, and leaders say so."""
        for id_, broker in self.brokers.items():
            proposals = []
            for (_, topic, index), replica in broker.logs.items():
                if replica.leader == id_ and set(replica.isr) != set(replica.replicas):
                    isr = [(BrokerId(e), self.world.epoch(e)) for e in replica.replicas]
                    proposals.append(InSyncProposal(topic, index, *replica.age, isr))
            if proposals:
                answer = self._ask(id_, proposals)
                self._take_verdicts(broker, proposals, answer)
        return any(mail for mail in self.mail.values())

    def _ask(self, id_: int, proposals: list[InSyncProposal]) -> Any:
        assert self.active_controller is not None
        epoch = self.brokers[id_].epoch
        answer = self.active_controller.do(
            lambda machine, now: machine.alter_partitions(BrokerId(id_), epoch, proposals, now)
        )
        self._collect()
        return answer

    def _take_verdicts(self, broker: Obeying, proposals: list[InSyncProposal], answer: Any) -> None:
        assert isinstance(answer, list), answer
        replicas = {(topic, index): each for (_, topic, index), each in broker.logs.items()}
        for proposal, verdict in zip(proposals, answer, strict=True):
            replica = replicas[proposal.topic, proposal.partition]
            if verdict.state is not None:
                replica.age = (verdict.state.leader_epoch, verdict.state.version)
                replica.isr = list(verdict.state.isr)

    def _check_end(self) -> None:
        world, active_controller = self.world, self.active_controller
        assert active_controller is not None
        cluster = active_controller.machine.cluster
        assert world.marks() == [], "deletions have ended"
        assert not cluster.moving, "moves have ended"
        assert not cluster.leaderless, "everybody has a leader"
        assert not cluster.under_replicated
        hosted: dict[int, set[Key]] = {id_: set() for id_ in BROKERS}
        for name in world.topics():
            topic = world.topic(name)
            for index, replicas in topic.replicas.items():
                state = world.state(name, index)
                held = cluster.topics[name].partitions[index]
                assert held.state == state, "memory is what was written"
                assert set(state.isr) == set(replicas)
                for id_ in replicas:
                    key = (name, topic.id, index)
                    hosted[id_].add(key)
                    assert self.brokers[id_].logs[key].leader == state.leader
                for broker in self.brokers.values():
                    assert broker.known[topic.id][index] == state.leader
        for id_, keys in hosted.items():
            assert set(self.brokers[id_].logs) == keys, "no log is left that is nobody's"
            assert len(self.brokers[id_].known) == len(world.topics())
