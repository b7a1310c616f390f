"""The real client library at work in a world: producers, members of groups, an administrator.

In: a world, a seed. Out: acknowledgements and messages, held against the truth as they come.
Always: whatever a cluster in trouble may answer is borne; what it must never answer is a Violation.
"""

from collections.abc import Mapping
from random import Random
from typing import TYPE_CHECKING, Any

from barnabas.client.admin.admin import Admin
from barnabas.client.aio.producer import Producer
from barnabas.client.consumer.consumer import Consumer
from barnabas.client.consumer.membership.membership import Cause
from barnabas.client.consumer.offset_lookup import Committed
from barnabas.client.producer.batches import RecordMetadata
from barnabas.model.errors import Code, KafkaError
from barnabas.model.ids import TopicPartition
from tests.simulator.groups import BY_HAND, Acknowledged
from tests.simulator.loop import VirtualLoop
from tests.simulator.truth import Ack, Violation

if TYPE_CHECKING:
    from tests.simulator.world import World

PATIENCE: dict[str, Any] = {
    "request_timeout_ms": 2_000,
    "default_api_timeout_ms": 8_000,
    "socket_connection_setup_timeout_ms": 1_500,
    "retry_backoff_ms": 50,
    "retry_backoff_max_ms": 400,
}


TWINS = (Code.FENCED_INSTANCE_ID, Code.UNRELEASED_INSTANCE_ID)


class Client:
    """A process of its own; `stopped` asks it to come to an end."""

    def __init__(self, world: "World", name: str, rng: Random) -> None:
        self.world = world
        self.name = name
        self.rng = rng
        self.stopped = False
        self.ended = False
        self.loop = VirtualLoop(name, world.schedule)
        self.loop.complained = self._complained

    def start(self) -> None:
        self.loop.call_soon(lambda: self.loop.create_task(self._live()) and None)

    async def _live(self) -> None:
        try:
            await self.run()
        except Violation as problem:
            self.world.failed(problem)
        except KafkaError as problem:
            self.tell(f"ends: {problem}")
        except Exception as problem:
            self.world.failed(problem)
        self.ended = True

    async def run(self) -> None:
        raise NotImplementedError

    def kill(self) -> None:
        self.loop.die()
        self.world.cables.gone(self.name)
        self.ended = True
        self.tell("is killed")

    def stand_still(self, ms: int) -> None:
        """As by SIGSTOP; what it was about to do, it does then."""
        self.tell(f"stands still for {ms} ms")
        self.loop.pause(self.world.schedule.now_us + 1000 * ms)

    def tell(self, text: str) -> None:
        self.world.transcript.add(self.name, text)

    async def pause(self, ms: float) -> None:
        import asyncio

        await asyncio.sleep(ms / 1000)

    def _complained(self, context: Mapping[str, Any]) -> None:
        problem = context.get("exception")
        self.tell(f"error: {context.get('message')}: {problem!r}")
        if isinstance(problem, BaseException):
            self.world.failed(problem)


class Writer(Client):
    """An idempotent producer that waits for all replicas, and numbers its records."""

    acks = "all"

    def __init__(self, world: "World", name: str, rng: Random, topic: str, partitions: int) -> None:
        super().__init__(world, name, rng)
        self.topic = topic
        self.partitions = partitions
        self.sent = 0
        self.acked = 0
        self.failed = 0
        self.last_ack_us: dict[int, int] = {}

    async def run(self) -> None:
        rng = self.rng
        producer = Producer(
            bootstrap_servers=self.world.bootstrap,
            acks=self.acks,
            client_id=self.name,
            delivery_timeout_ms=rng.choice((4_000, 10_000, 20_000)),
            linger_ms=rng.choice((0, 0, 5)),
            max_block_ms=5_000,
            metadata_max_age_ms=rng.choice((3_000, 60_000)),
            **PATIENCE,
        )
        pace_ms = rng.choice((80, 250, 600))
        while not self.stopped:
            for _ in range(rng.choice((1, 1, 1, 2, 5))):
                partition = rng.randrange(self.partitions)
                value = f"{self.name}#{self.sent}".encode()
                self.sent += 1
                producer.send_nowait(
                    self.topic,
                    value,
                    partition=partition,
                    callback=lambda metadata, error, value=value: self._told(  # type: ignore[misc]
                        value, metadata, error
                    ),
                )
            await self.pause(rng.expovariate(1 / pace_ms))
        try:
            await producer.close(timeout_s=30)
        except KafkaError as problem:
            self.tell(f"closed: {problem}")

    def _told(
        self, value: bytes, metadata: RecordMetadata | None, error: KafkaError | None
    ) -> None:
        if metadata is None:
            self.failed += 1
            self.tell(f"gave up {value!r}: {error}"[:200])
            self.world.transcript.gave_up.add(self.name)
            return
        self.acked += 1
        self.last_ack_us[metadata.partition] = self.world.schedule.now_us
        if self.acks == "all":
            at = TopicPartition(metadata.topic, metadata.partition)
            ack = Ack(self.name, value, metadata.offset, self.world.schedule.now_us)
            try:
                self.world.committed(at).acknowledged(ack)
            except Violation as problem:
                self.world.failed(problem)


class Hasty(Writer):
    """Waits for the leader alone, and may lose what it was told is written."""

    acks = "1"


class Reader(Client):
    """A member of a group: reads in order, commits what it has read, loses no place.

    One with an instance id may meet another that has the same: one of them has to go."""

    def __init__(
        self,
        world: "World",
        name: str,
        rng: Random,
        topic: str,
        group: str,
        protocol: str,
        instance: str = "",
    ) -> None:
        super().__init__(world, name, rng)
        self.topic = topic
        self.group = group
        self.protocol = protocol
        self.instance = instance
        self.positions: dict[TopicPartition, int] = {}
        self.read = 0

    async def run(self) -> None:
        while not self.stopped:
            try:
                await self._belong()
            except KafkaError as problem:
                self.tell(f"has a twin: {problem}"[:200])
                self._gone()
                if problem.code is Code.FENCED_INSTANCE_ID:
                    return
                await self.pause(500)  # the other one may be dead

    async def _belong(self) -> None:
        """Until it is stopped, or told that another has its instance id."""
        rng = self.rng
        options: dict[str, Any] = {"group_instance_id": self.instance} if self.instance else {}
        if self.protocol == "classic":
            session_ms = rng.choice((3_000, 6_000))
            options |= {
                "session_timeout_ms": session_ms,
                "heartbeat_interval_ms": session_ms // 5,
                "partition_assignment_strategy": self.world.assignor,
            }
        auto = rng.random() < 0.5
        acknowledged = Acknowledged()
        consumer = Consumer(
            self.topic,
            bootstrap_servers=self.world.bootstrap,
            client_id=self.name,
            group_id=self.group,
            group_protocol=self.protocol,
            auto_offset_reset="earliest",
            enable_auto_commit=auto,
            auto_commit_interval_ms=rng.choice((200, 1000)),
            fetch_max_wait_ms=rng.choice((100, 500)),
            max_poll_records=rng.choice((3, 50)),
            metadata_max_age_ms=rng.choice((3_000, 60_000)),
            on_assigned=self._assigned,
            on_revoked=self._revoked,
            on_lost=self._revoked,
            interceptors=[acknowledged],
            **PATIENCE,
            **options,
        )
        while not self.stopped:
            try:
                for message in await consumer.getmany(timeout=rng.choice((0.2, 1.0))):
                    self._took(message)
                if not auto and rng.random() < 0.5 and consumer.assignment():
                    sent_us = self.world.schedule.now_us
                    acknowledged.places.clear()
                    await consumer.commit()
                    self.world.groups.committed(
                        self.group,
                        self.name,
                        self.instance or self.name,
                        acknowledged.places,
                        sent_us,
                    )
            except KafkaError as problem:
                if problem.code in TWINS:
                    await self._close(consumer)
                    raise
                self.tell(f"{problem}"[:200])
                await self.pause(100)
            if rng.random() < 0.3:
                await self.pause(rng.expovariate(1 / 50))
        await self._close(consumer)
        self._gone()

    async def _close(self, consumer: Any) -> None:
        try:
            await consumer.close()
        except KafkaError as problem:
            self.tell(f"closed: {problem}"[:200])

    def _gone(self) -> None:
        for at in self.positions:
            self.world.groups.revoked(self.group, at, self.name)
        self.positions.clear()

    def _took(self, message: Any) -> None:
        at = TopicPartition(message.topic, message.partition)
        if at not in self.positions:
            raise Violation(f"{at}: {self.name} read it without having it assigned")
        self.world.committed(at).was_read(message.offset, message.value, self.name)
        expected = self.positions[at]
        if expected >= 0 and message.offset != expected:
            raise Violation(
                f"{at}: {self.name} read offset {message.offset} where {expected} was next"
            )
        if expected < 0:
            self.world.groups.begins(self.group, at, message.offset, self.name)
        self.positions[at] = message.offset + 1
        self.read += 1
        self.world.groups.was_read(self.group, at, message.offset)

    def _assigned(self, consumer: Any, partitions: list[TopicPartition], cause: Cause) -> None:
        for at in partitions:
            self.positions[at] = -1
            owner = self.instance or self.name
            self.world.groups.assigned(
                self.group,
                at,
                consumer.generation,
                self.name,
                owner,
                self.protocol == "classic",
                self.world.schedule.now_us,
            )

    def _revoked(self, consumer: Any, partitions: list[TopicPartition], cause: Cause) -> None:
        for at in partitions:
            self.positions.pop(at, None)
            self.world.groups.revoked(self.group, at, self.name)


class Founder(Client):
    """Makes the topics, however long it takes."""

    def __init__(
        self, world: "World", name: str, rng: Random, topics: Mapping[str, tuple[int, int, Any]]
    ) -> None:
        super().__init__(world, name, rng)
        self.topics = topics
        self.done = False

    async def run(self) -> None:
        async with Admin(bootstrap_servers=self.world.bootstrap, **PATIENCE) as admin:
            for topic, (partitions, replicas, configs) in self.topics.items():
                await self._make(admin, topic, partitions, replicas, configs)
        self.done = True

    async def _make(
        self, admin: Admin, topic: str, partitions: int, replicas: int, configs: Any
    ) -> None:
        while True:
            try:
                await admin.create_topic(
                    topic, partitions=partitions, replication_factor=replicas, configs=configs
                )
            except KafkaError as problem:
                if problem.code is Code.TOPIC_ALREADY_EXISTS:
                    return
                self.tell(f"{problem}"[:200])
                await self.pause(200)
            else:
                return


class Clerk(Client):
    """Commits offsets of groups that have no members, and deletes them again."""

    async def run(self) -> None:
        rng, number = self.rng, 0
        async with Admin(bootstrap_servers=self.world.bootstrap, **PATIENCE) as admin:
            while not self.stopped:
                await self.pause(rng.expovariate(1 / 150))
                group = f"{BY_HAND}{rng.randrange(4)}"
                at = TopicPartition("orders", rng.randrange(self.world.plan.partitions))
                number += 1
                try:
                    if rng.random() < 0.6:
                        await admin.alter_group_offsets(group, {at: Committed(number)})
                    elif rng.random() < 0.7:
                        await admin.delete_group_offsets(group, [at])
                    else:
                        await admin.delete_group(group)
                except KafkaError as problem:
                    self.tell(f"{group}: {problem}"[:200])


class Operator(Client):
    """Does to a cluster what people do: makes and deletes topics, moves leaders and replicas."""

    async def run(self) -> None:
        rng, alone = self.rng, self.world.plan.brokers == 1
        extra: list[str] = []
        async with Admin(bootstrap_servers=self.world.bootstrap, **PATIENCE) as admin:
            while not self.stopped:
                await self.pause(rng.expovariate(1 / 1500))
                kind = rng.choice(("create", "delete", "configure", "elect", "move", "move"))
                try:
                    if kind == "create":
                        extra.append(f"extra-{len(extra)}-{self.name}")
                        await admin.create_topic(
                            extra[-1], partitions=2, replication_factor=self.world.plan.replicas
                        )
                    elif kind == "delete" and extra:
                        await admin.delete_topic(rng.choice(extra))
                    elif kind == "configure":
                        await admin.alter_topic(
                            "orders", put={"retention.ms": str(rng.randrange(10**9, 10**10))}
                        )
                    elif kind == "elect" and not alone:
                        await admin.elect_leaders()
                    elif kind == "move" and not alone:
                        await self._move(admin)
                except KafkaError as problem:
                    self.tell(f"{kind}: {problem}"[:200])
                else:
                    self.world.transcript.counts["done by the operator"] += 1

    async def _move(self, admin: Admin) -> None:
        brokers = [machine.number for machine in self.world.machines]
        at = TopicPartition("orders", self.rng.randrange(self.world.plan.partitions))
        replicas = self.rng.sample(brokers, self.world.plan.replicas)
        self.tell(f"moves {at} to {replicas}")
        await admin.reassign({at: replicas})
