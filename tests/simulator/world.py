"""A cluster, its clients and all that goes wrong between them, from one seed.

In: a seed, and how long. Out: a transcript; a Failure if a promise was broken.
Always: the same seed gives the same transcript.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from random import Random
from traceback import format_exception

from barnabas.model.ids import TopicPartition
from tests.simulator.clients import Clerk, Client, Founder, Hasty, Operator, Reader, Writer
from tests.simulator.fate import Fate
from tests.simulator.groups import Groups
from tests.simulator.guards import OFFSETS_TOPIC, Guards
from tests.simulator.keeper import Ensemble, State
from tests.simulator.loop import Schedule
from tests.simulator.machine import DIRECTORIES, PORT, Machine
from tests.simulator.network import Cables
from tests.simulator.outside import outside
from tests.simulator.shares.plan import SharePlan
from tests.simulator.shares.settling import Shares
from tests.simulator.transactions.guards import STATE_TOPIC
from tests.simulator.transactions.plan import TransactionPlan
from tests.simulator.transactions.settling import Transactions
from tests.simulator.transcript import Transcript
from tests.simulator.truth import HASTY, Committed, Excused, Violation

SECOND = 1_000_000
PROGRESS_S_MAX = 60
STORY_LINES = 60
SEATS = 3  # of members with instance ids


class Failure(AssertionError):
    """Names the seed, and tells the transcript up to where it went wrong."""

    def __init__(self, text: str, problem: str) -> None:
        super().__init__(text)
        self.problem = problem


@dataclass(frozen=True)
class Plan:
    """What a seed chooses before anything happens."""

    brokers: int
    partitions: int
    replicas: int
    insync_min: int
    flush: bool
    writers: int
    readers: int
    protocol: str
    assignor: str
    trouble_s: int
    groups_partitions: int
    session_ms: int
    lag_ms: int
    segment_bytes: int
    hasty: bool
    operator: bool
    static: bool
    compacts: bool
    fetch_bytes: int
    moves: bool
    outages: bool = False

    @classmethod
    def of(cls, rng: Random, brokers: int | None) -> "Plan":
        count = brokers or rng.choice((1, 3, 3, 3, 3, 4, 5))
        replicas = 1 if count == 1 else 3
        return cls(
            brokers=count,
            partitions=rng.choice((1, 2, 3)),
            replicas=replicas,
            insync_min=1 if count == 1 else rng.choice((2, 2, 2, 1)),
            flush=rng.random() < 0.4,
            writers=rng.choice((1, 2, 2)),
            readers=rng.choice((1, 2, 3)),
            protocol=rng.choice(("classic", "consumer")),
            assignor=rng.choice(("range", "cooperative-sticky")),
            trouble_s=rng.choice((8, 12, 20)),
            groups_partitions=rng.choice((1, 2)),
            session_ms=rng.choice((1_500, 3_000, 6_000)),
            lag_ms=rng.choice((500, 1_500, 4_000)),
            segment_bytes=rng.choice((2_000, 10_000, 1_000_000)),
            hasty=rng.random() < 0.5,
            operator=rng.random() < 0.4,
            static=rng.random() < 0.4,
            compacts=rng.random() < 0.3,
            fetch_bytes=rng.choice((1, 1_000_000)),  # 1: a batch at a time
            moves=rng.random() < 0.4,
        )


class World:
    """Made, run once, thrown away. `transactions`: it has them, whatever its seed says. `shares`:
    whether it has share groups; None: as its seed says. `outages`: all replicas of a partition die
    at once, again and again, and only the in-sync set says who has the records."""

    def __init__(
        self,
        seed: int,
        brokers: int | None = None,
        *,
        transactions: bool = False,
        shares: bool | None = None,
        outages: bool = False,
    ) -> None:
        self.seed = seed
        wanted = TransactionPlan.of(seed, transactions)
        self.transactions = None if wanted is None else Transactions(self, wanted)
        share_plan = SharePlan.of(seed, shares)
        self.shares = None if share_plan is None else Shares(self, share_plan)
        self.rng = Random(seed)
        self.plan = Plan.of(Random(self.rng.random()), brokers)
        if outages:
            self.plan = replace(self.plan, outages=True, insync_min=1, flush=False)
        self.schedule = Schedule(Random(self.rng.random()))
        self.cables = Cables(self.schedule, Random(self.rng.random()))
        self.transcript = Transcript(self.schedule)
        self.problem: BaseException | None = None
        self.ensemble = Ensemble(
            self.schedule, self.cables, self.transcript, Random(self.rng.random()), self.failed
        )
        self.groups = Groups()
        self.guards = Guards(self)
        self._committed: dict[TopicPartition, Committed] = {}
        self.machines = [self._machine(number) for number in range(1, self.plan.brokers + 1)]
        self.clients: list[Client] = []
        self.bootstrap = ",".join(f"{each.name}:{PORT}" for each in self.machines)
        self.assignor = self.plan.assignor
        self.fate = Fate(self, Random(self.rng.random()))
        self.ensemble.elected = self._elected
        self._names = 0

    def _machine(self, number: int) -> Machine:
        plan = self.plan
        settings = {
            "offsets.topic.num.partitions": str(plan.groups_partitions),
            "offsets.topic.replication.factor": str(plan.replicas),
            "auto.create.topics.enable": "false",
            "log.index.size.max.bytes": "4096",  # allocated in full: ten megabytes are slow
            "replica.lag.time.max.ms": str(plan.lag_ms),
            "replica.fetch.max.bytes": str(plan.fetch_bytes),
            "group.min.session.timeout.ms": "1000",
            "group.consumer.session.timeout.ms": "5000",
            "group.consumer.heartbeat.interval.ms": "1000",
            "log.cleaner.enable": str(plan.compacts).lower(),
            "log.cleaner.backoff.ms": "500",
            "log.cleaner.min.cleanable.ratio": "0.2",
        }
        if plan.compacts:
            settings["offsets.topic.segment.bytes"] = "1500"
        if plan.moves:
            settings["log.dirs"] = DIRECTORIES
        if plan.flush:
            settings["log.flush.interval.messages"] = "1"
        if self.transactions is not None:
            settings |= self.transactions.plan.settings(plan.replicas, plan.insync_min)
        if self.shares is not None:
            settings |= self.shares.plan.settings(plan.replicas, plan.insync_min)
        machine = Machine(
            number,
            self.schedule,
            self.cables,
            self.ensemble,
            self.transcript,
            Random(self.rng.random()),
            settings,
            plan.session_ms if plan.brokers > 1 else 0,
            self._turned,
            self._died,
        )
        machine.disk_us = self.rng.choice((300, 300, 300, 15_000))
        return machine

    # --- what everybody asks for ---

    def committed(self, at: TopicPartition) -> Committed:
        found = self._committed.get(at)
        if found is None:
            compacted = at.topic in (OFFSETS_TOPIC, STATE_TOPIC)
            found = self._committed[at] = Committed(at, compacted)
        return found

    def failed(self, problem: BaseException) -> None:
        if self.problem is None:
            self.problem = problem
            self.schedule.stopped = True

    def _turned(self, machine: Machine) -> None:
        try:
            self.guards.look(machine)
        except (Violation, Excused) as problem:
            self.failed(problem)

    def _died(self, machine: Machine) -> None:
        self.guards.forget(machine)
        self.fate.bring_back(machine)

    def _elected(self, at: TopicPartition, before: State | None, state: State) -> None:
        self.fate.elected(at, before, state)
        if before is None or state.leader < 0 or state.leader != before.leader:
            return
        try:
            for broker in state.isr:
                if broker not in before.isr and not self.fate.is_poorer(at, broker):
                    leader, newcomer = self.machines[state.leader - 1], self.machines[broker - 1]
                    self.guards.grown(at, leader, newcomer)
        except Violation as problem:
            self.failed(problem)

    def new_rng(self) -> Random:
        return Random(self.rng.random())

    def name(self, kind: str) -> str:
        self._names += 1
        return f"{kind}{self._names}"

    # --- the run ---

    def run(self) -> Transcript:
        """Everything, from the first start to the last check."""
        try:
            with self._outside(), self.guards.watching():
                self._run()
        except Excused as excuse:
            self.transcript.counts["excused"] += 1
            self.transcript.add("world", f"ends early: {excuse}")
        except BaseException as problem:
            raise self._failure(problem) from problem
        finally:
            self._end()
        return self.transcript

    def _end(self) -> None:
        for each in [machine.loop for machine in self.machines] + [c.loop for c in self.clients]:
            if each is not None:
                each.die()

    def _outside(self) -> AbstractContextManager[None]:
        skews = {machine.name: machine.clock for machine in self.machines}

        def skew_ms(name: str) -> int:
            return skews[name].skew_ms if name in skews else 0

        return outside(self.schedule, self.cables, self.new_rng(), skew_ms)

    def _run(self) -> None:
        plan = self.plan
        self.transcript.add("world", f"seed {self.seed}: {plan}")
        for machine in self.machines:
            machine.start()
        configs = {
            "min.insync.replicas": str(plan.insync_min),
            "segment.bytes": str(plan.segment_bytes),
        }
        if plan.flush:
            configs["flush.messages"] = "1"
        topics = {"orders": (plan.partitions, plan.replicas, configs)}
        if self.transactions is not None:
            topics |= self.transactions.topics
        founder = Founder(self, "founder", self.new_rng(), topics)
        founder.start()
        self._until(lambda: founder.done, 60, "the topics were not made")
        for _ in range(plan.writers):
            self.add(Writer(self, self.name("writer"), self.new_rng(), "orders", plan.partitions))
        if plan.hasty:
            self.add(Hasty(self, self.name(HASTY), self.new_rng(), "orders", plan.partitions))
        if plan.operator:
            self.add(Operator(self, self.name("operator"), self.new_rng()))
        if plan.compacts:
            self.add(Clerk(self, self.name("clerk"), self.new_rng()))
        for number in range(plan.readers):
            self.add_reader(number)
        if self.transactions is not None:
            self.transactions.begin()
        if self.shares is not None:
            self.shares.begin()
        self.fate.begin()
        self._pass(plan.trouble_s)
        self.heal()
        self._make_progress()
        if self.transactions is not None:
            self.transactions.settle()
        if self.shares is not None:
            self.shares.settle()
        self._finish()

    def add(self, client: Client) -> None:
        self.clients.append(client)
        client.start()

    def add_reader(self, seat: int | None = None) -> None:
        """`seat`: the number in its instance id, where members have one; else any."""
        name, rng = self.name("reader"), self.new_rng()
        instance = ""
        if self.plan.static:
            instance = f"seat-{rng.randrange(SEATS) if seat is None else seat}"
        self.add(Reader(self, name, rng, "orders", "billing", self.plan.protocol, instance))

    def heal(self) -> None:
        """From here on nothing goes wrong any more."""
        self.transcript.add("world", "heals")
        self.fate.end()
        self.cables.heal()
        self.ensemble.lossy = 0.0
        for machine in self.machines:
            machine.disk.heal()
            machine.clock.skew_ms = 0
            if machine.broker is not None and any(
                not log_directory.online for log_directory in machine.broker.logs.log_directories
            ):
                machine.stop()  # a directory that went offline is opened again by a start
            self.fate.bring_back(machine)

    # --- what must hold at the end ---

    def _make_progress(self) -> None:
        """Within a minute: every partition takes records, and the group has read all of them."""
        for each in self.clients:
            each.stopped = each.stopped or isinstance(each, Clerk | Hasty | Operator)
        writers = [
            each
            for each in self.clients
            if type(each) is Writer and each.topic == "orders" and not each.ended
        ]
        if not writers:
            writer = Writer(
                self, self.name("writer"), self.new_rng(), "orders", self.plan.partitions
            )
            self.add(writer)
            writers.append(writer)
        if not any(isinstance(each, Reader) and not each.ended for each in self.clients):
            self.add_reader()
        healed_us = self.schedule.now_us
        end_us = healed_us + PROGRESS_S_MAX * SECOND

        def all_written() -> bool:
            return all(
                any(w.last_ack_us.get(p, 0) > healed_us for w in writers)
                for p in range(self.plan.partitions)
            )

        def all_read() -> bool:
            return all(
                len(self.groups.read["billing", at]) >= self._committed[at].end
                for at in self._committed
                if at.topic == "orders"
            )

        self._until_us(all_written, end_us, "a partition takes no records after a minute of peace")
        if self.transactions is not None:
            self.transactions.stop_writers()
        if self.shares is not None:
            self.shares.stop_operators()
        for each in writers:
            each.stopped = True
        self._until_us(
            lambda: all(each.ended for each in writers), end_us, "a producer does not end"
        )
        self._until_us(self._all_in_sync, end_us, "a replica is not in sync after a minute")
        self._until_us(
            all_read, end_us + 20 * SECOND, "the group has not read everything after a minute"
        )
        self.transcript.counts["healed in ms"] = (self.schedule.now_us - healed_us) // 1000

    def _all_in_sync(self) -> bool:
        states, replicas = self.ensemble.states, self.ensemble.replicas
        return all(sorted(state.isr) == sorted(replicas[at]) for at, state in states.items())

    def _finish(self) -> None:
        for client in self.clients:
            client.stopped = True
        self._until(lambda: all(c.ended for c in self.clients), 60, "a client does not end")
        if self.plan.compacts:
            for machine in self.machines:
                self.guards.compare_groups(machine)
        for at, committed in self._committed.items():
            if at.topic == "orders":
                for ack in committed.acks.values():
                    committed.acknowledged(ack)
        self.transcript.counts["records"] = sum(
            committed.end for at, committed in self._committed.items() if at.topic == "orders"
        )

    # --- time ---

    def _pass(self, seconds: int) -> None:
        self.schedule.run_until(self.schedule.now_us + seconds * SECOND)
        self._raise()

    def _until(self, done: Callable[[], bool], seconds: int, otherwise: str) -> None:
        self._until_us(done, self.schedule.now_us + seconds * SECOND, otherwise)

    def until(
        self,
        done: Callable[[], bool],
        seconds: float,
        otherwise: str,
        why: Callable[[], str] | None = None,
    ) -> None:
        """For others; looks a hundred times a second. `why`: says more, at the end."""
        checked_us = -1

        def looked() -> bool:
            nonlocal checked_us
            if self.schedule.now_us // 10_000 == checked_us:
                return False
            checked_us = self.schedule.now_us // 10_000
            return done()

        end_us = self.schedule.now_us + int(seconds * SECOND)
        try:
            self._until_us(looked, end_us, otherwise)
        except Violation as violation:
            if violation.args == (otherwise,) and why is not None:
                raise Violation(why()) from None
            raise

    def _until_us(self, done: Callable[[], bool], end_us: int, otherwise: str) -> None:
        if not done() and not self.schedule.run_until(end_us, done):
            for at, state in self.ensemble.states.items():
                if state.leader < 0:
                    self.fate.excuse_offline(at, state)
            raise Violation(otherwise)
        self._raise()

    def _raise(self) -> None:
        if self.problem is not None:
            raise self.problem

    def _failure(self, problem: BaseException) -> Failure:
        trace = ""
        if not isinstance(problem, Violation):
            trace = "\n" + "".join(format_exception(problem))
        return Failure(
            f"seed {self.seed}: {problem}{trace}\n\n{self.transcript.last(STORY_LINES)}\n\n"
            f"seed {self.seed} at {self.schedule.now_us / SECOND:.6f} s: {problem}\n"
            f"again: python -m tests.simulator --first {self.seed} --seeds 1",
            str(problem) or repr(problem),
        )
