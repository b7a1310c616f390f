"""Time, chance and connections of the calling thread, and how it runs a flow."""

import random
import select
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar
from weakref import WeakMethod

from barnabas.client.blocking.connection import BlockingConnection, BlockingResponse, connect
from barnabas.client.net import BrokerConnection, Task
from barnabas.client.net import PendingResponse as AnyAnswer
from barnabas.client.owner_process import OwnerProcess
from barnabas.config.kinds import Address
from barnabas.wire.codec import ProtocolMessage

P = ParamSpec("P")
R = TypeVar("R")
_SLICE_S = 0.1  # how soon a wait sees that another thread has notified it

if TYPE_CHECKING:
    from ssl import SSLContext


class _Lock:
    """A thread's lock that looks like asyncio's."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    async def __aenter__(self) -> None:
        self._lock.acquire()

    async def __aexit__(self, *_: object) -> None:
        self._lock.release()


class ThreadWakeUp:
    """See client/net.py."""

    def __init__(self) -> None:
        self._notified = False

    def notify(self) -> None:
        self._notified = True

    async def wait(self, answers: Sequence[AnyAnswer[ProtocolMessage]], ms: int) -> None:
        ours = [answer for answer in answers if isinstance(answer, BlockingResponse)]
        deadline = time.monotonic() + ms / 1000
        while not self._notified and not any(answer.done() for answer in ours):
            remaining = deadline - time.monotonic()
            # Another thread may take answers in, or wake this one: no wait is a long one.
            take_in(ours, max(0, min(remaining, _SLICE_S)))
            if remaining <= 0:
                break
        self._notified = False


class ThreadFlow:
    """See client/net.py. A thread, so that a member lives while its reader works."""

    def __init__(self, flow: Callable[[], Coroutine[Any, Any, int | None]]) -> None:
        self._flow = WeakMethod(flow, self._gone)
        self._turns: SimpleQueue[None] = SimpleQueue()
        self._stopped = False
        self._thread: threading.Thread | None = None

    def nudge(self) -> None:
        self._turns.put(None)
        if self._thread is None and not self._stopped:
            self._thread = threading.Thread(
                target=self._run, name="barnabas-heartbeat", daemon=True
            )
            self._thread.start()

    def stop(self) -> None:
        self._stopped = True
        self._turns.put(None)
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(_STOP_S_MAX)

    def _gone(self, _: object) -> None:
        """Called by the garbage collector, anywhere: no lock may be taken. This queue has none."""
        self._stopped = True
        self._turns.put(None)

    def _run(self) -> None:
        again_at: int | None = None
        while True:
            now = time.monotonic_ns() // 1_000_000
            try:
                self._turns.get(timeout=None if again_at is None else max(0, again_at - now) / 1000)
                while True:  # several are one
                    self._turns.get_nowait()
            except Empty:
                pass
            flow = None if self._stopped else self._flow()
            if flow is None:
                return
            again_at = run(flow())
            del flow


_STOP_S_MAX = 5


class ThreadTask:
    """See client/net.py. A thread, where there is not time enough to wait for the flow itself."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._problem: BaseException | None = None

    @property
    def under_way(self) -> bool:
        return self._thread is not None

    async def done(self, flow: Task, until: int | None) -> bool:
        if self._thread is None:
            if until is None:
                await flow()
                return True
            self._thread = threading.Thread(
                target=self._run, args=(flow,), name="barnabas-task", daemon=True
            )
            self._thread.start()
        wait_s = None if until is None else max(0, until - time.monotonic_ns() // 1_000_000) / 1000
        self._thread.join(wait_s)
        if self._thread.is_alive():
            return False
        self._thread = None
        problem, self._problem = self._problem, None
        if problem is not None:
            raise problem
        return True

    def _run(self, flow: Task) -> None:
        try:
            run(flow())
        except BaseException as problem:
            self._problem = problem


class ThreadSharedTask(Generic[R]):
    """See client/net.py. One thread after the other: the flow looks for what an earlier one did."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    async def result(self, flow: Callable[[], Coroutine[Any, Any, R]]) -> R:
        with self._lock:
            return await flow()

    def cancel(self) -> None:
        """A thread that waits for a socket is not interrupted: it has its timeout."""


class BlockingNet:
    """See client/net.py. Nothing here ever suspends."""

    def __init__(self) -> None:
        self._owner = OwnerProcess()

    def check_owner(self) -> None:
        self._owner.check()

    def may_send_at_close(self) -> bool:
        return self._owner.is_here()

    def now_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def chance(self) -> float:
        return random.random()

    async def sleep(self, ms: int) -> None:
        time.sleep(ms / 1000)  # noqa: ASYNC251 - to block is the point

    def wake_up(self) -> ThreadWakeUp:
        return ThreadWakeUp()

    def background_flow(self, flow: Callable[[], Coroutine[Any, Any, int | None]]) -> ThreadFlow:
        return ThreadFlow(flow)

    def bounded_task(self) -> ThreadTask:
        return ThreadTask()

    def shared_connection(self) -> ThreadSharedTask[BrokerConnection]:
        return ThreadSharedTask()

    def lock(self) -> AbstractAsyncContextManager[object]:
        return _Lock()

    async def connect(
        self,
        address: Address,
        *,
        client_id: str,
        timeout_ms: int,
        tls: "SSLContext | None" = None,
    ) -> BlockingConnection:
        return connect(address, client_id=client_id, timeout_ms=timeout_ms, tls=tls)


def take_in(answers: Sequence[BlockingResponse[Any]], wait_s: float) -> None:
    """Read what has come for any of these, after waiting for at most as long."""
    waiting = {answer.connection.fileno(): answer.connection for answer in answers}
    waiting.pop(-1, None)
    if not waiting:
        time.sleep(wait_s)
        return
    poll = select.poll()
    for number in waiting:
        poll.register(number, select.POLLIN)
    for number, _ in poll.poll(wait_s * 1000):
        waiting[number].read_some()


def run(flow: Coroutine[Any, Any, R]) -> R:
    """The result of a flow over `BlockingNet`, which ends without ever suspending."""
    try:
        flow.send(None)
    except StopIteration as done:
        result: R = done.value
        return result
    flow.close()
    raise RuntimeError(f"{flow!r} waits for an event loop: it is not a flow over BlockingNet")


def mirrored(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Any, P], R]:
    """The blocking method of a class whose `_body` has this one.

    `class Admin: topics = mirrored(admin.Admin.topics)` has the same parameters and result.
    """

    def blocking(self: Any, /, *args: P.args, **options: P.kwargs) -> R:
        return run(method(self._body, *args, **options))

    blocking.__doc__ = method.__doc__
    blocking.__name__ = method.__name__
    return blocking
