"""The interface between the client's logic and a way to wait: asyncio's, or a thread's.

Logic (cluster.py, client/admin/admin.py, ...) is written once, as `async def` over `Net`. The
asyncio driver (aio/) suspends where it waits. The blocking driver (blocking/) blocks inside, never
suspends, and so runs the same coroutines by hand: `barnabas.sync` needs no event loop.
Always: logic waits through this interface only; it holds a `lock` over waits, never over another
lock.
"""

from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from barnabas.config.kinds import Address
from barnabas.wire.codec import ProtocolMessage

if TYPE_CHECKING:
    from ssl import SSLContext

M = TypeVar("M", bound=ProtocolMessage)
A_co = TypeVar("A_co", bound=ProtocolMessage, covariant=True)
T = TypeVar("T")
Task = Callable[[], Coroutine[Any, Any, object]]


class PendingResponse(Protocol[A_co]):
    """What a request will be answered with: awaited once, now or later."""

    def done(self) -> bool:
        """Whether awaiting it would not wait."""
        ...

    def __await__(self) -> Generator[Any, None, A_co]: ...


class WakeUp(Protocol):
    """One flow waits on it, and others wake it."""

    def notify(self) -> None:
        """End the current wait, or the next one."""
        ...

    async def wait(self, answers: Sequence[PendingResponse[ProtocolMessage]], ms: int) -> None:
        """Wait for one of these responses, a wake-up, or the timeout.

        With a timeout of 0: only read responses that have arrived, and let other flows run.
        """
        ...


class BackgroundFlow(Protocol):
    """A flow that goes on in the background; it ends when the flow's owner is gone."""

    def nudge(self) -> None:
        """Run it now: what it waited for may have changed."""
        ...

    def stop(self) -> None: ...


class BoundedTask(Protocol):
    """A flow that may take longer than its caller can wait."""

    @property
    def under_way(self) -> bool:
        """Whether a flow was started, and its end has not been reported yet."""
        ...

    async def done(self, flow: Task, until: int | None) -> bool:
        """Whether it has ended by then (`now_ms`; None: however long it takes).

        If not it goes on, and the next call waits for its end instead of beginning another; what
        it raises is raised there.
        """
        ...


class SharedTask(Protocol[T]):
    """A flow that runs once at a time, and whose result is for all that wait for it."""

    async def result(self, flow: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Begin `flow`, unless one is under way. It goes on if the caller stops waiting for it."""
        ...

    def cancel(self) -> None:
        """All callers that wait for it get NETWORK_EXCEPTION."""
        ...


class BrokerConnection(Protocol):
    """To one broker, greeted. Requests may be sent ahead; answers come in order.

    Whatever goes wrong is a KafkaError that names the broker, and the connection is closed.
    """

    address: Address
    peer: str  # the same for all connections to one broker, by whatever name it was found

    @property
    def closed(self) -> bool: ...

    def silent_ms(self) -> int:
        """For how long the oldest request has been without an answer; 0: all are answered.

        A connection that was closed for that reason keeps the number.
        """
        ...

    def version_of(self, api_key: int, version_max: int | None = None) -> int:
        """The version in which a request of this API would go out."""
        ...

    def feature(self, name: str) -> int:
        """The level of a feature that the cluster has finalized; 0: not finalized."""
        ...

    def send(
        self,
        request: ProtocolMessage,
        answer: type[M],
        *,
        timeout_ms: int,
        version_max: int | None = None,
    ) -> PendingResponse[M]:
        """Send now; await the answer once, now or later."""
        ...

    def send_one_way(
        self, request: ProtocolMessage, *, timeout_ms: int, version_max: int | None = None
    ) -> Awaitable[None] | None:
        """Send the one kind of request that has no answer.

        None: all of it has left. Else it has once this is done, without an error.
        """
        ...

    async def call(
        self,
        request: ProtocolMessage,
        answer: type[M],
        *,
        timeout_ms: int,
        version_max: int | None = None,
    ) -> M:
        """Send, and wait for the answer."""
        ...

    def close(self) -> None: ...


class Net(Protocol):
    """Time, chance and connections."""

    def now_ms(self) -> int:
        """Of a clock that only goes forward."""
        ...

    def wall_ms(self) -> int:
        """Since 1970."""
        ...

    def chance(self) -> float:
        """From 0 to 1."""
        ...

    def check_owner(self) -> None:
        """Refuse a flow in another process, or on another event loop, than its client's own."""
        ...

    def may_send_at_close(self) -> bool:
        """False: a client that is closed here sends nothing, and only closes its descriptors.

        It was made before a fork, or its event loop has been closed. On another event loop than
        its own it is refused.
        """
        ...

    async def sleep(self, ms: int) -> None: ...

    def wake_up(self) -> WakeUp: ...

    def background_flow(
        self, flow: Callable[[], Coroutine[Any, Any, int | None]]
    ) -> BackgroundFlow:
        """`flow`, a method, does what is due, and says when (`now_ms`) it is to run again.

        None: when it is nudged. It does not raise.
        """
        ...

    def bounded_task(self) -> BoundedTask: ...

    def shared_connection(self) -> "SharedTask[BrokerConnection]": ...

    def lock(self) -> AbstractAsyncContextManager[object]:
        """One flow at a time."""
        ...

    async def connect(
        self,
        address: Address,
        *,
        client_id: str,
        timeout_ms: int,
        tls: "SSLContext | None" = None,
    ) -> BrokerConnection:
        """Open, with TLS if it is given, and agree on versions."""
        ...
