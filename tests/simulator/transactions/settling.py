"""The transactions of a world: who takes part, what befalls them, what must hold at the end.

In: a world. Out: clients in it; a Violation if transactions are left open after healing, if readers
do not get to the end, or if the history does not agree with the logs.
"""

from random import Random
from typing import TYPE_CHECKING, Any

from barnabas.coordinators.transactions.states import TransactionState
from tests.simulator.clients import Writer
from tests.simulator.transactions.clients import (
    CommittedReader,
    Copier,
    Mover,
    TransactionalWriter,
    Transactor,
)
from tests.simulator.transactions.guards import STATE_TOPIC
from tests.simulator.transactions.history import History
from tests.simulator.transactions.plan import INPUT, OUTPUT, TransactionPlan

if TYPE_CHECKING:
    from tests.simulator.world import World

SECOND = 1_000_000
TRANSACTORS_MAX = 8


class Transactions:
    """Of one world. Its choices do not touch those of the world."""

    def __init__(self, world: "World", plan: TransactionPlan) -> None:
        self.plan = plan
        self.history = History()
        self._world = world
        self._rng = Random(f"transactional clients of {world.seed}")

    @property
    def topics(self) -> dict[str, tuple[int, int, dict[str, str]]]:
        plan = self._world.plan
        configs = {
            "min.insync.replicas": str(plan.insync_min),
            "segment.bytes": str(self.plan.segment_bytes),
        }
        if plan.flush:
            configs["flush.messages"] = "1"
        return dict.fromkeys((INPUT, OUTPUT), (self.plan.partitions, plan.replicas, configs))

    def begin(self) -> None:
        world, plan = self._world, self.plan
        for number in range(plan.writers):
            self.add_writer(f"writes-{number}")
        for number in range(plan.copiers):
            self.add_copier(f"copies-{number}")
        for _ in range(plan.readers):
            world.add(CommittedReader(world, world.name("committed"), self._new(), self.history))
        if plan.plain_writer:
            name = world.name("plain")
            world.add(Writer(world, name, self._new(), INPUT, plan.partitions))
        if plan.moves and world.plan.brokers > 1:
            world.add(Mover(world, world.name("mover"), self._new()))

    def _new(self) -> Random:
        return Random(self._rng.random())

    def add_writer(self, id_: str) -> None:
        world = self._world
        name = world.name("txn")
        world.add(TransactionalWriter(world, name, self._new(), self.history, id_))

    def add_copier(self, id_: str) -> None:
        world = self._world
        world.add(Copier(world, world.name("copier"), self._new(), self.history, id_))

    # --- what goes wrong ---

    def transactors(self) -> list[Transactor]:
        clients = self._world.clients
        return [each for each in clients if isinstance(each, Transactor) and not each.ended]

    def add_twin(self, of: Transactor) -> None:
        """Another client with the same transactional id."""
        if len(self.transactors()) < TRANSACTORS_MAX:
            self._world.transcript.counts["zombies"] += 1
            add = self.add_copier if isinstance(of, Copier) else self.add_writer
            add(of.transactional_id)

    # --- the end ---

    def stop_writers(self) -> None:
        """Followers cannot catch up with logs that grow all the time."""
        for each in self._world.clients:
            stops = isinstance(each, TransactionalWriter | Mover)
            plain = isinstance(each, Writer) and each.topic == INPUT
            each.stopped = each.stopped or stops or plain

    def settle(self) -> None:
        """After healing: all is decided, read, copied, and as clients were told."""
        world, history = self._world, self.history
        writers = [each for each in world.clients if each.stopped]
        world.until(lambda: all(each.ended for each in writers), 60, "a producer does not end")
        if self.plan.copiers:
            if not any(isinstance(each, Copier) for each in self.transactors()):
                self.add_copier("copies-0")
            self._until_decided()
            self._until_copied()
        copiers = self.transactors()
        for each in copiers:
            each.stopped = True
        world.until(lambda: all(each.ended for each in copiers), 60, "a copier does not end")
        self._until_decided()
        readers = [
            each for each in world.clients if isinstance(each, CommittedReader) and not each.ended
        ]
        world.until(
            lambda: all(history.has_read_all(each.name) for each in readers),
            30,
            "a reader of committed records has not read everything",
        )
        history.check(bool(self.plan.copiers))
        counts = world.transcript.counts
        counts["transactions"] = len(history.attempts)
        counts["records in transactions"] = sum(
            len(stability.owners) for stability in history.partitions.values()
        )

    def _until_copied(self) -> None:
        """There may be much left to do; but something is done all the time."""
        copied = self.history.copied
        while not self.history.is_copied():
            had = len(copied)

            def more(had: int = had) -> bool:
                return len(copied) > had or self.history.is_copied()

            self._world.until(
                more,
                30,
                "",
                why=lambda: f"30 s after healing the group copies nothing: {self._open()}",
            )

    def _until_decided(self) -> None:
        """No transaction is open for longer than its timeout and 20 s."""
        self._world.until(
            lambda: not self._open(),
            self.plan.open_ms_max / 1000,
            "",
            why=lambda: f"after healing and {self.plan.open_ms_max} ms: {self._open()}",
        )

    def _open(self) -> str:
        found = self.history.undecided()
        if found:
            return found
        for machine in self._world.machines:
            if machine.broker is None:
                return f"{machine.name} is not up"
            found = self._open_in(machine.name, machine.broker)
            if found:
                return found
        return ""

    def _open_in(self, who: str, broker: Any) -> str:
        coordination = broker.transactions
        for index in () if coordination is None else coordination.runtime.partitions():
            shard = coordination.runtime.any_shard(index)
            if not coordination.runtime.is_active(index):
                return f"{STATE_TOPIC}-{index} is loading on {who}"
            for id_, found in shard.table.transactions.items():
                if found.state is TransactionState.ONGOING or found.state.is_prepared:
                    return f"{who} has {id_} in state {found.state.title}: {found}"
        alone = broker.cluster is None
        for topic in broker.topics._by_name.values():
            for partition in topic.partitions:
                if not partition.is_open or not (alone or partition.leading is not None):
                    continue
                log = partition.log
                stable, mark, end = log.last_stable_offset, log.high_watermark, log.end_offset
                if not stable == mark == end:
                    return (
                        f"{partition.name}: last stable offset {stable}, high watermark {mark}, end"
                        f" {end} on {who}"
                    )
        return ""
