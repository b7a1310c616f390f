"""Random histories of transactions: producers, a coordinator that fails over, a network that loses.

In: a seed. Out: an AssertionError when a promise was broken.
Checked: what a reader of committed records sees is all or nothing of each transaction, over all
partitions, and agrees with what the producer was told; no two producers have the same id and
epoch; what is in memory is what the log says; when all producers have gone, nothing stays open for
longer than its timeout and twenty seconds.
"""

from random import Random
from typing import Any

from msgspec.structs import replace

from barnabas.coordinators.runtime import Runtime
from barnabas.coordinators.transactions.decision import Identity
from barnabas.coordinators.transactions.limits import TransactionLimits
from barnabas.coordinators.transactions.records import TransactionRecord
from barnabas.coordinators.transactions.shard import TransactionShard
from barnabas.coordinators.transactions.transaction import EPOCH_MAX
from barnabas.model.errors import Code, Retriable
from tests.coordinators.transactions.cluster import (
    BROKERS,
    PARTITIONS,
    TIMEOUT_MS,
    Heard,
    SimulatedCluster,
)
from tests.coordinators.transactions.producers import Fatal, Life, TransactionalProducer
from tests.coordinators.transactions.world import SHARD, Ids, OffsetJournal

STEPS = 1_000


class Running:
    """A producer at work: its generator, and the number of the request it waits for."""

    def __init__(self, producer: TransactionalProducer) -> None:
        self.producer = producer
        self.life: Life = producer.life()
        self.request: Any = None
        self.waits_for = 0
        self.over = False


class Transactions:
    """One history."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.cluster = SimulatedCluster(self.random, self.random.choice((0, 2)))
        self.crashes = self.random.choice((0.0, 0.01, 0.05))
        self.replication = self.random.choice((0.01, 0.05, 0.3))
        self.running: list[Running] = []
        self.producers: list[TransactionalProducer] = []
        self.crash_in = 0  # steps
        self.near_overflow = self.random.random() < 0.2
        for id_ in ("a", "b")[: self.random.randint(1, 2)]:
            self.start_producer(id_)

    # Producers

    def start_producer(self, id_: str) -> None:
        name = f"{id_}{len(self.producers)}"
        has_version_2 = self.cluster.world.limits.version == 2 and self.random.random() < 0.8
        producer = TransactionalProducer(
            name, id_, self.random, partitions=PARTITIONS, has_version_2=has_version_2
        )
        self.producers.append(producer)
        running = Running(producer)
        self.running.append(running)
        self.go_on(running, None)

    def go_on(self, running: Running, answer: Heard | None) -> None:
        """The producer hears something, or nothing, and sends its next request."""
        if running.over or self.cluster.quiet:
            return
        try:
            running.request = running.life.send(answer)
        except (Fatal, StopIteration):
            running.over = True
            self.running.remove(running)
            id_ = running.producer.id
            if all(other.producer.id != id_ for other in self.running):
                self.start_producer(id_)
            return
        running.waits_for += 1
        number, request = running.waits_for, running.request

        def told(heard: Heard) -> None:
            def arrive() -> None:
                if running.waits_for == number:
                    self.go_on(running, heard)

            self.cluster.send(arrive)

        self.cluster.send(lambda: self.cluster.handle(running.producer, request, told))

    # What happens

    def run(self) -> None:
        for _ in range(STEPS):
            self.step()
            self.check()
        self.make_peace()
        self.check_end()

    def step(self) -> None:
        chance = self.random.random()
        if chance < 0.80:
            self.cluster.deliver_one()
        elif chance < 0.90:
            self.cluster.advance(self.random.choice((1, 20, 200, 1_000)))
        elif chance < 0.915:
            self.give_up_waiting()
        elif chance < 0.935:
            if self.cluster.late:
                self.cluster.late.pop(self.random.randrange(len(self.cluster.late)))()
        elif chance < 0.94:
            self.cluster.world.journal.lagging = not self.cluster.world.journal.lagging
        elif chance < 0.945:
            self.cluster.world.journal.error = Retriable(Code.NOT_ENOUGH_REPLICAS)
        elif chance < 0.97:
            self.cluster.world.journal.error = None
        elif chance < 0.98:
            number = self.random.randrange(PARTITIONS)
            self.cluster.partitions[number].lead_elsewhere()
            self.cluster.leaders[number] = self.random.randrange(BROKERS)
        elif chance < 0.984:
            self.start_producer(self.random.choice(("a", "b")))  # beside one that goes on
        elif self.near_overflow:
            self.skip_epochs()
        if self.random.random() < self.crashes or self.crash_in == 1:
            self.crash()
        self.crash_in -= 1
        if self.cluster.world.journal.lagging and self.random.random() < self.replication:
            self.cluster.world.commit_log(
                self.random.choice(self.cluster.world.journal.possible_ends())
            )
            self.cluster.pump()

    def give_up_waiting(self) -> None:
        if self.running:
            running = self.random.choice(self.running)
            running.waits_for += 1
            self.go_on(running, None)

    def crash(self) -> None:
        self.cluster.crash()
        if self.cluster.world.journal.lagging and self.crash_in <= 0:  # failovers come in pairs
            self.crash_in = self.random.randint(3, 15)

    def skip_epochs(self) -> None:
        """Towards the end of the epochs of a producer id, as if it had been used for long."""
        shard = self.cluster.world.shard
        for id_, found in list(shard.table.transactions.items()):
            fresh = id_ not in shard.table.uncommitted and found.producer_epoch < 30_000
            if fresh and found.state.is_idle and not self.cluster.world.journal.lagging:
                then = replace(found, producer_epoch=EPOCH_MAX - 4, last_epoch=-1)
                self.cluster.world.runtime.write(
                    SHARD, (TransactionRecord(id_, then),), self.cluster.world.now
                )

    def make_peace(self) -> None:
        """All producers are gone, the network and the log are well."""
        self.cluster.quiet = True
        self.running.clear()
        self.cluster.network += self.cluster.late
        journal = self.cluster.world.journal
        journal.error = None
        journal.lagging = False
        self.cluster.world.commit_log()
        self.cluster.pump()
        for _ in range((TIMEOUT_MS + 20_000) // 500):
            while self.cluster.network:
                self.cluster.deliver_one()
            self.cluster.advance(500)
            self.check()

    # What must hold

    def check(self) -> None:
        for partition in self.cluster.partitions:
            partition.check_stable()

    def check_end(self) -> None:
        shard = self.cluster.world.shard
        for id_, found in shard.table.transactions.items():
            assert found.state.is_idle, f"{id_} is still {found.state.title}"
        for partition in self.cluster.partitions:
            assert len(partition.open) == 0, f"partition {partition.number} has open transactions"
        self.check_mirror()
        self.check_identities()
        seen = {
            (partition.number, record)
            for partition in self.cluster.partitions
            for record in once(partition.visible())
        }
        for producer in self.producers:
            for attempt in producer.attempts:
                self.check_attempt(attempt, seen)

    def check_attempt(self, attempt: Any, seen: set[tuple[int, str]]) -> None:
        visible = {record for record in attempt.tried if record in seen}
        acked = set(attempt.acked)
        if attempt.told == "committed":
            assert visible == acked, f"{attempt.name} was committed: {visible} of {acked} is seen"
        elif attempt.told == "aborted" or not attempt.commit_sent:
            assert not visible, f"{attempt.name} was not committed: {visible} is seen"
        else:
            assert visible in (set(), acked), f"{attempt.name}: {visible} of {acked} is seen"

    def check_identities(self) -> None:
        owners: dict[tuple[Identity, str], str] = {}
        for producer in self.producers:
            for identity in producer.identities:
                owner = owners.setdefault((identity, ""), producer.name)
                assert owner == producer.name, f"{identity}: {owner} and {producer.name}"

    def check_mirror(self) -> None:
        """What another coordinator would find is what this one has, but for the last epochs."""
        runtime: Runtime[TransactionShard] = Runtime()
        limits = TransactionLimits(version=self.cluster.world.limits.version)
        runtime.start_loading(SHARD, TransactionShard(limits, Ids(), 1), OffsetJournal())
        for batch in self.cluster.world.journal.batches:
            runtime.load(SHARD, batch)
        found = runtime.any_shard(SHARD).table.transactions
        live = self.cluster.world.shard.table.transactions
        assert found.keys() == live.keys()
        for id_, transaction in live.items():
            kept = replace(transaction, last_epoch=-1)
            if found[id_].client_version != kept.client_version or limits.version == 0:
                kept = replace(kept, previous_producer_id=found[id_].previous_producer_id)
            assert found[id_] == kept, id_


def once(records: list[str]) -> list[str]:
    assert len(records) == len(set(records)), "a record is there twice"
    return records


def live(seed: int) -> None:
    """One whole history from a seed."""
    Transactions(seed).run()
