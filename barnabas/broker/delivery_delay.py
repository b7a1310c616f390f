"""Delayed delivery in one partition: the end that readers see, and the timer that wakes them.

Always: one timer per partition, and only while a reader may wait for it; a reader is woken when the
first hidden batch is due, never before. Replicas read everything.
Not here: where the end is (log/visible_end.py).
"""

from asyncio import AbstractEventLoop, TimerHandle
from typing import TYPE_CHECKING

from msgspec.structs import replace

from barnabas.log.visible_end import VisibleEnd
from barnabas.model.ports import Clock
from barnabas.wire.messages.fetch import PartitionData

if TYPE_CHECKING:
    from barnabas.broker.partition import Partition

_BYTES = 1 << 62  # more than any reader waits for
_TIMER_S_MAX = 60.0  # the wall clock may be set meanwhile


class DeliveryDelay:
    """Of one partition."""

    __slots__ = ("_clock", "_loop", "_partition", "_timer", "_visible")

    def __init__(
        self, partition: "Partition", delay_ms: int, clock: Clock, loop: AbstractEventLoop
    ) -> None:
        self._partition = partition
        self._clock = clock
        self._loop = loop
        self._timer: TimerHandle | None = None
        self._visible = VisibleEnd(delay_ms)

    @property
    def delay_ms(self) -> int:
        return self._visible.delay_ms

    def end(self) -> int:
        """The offset that readers reach now. A reader that then waits is woken in time."""
        partition = self._partition
        now = self._clock.wall_ms()
        try:
            end = self._visible.advance(partition.log, now)
        except OSError as error:
            raise partition.unreadable(error) from error
        due = self._visible.due
        if due is not None and self._timer is None:
            wait_s = min(max(0.001, (due - now) / 1000), _TIMER_S_MAX)
            self._timer = self._loop.call_later(wait_s, self._fire)
        return end

    def hide(self, data: PartitionData) -> PartitionData:
        """A consumer gets only offsets of visible records."""
        high = min(data.high_watermark, self.end())
        stable = min(data.last_stable_offset, high)
        return replace(  # type: ignore[type-var]  # a struct, which its base hides
            data, high_watermark=high, last_stable_offset=stable
        )

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _fire(self) -> None:
        self._timer = None
        for waiter in tuple(self._partition.waiters):
            waiter.appended(_BYTES)


def set_delay(partition: "Partition", delay_ms: int, clock: Clock, loop: AbstractEventLoop) -> None:
    """As the topic's options say from now on; readers that wait look again."""
    before = partition.delay
    if before is not None and before.delay_ms == delay_ms:
        return
    if before is not None:
        before.stop()
    partition.delay = DeliveryDelay(partition, delay_ms, clock, loop) if delay_ms else None
    for waiter in tuple(partition.waiters):
        waiter.leadership_lost()
