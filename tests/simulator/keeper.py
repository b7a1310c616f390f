"""The keeper of a world: sessions that are renewed, cut off, expired; answers that get lost.

In: virtual time, faults. Out: keepers for brokers; every write, looked at.
Always: news reach a session in order, later than they happen, but before it reads what they are
about; a session is renewed while its process runs and the keeper can be reached, from when the loop
of that process last turned.
"""

import json
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from barnabas.keeper.keeper import (
    Create,
    Delete,
    Disconnected,
    Event,
    Idle,
    Listener,
    Node,
    Operation,
    Result,
    SessionState,
    Set,
)
from barnabas.keeper.memory import MemoryKeeper, MemoryStore
from barnabas.model.ids import TopicPartition
from tests.simulator.loop import Schedule, VirtualLoop
from tests.simulator.network import Cables
from tests.simulator.transcript import Transcript
from tests.simulator.truth import Violation

HOST = "keeper"
LOOK_MS = 50  # how often the keeper looks for sessions that are over
FAILOVER_MS_MAX = 1_000  # after the timeout of a session whose owner hangs
OFFSETS_TOPIC = "__consumer_offsets"


@dataclass(frozen=True)
class State:
    """Of one partition, as the keeper has it."""

    leader: int
    epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    recovering: bool = False
    isr_epochs: tuple[int, ...] = ()  # as which brokers, in the order of `isr`
    elr: tuple[int, ...] = ()


class WatchedStore(MemoryStore):
    """Tells of every write that was done."""

    def __init__(self, done: Callable[[Sequence[Operation]], None]) -> None:
        super().__init__()
        self._done = done

    def write(self, operations: Sequence[Operation], owner: int) -> list[Result]:
        results = super().write(operations, owner)
        self._done(operations)
        return results

    def restart(self) -> None:
        """What was written is there; connections and watches are not."""
        for session in list(self._sessions):
            self.disconnect(session)


class Ensemble:
    """The store, its sessions, and what must hold of what is written to it."""

    def __init__(
        self,
        schedule: Schedule,
        cables: Cables,
        transcript: Transcript,
        rng: Random,
        failed: Callable[[BaseException], None],
    ) -> None:
        self.schedule = schedule
        self.cables = cables
        self.transcript = transcript
        self.rng = rng
        self.store = WatchedStore(self._written)
        self.lossy = 0.0  # how often a write is cut off, done or not
        self.states: dict[TopicPartition, State] = {}
        self.replicas: dict[TopicPartition, tuple[int, ...]] = {}
        self.sessions: dict[int, KeeperSession] = {}
        self.elected: Callable[[TopicPartition, State | None, State], None] = _nobody
        self._controller_epoch = 0
        self._leaders: dict[tuple[TopicPartition, int], int] = {}
        self._failed = failed
        schedule.after(LOOK_MS * 1000, self._look)

    def opener(
        self, name: str, loop: VirtualLoop, timeout_ms: int
    ) -> Callable[[Listener], MemoryKeeper]:
        """For a broker: opens sessions."""

        def open_session(listener: Listener) -> MemoryKeeper:
            if self.is_cut(name):
                raise Disconnected(f"the keeper cannot be reached from {name}")
            session = KeeperSession(self, name, loop, timeout_ms, listener)
            self.sessions[session.session] = session
            return session

        return open_session

    def is_cut(self, name: str) -> bool:
        return self.cables.is_cut(name, HOST) or self.cables.is_cut(HOST, name)

    def live(self) -> list["KeeperSession"]:
        return [each for each in self.sessions.values() if self.store.is_open(each.session)]

    def _look(self) -> None:
        before = len(self.live())
        self.store.advance(self.schedule.now_us // 1000)
        self._look_for_wedged()
        self.sessions = {
            number: each
            for number, each in self.sessions.items()
            if self.store.is_open(number) or each.loop.alive
        }
        self.transcript.counts["sessions expired"] += before - len(self.live())
        self.schedule.after(LOOK_MS * 1000, self._look)

    def _look_for_wedged(self) -> None:
        for each in self.live():
            hangs_ms = each.loop.wedged_ms if each.tied and each.loop.alive else 0
            if hangs_ms > each.timeout_ms + FAILOVER_MS_MAX:
                problem = (
                    f"{each.name} hangs for {hangs_ms} ms and has session {each.session} still"
                )
                self._failed(Violation(f"{problem}: its timeout is {each.timeout_ms} ms"))

    # --- what is written ---

    def _written(self, operations: Sequence[Operation]) -> None:
        try:
            # Replicas first: a state in the same write is about them.
            for operation in sorted(operations, key=lambda each: each.path.count("/")):
                if isinstance(operation, Create | Set):
                    self._look_at(operation.path, operation.data)
                elif isinstance(operation, Delete):
                    self._deleted(operation.path)
        except Violation as problem:
            self._failed(problem)

    def _deleted(self, path: str) -> None:
        parts = path.split("/")
        if path.startswith("/brokers/topics/") and parts[-1] == "state":
            at = TopicPartition(parts[3], int(parts[5]))
            self.states.pop(at, None)
            self.replicas.pop(at, None)

    def _look_at(self, path: str, data: bytes) -> None:
        parts = path.split("/")
        if path == "/controller_epoch":
            epoch = int(data or b"0")
            if epoch and epoch <= self._controller_epoch:
                raise Violation(f"two controllers in epoch {epoch}")
            if epoch:
                self.transcript.counts["controllers"] += 1
            self._controller_epoch = epoch
        elif path.startswith("/brokers/topics/"):
            if len(parts) == 4:
                fields = json.loads(data)
                for number, replicas in fields["partitions"].items():
                    self.replicas[TopicPartition(parts[3], int(number))] = tuple(replicas)
            elif parts[-1] == "state":
                self._new_state(TopicPartition(parts[3], int(parts[5])), json.loads(data))

    def _new_state(self, at: TopicPartition, fields: dict[str, object]) -> None:
        isr = fields["isr"]
        epochs, elr = fields.get("isr_epochs", ()), fields.get("elr", ())
        assert isinstance(isr, list)
        assert isinstance(elr, list | tuple)
        assert isinstance(epochs, list | tuple)
        state = State(
            int(str(fields["leader"])),
            int(str(fields["leader_epoch"])),
            tuple(isr),
            int(str(fields["controller_epoch"])),
            bool(fields.get("leader_recovery_state")),
            tuple(epochs),
            tuple(elr),
        )
        before = self.states.get(at)
        self._check_state(at, before, state)
        self.states[at] = state
        self._count(at, before, state)
        self.elected(at, before, state)

    def _check_state(self, at: TopicPartition, before: State | None, state: State) -> None:
        replicas = self.replicas.get(at, ())
        said = f"{at}: the controller wrote {state} after {before}"
        if not state.isr:
            raise Violation(f"{said}: nobody is in sync")
        if replicas and not set(state.isr) <= set(replicas):
            raise Violation(f"{said}: only {replicas} are replicas")
        if state.leader >= 0 and state.leader not in state.isr:
            raise Violation(f"{said}: the leader is not in sync")
        if state.controller_epoch < self._controller_epoch and (before is None or state != before):
            raise Violation(f"{said}, in controller epoch {self._controller_epoch}")
        if before is not None:
            if state.epoch < before.epoch:
                raise Violation(f"{said}: the epoch went back")
            if state.leader != before.leader and state.epoch == before.epoch:
                raise Violation(f"{said}: another leader in the same epoch")
            if (
                state.leader != before.leader
                and state.leader >= 0
                and state.leader not in (*before.isr, *before.elr)
            ):
                raise Violation(f"{said}: the leader was not in sync, its election is unclean")
        leader = self._leaders.setdefault((at, state.epoch), state.leader)
        if leader != state.leader:
            raise Violation(f"{said}: {leader} leads in this epoch")

    def _count(self, at: TopicPartition, before: State | None, state: State) -> None:
        counts = self.transcript.counts
        if before is None:
            return
        if state.epoch > before.epoch and state.leader >= 0:
            counts["elections"] += 1
            if at.topic == OFFSETS_TOPIC:
                counts["coordinator moves"] += 1
        if len(state.isr) < len(before.isr):
            counts["isr shrinks"] += 1
        elif len(state.isr) > len(before.isr):
            counts["isr expands"] += 1
        self.transcript.add(
            HOST, f"{at} is led by {state.leader} in epoch {state.epoch}, in sync {list(state.isr)}"
        )


def _nobody(at: TopicPartition, before: State | None, state: State) -> None:
    """Wants to know."""


class KeeperSession(MemoryKeeper):
    """One session of one process."""

    def __init__(
        self,
        ensemble: Ensemble,
        name: str,
        loop: VirtualLoop,
        timeout_ms: int,
        listener: Listener,
    ) -> None:
        self._ensemble = ensemble
        self._told = listener
        self._news: deque[Event | SessionState] = deque()
        self.name = name
        self.loop = loop
        self.timeout_ms = timeout_ms
        self.tied = False  # to the loop
        self.news_ms = ensemble.rng.choice((1, 1, 1, 10, 300))  # how late it hears, about
        ensemble.store.now_ms = ensemble.schedule.now_us // 1000
        super().__init__(ensemble.store, timeout_ms, self._hear)
        self._beat()

    # --- while it lasts ---

    def _beat(self) -> None:
        ensemble = self._ensemble
        if not self.loop.alive or not ensemble.store.is_open(self.session):
            if self.loop.alive and not self.loop.paused and not ensemble.is_cut(self.name):
                self.reconnect()  # to hear that it is over
                return
            if not self.loop.alive:
                return
        elif not self.loop.paused:
            if ensemble.is_cut(self.name):
                self.cut_off()
            else:
                self.reconnect()
                self.renew()
        wait_us = self.timeout_ms * 1000 // 3
        ensemble.schedule.after(wait_us - ensemble.rng.randrange(wait_us // 4), self._beat)

    def bind_to_owner(self, idle_ms: Idle) -> None:
        self.tied = True
        super().bind_to_owner(idle_ms)

    def cut_off(self) -> None:
        """It notices that nobody answers."""
        if self._ensemble.store.is_open(self.session):
            self._ensemble.store.disconnect(self.session)

    def renew(self) -> None:
        self.store.now_ms = max(self.store.now_ms, self._ensemble.schedule.now_us // 1000)
        super().renew()

    # --- news, in order and late ---

    def _hear(self, news: Event | SessionState) -> None:
        self._news.append(news)
        rng = self._ensemble.rng
        delay_ms = rng.expovariate(1 / (20 if rng.random() < 0.1 else self.news_ms))
        self._ensemble.schedule.after(int(delay_ms * 1000), self._pass_on_one)

    def _pass_on_one(self) -> None:
        if self._news and self.loop.alive:
            self._told(self._news.popleft())

    def _pass_on(self) -> None:
        while self._news:
            self._pass_on_one()

    # --- calls ---

    def get(self, path: str, *, watch: bool = False) -> Node:
        self._reach()
        return super().get(path, watch=watch)

    def exists(self, path: str, *, watch: bool = False) -> bool:
        self._reach()
        return super().exists(path, watch=watch)

    def children(self, path: str, *, watch: bool = False) -> list[str]:
        self._reach()
        return super().children(path, watch=watch)

    def multi(self, operations: Sequence[Operation]) -> list[Result]:
        self._reach()
        ensemble = self._ensemble
        is_open = ensemble.store.is_open(self.session)
        if is_open and ensemble.lossy and ensemble.rng.random() < ensemble.lossy:
            ensemble.transcript.counts["writes cut off"] += 1
            ensemble.store.fail_next_write(self.session, done=ensemble.rng.random() < 0.5)
        return super().multi(operations)

    def _reach(self) -> None:
        if self._ensemble.is_cut(self.name):
            self.cut_off()
        self._pass_on()
