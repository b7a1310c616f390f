"""The real client library in transactions: producers, copiers of a group, readers.

In: a world, a seed. Out: what was sent and what came of it, told to the history.
Always: a client does what docs/CLIENT.md says: it repeats a call after Retriable, aborts after
Abortable, and makes another producer after anything else.
"""

from collections.abc import Mapping
from random import Random
from typing import TYPE_CHECKING, Any

from barnabas.client.admin.admin import Admin
from barnabas.client.aio.producer import Producer
from barnabas.client.consumer.consumer import Consumer
from barnabas.client.consumer.partition_consumer import PartitionConsumer
from barnabas.client.producer.batches import RecordMetadata
from barnabas.model.errors import Abortable, KafkaError, Retriable
from barnabas.model.ids import TopicPartition
from tests.simulator.clients import PATIENCE, Client
from tests.simulator.transactions.guards import STATE_TOPIC
from tests.simulator.transactions.history import Attempt, History
from tests.simulator.transactions.plan import GROUP, INPUT, OUTPUT, TransactionPlan
from tests.simulator.truth import Ack, Violation

if TYPE_CHECKING:
    from tests.simulator.world import World

TRIES = 4  # of a commit, before its outcome is left unknown
CALL_S = 4


class Transactor(Client):
    """Has a transactional id. `again`: how many producers it makes, one after the other."""

    def __init__(self, world: "World", name: str, rng: Random, history: History, id_: str) -> None:
        super().__init__(world, name, rng)
        assert world.transactions is not None
        self.plan: TransactionPlan = world.transactions.plan
        self.history = history
        self.transactional_id = id_
        self.protocol = rng.choice(self.plan.protocols)
        self.timeout_ms = rng.choice(self.plan.timeouts_ms)
        self.number = 0
        self.attempt: Attempt | None = None

    def new_producer(self) -> Producer:
        rng = self.rng
        producer = Producer(
            bootstrap_servers=self.world.bootstrap,
            client_id=self.name,
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self.timeout_ms,
            delivery_timeout_ms=rng.choice((4_000, 10_000)),
            linger_ms=rng.choice((0, 0, 5)),
            max_block_ms=5_000,
            metadata_max_age_ms=rng.choice((3_000, 60_000)),
            **PATIENCE,
        )
        assert producer._transacting is not None
        producer._transacting.requests.protocol_max = self.protocol
        return producer

    async def initialized(self, producer: Producer) -> None:
        while True:
            try:
                return await producer.init_transactions(timeout_s=CALL_S)
            except Retriable as problem:
                self.tell(f"initializes again: {problem}"[:200])
                if self.stopped:
                    raise
                await self.pause(100)

    async def begin(self, producer: Producer) -> Attempt:
        while True:
            try:
                await producer.begin_transaction(timeout_s=CALL_S)
                break
            except Retriable as problem:
                self.tell(f"begins again: {problem}"[:200])
                await self.pause(100)
        self.attempt = self.history.begins(f"{self.name}/{self.number}", self.protocol)
        self.number += 1
        return self.attempt

    def send(self, producer: Producer, attempt: Attempt, topic: str, partition: int) -> bytes:
        value = f"{attempt.key}#{len(attempt.sent)}".encode()
        attempt.sent.append(value)

        def told(metadata: RecordMetadata | None, error: KafkaError | None) -> None:
            if metadata is not None:
                at = TopicPartition(metadata.topic, metadata.partition)
                ack = Ack(self.name, value, metadata.offset, self.world.schedule.now_us)
                try:
                    self.world.committed(at).acknowledged(ack)
                except Violation as problem:
                    self.world.failed(problem)

        try:
            producer.send_nowait(topic, value, partition=partition, callback=told)
        except KafkaError:
            attempt.sent.pop()
            raise
        return value

    async def commit(self, producer: Producer, attempt: Attempt) -> bool:
        """True: it is committed. Raises what ends the producer."""
        attempt.asked_to_commit = True
        for _ in range(TRIES if not self.stopped else 100):
            try:
                await producer.commit_transaction(timeout_s=CALL_S)
            except Retriable as problem:
                self.tell(f"commits {attempt.key} again: {problem}"[:200])
                await self.pause(100)
            except Abortable as problem:
                self.tell(f"{attempt.key}: {problem}"[:200])
                await self.abort(producer, attempt)
                return False
            else:
                self.history.committed(attempt)
                self.world.transcript.counts["transactions committed"] += 1
                return True
        raise Unknown(attempt.key)

    async def abort(self, producer: Producer, attempt: Attempt) -> None:
        self.history.aborted(attempt)
        while True:
            try:
                await producer.abort_transaction(timeout_s=CALL_S)
                break
            except Retriable as problem:
                self.tell(f"aborts {attempt.key} again: {problem}"[:200])
                await self.pause(100)
        self.world.transcript.counts["transactions aborted"] += 1

    async def close(self, producer: Producer) -> None:
        try:
            await producer.close(timeout_s=2)
        except KafkaError as problem:
            self.tell(f"closed: {problem}"[:200])

    def kill(self) -> None:
        super().kill()
        self.world.transcript.counts["transactions left open"] += self.attempt is not None


class Unknown(Exception):
    """A commit has no answer, and nobody asks for it any more."""


class TransactionalWriter(Transactor):
    """Commits some transactions, aborts others, and stays in some for too long."""

    async def run(self) -> None:
        pace_ms = self.rng.choice((100, 300, 600))
        while not self.stopped:
            producer = self.new_producer()
            try:
                await self.initialized(producer)
                while not self.stopped:
                    await self._transact(producer)
                    await self.pause(self.rng.expovariate(1 / pace_ms))
            except Unknown as unknown:
                self.tell(f"does not know whether {unknown} is committed")
            except KafkaError as problem:
                self.tell(f"makes another producer: {problem}"[:300])
                await self.pause(500)
            await self.close(producer)

    async def _transact(self, producer: Producer) -> None:
        rng, plan = self.rng, self.plan
        attempt = await self.begin(producer)
        try:
            for _ in range(rng.choice((0, 1, 1, 2, 3, 6))):
                topic = INPUT if rng.random() < 0.8 or plan.copiers else OUTPUT
                self.send(producer, attempt, topic, rng.randrange(plan.partitions))
                if rng.random() < 0.4:
                    await self.pause(rng.expovariate(1 / 30))
            if plan.slow and rng.random() < 0.1:
                await self.pause(self.timeout_ms * (0.5 + rng.random()))
        except Abortable as problem:
            self.tell(f"{attempt.key}: {problem}"[:200])
            await self.abort(producer, attempt)
        else:
            if rng.random() < 0.7:
                await self.commit(producer, attempt)
            else:
                await self.abort(producer, attempt)
        self.attempt = None


class Copier(Transactor):
    """A member of a group: writes one output for each input, in a transaction with its offset."""

    async def run(self) -> None:
        while not self.stopped:
            producer = self.new_producer()
            try:
                await self.initialized(producer)
                await self._belong(producer)
            except Unknown as unknown:
                self.tell(f"does not know whether {unknown} is committed")
            except KafkaError as problem:
                self.tell(f"starts again: {problem}"[:300])
                await self.pause(300)
            await self.close(producer)

    async def _belong(self, producer: Producer) -> None:
        rng = self.rng
        options: dict[str, Any] = {}
        if self.plan.group_protocol == "classic":
            options = {"session_timeout_ms": 3_000, "heartbeat_interval_ms": 600}
        consumer = Consumer(
            INPUT,
            bootstrap_servers=self.world.bootstrap,
            client_id=self.name,
            group_id=GROUP,
            group_protocol=self.plan.group_protocol,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            fetch_max_wait_ms=rng.choice((100, 500)),
            max_poll_records=rng.choice((5, 50)),
            metadata_max_age_ms=rng.choice((3_000, 60_000)),
            **PATIENCE,
            **options,
        )
        try:
            while not self.stopped:
                await self._read(producer, consumer)
        except (KafkaError, Unknown):
            await self._leave(consumer)
            raise
        await self._leave(consumer)

    async def _leave(self, consumer: Any) -> None:
        try:
            await consumer.close()
        except KafkaError as problem:
            self.tell(f"closed: {problem}"[:200])

    async def _read(self, producer: Producer, consumer: Any) -> None:
        try:
            messages = await consumer.getmany(timeout=self.rng.choice((0.2, 1.0)))
        except KafkaError as problem:
            self.tell(f"{problem}"[:200])
            await self.pause(100)
            return
        if messages and not await self._copy(producer, consumer, messages):
            consumer.seek_to_committed()

    async def _copy(self, producer: Producer, consumer: Any, messages: list[Any]) -> bool:
        rng = self.rng
        attempt = await self.begin(producer)
        offsets: dict[TopicPartition, int] = {}
        try:
            for message in messages:
                at = TopicPartition(message.topic, message.partition)
                offsets[at] = message.offset + 1
                partition = rng.randrange(self.plan.partitions)
                value = self.send(producer, attempt, OUTPUT, partition)
                self.history.inputs[value] = (at, message.offset)
            if rng.random() < 0.1:
                await self.pause(self.timeout_ms * rng.random())
            attempt.offsets = offsets
            await self._send_offsets(producer, consumer, attempt)
        except Abortable as problem:
            self.tell(f"{attempt.key}: {problem}"[:200])
            await self.abort(producer, attempt)
        except KafkaError as problem:
            if not _is_not_a_member(problem):
                raise
            await self.abort(producer, attempt)
        else:
            if rng.random() < 0.9:
                done = await self.commit(producer, attempt)
                self.attempt = None
                return done
            await self.abort(producer, attempt)
        self.attempt = None
        return False

    async def _send_offsets(self, producer: Producer, consumer: Any, attempt: Attempt) -> None:
        places: Mapping[TopicPartition, tuple[int, int, str]] = {
            at: (offset, -1, attempt.key) for at, offset in attempt.offsets.items()
        }
        await producer.send_offsets_to_transaction(
            places, consumer.group_metadata(), timeout_s=CALL_S
        )


def _is_not_a_member(problem: KafkaError) -> bool:
    """`group_metadata()` says so of a consumer that was put out of its group."""
    return "is not a member" in problem.detail


class CommittedReader(Client):
    """Reads all partitions from the beginning, committed records only."""

    def __init__(self, world: "World", name: str, rng: Random, history: History) -> None:
        super().__init__(world, name, rng)
        self.history = history

    async def run(self) -> None:
        rng = self.rng
        assert self.world.transactions is not None
        partitions = range(self.world.transactions.plan.partitions)
        consumer = PartitionConsumer(
            [TopicPartition(topic, each) for topic in (INPUT, OUTPUT) for each in partitions],
            bootstrap_servers=self.world.bootstrap,
            client_id=self.name,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=rng.choice((100, 500)),
            fetch_max_bytes=rng.choice((1, 1_000_000)),
            max_poll_records=rng.choice((3, 50)),
            metadata_max_age_ms=rng.choice((3_000, 60_000)),
            **PATIENCE,
        )
        while not self.stopped:
            try:
                for message in await consumer.getmany(timeout=rng.choice((0.2, 1.0))):
                    at = TopicPartition(message.topic, message.partition)
                    self.world.committed(at).was_read(message.offset, message.value, self.name)
                    self.history.was_read(self.name, at, message.offset, message.value)
            except KafkaError as problem:
                self.tell(f"{problem}"[:200])
                await self.pause(100)
            if rng.random() < 0.3:
                await self.pause(rng.expovariate(1 / 50))
        await consumer.close()


class Mover(Client):
    """Has other brokers coordinate transactions, again and again."""

    topic = STATE_TOPIC
    moved = "transactions moved"

    async def run(self) -> None:
        rng, world = self.rng, self.world
        async with Admin(bootstrap_servers=world.bootstrap, **PATIENCE) as admin:
            while not self.stopped:
                await self.pause(rng.expovariate(1 / 1200))
                found = [at for at in world.ensemble.replicas if at.topic == self.topic]
                if not found:
                    continue
                at = rng.choice(found)
                replicas = list(world.ensemble.replicas[at])
                rng.shuffle(replicas)
                try:
                    await admin.reassign({at: replicas})
                    await admin.elect_leaders([at])
                except KafkaError as problem:
                    self.tell(f"{at}: {problem}"[:200])
                else:
                    world.transcript.counts[self.moved] += 1
