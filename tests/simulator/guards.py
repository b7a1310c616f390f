"""Looks at a broker after each of its turns, and holds it against what all brokers did before.

In: live brokers. Out: nothing, or a Violation.
Always checked: the high watermark of a leader never goes back within its epoch; one leader per
partition and epoch; a new leader has all that was committed, and knows producers as its
log has them; every replica agrees with what was committed, below its own high watermark; a log has
all that was durable when its last process ended; a coordinator that has read its log back knows
the offsets that were committed, and none that were deleted.
"""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from barnabas.broker.groups.coordination import Coordination
from barnabas.broker.partition import Partition
from barnabas.broker.role import Role
from barnabas.coordinators.groups.shard import GroupShard
from barnabas.coordinators.runtime import Stage
from barnabas.log.log import Log
from barnabas.log.producers.state import NO_SEQUENCE, SEQUENCE_MASK
from barnabas.model.ids import TopicPartition
from tests.simulator.groups import Offsets, Replay, difference, replayed
from tests.simulator.shares.guards import ShareGuards
from tests.simulator.transactions.guards import TransactionGuards
from tests.simulator.truth import Committed, Violation, read, records_of

if TYPE_CHECKING:
    from tests.simulator.machine import Machine
    from tests.simulator.world import World

OFFSETS_TOPIC = "__consumer_offsets"


@dataclass(slots=True)
class Seen:
    """How a replica was when it was last looked at."""

    log: object
    end: int
    watermark: int
    epoch: int
    leads: bool
    agreed: int = 0  # below this it is known to agree with what was committed


class Guards:
    def __init__(self, world: "World") -> None:
        self._world = world
        self._seen: dict[str, dict[TopicPartition, Seen]] = {}
        self._last: dict[Partition, Seen] = {}  # the same of partitions: faster to find
        self._leaders: dict[tuple[TopicPartition, int], str] = {}
        self._shards: dict[tuple[str, int], object] = {}  # that were read back, as last seen
        self._transactions: TransactionGuards | None = None
        if world.transactions is not None:
            self._transactions = TransactionGuards(world, world.transactions.history)
        self._shares: ShareGuards | None = None
        if world.shares is not None:
            self._shares = ShareGuards(world, world.shares.ledger, world.shares.plan.prune_ms)

    def watching(self) -> AbstractContextManager[None]:
        """For the time of a run: what cannot be seen after a turn."""
        return nullcontext() if self._shares is None else self._shares.watching()

    def forget(self, machine: "Machine") -> None:
        """It died: it may come back with less, and must find out by itself."""
        self._seen.pop(machine.name, None)
        if self._shares is not None:
            self._shares.forget(machine)

    def _look_at_order(self, machine: "Machine") -> None:
        """After this error librdkafka would send all that is in flight again in a new epoch, also
        what was written. A leader that does not know yet that there is a later one may give it."""
        for refused in machine.logger.out_of_order:
            at = TopicPartition(refused["topic"], refused["partition"])
            latest = max(epoch for known, epoch in self._leaders if known == at)
            if self._leaders[at, latest] == machine.name:
                raise Violation(f"{machine.name} refused what is in order: {refused}")
        machine.logger.out_of_order.clear()

    def look(self, machine: "Machine") -> None:
        broker = machine.broker
        if machine.logger.faults:
            raise Violation(f"{machine.name} failed: {machine.logger.faults[0]}")
        if broker is None:
            return
        if machine.logger.out_of_order:
            self._look_at_order(machine)
        if broker.coordination is not None:
            self._look_at_groups(machine.name, broker.coordination)
        if self._transactions is not None:
            self._transactions.look(machine.name, broker)
        alone, last = broker.cluster is None, self._last
        for topic in broker.topics._by_name.values():
            for partition in topic.partitions:
                log, now = partition.log, last.get(partition)
                if (  # after most turns nothing has changed
                    now is not None
                    and now.end == log.end_offset
                    and now.watermark == log.high_watermark
                    and now.log is log
                    and now.epoch == partition.leader_epoch
                    and now.leads == (alone or partition.leading is not None)
                ) or not partition.is_open:
                    continue
                self.look_at(machine, partition)
        if self._shares is not None:  # compares with what is committed now
            self._shares.look(machine.name, broker)

    def look_at(self, machine: "Machine", partition: Partition) -> None:
        if machine.broker is None or not partition.is_open:
            return
        seen = self._seen.setdefault(machine.name, {})
        before = seen.get(partition.name)
        if before is None:
            _check_durable(machine, partition.log)
        leads = machine.broker.cluster is None or partition.leading is not None
        self._look_closely(machine.name, partition, leads, before, seen)
        self._last[partition] = seen[partition.name]

    def _look_closely(
        self,
        who: str,
        partition: Partition,
        leads: bool,
        before: Seen | None,
        seen: dict[TopicPartition, Seen],
    ) -> None:
        log, name, epoch = partition.log, partition.name, partition.leader_epoch
        committed = self._world.committed(name)
        if before is None or before.log is not log:
            before = Seen(log, 0, 0, -1, False)
            if self._transactions is not None:
                self._transactions.was_read_back(who, partition)
        now = Seen(log, log.end_offset, log.high_watermark, epoch, leads, before.agreed)
        seen[name] = now
        if now.end < before.end:
            self._world.transcript.counts["truncations"] += 1
            now.agreed = min(now.agreed, now.end)
            if self._transactions is not None:
                self._transactions.was_read_back(who, partition)
        if epoch < before.epoch:
            raise Violation(f"{name}: {who} went back from epoch {before.epoch} to {epoch}")
        if leads:
            self._lead(who, partition, before, now, committed)
        elif now.watermark > committed.end:
            self._follow(who, name, epoch, now.watermark)
        if leads and self._transactions is not None:
            self._transactions.look_at_stability(who, partition, committed)
        if now.watermark > now.agreed:
            committed.compare(log, now.agreed, now.watermark, who)
            now.agreed = min(now.watermark, committed.end)

    def _lead(
        self, who: str, partition: Partition, before: Seen, now: Seen, committed: Committed
    ) -> None:
        name, epoch = partition.name, partition.leader_epoch
        if not (before.leads and before.epoch == epoch):
            leader = self._leaders.setdefault((name, epoch), who)
            if leader != who:
                raise Violation(f"{name}: both {leader} and {who} lead in epoch {epoch}")
            self._complete(who, partition, committed)
            if not committed.compacted:
                _check_producers(who, partition.log)
        elif now.watermark < before.watermark:
            raise Violation(
                f"{name}: the high watermark of {who} went back from {before.watermark} to"
                f" {now.watermark} in epoch {epoch}"
            )
        if now.watermark > committed.end:
            fresh = committed.extend(partition.log, now.watermark, who, epoch)
            if name.topic == OFFSETS_TOPIC:
                for record in fresh:
                    self._world.groups.logged(name, record, who)
            if self._transactions is not None:
                self._transactions.extended(name, fresh)
            if self._world.shares is not None:
                for record in fresh:
                    self._world.shares.ledger.logged(name, record, who)

    def _follow(self, who: str, name: TopicPartition, epoch: int, watermark: int) -> None:
        """No mark is above the leader's, while it leads."""
        leader = self._leaders.get((name, epoch))
        for machine in self._world.machines:
            led = _replica(machine, name) if machine.name == leader else None
            if led is None or led.leading is None or led.leader_epoch != epoch:
                continue
            if led.log.high_watermark < watermark:
                raise Violation(
                    f"{name}: {who} follows, and its high watermark is {watermark}; that of"
                    f" {leader} is {led.log.high_watermark}"
                )

    def _complete(self, who: str, partition: Partition, committed: Committed) -> None:
        """A leader has what those before it committed. One that hears late that it was elected
        may lack what was committed after it: nobody listens to it any more."""
        log, epoch = partition.log, partition.leader_epoch
        end = committed.end_before(epoch)
        if log.end_offset < end:
            self._world.fate.excuse(partition.name, epoch)
            lost = range(log.end_offset, end)
            acked = [committed.acks[each] for each in lost if each in committed.acks]
            raise Violation(
                f"{partition.name}: {who} leads in epoch {epoch} with a log that ends at"
                f" {log.end_offset}; {end} was committed before. Acknowledged and lost:"
                f" {[ack.value for ack in acked[:5]]}"
            )
        committed.compare(log, log.start_offset, end, who)

    def grown(self, at: TopicPartition, leader: "Machine", newcomer: "Machine") -> None:
        """The in-sync set has one more: who has all that counts, and will have it from now on."""
        led, new = _replica(leader, at), _replica(newcomer, at)
        if (
            led is None
            or led.leading is None
            or new is None
            or new.leader_epoch != led.leader_epoch
        ):
            return
        if new.log.end_offset < led.log.high_watermark:
            raise Violation(
                f"{at}: {newcomer.name} came in sync with a log that ends at {new.log.end_offset};"
                f" {led.log.high_watermark} was committed by {leader.name}"
            )

    # --- groups ---

    def _look_at_groups(self, who: str, coordination: Coordination) -> None:
        """At each shard once, when it begins to answer."""
        runtime = coordination.runtime
        for index, context in tuple(runtime._contexts.items()):
            shard = context.shard
            if context.stage is Stage.ACTIVE and self._shards.get((who, index)) is not shard:
                self._shards[who, index] = shard
                self._loaded(who, coordination, index, shard)

    def _loaded(self, who: str, coordination: Coordination, index: int, shard: GroupShard) -> None:
        assert coordination.led.topic is not None
        partition = coordination.led.topic.partitions[index]
        if partition.role is not Role.LEADER:  # led elsewhere since a moment ago
            return
        committed, log = self._world.committed(partition.name), partition.log
        alone = partition.leading is None
        start = committed.end if alone else committed.end_before(partition.leader_epoch)
        records = committed.records(start) + records_of(log, start, log.end_offset)
        replay = replayed(records)
        wrong = difference(_offsets_of(shard), replay.offsets) or _pending_difference(shard, replay)
        if wrong:
            self._world.fate.excuse(partition.name, partition.leader_epoch)
            raise Violation(f"{partition.name}: {who} read its groups back, and {wrong}")

    def compare_groups(self, machine: "Machine") -> None:
        """At the end: the next coordinator would know what was committed."""
        broker = machine.broker
        topic = None if broker is None else broker.topics.get(OFFSETS_TOPIC)
        for partition in () if topic is None else topic.partitions:
            if not partition.is_open:
                continue
            committed, log = self._world.committed(partition.name), partition.log
            end = min(log.end_offset, committed.end)
            found = replayed(records_of(log, log.start_offset, end))
            wrong = difference(found.offsets, replayed(committed.records(end)).offsets)
            if wrong:
                raise Violation(f"{partition.name}: in the log of {machine.name} {wrong}")


def _check_durable(machine: "Machine", log: Log) -> None:
    """A new process has what the one before it called durable. It is looked at before it could
    have truncated anything."""
    durable = machine.durable.pop(log.partition, None)
    if durable and durable.topic_id == log.topic_id and log.end_offset < durable.offset:
        raise Violation(
            f"{log.partition}: the log of {machine.name} ends at {log.end_offset}; it was durable"
            f" up to {durable.offset}"
        )


def _check_producers(who: str, log: Log) -> None:
    """Whom it would take for a repeat, and whom not, follows from its log."""
    last: dict[int, tuple[int, int]] = {}
    for header, _ in read(log, log.start_offset, log.end_offset):
        producer, epoch = header.producer_id, header.producer_epoch
        if producer < 0:
            continue
        if header.base_sequence >= 0:
            sequence = (header.base_sequence + header.last_offset_delta) & SEQUENCE_MASK
            last[producer] = epoch, sequence
        elif last.get(producer, (epoch - 1, 0))[0] != epoch:  # a marker, or offsets
            last[producer] = epoch, NO_SEQUENCE
    for producer, state in log.producers.entries.items():
        found = last.get(producer)
        if found is None and log.start_offset > 0:
            continue  # its batches were deleted
        if found != (state.epoch, state.last_sequence):
            raise Violation(
                f"{log.partition}: {who} begins to lead and takes (epoch, sequence)"
                f" {state.epoch, state.last_sequence} for the last of producer {producer}; its log"
                f" has {found}"
            )


def _replica(machine: "Machine", at: TopicPartition) -> Partition | None:
    topic = None if machine.broker is None else machine.broker.topics.get(at.topic)
    if topic is None or at.partition >= len(topic.partitions):
        return None
    found = topic.partitions[at.partition]
    return found if found.is_open else None


def _offsets_of(shard: GroupShard) -> Offsets:
    return {
        (group, topic, partition): value.offset
        for group in shard.offsets.by_group
        for topic, partition, value in shard.offsets.of_group(group)
    }


def _pending_difference(shard: GroupShard, replay: Replay) -> str:
    found, expected = shard.pending._producers.keys(), replay.is_pending().keys()
    if found == expected:
        return ""
    return f"{sorted(found)} are pending in transactions, where {sorted(expected)} is right"
