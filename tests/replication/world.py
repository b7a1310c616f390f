"""A partition on a few brokers in a plain world: lists for logs, messages that wait, our own time.

The controller here is as plain as can be: it elects from the in-sync set and takes proposals that
know the last partition epoch. Everything that decides on leaders and followers is the real thing.
"""

from dataclasses import dataclass, field
from random import Random

from barnabas.log.epochs import LeaderEpochs
from barnabas.model.ids import BrokerId
from barnabas.replication.follower import Follower, divergence, marks, truncation_offset
from barnabas.replication.leader import IsrProposal, Leader, NotAReplica, OldIncarnation
from barnabas.replication.state import NO_LEADER, PartitionState

LAG_MS = 1_000
Record = tuple[int, int]  # leader epoch, value
Current = tuple[int, int, tuple[BrokerId, ...]]  # leader epoch, partition epoch, in sync


@dataclass
class Fetch:
    follower: BrokerId
    incarnation: int
    leader_epoch: int
    offset: int
    last_epoch: int


@dataclass
class Reply:
    asked: Fetch
    records: list[Record]
    high_watermark: int
    diverging: tuple[int, int] | None


@dataclass
class Broker:
    """One replica: its disk, and its process while it lives."""

    id: BrokerId
    log: list[Record] = field(default_factory=list)
    epochs: LeaderEpochs = field(default_factory=lambda: LeaderEpochs([]))
    high_watermark: int = 0
    checkpoint: int = 0
    alive: bool = True
    incarnation: int = 1
    known: tuple[int, int] = (-1, -1)
    leading: Leader | None = None
    following: Follower | None = None
    seen: dict[int, int] = field(default_factory=dict)  # high watermark by leader epoch

    def cut(self, at: int) -> None:
        del self.log[at:]
        self.epochs.truncate_end(at)
        self.high_watermark = min(self.high_watermark, at)

    def append(self, records: list[Record]) -> None:
        for epoch, value in records:
            if epoch > self.epochs.latest:
                self.epochs.begin(epoch, len(self.log))
            self.log.append((epoch, value))


class World:
    """One seed, one history; `transcript` is what happened, for a person."""

    def __init__(self, seed: int, brokers: int = 3) -> None:
        self.random = Random(seed)
        self.now = 0
        ids = tuple(BrokerId(each) for each in range(1, brokers + 1))
        self.brokers = {each: Broker(each) for each in ids}
        self.state = PartitionState(ids[0], 0, ids, 0, ids)
        self.words: list[tuple[BrokerId, int, PartitionState]] = []  # LeaderAndIsr under way
        self.fetches: list[tuple[BrokerId, Fetch]] = []
        self.replies: list[tuple[BrokerId, Reply]] = []
        self.proposals: list[tuple[BrokerId, int, IsrProposal]] = []
        self.answers: list[tuple[BrokerId, int, IsrProposal, Current]] = []
        self.acknowledged: dict[int, Record] = {}
        self.value = 0
        self.transcript: list[str] = []
        self._say_all()

    # The controller

    def _say_all(self) -> None:
        for broker in self.brokers.values():
            if broker.alive:
                self.words.append((broker.id, broker.incarnation, self.state))

    def _set(self, leader: BrokerId, isr: tuple[BrokerId, ...], *, elected: bool) -> None:
        state = self.state
        self.state = PartitionState(
            leader,
            state.leader_epoch + elected,
            isr,
            state.partition_epoch + 1,
            state.replicas,
        )
        self.transcript.append(f"{self.now}: controller says {self.state}")
        self._say_all()

    def lost(self, gone: BrokerId) -> None:
        isr = self.state.isr
        left = tuple(each for each in isr if each != gone) or isr
        alive = [each for each in left if self.brokers[each].alive and each != gone]
        if self.state.leader == gone:
            self._set(self.random.choice(alive) if alive else NO_LEADER, left, elected=True)
        elif left != isr:
            self._set(self.state.leader, left, elected=False)

    def elect(self) -> None:
        alive = [each for each in self.state.isr if self.brokers[each].alive]
        if alive:
            self._set(self.random.choice(alive), self.state.isr, elected=True)

    def judge(self) -> None:
        leader, incarnation, proposal = self.proposals.pop(0)
        state = self.state
        current = (state.leader_epoch, state.partition_epoch, state.isr)
        if proposal.leader_epoch == state.leader_epoch and leader == state.leader:
            epochs = dict(zip(proposal.isr, proposal.broker_epochs, strict=True))
            stale = any(
                not self.brokers[each].alive or epoch not in (-1, self.brokers[each].incarnation)
                for each, epoch in epochs.items()
                if each not in state.isr
            )
            if proposal.partition_epoch == state.partition_epoch and not stale:
                self.state = PartitionState(
                    leader,
                    state.leader_epoch,
                    proposal.isr,
                    state.partition_epoch + 1,
                    state.replicas,
                )
                current = (self.state.leader_epoch, self.state.partition_epoch, self.state.isr)
                self.transcript.append(f"{self.now}: in sync {proposal.isr}: {proposal.cause}")
            elif proposal.partition_epoch == state.partition_epoch:
                machine = self.brokers[leader].leading
                if machine is not None:
                    machine.rejected(proposal, self.now)
                return
            elif sorted(proposal.isr) != sorted(state.isr):
                return
            self.answers.append((leader, incarnation, proposal, current))

    # Brokers

    def hear(self) -> None:
        """The controller's words reach each broker in order; brokers differ in how fast."""
        index = self.random.randrange(len(self.words))
        target = self.words[index][0]
        index = next(i for i, word in enumerate(self.words) if word[0] == target)
        _, incarnation, state = self.words.pop(index)
        broker = self.brokers[target]
        if not broker.alive or incarnation != broker.incarnation or state.epochs <= broker.known:
            return
        broker.known = state.epochs
        if state.leader == broker.id:
            if (
                broker.leading is not None
                and broker.leading.state.leader_epoch == state.leader_epoch
            ):
                broker.leading.update(state, self.now)
            else:
                broker.following = None
                broker.epochs.begin(state.leader_epoch, len(broker.log))
                broker.leading = Leader(
                    broker.id,
                    state,
                    end=len(broker.log),
                    high_watermark=broker.high_watermark,
                    lag_ms_max=LAG_MS,
                    now=self.now,
                )
            self.commit(broker)
        elif state.leader == NO_LEADER:
            broker.leading = broker.following = None
        else:
            broker.leading = None
            following = broker.following
            if following is None or following.leader_epoch != state.leader_epoch:
                broker.epochs.truncate_end(len(broker.log))
                broker.following = Follower(state)

    def produce(self, broker: Broker) -> None:
        assert broker.leading is not None
        epoch = broker.leading.state.leader_epoch
        for _ in range(self.random.randint(1, 3)):
            self.value += 1
            broker.append([(epoch, self.value)])
        broker.leading.appended(len(broker.log), self.now)
        self.commit(broker)

    def commit(self, broker: Broker) -> None:
        machine = broker.leading
        assert machine is not None
        epoch = machine.state.leader_epoch
        mark = min(machine.high_watermark, len(broker.log))
        assert mark >= broker.seen.get(epoch, 0), "the watermark went back"
        broker.seen[epoch] = mark
        for offset in range(broker.high_watermark, mark):
            if offset in self.acknowledged:
                assert self.acknowledged[offset] == broker.log[offset], f"two records at {offset}"
            elif broker.log[offset][0] == epoch:
                self.acknowledged[offset] = broker.log[offset]
                self.transcript.append(f"{self.now}: {broker.id} acknowledges {offset}")
        broker.high_watermark = max(broker.high_watermark, mark)

    def ask(self, broker: Broker) -> None:
        assert broker.following is not None
        fetch = Fetch(
            broker.id,
            broker.incarnation,
            broker.following.leader_epoch,
            len(broker.log),
            broker.epochs.latest,
        )
        self.fetches.append((broker.following.leader, fetch))

    def serve(self) -> None:
        index = self.random.randrange(len(self.fetches))
        target, fetch = self.fetches[index]
        if self.random.random() < 0.9:  # else it comes once more
            del self.fetches[index]
        leader = self.brokers[target]
        machine = leader.leading
        if not leader.alive or machine is None:
            return
        if fetch.leader_epoch != machine.state.leader_epoch:
            return
        found = divergence(leader.epochs, len(leader.log), fetch.last_epoch, fetch.offset)
        if found is None:
            if fetch.offset > len(leader.log):
                return
            try:
                proposal = machine.fetched(
                    fetch.follower,
                    fetch.offset,
                    start=0,
                    broker_epoch=fetch.incarnation,
                    now=self.now,
                )
            except (NotAReplica, OldIncarnation):
                return
            if proposal is not None:
                self.proposals.append((leader.id, leader.incarnation, proposal))
            self.commit(leader)
            machine.records_sent(fetch.follower, self.now)
        size = self.random.randint(1, 4)
        records = [] if found else leader.log[fetch.offset : fetch.offset + size]
        self.replies.append((fetch.follower, Reply(fetch, records, leader.high_watermark, found)))

    def take(self) -> None:
        index = self.random.randrange(len(self.replies))
        target, reply = self.replies.pop(index)
        broker, asked = self.brokers[target], reply.asked
        following = broker.following
        if not broker.alive or broker.incarnation != asked.incarnation or following is None:
            return
        if following.leader_epoch != asked.leader_epoch or asked.offset != len(broker.log):
            return
        if asked.last_epoch != broker.epochs.latest:
            return
        if reply.diverging is not None:
            at = truncation_offset(broker.epochs, len(broker.log), *reply.diverging)
            assert at < len(broker.log)
            self.transcript.append(f"{self.now}: {broker.id} cuts {len(broker.log)} to {at}")
            broker.cut(at)
            return
        broker.append(reply.records)
        broker.high_watermark = max(
            broker.high_watermark, marks(reply.high_watermark, 0, len(broker.log)).high_watermark
        )

    def answer(self) -> None:
        leader, incarnation, proposal, answer = self.answers.pop(0)
        broker = self.brokers[leader]
        if broker.alive and broker.incarnation == incarnation and broker.leading is not None:
            if broker.leading.answered(proposal, *answer, self.now):
                broker.known = max(broker.known, answer[:2])
            self.commit(broker)

    def repropose(self, broker: Broker) -> None:
        machine = broker.leading
        if machine is not None and machine.pending is not None:
            self.proposals.append((broker.id, broker.incarnation, machine.pending))

    def kill(self, broker: Broker, *, wipe: bool) -> None:
        """Its page cache survives, unless the disk is emptied; its watermark is a little older."""
        self.transcript.append(
            f"{self.now}: {broker.id} dies{', its disk emptied' if wipe else ''}"
        )
        broker.alive = False
        broker.leading = broker.following = None
        broker.high_watermark = min(broker.checkpoint, len(broker.log))
        if wipe:
            broker.cut(0)
        self.lost(broker.id)

    def revive(self, broker: Broker) -> None:
        self.transcript.append(f"{self.now}: {broker.id} is back")
        broker.alive = True
        broker.incarnation += 1
        broker.known = (-1, -1)
        broker.seen = {}
        if self.state.leader == NO_LEADER and broker.id in self.state.isr:
            self._set(broker.id, self.state.isr, elected=True)
        else:
            self.words.append((broker.id, broker.incarnation, self.state))
