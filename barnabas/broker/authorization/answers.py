"""A handler's answer, changed when it is there: now, after an await, or as a deferred reply."""

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from barnabas.broker.net.deferred_reply import DeferredReply
from barnabas.broker.net.dispatch import Call
from barnabas.wire.codec import ProtocolMessage, Struct

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker

Handle = Callable[["Broker", Any, Call], Any]
S = TypeVar("S", bound=Struct)
Finish = Callable[[Any], ProtocolMessage]


def changed(message: S, **fields: Any) -> S:
    """The message, or a part of one, with other values in some fields."""
    copy: S = replace(message, **fields)  # type: ignore[type-var]
    return copy


def after(answer: Any, finish: Finish) -> Any:
    """`finish` gets the response and returns the one to send. No response stays none."""
    if isinstance(answer, ProtocolMessage):
        return finish(answer)
    if answer is None:
        return None
    if isinstance(answer, DeferredReply):
        return _deferred(answer, finish)
    return _awaited(answer, finish)


def _deferred(answer: DeferredReply[Any], finish: Finish) -> DeferredReply[Any]:
    finished: DeferredReply[Any] = DeferredReply()
    finished.cancelled = answer.abandon
    answer.then(lambda response: finished.set(finish(response)))
    return finished


async def _awaited(answer: Coroutine[Any, Any, Any], finish: Finish) -> Any:
    return after(await answer, finish)
