"""Time, chance and connections of the running event loop."""

import asyncio
import random
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from weakref import WeakMethod

from barnabas.client.aio.connection import AsyncioConnection, connect
from barnabas.client.net import BrokerConnection, PendingResponse, Task
from barnabas.client.owner_process import OwnerProcess
from barnabas.config.kinds import Address
from barnabas.model.errors import Code, InvalidRequest, Retriable
from barnabas.wire.codec import ProtocolMessage

if TYPE_CHECKING:
    from ssl import SSLContext

T = TypeVar("T")


class AsyncioWakeUp:
    """See client/net.py."""

    def __init__(self) -> None:
        self._notified = False
        self._waiter: asyncio.Future[None] | None = None

    def notify(self) -> None:
        self._notified = True
        self._wake()

    async def wait(self, answers: Sequence[PendingResponse[ProtocolMessage]], ms: int) -> None:
        if ms <= 0 or self._notified or any(answer.done() for answer in answers):
            self._notified = False
            await asyncio.sleep(0)
            return
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        timer = loop.call_later(ms / 1000, self._wake)
        futures = [answer for answer in answers if isinstance(answer, asyncio.Future)]
        for future in futures:
            future.add_done_callback(self._wake)
        try:
            await self._waiter
        finally:
            timer.cancel()
            for future in futures:
                future.remove_done_callback(self._wake)
            self._waiter = None
            self._notified = False

    def _wake(self, _: object = None) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class AsyncioFlow:
    """See client/net.py. A timer, and a task only while the flow runs: nothing to warn about."""

    def __init__(self, flow: Callable[[], Coroutine[Any, Any, int | None]]) -> None:
        self._flow = WeakMethod(flow)
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._again = False
        self._stopped = False

    def nudge(self) -> None:
        if self._task is not None:
            self._again = True
        elif not self._stopped:
            self._start()

    def stop(self) -> None:
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()

    def _start(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        flow = self._flow()
        if flow is not None and not self._stopped:
            self._task = self._loop.create_task(self._run(flow))
            # A loop that is closed without cancelling its tasks has no need to complain of this.
            self._task._log_destroy_pending = False  # type: ignore[attr-defined]

    async def _run(self, flow: Callable[[], Coroutine[Any, Any, int | None]]) -> None:
        again_at = None
        try:
            again_at = await flow()  # made only here: a task cancelled before leaves none behind
        finally:
            self._task = None
        if self._again:
            self._again = False
            self._loop.call_soon(self.nudge)
        elif again_at is not None and not self._stopped:
            wait_s = max(0, again_at - time.monotonic_ns() // 1_000_000) / 1000
            self._timer = self._loop.call_later(wait_s, self._start)


class AsyncioTask:
    """See client/net.py. A task, where there is not time enough to wait for the flow itself."""

    def __init__(self) -> None:
        self._task: asyncio.Task[object] | None = None

    @property
    def under_way(self) -> bool:
        return self._task is not None

    async def done(self, flow: Task, until: int | None) -> bool:
        if self._task is None:
            if until is None:
                await flow()
                return True
            self._task = asyncio.get_running_loop().create_task(flow())
            self._task._log_destroy_pending = False  # type: ignore[attr-defined]
            self._task.add_done_callback(_looked_at)
        wait_s = None if until is None else max(0, until - time.monotonic_ns() // 1_000_000) / 1000
        await asyncio.wait([self._task], timeout=wait_s)
        if not self._task.done():
            return False
        task, self._task = self._task, None
        if not task.cancelled():  # by a loop that ended: it is begun again
            task.result()
        return True


class AsyncioSharedTask(Generic[T]):
    """See client/net.py."""

    def __init__(self) -> None:
        self._task: asyncio.Task[T] | None = None

    async def result(self, flow: Callable[[], Coroutine[Any, Any, T]]) -> T:
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(flow())
            self._task._log_destroy_pending = False  # type: ignore[attr-defined]
            self._task.add_done_callback(_looked_at)
        task = self._task
        await asyncio.wait([task])
        if task.cancelled():
            raise Retriable(Code.NETWORK_EXCEPTION, "the client was closed")
        return task.result()

    def cancel(self) -> None:
        if self._task is not None and not self._task.get_loop().is_closed():
            self._task.cancel()


def _looked_at(task: "asyncio.Task[object]") -> None:
    """A caller that gave up waiting needs no warning."""
    if not task.cancelled():
        task.exception()


class AsyncioNet:
    """See client/net.py. Belongs to the event loop on which it is first used."""

    def __init__(self) -> None:
        self._owner = OwnerProcess()
        self._loop: asyncio.AbstractEventLoop | None = None

    def check_owner(self) -> None:
        self._owner.check()
        running = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = running
        elif running is not self._loop:
            raise InvalidRequest(
                Code.INVALID_REQUEST,
                "a client belongs to the event loop on which it was first used, and that is not"
                " the one running here: make another one here, or use barnabas.sync",
            )

    def may_send_at_close(self) -> bool:
        if not self._owner.is_here() or (self._loop is not None and self._loop.is_closed()):
            return False
        self.check_owner()
        return True

    def now_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def chance(self) -> float:
        return random.random()

    async def sleep(self, ms: int) -> None:
        await asyncio.sleep(ms / 1000)

    def wake_up(self) -> AsyncioWakeUp:
        return AsyncioWakeUp()

    def background_flow(self, flow: Callable[[], Coroutine[Any, Any, int | None]]) -> AsyncioFlow:
        return AsyncioFlow(flow)

    def bounded_task(self) -> AsyncioTask:
        return AsyncioTask()

    def shared_connection(self) -> AsyncioSharedTask[BrokerConnection]:
        return AsyncioSharedTask()

    def lock(self) -> AbstractAsyncContextManager[object]:
        return asyncio.Lock()

    async def connect(
        self,
        address: Address,
        *,
        client_id: str,
        timeout_ms: int,
        tls: "SSLContext | None" = None,
    ) -> AsyncioConnection:
        return await connect(address, client_id=client_id, timeout_ms=timeout_ms, tls=tls)
