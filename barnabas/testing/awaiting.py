"""The broker of a test for asyncio: every helper of Kafka, awaited.

The helpers run in a thread, so the application under test goes on in the test's event loop.
"""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from types import TracebackType
from typing import Any, Self

from barnabas.testing.kafka import Kafka


class AsyncKafka:
    """`async with AsyncKafka() as kafka: await kafka.create_topic("orders")`

    Takes what Kafka takes; `kafka.sync` is the Kafka itself. Its attributes that are no helpers
    (`bootstrap_servers`, `clock`, `log`) are the same.
    """

    def __init__(self, *, kafka: Kafka | None = None, **options: Any) -> None:
        self.sync = Kafka(**options) if kafka is None else kafka

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self.sync.__enter__)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await asyncio.to_thread(self.sync.__exit__, kind, error, trace)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        found = getattr(self.sync, name)
        return partial(_in_thread, found) if callable(found) else found


def _in_thread(helper: Callable[..., Any], *given: Any, **options: Any) -> Coroutine[Any, Any, Any]:
    return asyncio.to_thread(helper, *given, **options)
