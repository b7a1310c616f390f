"""Long polls: fetches that wait for data, and fetches that wait for the disk.

In: a fetch that was planned, and the partitions that it reads. Out: its deferred reply.
Always: a fetch waits once, until enough bytes are appended, a partition goes away, or its time is
over; then it is planned a second time and answered with what there is. A fetch whose connection
is closed leaves the partitions that it waits for.
Not here: what a fetch reads (handlers/fetch.py), the promise type (net/deferred_reply.py).
"""

import asyncio
from typing import TYPE_CHECKING

from barnabas.broker.net.deferred_reply import DeferredReply
from barnabas.model.errors import KafkaError
from barnabas.wire.messages.fetch import FetchResponse

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker
    from barnabas.broker.handlers.fetch import FetchPlan, Reading
    from barnabas.broker.net.dispatch import Call
    from barnabas.broker.partition import Partition, Waiter

READ_COMMITTED = 1
WAIT_MS_MAX = 600_000  # nobody needs longer, and a waiting fetch holds memory


class FetchWait:
    """A long poll: one fetch that waits for enough bytes, at most `max_wait_ms`."""

    __slots__ = (
        "_broker", "_loop", "_missing", "_reading", "_timer", "_waiters", "_woken", "deferred",
    )  # fmt: skip

    def __init__(
        self,
        broker: "Broker",
        reading: "Reading",
        partitions: "dict[Partition, None]",
        bytes_missing: int,
        call: "Call",
    ) -> None:
        self._broker = broker
        self._loop = broker.loop
        self._reading = reading
        self._missing = bytes_missing
        self._woken = False
        self.deferred: DeferredReply[FetchResponse] = DeferredReply()
        self.deferred.cancelled = self._leave
        stable = reading.request.isolation_level == READ_COMMITTED
        self._waiters: dict[Partition, Waiter] = {
            partition: DelayedRead(self, partition, stable=stable)
            if partition.delay is not None
            else HeldBack(self, partition, call)
            if stable and partition.log.last_stable_offset < partition.log.high_watermark
            else self
            for partition in partitions
        }
        for partition, waiter in self._waiters.items():
            partition.waiters[waiter] = None
        wait_s = min(reading.request.max_wait_ms, WAIT_MS_MAX) / 1000
        self._timer = self._loop.call_later(wait_s, self._finish)

    def appended(self, size: int) -> None:
        self._missing -= size
        if self._missing <= 0:
            self.leadership_lost()

    def leadership_lost(self) -> None:
        if not self._woken:  # once per turn of the loop, however many batches arrive in it
            self._woken = True
            self._loop.call_soon(self._finish)

    def _finish(self) -> None:
        if self.deferred.done:
            return
        self._leave()
        reading = self._reading
        plan = reading.plan()
        if plan.cold:
            reply_from_memory(self._broker, reading, plan).then(self.deferred.set)
        else:
            self.deferred.set(reading.respond(plan))

    def _leave(self) -> None:
        self.deferred.cancelled = None
        self._timer.cancel()
        for partition, waiter in self._waiters.items():
            partition.waiters.pop(waiter, None)


class HeldBack:
    """Waits in a partition that has an open transaction, for a reader of committed records.

    Records behind the last stable offset are none of its business: woken by each of them, it would
    have nothing to answer, and its consumer would ask again at once.
    """

    __slots__ = ("_partition", "_stable_offset", "_wait", "call")

    def __init__(self, wait: FetchWait, partition: "Partition", call: "Call") -> None:
        self._wait = wait
        self._partition = partition
        self.call = call  # whose fetch waits: `txn explain` names it
        self._stable_offset = partition.log.last_stable_offset

    def appended(self, size: int) -> None:
        if self._partition.log.last_stable_offset > self._stable_offset:
            self._wait.leadership_lost()

    def leadership_lost(self) -> None:
        self._wait.leadership_lost()


class DelayedRead:
    """Waits in a partition with delayed delivery, until a record is due; a reader of committed
    records, until its transaction has ended too."""

    __slots__ = ("_end", "_partition", "_stable", "_wait")

    def __init__(self, wait: FetchWait, partition: "Partition", *, stable: bool) -> None:
        self._wait = wait
        self._partition = partition
        self._stable = stable
        self._end = self._visible_end()

    def appended(self, size: int) -> None:
        try:
            is_due = self._visible_end() > self._end
        except KafkaError:
            is_due = True  # the append has succeeded: the reader gets the error
        if is_due:
            self._wait.leadership_lost()

    def leadership_lost(self) -> None:
        self._wait.leadership_lost()

    def _visible_end(self) -> int:
        log, delay = self._partition.log, self._partition.delay
        end = log.last_stable_offset if self._stable else log.high_watermark
        return end if delay is None else min(end, delay.end())


def reply_from_memory(
    broker: "Broker", reading: "Reading", plan: "FetchPlan"
) -> DeferredReply[FetchResponse]:
    """The reply, once everything that it sends is in memory."""
    deferred: DeferredReply[FetchResponse] = DeferredReply()

    async def warm() -> None:
        await asyncio.gather(
            *(log_directory.warm(slices) for log_directory, slices in plan.cold.items())
        )
        if not deferred.done:
            deferred.set(reading.respond(plan))

    task = broker.loop.create_task(warm())
    broker.dispatcher.keep(task)
    return deferred
