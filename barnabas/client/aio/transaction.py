"""Transactions of the asyncio producer: the flows, awaited."""

from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec

from barnabas.client.producer.transacting import Transacting

P = ParamSpec("P")


def of_transactions(
    method: Callable[Concatenate[Transacting, P], Coroutine[Any, Any, None]],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, None]]:
    """The method of a producer whose `_transactional()` has this one."""

    def called(self: Any, /, *args: P.args, **options: P.kwargs) -> Coroutine[Any, Any, None]:
        return method(self._transactional(), *args, **options)

    called.__doc__ = method.__doc__
    return called


class Transaction:
    """`async with producer.transaction(): ...`"""

    def __init__(self, flows: Transacting) -> None:
        self._flows = flows

    async def __aenter__(self) -> None:
        await self._flows.enter()

    async def __aexit__(self, kind: object, problem: BaseException | None, _: object) -> None:
        await self._flows.leave(problem)
