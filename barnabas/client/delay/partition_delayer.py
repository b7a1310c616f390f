"""Delivers the records of one holding partition: the schedule decides, this carries it out.

Always: it is opened before its records are read; from then on no other delayer of the partition
can commit. What it has in memory may be lost at any moment.
Not here: which partitions this process has (delayer.py).
"""

import asyncio
import logging
from collections import deque
from collections.abc import Mapping, Sequence
from time import time

from barnabas.client.admin.admin import Admin
from barnabas.client.consumer.message import RawMessage
from barnabas.client.delay.delay_ledger import DelayOutcome, MovedOffsets
from barnabas.client.delay.delay_statistics import DelayStatistics, DelayView
from barnabas.client.delay.delayed_record import HoldingRules
from barnabas.client.delay.held_payloads import HeldPayload, HeldPayloads
from barnabas.client.delay.holding_reader import HoldingReader, entry_in
from barnabas.client.delay.holding_topics import HoldingTopic
from barnabas.client.delay.move_writer import MoveWriter
from barnabas.client.delay.schedule import (
    DelaySchedule,
    DeleteBefore,
    MoveFailure,
    MoveProblem,
    WriteMoves,
)
from barnabas.config.client import Settings
from barnabas.model.errors import KafkaError, Retriable
from barnabas.model.ids import TopicPartition

_WAIT_S_MAX = 1.0  # so that a step of the wall clock is noticed
_log = logging.getLogger("barnabas.delay")


class PartitionDelayer:
    """Of one holding partition."""

    def __init__(
        self,
        holding: HoldingTopic,
        partition: int,
        group: str,
        delay_ms_max: int,
        settings: Settings,
        statistics: DelayStatistics,
    ) -> None:
        self._holding = holding
        self._statistics = statistics
        self._at = TopicPartition(holding.name, partition)
        self._rules = HoldingRules(holding.reserved, delay_ms_max)
        self._writer = MoveWriter(holding, partition, group, settings)
        self._admin = Admin(cluster=self._writer.cluster)
        self._payloads = HeldPayloads(self._at, settings)
        self._schedule = DelaySchedule(MovedOffsets(), 0, holding.dead_letters)
        # ledger records: their offsets, and the last record that each of them has moved
        self._ledger: deque[tuple[int, int]] = deque()
        self._changed = asyncio.Event()
        self._may_delete = True

    async def open(self) -> int:
        """Take the partition over. Returns the offset from which it is to be read."""
        await self._writer.open()
        reader = HoldingReader(self._writer.cluster)
        ledger = await reader.ledger(self._holding, self._at.partition)
        for offset, record in ledger:
            self._ledger.append((offset, max((stop for _, stop in record.runs()), default=0) - 1))
        moved = MovedOffsets(record for _, record in ledger)
        end = await reader.end(self._at)
        self._schedule = DelaySchedule(moved, end, self._holding.dead_letters)
        return max(moved.low, await reader.start(self._at))

    async def close(self) -> None:
        await self._payloads.close()
        await self._writer.close()

    def view(self) -> DelayView:
        """Also from another thread."""
        schedule = self._schedule
        return DelayView(
            self._at.topic,
            self._at.partition,
            self._statistics,
            schedule.waiting,
            schedule.held,
            schedule.next_due(),
        )

    # --- reading ---

    @property
    def full(self) -> bool:
        return self._schedule.full

    def read(self, messages: Sequence[RawMessage], position: int) -> None:
        """The next records of the partition."""
        if not messages and position <= self._schedule.position:
            return
        now = _wall_ms()
        self._schedule.read([entry_in(one, self._rules, now) for one in messages], position)
        for message in messages:
            if message.offset in self._schedule:
                self._payloads.keep(message)
        self._changed.set()

    # --- moving ---

    async def run(self) -> None:
        """For ever, or until it can go on no more."""
        while True:
            for effect in self._schedule.advance(_wall_ms()):
                if isinstance(effect, WriteMoves):
                    await self._move(effect)
                elif isinstance(effect, DeleteBefore):
                    await self._delete_before(effect.offset)
            await self._wait()

    async def _wait(self) -> None:
        deadline = self._schedule.next_deadline()
        wait_s = _WAIT_S_MAX
        if deadline is not None:
            wait_s = min(wait_s, max(0.0, deadline / 1000 - time()))
        try:
            async with asyncio.timeout(wait_s):
                await self._changed.wait()
        except TimeoutError:
            pass
        self._changed.clear()

    async def _move(self, effect: WriteMoves) -> None:
        try:
            failures = await self._moved(effect)
        except Retriable as problem:
            _log.warning("%s: %s", self._at, problem.detail)
            failures = {}
        if failures is None:
            self._committed(effect)
            return
        for topic, failure in {
            move.topic: failures[move.offset] for move in effect.moves if move.offset in failures
        }.items():
            if failure.problem is MoveProblem.PASSING:
                _log.warning("%s: %s waits: %s", self._at, topic or "-", failure.cause)
        self._schedule.aborted(effect.number, failures, _wall_ms())

    async def _moved(self, effect: WriteMoves) -> dict[int, MoveFailure] | None:
        """None: committed."""
        if failures := await self._writer.check_topics(effect.moves):
            return failures
        offsets = [each.offset for each in effect.moves]
        payloads = await self._payloads.get(
            each.offset for each in effect.moves if each.outcome is not DelayOutcome.CANCELLED
        )
        gone = MoveFailure(MoveProblem.RECORD, "it was deleted from the holding topic before")
        failures = {
            move.offset: gone
            for move in effect.moves
            if move.outcome is DelayOutcome.DELIVERED and payloads[move.offset].gone
        }
        if failures:
            return failures
        result = await self._writer.write(effect, payloads, _wall_ms())
        if result is None:
            self._ledger.append((self._writer.ledger_offset, max(offsets)))
            self._count(effect, payloads)
        return result

    def _count(self, effect: WriteMoves, payloads: Mapping[int, HeldPayload]) -> None:
        now, found = _wall_ms(), self._statistics
        outcomes = [move.outcome for move in effect.moves]
        found.cancelled += outcomes.count(DelayOutcome.CANCELLED)
        found.dead_letters += outcomes.count(DelayOutcome.DEAD_LETTER)
        found.delivered_late(
            max(0, now - max(move.due, payloads[move.offset].timestamp))
            for move in effect.moves
            if move.outcome is DelayOutcome.DELIVERED
        )

    def _committed(self, effect: WriteMoves) -> None:
        self._payloads.forget(move.offset for move in effect.moves)
        self._schedule.committed(effect.number)
        for move in effect.moves:
            if move.outcome is DelayOutcome.DEAD_LETTER:
                letters = self._holding.dead_letters
                _log.warning("%s:%d goes to %s: %s", self._at, move.offset, letters, move.cause)

    # --- deleting ---

    async def _delete_before(self, offset: int) -> None:
        """First from the holding topic: what the ledger says is needed until it is gone there."""
        if not self._may_delete:
            return
        try:
            await self._admin.delete_records({self._at: offset})
            first = self._ledger[0][0] if self._ledger else 0
            while len(self._ledger) > 1 and self._ledger[0][1] < offset:
                self._ledger.popleft()
            if self._ledger and self._ledger[0][0] > first:
                at = TopicPartition(self._holding.ledger, self._at.partition)
                await self._admin.delete_records({at: self._ledger[0][0]})
        except Retriable as problem:
            _log.warning("%s: old records are not deleted: %s", self._at, problem.detail)
        except KafkaError as problem:
            self._may_delete = False
            _log.warning("%s: old records are never deleted: %s", self._at, problem.detail)


def _wall_ms() -> int:
    return int(time() * 1000)
