"""One broker's thread and event loop, whose time is the test's clock.

In: functions to run on the loop. Out: their results, in the caller's thread.
Always: closed, it leaves no thread, no task and no descriptor.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from barnabas.testing.clock import TestClock

T = TypeVar("T")

CALL_S_MAX = 120.0


class _ClockedLoop(asyncio.SelectorEventLoop):
    def __init__(self, clock: TestClock) -> None:
        self._test_clock = clock
        super().__init__()

    def time(self) -> float:
        return self._test_clock.seconds()

    def run_due(self) -> None:
        """Call the timers that are due. asyncio would read requests first: a heartbeat that waits
        in a socket would then renew a session that has timed out."""
        now = self.time()
        timers: list[asyncio.TimerHandle] = list(self._scheduled)  # type: ignore[attr-defined]
        for timer in sorted(timers, key=asyncio.TimerHandle.when):
            if timer.when() <= now and not timer.cancelled():
                timer._run()
                timer.cancel()


class BrokerThread:
    """Runs until `close`. `pause` freezes it as SIGSTOP freezes a process."""

    def __init__(self, clock: TestClock, name: str) -> None:
        self.loop = _ClockedLoop(clock)
        self.paused: threading.Event | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            asyncio.set_event_loop(None)

    def call(self, function: Callable[[], T]) -> T:
        """Run a function on the loop."""

        async def run() -> T:
            return function()

        return self.run(run())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop; its result or its error."""
        if self.paused is not None:
            work.close()
            raise RuntimeError("this broker is paused: resume() it first")
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(CALL_S_MAX)

    def rest(self, go_on: threading.Event) -> threading.Event:
        """Stop between two events until `go_on` is set; the deadlines that have passed by then come
        before any request. Returns what is set when they have been handled."""
        resting, passed = threading.Event(), threading.Event()

        def stop() -> None:
            resting.set()
            go_on.wait(CALL_S_MAX)
            self.loop.run_due()
            passed.set()

        self.loop.call_soon_threadsafe(stop)
        resting.wait(CALL_S_MAX)
        return passed

    def pause(self) -> None:
        if self.paused is None:
            self.paused = gate = threading.Event()
            frozen = threading.Event()

            def freeze() -> None:
                frozen.set()
                gate.wait()

            self.loop.call_soon_threadsafe(freeze)
            frozen.wait(CALL_S_MAX)

    def resume(self) -> None:
        gate, self.paused = self.paused, None
        if gate is not None:
            gate.set()

    def close(self) -> None:
        """Cancel what still runs, end the thread, close the loop."""
        self.resume()
        self.run(_cancelled(self.loop))
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(CALL_S_MAX)
        self.loop.close()


async def _cancelled(loop: asyncio.AbstractEventLoop) -> None:
    rest = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in rest:
        task.cancel()
    if rest:
        await asyncio.wait(rest, timeout=CALL_S_MAX / 4)
    await loop.shutdown_asyncgens()
    await loop.shutdown_default_executor()
