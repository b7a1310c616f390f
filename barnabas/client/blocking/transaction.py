"""Transactions of a blocking producer: the same flows, run by the calling thread."""

from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec

from barnabas.client.blocking.net import run
from barnabas.client.producer.transacting import Transacting

P = ParamSpec("P")


def of_transactions(
    method: Callable[Concatenate[Transacting, P], Coroutine[Any, Any, None]],
) -> Callable[Concatenate[Any, P], None]:
    """The blocking method of a producer whose `_transactional()` has this one."""

    def blocking(self: Any, /, *args: P.args, **options: P.kwargs) -> None:
        run(method(self._transactional(), *args, **options))

    blocking.__doc__ = method.__doc__
    return blocking


class Transaction:
    """`with producer.transaction(): ...`"""

    def __init__(self, flows: Transacting) -> None:
        self._flows = flows

    def __enter__(self) -> None:
        run(self._flows.enter())

    def __exit__(self, kind: object, problem: BaseException | None, _: object) -> None:
        run(self._flows.leave(problem))
