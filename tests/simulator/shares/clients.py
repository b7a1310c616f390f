"""The real client library in share groups: members, and operators who move and alter their state.

In: a world, a seed. Out: what members asked for and were told, reported to the ledger.
Always: while a world is in trouble a member accepts, releases, rejects and renews as it likes, and
may be too late; after that it accepts everything.
"""

from random import Random
from typing import TYPE_CHECKING, Any

from barnabas.broker.topic import SHARE_STATE_TOPIC
from barnabas.client.admin.admin import Admin
from barnabas.client.consumer.offset_lookup import Committed
from barnabas.client.share.acknowledge_type import AcknowledgeType
from barnabas.client.share.share_consumer import ShareConsumer
from barnabas.model.errors import Code, KafkaError
from barnabas.model.ids import TopicPartition
from tests.simulator.clients import PATIENCE, Client
from tests.simulator.shares.plan import TOPIC
from tests.simulator.transactions.clients import Mover

if TYPE_CHECKING:
    from tests.simulator.shares.settling import Shares
    from tests.simulator.world import World

ACCEPT, RELEASE = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE
REJECT, RENEW = AcknowledgeType.REJECT, AcknowledgeType.RENEW


class ShareMember(Client):
    """Joins, leaves, and joins again as another member."""

    def __init__(
        self, world: "World", name: str, rng: Random, shares: "Shares", group: str
    ) -> None:
        super().__init__(world, name, rng)
        self.shares = shares
        self.group = group
        self.implicit = rng.random() < 0.25
        self.leaves = rng.random() < 0.3

    async def run(self) -> None:
        while not self.stopped:
            consumer = self._new_consumer()
            try:
                await self._belong(consumer)
            except KafkaError as problem:
                self.tell(f"joins again: {problem}"[:200])
                await self.pause(200)
            await self._close(consumer)

    async def _belong(self, consumer: Any) -> None:
        rounds = self.rng.randrange(3, 30) if self.leaves else 1 << 30
        while rounds and not self.stopped:
            rounds -= not self.shares.calm
            await self._round(consumer)

    def _new_consumer(self) -> Any:
        rng = self.rng
        consumer = ShareConsumer[bytes, bytes](
            TOPIC,
            bootstrap_servers=self.world.bootstrap,
            client_id=self.name,
            group_id=self.group,
            share_acknowledgement_mode="implicit" if self.implicit else "explicit",
            share_acquire_mode=rng.choice(("batch_optimized", "record_limit")),
            fetch_max_wait_ms=rng.choice((100, 500)),
            max_poll_records=rng.choice((2, 10, 100)),
            metadata_max_age_ms=rng.choice((3_000, 60_000)),
            **PATIENCE,
        )
        held: Any = consumer._held
        results = held.results

        def told() -> Any:
            found = results()
            for each in found:
                self.shares.ledger.told(self.group, self.name, each)
                self._count("acknowledged" if each.error is None else "not acknowledged", each.runs)
            return found

        held.results = told
        return consumer

    def _count(self, what: str, runs: Any) -> None:
        counts = self.world.transcript.counts
        counts[f"records {what}"] += sum(run.last - run.first + 1 for run in runs)

    async def _round(self, consumer: Any) -> None:
        rng, world = self.rng, self.world
        try:
            messages = await consumer.poll(timeout=rng.choice((0.2, 1.0)))
        except KafkaError as problem:
            self.tell(f"{problem}"[:200])
            await self.pause(100)
            return
        for message in messages:
            at = TopicPartition(message.topic, message.partition)
            world.committed(at).was_read(message.offset, message.value, self.name)
            if self.implicit:  # with the next poll
                self.shares.ledger.asks(self.group, at, message.offset, ACCEPT)
        if not messages:
            return
        if not self.shares.calm:
            await self._dawdle()
        if not self.implicit:
            await self._acknowledge(consumer, messages)
        if rng.random() < 0.7:
            await (consumer.commit_sync() if rng.random() < 0.7 else consumer.commit_async())

    async def _dawdle(self) -> None:
        """Perhaps until the locks have ended."""
        rng = self.rng
        if rng.random() < 0.15:
            await self.pause(self.shares.plan.lock_ms * 1.5 * rng.random())
        elif rng.random() < 0.5:
            await self.pause(rng.expovariate(1 / 50))

    async def _acknowledge(self, consumer: Any, messages: list[Any]) -> None:
        rng, plan = self.rng, self.shares.plan
        if not self.shares.calm and rng.random() < 0.15:
            for message in messages:
                self._decide(consumer, message, RENEW)
            await consumer.commit_sync()
            await self.pause(plan.lock_ms * rng.random())
        alike = rng.random() < 0.5
        type_ = self._choose()
        for message in messages:
            self._decide(consumer, message, type_ if alike else self._choose())

    def _choose(self) -> AcknowledgeType:
        accepts = self.shares.calm or self.rng.random() < self.shares.plan.acceptance
        return ACCEPT if accepts else self.rng.choice((RELEASE, RELEASE, REJECT))

    def _decide(self, consumer: Any, message: Any, type_: AcknowledgeType) -> None:
        at = TopicPartition(message.topic, message.partition)
        self.shares.ledger.asks(self.group, at, message.offset, type_)
        try:
            consumer.acknowledge(message, type_)
        except KafkaError as problem:
            if problem.code is not Code.INVALID_RECORD_STATE:
                raise
            self.tell(f"is too late: {problem}"[:200])

    async def _close(self, consumer: Any) -> None:
        try:
            await consumer.close()
        except KafkaError as problem:
            self.tell(f"closed: {problem}"[:200])


class ShareMover(Mover):
    """Has other brokers coordinate share partitions, again and again."""

    topic = SHARE_STATE_TOPIC
    moved = "share states moved"


class ShareOperator(Client):
    """Sets the options of the groups. Then it alters the offsets of one, whose members leave."""

    def __init__(self, world: "World", name: str, rng: Random, shares: "Shares") -> None:
        super().__init__(world, name, rng)
        self.shares = shares
        self.done = False

    async def run(self) -> None:
        async with Admin(bootstrap_servers=self.world.bootstrap, **PATIENCE) as admin:
            for group in self.shares.plan.groups:
                await self._configure(admin, group)
            self.done = True
            group = self.shares.plan.groups[-1]
            while self.shares.plan.alters and not self.stopped:
                await self.pause(self.rng.expovariate(1 / 4_000))
                if not self.stopped:
                    await self._alter(admin, group)

    async def _configure(self, admin: Admin, group: str) -> None:
        while True:
            try:
                return await admin.alter_group(group, put=self.shares.plan.group_options)
            except KafkaError as problem:
                self.tell(f"{problem}"[:200])
                await self.pause(200)

    async def _alter(self, admin: Admin, group: str) -> None:
        members = self.shares.members(group)
        for each in members:
            each.stopped = True
        for _ in range(8):
            await self.pause(700)
            if not all(each.ended for each in members):
                continue
            at = TopicPartition(TOPIC, self.rng.randrange(self.world.plan.partitions))
            start = self.rng.randrange(self.world.committed(at).end + 1)
            self.tell(f"alters {at} of group {group} to {start}")
            try:
                await admin.alter_group_offsets(group, {at: Committed(start)})
            except KafkaError as problem:
                self.tell(f"{problem}"[:200])
            else:
                self.world.transcript.counts["share offsets altered"] += 1
                break
        for _ in members:
            self.shares.add_member(group)
