"""Carries out what the group coordinator decides: on this broker's logs, loop and connections.

In: requests about groups, from their handlers. Out: replies, now or later.
Always: nothing is answered from a shard that is still being read back; reading back never holds
the loop for longer than a slice, and reads no disk on it.
Not here: the decisions (coordinators/groups), the shape of requests (handlers/).

Made at the start of a broker that has kept groups, or when the first request about one comes: a
broker without groups never imports any of it.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from traceback import format_exception
from typing import TYPE_CHECKING
from uuid import UUID

from barnabas.assignment.group import Topic as SeenTopic
from barnabas.broker.dispatch import Call
from barnabas.broker.doomed import RECORDS_PER_SLICE, Doomed
from barnabas.broker.group_pace import SAMPLE_MS, Pace
from barnabas.broker.later import Later
from barnabas.broker.partition import ACKS_ALL, Partition
from barnabas.coordinators.groups.chronicle import Chronicle
from barnabas.coordinators.groups.limits import Limits
from barnabas.coordinators.groups.member import Caller
from barnabas.coordinators.groups.records import OffsetRecord, Record, partition_of
from barnabas.coordinators.groups.shard import GroupShard
from barnabas.coordinators.groups.words import TROUBLES, why
from barnabas.coordinators.runtime import Answer, Now, Outcome, Runtime
from barnabas.log.config import INT64_MAX
from barnabas.model.errors import Code, KafkaError, Retriable
from barnabas.model.ports import Clock
from barnabas.wire.codec import Message
from barnabas.wire.records import iter_batches

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker
    from barnabas.broker.topic import Topic, Topics

OFFSETS_TOPIC = "__consumer_offsets"
LOAD_BYTES = 1 << 20
LOAD_SLICE_S = 0.004
LOAD_WAIT_S_MAX = 0.5
# Before the first generation of a group: members that start together come within moments. A member
# that was alone in a generation hears of the others only at its next heartbeat, seconds later.
LULL_MS = 100

Reply = Message | Later[Message]
Verb = Callable[[GroupShard, Caller, Now], Outcome[Record]]


def coordination(broker: "Broker") -> "Coordination":
    """The broker's, made on first use."""
    if broker.coordination is None:
        broker.coordination = Coordination(broker)
    return broker.coordination


class PartitionJournal:
    """The log under a shard; what it appends is committed when its replicas have it."""

    __slots__ = ("_clock", "_partition")

    def __init__(self, partition: Partition, clock: Clock) -> None:
        self._partition = partition
        self._clock = clock

    @property
    def high_watermark(self) -> int:
        return self._partition.log.high_watermark

    def append(self, batch: bytearray) -> int:
        partition = self._partition
        if not partition.online:
            raise Retriable(Code.NOT_LEADER_OR_FOLLOWER, f"{partition.name} is gone")
        wall_ms = self._clock.wall_ms()
        return partition.append(memoryview(batch), ACKS_ALL, wall_ms, ours=True).last_offset


class TopicsSeen:
    """The broker's topics, as the coordinator wants to see them."""

    __slots__ = ("_topics",)

    def __init__(self, topics: "Topics") -> None:
        self._topics = topics

    def find(self, name: str) -> SeenTopic | None:
        topic = self._topics.get(name)
        return None if topic is None else SeenTopic(len(topic.partitions), topic.id)

    def name_of(self, topic_id: UUID) -> str | None:
        topic = self._topics.by_id(topic_id)
        return None if topic is None else topic.name

    def names(self) -> list[str]:
        return [topic.name for topic in self._topics]


class Coordination:
    """The group coordinator of one broker."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._clock = broker.clock
        self._loop = broker.loop
        self.runtime: Runtime[GroupShard] = Runtime()
        self.chronicle = Chronicle()
        self.since_ms = self._clock.wall_ms()  # stories begin here
        self.pace = Pace(broker.topics)
        self._topic: Topic | None = None
        self._partitions = 0  # as they were when the shards were taken up: groups must not move
        self._doomed: dict[int, Doomed] = {}  # by shard: offsets that go before it is asked
        self._loading: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        self._stopped = False
        self._sampler: asyncio.TimerHandle | None = None
        self._begin()

    # Starting and stopping

    async def ready(self) -> None:
        """Make the topic if there is none; wait, but not for long, for what must be read back."""
        if self._broker.topics.get(OFFSETS_TOPIC) is None:
            await self._create_topic()
        self._begin()
        if self._loading is not None:
            await asyncio.wait((self._loading,), timeout=LOAD_WAIT_S_MAX)

    def stop(self) -> None:
        """The logs are about to close: nothing more is written."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        if self._loading is not None:
            self._loading.cancel()
        if self._sampler is not None:
            self._sampler.cancel()

    async def _create_topic(self) -> None:
        config = self._broker.config
        overrides = {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(config.offsets_topic_segment_bytes),
        }
        try:
            await self._broker.catalog.create_topic(
                OFFSETS_TOPIC, config.offsets_topic_num_partitions, overrides
            )
        except KafkaError as error:
            if error.code is not Code.TOPIC_ALREADY_EXISTS:
                raise

    def _begin(self) -> None:
        """Take the shards up: those with nothing in their log at once, the others as they load."""
        topic = self._broker.topics.get(OFFSETS_TOPIC)
        if topic is None or topic is self._topic or self._stopped:
            return
        if self._loading is not None:  # the topic was deleted, and made again
            self._loading.cancel()
        for index in self.runtime.partitions():
            self._deliver(self.runtime.unload(index))
        self._topic = topic
        self._partitions = len(topic.partitions)
        self._doomed = {}
        for name, (_, ends) in self._broker.catalog.doomed.items():
            for index, end in ends.items():
                self._doomed.setdefault(index, Doomed()).add(name, end)
        limits = self._limits()
        topics = TopicsSeen(self._broker.topics)
        to_load = []
        for index, partition in enumerate(topic.partitions):
            if partition.failure:
                continue  # its commits cannot be read: nobody must be told that there are none
            partition.on_commit = partial(self._committed, index)
            partition.on_lost = partial(self._loop.call_soon, self._lost, index, topic)
            journal = PartitionJournal(partition, self._clock)
            shard = GroupShard(limits, self.chronicle, topics)
            self.runtime.start_loading(index, shard, journal)
            if partition.log.end_offset > partition.log.start_offset:
                to_load.append(index)
            else:
                self.runtime.finish_loading(index, self.now())
        if self._sampler is None:
            self._sampler = self._loop.call_later(SAMPLE_MS / 1000, self._sample)
        if to_load:
            self._loading = self._loop.create_task(self._load(topic, to_load))
        self._arm(self.runtime.next_deadline())

    def _committed(self, index: int) -> None:
        """Records that had to be synced first now are."""
        self._deliver(self.runtime.watermark_moved(index))

    def _lost(self, index: int, topic: "Topic") -> None:
        """The log is out of reach, or gone: who waits for it must not wait for ever.

        Called behind whatever was under way when it happened."""
        if topic is self._topic and not self._stopped:
            self._deliver(self.runtime.unload(index))

    def _limits(self) -> Limits:
        config = self._broker.config
        return Limits(
            session_timeout_ms_min=config.group_min_session_timeout_ms,
            session_timeout_ms_max=config.group_max_session_timeout_ms,
            members_max=config.group_max_size,
            initial_rebalance_delay_ms=max(config.group_initial_rebalance_delay_ms, LULL_MS),
            offset_metadata_chars_max=config.offset_metadata_max_bytes,
            offsets_retention_ms=config.offsets_retention_minutes * 60_000,
            consumer_session_timeout_ms=config.group_consumer_session_timeout_ms,
            consumer_heartbeat_interval_ms=config.group_consumer_heartbeat_interval_ms,
            consumer_members_max=config.group_consumer_max_size,
            consumer_assignors=config.group_consumer_assignors or ("uniform",),
            consumer_assignment_interval_ms=config.group_consumer_assignment_interval_ms,
            consumer_lull_ms=LULL_MS,
            consumer_upgrade=config.group_consumer_migration_policy in ("bidirectional", "upgrade"),
            consumer_downgrade=config.group_consumer_migration_policy
            in ("bidirectional", "downgrade"),
        )

    async def _load(self, topic: "Topic", indexes: list[int]) -> None:
        began_ms = self._clock.monotonic_ms()
        total = 0
        for index in indexes:
            try:
                total += await self._load_one(topic.partitions[index], index)
                self.runtime.finish_loading(index, self.now())
            except Exception as error:
                # Without all of its log a shard would answer wrongly: better that it does not.
                self._deliver(self.runtime.unload(index))
                self._broker.log.error(
                    "groups not loaded", partition=f"{topic.name}-{index}", reason=repr(error)
                )
                continue
            self._arm(self.runtime.shard(index).next_deadline())
            doomed = self._doomed.pop(index)
            if doomed.ends and doomed.written:
                await self._broker.catalog.offsets_forgotten(index, doomed.ends)
        self._loading = None
        self._broker.log.info(
            "groups loaded",
            partitions=len(indexes),
            records=total,
            ms=self._clock.monotonic_ms() - began_ms,
        )

    async def _load_one(self, partition: Partition, index: int) -> int:
        """Replay one log from its start; how many records it had."""
        log = partition.log
        shard = self.runtime.any_shard(index)
        doomed = self._doomed.setdefault(index, Doomed())
        offset, end = log.start_offset, log.end_offset
        count = 0
        slice_end = self._loop.time() + LOAD_SLICE_S
        while offset < end:
            found = log.read(offset, LOAD_BYTES, end)
            part = found.file_slice
            if part is None:
                break
            data = await self._loop.run_in_executor(
                None, part.file.read, part.position, part.length
            )
            for header, batch in iter_batches(data):
                if header.base_offset >= doomed.next_end:
                    for _ in doomed.reached(header.base_offset, shard):
                        await asyncio.sleep(0)
                self.runtime.load(index, batch, header)
                count += header.record_count
                if self._loop.time() > slice_end:
                    await asyncio.sleep(0)
                    slice_end = self._loop.time() + LOAD_SLICE_S
            offset = found.next_offset
        while not doomed.over:  # more may be deleted while tombstones are written
            for _ in doomed.reached(INT64_MAX, shard):
                await asyncio.sleep(0)
            for records in doomed.tombstones(shard):
                if not self._forget(index, records):
                    doomed.written = False
                await asyncio.sleep(0)
        return count

    def _forget(self, index: int, records: tuple[OffsetRecord, ...]) -> bool:
        """False if the log does not take it: then the keeper knows until the next start."""
        if self.runtime.write(index, records, self.now()):
            return True
        shard = self.runtime.any_shard(index)
        for record in records:
            shard.replay(record)
        return False

    # Requests

    def partition_of(self, group_id: str) -> int:
        """NOT_COORDINATOR until somebody has looked for a coordinator, and so made the topic."""
        self._begin()
        if self._topic is None:
            raise Retriable(Code.NOT_COORDINATOR, f"there is no {OFFSETS_TOPIC} yet")
        return partition_of(group_id, self._partitions)

    def run(self, group_id: str, verb: Verb, call: Call) -> Reply:
        """Run a verb on the group's shard; its answer may wait for others, or for the log."""
        return self.run_on(self.partition_of(group_id), verb, call)

    def run_on(self, partition: int, verb: Verb, call: Call) -> Reply:
        later: Later[Message] = Later()
        caller = caller_of(call, later)
        now = self.now()
        shard = self.runtime.shard(partition)
        self._deliver(self.runtime.carry_out(partition, verb(shard, caller, now), now))
        self._arm(shard.next_deadline())
        if self.chronicle.untold:
            self._tell()
        return _now_or_later(later)

    def look(self, look: Callable[[], Message], group_ids: Iterable[str] | None = None) -> Reply:
        """What was seen of these groups, or of all: told once it can no longer be lost."""
        response = look()
        if group_ids is None:
            indexes = self.runtime.partitions()
        elif self._topic is None:
            return response
        else:
            indexes = tuple({partition_of(each, self._partitions) for each in group_ids})
        later: Later[Message] = Later()
        left = 0
        lost = False

        def tell(committed: bool) -> None:
            nonlocal left, lost
            left -= 1
            lost = lost or not committed
            if left:
                return
            again = self.look(look, group_ids) if lost else response
            if isinstance(again, Later):
                again.then(later.set)
            else:
                later.set(again)

        left = sum(not self.runtime.is_settled(index, tell) for index in indexes)
        return later if left else response

    def shard_of(self, group_id: str) -> GroupShard:
        """To look at."""
        return self.runtime.shard(self.partition_of(group_id))

    def shards(self) -> list[GroupShard]:
        """All of them, to look at; COORDINATOR_LOAD_IN_PROGRESS while one is loading."""
        self._begin()
        return [self.runtime.shard(index) for index in self.runtime.partitions()]

    def topics_changed(self, name: str, *, of_names: bool) -> None:
        """Groups of the new protocol that read it find out at their next heartbeat."""
        for index in self.runtime.partitions():
            with suppress(KafkaError):  # one that is loading looks at the topics anyway
                self.runtime.shard(index).topics_changed(frozenset((name,)), of_names=of_names)

    async def topic_deleted(self, name: str) -> dict[int, int]:
        """Its offsets mean nothing to the next topic of that name, which nobody can make or commit
        to before this returns. Out: the shards whose logs could not be told yet, and up to where
        they may have offsets of it."""
        self.topics_changed(name, of_names=True)
        self._begin()
        assert self._topic is not None
        partitions = self._topic.partitions
        left: dict[int, int] = {}
        to_tell = []
        for index, partition in enumerate(partitions):
            if self.runtime.is_active(index):
                to_tell.append(index)
            elif partition.volume is None:  # out of reach: nobody knows what is in it
                left[index] = INT64_MAX
            elif partition.log.end_offset > partition.log.start_offset:
                left[index] = partition.log.end_offset
                self._doomed.setdefault(index, Doomed()).add(name, left[index])
        for index in to_tell:
            if not await self._forget_topic(index, name):
                left[index] = partitions[index].log.end_offset
        if left:
            self._broker.log.warning("offsets of a deleted topic kept for now", topic=name)
        return left

    async def _forget_topic(self, index: int, name: str) -> bool:
        offsets = self.runtime.shard(index).offsets
        written = True
        for records in offsets.of_topic(name, RECORDS_PER_SLICE):
            if not self.runtime.is_active(index):
                return False
            written = self._forget(index, tuple(records)) and written
            await asyncio.sleep(0)
        return written

    # Time and answers

    def now(self) -> Now:
        return Now(self._clock.monotonic_ms(), self._clock.wall_ms())

    def _tell(self) -> None:
        """One line per rebalance that is over, its cause in words."""
        for group, chapter in self.chronicle.take():
            overtaken = chapter.sync_ms < 0
            say = self._broker.log.debug if overtaken else self._broker.log.info
            if any(cause.kind in TROUBLES for cause in chapter.causes):
                say = self._broker.log.warning
            say(
                "rebalance",
                group=group,
                generation=chapter.generation,
                members=chapter.members,
                why=why(chapter),
                join_ms=chapter.join_ms,
                sync_ms=chapter.sync_ms,
                **({"overtaken": True} if overtaken else {}),
            )

    def _sample(self) -> None:
        self._sampler = self._loop.call_later(SAMPLE_MS / 1000, self._sample)
        if not self.runtime.is_loading():
            live = ((id_, shard.offsets) for shard in self.shards() for id_ in shard.live())
            self.pace.sample(live, self.now())

    def _deliver(self, answers: list[Answer]) -> None:
        for token, response in answers:
            assert isinstance(token, Later)
            try:
                token.set(response)
            except Exception as error:  # the others are still to be told
                self._failed("answer not given", error)

    def _failed(self, event: str, error: Exception) -> None:
        self._broker.counts.failures += 1
        trace = "".join(format_exception(error))
        self._broker.log.error(event, error=repr(error), trace=trace)

    def _arm(self, deadline_ms: int | None) -> None:
        if deadline_ms is None or self._stopped:
            return
        if self._timer is not None:
            if self._timer_ms <= deadline_ms:
                return
            self._timer.cancel()
        self._timer_ms = deadline_ms
        wait_ms = max(0, deadline_ms - self._clock.monotonic_ms())
        self._timer = self._loop.call_later(wait_ms / 1000, self._tick)

    def _tick(self) -> None:
        self._timer = None
        if self._stopped:
            return
        try:
            failed = partial(self._failed, "deadline of a group failed")
            self._deliver(self.runtime.expire(self.now(), failed))
            self._tell()
        finally:  # a fault in one group must not stop the clock of all
            self._arm(self.runtime.next_deadline())


def caller_of(call: Call, token: object) -> Caller:
    peer = call.connection.peer
    host = peer.rpartition(":")[0]
    return Caller(token, call.version, call.header.client_id or "", f"/{host}", peer)


def _now_or_later(later: Later[Message]) -> Reply:
    """An answer that is there goes at once."""
    return later.take() if later.done else later
