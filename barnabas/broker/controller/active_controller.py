"""A controller at work, from its election until it resigns.

In: operations, one after the other. Out: writes to the keeper, requests to brokers, results.
Always: one operation at a time, from one queue; a failure of the keeper ends the tenure, because
memory may then differ from what was written.
Not here: what is decided (controller/), elections (controller_election.py).
"""

import asyncio
import traceback
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from barnabas.broker.controller.channels import ControllerChannels
from barnabas.broker.controller.store import ControllerStore, Deposed
from barnabas.config.kinds import Address
from barnabas.controller.controller import Controller
from barnabas.controller.steps import Conflict, LogLine, SendRequest, Steps, Write, WriteTooLarge
from barnabas.keeper.keeper import KeeperError
from barnabas.model.errors import Code, KafkaError, Retriable
from barnabas.model.ids import BrokerId
from barnabas.wire.codec import ProtocolMessage
from barnabas.wire.messages.update_metadata import UpdateMetadataResponse

if TYPE_CHECKING:
    from barnabas.broker.cluster.peers import Peers
    from barnabas.broker.context import ClusterContext

T = TypeVar("T")

QUEUE_MAX = 10_000

ControllerOperation = Callable[[Controller, int], Steps[T]]
"""An operation of the controller, given the machine and the time."""


class InThread(Protocol):
    """Runs a call that may block in the thread of the keeper, one after the other."""

    def __call__(self, call: Callable[[], T]) -> Awaitable[T]: ...


class KeeperFailed(Exception):
    """It is unreachable, the outcome of a write is unknown, or its data cannot be read."""


class ElectionCounts:
    """Counted over all tenures of this broker."""

    def __init__(self) -> None:
        self.held = 0
        self.unclean = 0
        self.ms_last = 0
        self.ms_total = 0


class _Job(NamedTuple):
    operation: ControllerOperation[Any]
    done: "asyncio.Future[Any] | None"
    sent: "list[asyncio.Future[None]]"


class ActiveController:
    """`over` is called with the reason when the tenure cannot continue; its owner then closes
    it."""

    def __init__(
        self,
        broker: "ClusterContext",
        peers: "Peers",
        in_thread: InThread,
        machine: Controller,
        store: ControllerStore,
        counts: ElectionCounts,
        over: Callable[["ActiveController", str], None],
    ) -> None:
        self.machine = machine
        self.worked = False
        """At least one operation was completed."""
        self._broker = broker
        self._peers = peers
        self._in_thread = in_thread
        self._store = store
        self._counts = counts
        self._over = over
        self._queue: deque[_Job] = deque()
        self._more = asyncio.Event()
        self._brokers_unread = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0
        # Deadlines must not move when the clock is set.
        self._ahead_ms = broker.clock.wall_ms() - broker.clock.monotonic_ms()
        self._channels = ControllerChannels(
            peers, machine.cluster.epoch, self._answered, self._behind
        )
        self._put(lambda machine, now: machine.take_over(now))
        self._task = broker.loop.create_task(self._work())

    def __len__(self) -> int:
        """The number of queued operations."""
        return len(self._queue)

    def close(self, reason: KafkaError) -> None:
        """At once, also in the middle of an operation; waiting callers get the reason."""
        self._channels.close()
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not asyncio.current_task():
            self._task.cancel()
        for job in self._queue:
            _refuse(job, reason)
        self._queue.clear()

    async def ask(self, operation: ControllerOperation[T], wait_for_brokers_ms: int) -> T:
        """With `wait_for_brokers_ms`, the result comes after all affected brokers know of it."""
        if len(self._queue) >= QUEUE_MAX:
            raise Retriable(
                Code.REQUEST_TIMED_OUT, f"the controller has {len(self._queue)} requests to answer"
            )
        done: asyncio.Future[T] = self._broker.loop.create_future()
        job = _Job(operation, done, [])
        self._queue.append(job)
        self._more.set()
        answer = await done
        if job.sent and wait_for_brokers_ms > 0:
            await asyncio.wait(job.sent, timeout=wait_for_brokers_ms / 1000)
        return answer

    def brokers_changed(self) -> None:
        """One read is enough for all notifications before it."""
        if not self._brokers_unread:
            self._brokers_unread = True
            self._put(self._read_brokers)

    def _read_brokers(self, machine: Controller, now: int) -> Steps[None]:
        self._brokers_unread = False
        return machine.brokers_changed(now)

    def _put(self, operation: ControllerOperation[Any]) -> None:
        """An operation without a waiting caller."""
        self._queue.append(_Job(operation, None, []))
        self._more.set()

    # Replies of brokers

    def _answered(
        self, broker: BrokerId, request: ProtocolMessage, answer: ProtocolMessage
    ) -> None:
        code = getattr(answer, "error_code", 0)
        if code == Code.STALE_CONTROLLER_EPOCH:  # there may be a later controller
            self._put(lambda machine, now: _check_epoch())
        elif code == Code.NONE and not isinstance(answer, UpdateMetadataResponse):
            self._put(lambda machine, now: machine.answered(broker, request, answer, now))

    def _behind(self, broker: BrokerId) -> None:
        self._put(lambda machine, now: machine.send_everything(broker, now))

    # Execution

    async def _work(self) -> None:
        try:
            while True:
                while not self._queue:
                    self._more.clear()
                    await self._more.wait()
                await self._do(self._queue[0])
                self._queue.popleft()
                self.worked = True
                self._set_timer()
        except Deposed as error:
            problem = f"another controller was elected: {error}"
        except KeeperFailed as error:
            problem = f"the keeper failed: {error}"
        except Conflict as error:
            problem = f"the keeper's data differs from this controller's: {error}"
        except Exception as error:
            problem = f"it failed: {error!r}"
            trace = "".join(traceback.format_exception(error))
            self._broker.log.error("controller failed", error=repr(error), trace=trace)
        self._over(self, problem)

    async def _do(self, job: _Job) -> None:
        machine, clock, counts = self.machine, self._broker.clock, self._counts
        began, held, unclean = clock.monotonic_ms(), machine.elections, machine.unclean_elections
        try:
            answer = await self._carry_out(job.operation(machine, self._now_ms()), job)
        except KafkaError as refusal:
            _refuse(job, refusal)
            return
        if machine.elections > held:
            counts.held += machine.elections - held
            counts.unclean += machine.unclean_elections - unclean
            counts.ms_last = clock.monotonic_ms() - began
            counts.ms_total += counts.ms_last
        if job.done is not None and not job.done.done():
            job.done.set_result(answer)

    async def _carry_out(self, steps: Steps[T], job: _Job) -> T:
        answer: object = None
        problem: Conflict | WriteTooLarge | None = None
        while True:
            try:
                step = steps.send(answer) if problem is None else steps.throw(problem)
            except StopIteration as end:
                value: T = end.value
                return value
            answer = problem = None
            if isinstance(step, SendRequest):
                job.sent.append(self._send(step))
                await asyncio.sleep(0)  # thousands of partitions take a while: let other tasks run
            elif isinstance(step, LogLine):
                log = self._broker.log
                (log.warning if step.warn else log.info)(step.event, **step.values)
            else:
                try:
                    answer = await self._ask_keeper(step)
                except (Conflict, WriteTooLarge) as found:
                    problem = found

    async def _ask_keeper(self, step: Any) -> object:
        store = self._store
        try:
            if isinstance(step, Write):
                return await self._in_thread(lambda: store.write(step.changes))
            return await self._in_thread(lambda: store.read(step))
        except WriteTooLarge:
            raise
        except (KafkaError, KeeperError) as error:
            raise KeeperFailed(str(error)) from error

    def _send(self, step: SendRequest) -> "asyncio.Future[None]":
        # A newly registered broker is not in the metadata of this broker yet.
        between = self._broker.config.between_brokers
        self._peers.known(
            {
                id_: Address(at.host, at.port)
                for id_, each in self.machine.cluster.brokers.items()
                for at in each.endpoints
                if at.listener == between
            }
        )
        return self._channels.send(step.broker, step.message)

    def _set_timer(self) -> None:
        at = self.machine.next_deadline()
        if at is None or (self._timer is not None and at >= self._timer_at):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = at
        wait_ms = max(0, at - self._now_ms())
        self._timer = self._broker.loop.call_later(wait_ms / 1000, self._tick)

    def _now_ms(self) -> int:
        """The time of day, by the clock as it was when the tenure began."""
        return self._broker.clock.monotonic_ms() + self._ahead_ms

    def _tick(self) -> None:
        self._timer = None
        self._put(lambda machine, now: machine.tick(now))


def _check_epoch() -> Steps[None]:
    yield Write([])


def _refuse(job: _Job, error: KafkaError) -> None:
    if job.done is not None and not job.done.done():
        job.done.set_exception(error)
