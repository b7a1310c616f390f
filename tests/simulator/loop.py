"""Virtual time: one schedule for the world, and an event loop for each process in it.

In: callbacks, timers, blocking calls. Out: the same callbacks, each at a moment of virtual time
that the seed chooses.
Always: within a process, what was called soon runs in that order, as on a real loop; between
processes only virtual time and the seed decide. Nothing waits for real time and no thread is made:
a call for an executor runs on the spot, at a later moment.
"""

import asyncio
from asyncio import events
from asyncio.format_helpers import _format_callback_source
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from contextvars import Context, copy_context
from functools import partial
from heapq import heappop, heappush
from inspect import CORO_CREATED, getcoroutinestate
from random import Random
from types import CoroutineType
from typing import TYPE_CHECKING, Any

from tests.simulator.truth import Violation

if TYPE_CHECKING:
    from tests.simulator.disk import SimulatedDisk
    from tests.simulator.network import Socket

TURN_US = 20  # the least that a turn of a loop takes
DISK_US = 300
EVENTS_MAX = 2_000_000  # of a world; most have 40,000


class Schedule:
    """All that will happen, by the time at which it does."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.now_us = 0
        self.events = 0
        self.stopped = False  # something went wrong: nothing else happens
        self._chance = rng.random
        self._heap: list[tuple[int, float, int, Callable[[], None]]] = []
        self._pushed = 0

    def at(self, time_us: int, happen: Callable[[], None]) -> None:
        self._pushed = pushed = self._pushed + 1
        if time_us < self.now_us:  # noqa: PLR1730 (a call of max() costs as much as the rest)
            time_us = self.now_us
        heappush(self._heap, (time_us, self._chance(), pushed, happen))

    def after(self, wait_us: int, happen: Callable[[], None]) -> None:
        self.at(self.now_us + wait_us, happen)

    def run_until(self, end_us: int, done: Callable[[], bool] | None = None) -> bool:
        """Let things happen until then, or until `done` or stopped: whether that was the reason."""
        heap = self._heap
        while heap and heap[0][0] <= end_us:
            self.now_us, _, _, happen = heappop(heap)
            self.events = count = self.events + 1
            if count > EVENTS_MAX:
                raise Violation(f"after {EVENTS_MAX} events still busy: a loop spins")
            happen()
            if self.stopped or (done is not None and done()):
                return True
        self.now_us = max(self.now_us, end_us)
        return False


class Call(asyncio.Handle):
    """A Handle for what a virtual loop uses of it: a world makes a hundred thousand of them."""

    __slots__ = ()
    _callback: Any
    _args: Any

    def __init__(
        self, callback: Callable[..., object], args: tuple[Any, ...], context: Context
    ) -> None:
        self._callback = callback
        self._args = args
        self._context = context
        self._cancelled = False

    def cancel(self) -> None:
        self._cancelled = True
        self._callback = self._args = None


class Timer(asyncio.TimerHandle):
    """The same for a TimerHandle. A cancelled one stays in the schedule, and does nothing."""

    __slots__ = ()
    _loop: "VirtualLoop"
    _callback: Any
    _args: Any

    def __init__(
        self,
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: "VirtualLoop",
        context: Context,
    ) -> None:
        self._when = when
        self._callback = callback
        self._args = args
        self._loop = loop
        self._context = context
        self._cancelled = False

    def cancel(self) -> None:
        self._cancelled = True
        self._callback = self._args = None

    def due(self) -> None:
        loop = self._loop
        if not self._cancelled and loop.alive:
            loop._ready.append(self)
            if not loop._turn_is_due:
                loop._make_turn_due()


class VirtualLoop(asyncio.BaseEventLoop):
    """The event loop of one process, until it dies."""

    def __init__(self, name: str, schedule: Schedule, slowness: float = 1.0) -> None:
        self.name = name
        self.alive = True
        super().__init__()
        self.after_turn: Callable[[], None] | None = None
        self.before_turn: Callable[[], None] | None = None
        self.complained: Callable[[dict[str, Any]], None] | None = None
        self.sockets: dict[int, Socket] = {}
        self.disk: SimulatedDisk | None = None  # of its machine
        self.disk_us = DISK_US  # how long a call for an executor takes, about
        self._schedule = schedule
        self._rng = schedule.rng
        self._slowness = slowness
        self._ready: deque[Call | Timer] = deque()
        self._new_tasks: list[asyncio.Task[Any]] = []  # that have had no turn yet
        self._turn_is_due = False
        self._paused_until = 0
        self._wedged_until = 0
        self._wedged_since = 0
        self._stands_until = 0  # the later of the two
        self._busy_until: dict[Executor | None, int] = {}  # one call at a time in each

    # --- what processes use ---

    def time(self) -> float:
        return self._schedule.now_us / 1_000_000

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return events._get_running_loop() is self

    def is_closed(self) -> bool:
        return not self.alive

    def call_soon(  # type: ignore[override]
        self,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.Handle:
        handle = Call(callback, args, copy_context() if context is None else context)
        self._ready.append(handle)
        if not self._turn_is_due:
            self._make_turn_due()
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_later(  # type: ignore[override]
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        when = self._schedule.now_us / 1_000_000 + delay
        return self.call_at(when, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        timer = Timer(when, callback, args, self, copy_context() if context is None else context)
        self._schedule.at(int(when * 1_000_000) + 1, timer.due)
        return timer

    def create_future(self) -> "asyncio.Future[Any]":
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, *, name: Any = None, context: Any = None) -> Any:
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, name=name, context=context)
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # it dies with its process
        self._new_tasks.append(task)
        return task

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., Any], *args: Any
    ) -> "asyncio.Future[Any]":
        """On the spot, at a later moment; calls for one thread one after the other."""
        future = self.create_future()
        start_us = max(self._schedule.now_us, self._busy_until.get(executor, 0))
        due_us = start_us + 1 + int(self._rng.expovariate(1 / self.disk_us))
        self._busy_until[executor] = due_us

        def work() -> None:
            if not self.alive:
                return
            if self._paused_until > self._schedule.now_us:  # its threads stand still too
                self._schedule.at(self._paused_until, work)
                return
            if self.before_turn is not None:
                self.before_turn()
            events._set_running_loop(None)
            try:
                result = func(*args)
            except Exception as problem:
                self.call_soon(_settle, future, None, problem)
            else:
                self.call_soon(_settle, future, result, None)
            if self.after_turn is not None:
                self.after_turn()

        self._schedule.at(due_us, work)
        return future

    def add_reader(self, fd: Any, callback: Callable[..., None], *args: Any) -> None:  # type: ignore[override]
        self.sockets[fd].end.watch_readable(partial(callback, *args))

    def remove_reader(self, fd: Any) -> bool:
        if fd in self.sockets:
            self.sockets[fd].end.watch_readable(None)
        return True

    def add_writer(self, fd: Any, callback: Callable[..., None], *args: Any) -> None:  # type: ignore[override]
        self.sockets[fd].end.watch_writable(partial(callback, *args))

    def remove_writer(self, fd: Any) -> bool:
        if fd in self.sockets:
            self.sockets[fd].end.watch_writable(None)
        return True

    def __del__(self) -> None:
        """There is nothing to close."""

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if self.alive and self.complained is not None:
            self.complained(context)

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.call_exception_handler(context)

    # --- what the world does to it ---

    def die(self) -> None:
        """Nothing of it runs any more."""
        self.alive = False
        for task in self._new_tasks:
            _close_unless_begun(task.get_coro())
        self._new_tasks.clear()
        self._ready.clear()

    def pause(self, until_us: int) -> None:
        """Stopped, as by SIGSTOP: what is due meanwhile runs late."""
        self._paused_until = until_us
        self._stands_until = max(until_us, self._wedged_until)

    def wedge(self, until_us: int) -> None:
        """In a call that does not return, as on a frozen disk: its threads go on."""
        now_us = self._schedule.now_us
        if self._wedged_until <= now_us:
            self._wedged_since = now_us
        self._wedged_until = max(self._wedged_until, until_us)
        self._stands_until = max(self._paused_until, self._wedged_until)

    @property
    def wedged_ms(self) -> int:
        """For how long it has been so now."""
        now_us = self._schedule.now_us
        return (now_us - self._wedged_since) // 1000 if self._wedged_until > now_us else 0

    @property
    def paused(self) -> bool:
        return self._paused_until > self._schedule.now_us

    def _make_turn_due(self) -> None:
        self._turn_is_due = True
        schedule = self._schedule
        due_us = schedule.now_us + TURN_US + int(self._rng.random() * 60 * self._slowness)
        schedule.at(max(due_us, self._stands_until), self._turn)

    def _turn(self) -> None:
        if not self.alive:
            return
        if self._stands_until > self._schedule.now_us:
            self._schedule.at(self._stands_until, self._turn)
            return
        ready, begun = self._ready, len(self._new_tasks)
        if self.before_turn is not None:
            self.before_turn()
        events._set_running_loop(self)
        try:
            for _ in range(len(ready)):
                call = ready.popleft()
                if not call._cancelled:
                    try:
                        call._context.run(call._callback, *call._args)
                    except (SystemExit, KeyboardInterrupt):
                        raise
                    except BaseException as problem:
                        self._raised(call, problem)
                    if not self.alive:
                        return
        finally:
            events._set_running_loop(None)
        if begun:
            del self._new_tasks[:begun]
        self._turn_is_due = False
        if ready:
            self._make_turn_due()
        if self.after_turn is not None:
            self.after_turn()

    def _raised(self, call: Call | Timer, problem: BaseException) -> None:
        what = _format_callback_source(call._callback, call._args)
        message = f"Exception in callback {what}"
        self.call_exception_handler({"message": message, "exception": problem, "handle": call})


def _close_unless_begun(coroutine: object) -> None:
    """Or Python would say that nobody awaited it; nor those that it was to await."""
    if isinstance(coroutine, CoroutineType) and getcoroutinestate(coroutine) == CORO_CREATED:
        frame = coroutine.cr_frame
        given = [] if frame is None else list(frame.f_locals.values())
        coroutine.close()
        for each in given:
            _close_unless_begun(each)


def _settle(future: "asyncio.Future[Any]", result: object, problem: Exception | None) -> None:
    if future.done():
        return
    if problem is not None:
        future.set_exception(problem)
    else:
        future.set_result(result)
