"""Producer ids in stock, so that no decision of the transaction coordinator waits for the keeper.

In: the catalog, which has blocks of ids. Out: one id at a time, or None while more are fetched.
Always: no id is given out twice; ids that are in stock when the broker stops are never used.
"""

import asyncio

from barnabas.broker.context import GroupsContext
from barnabas.model.errors import KafkaError

AT_HAND = 20


class ProducerIdPool:
    """`take` is called on the event loop, in the middle of a decision."""

    def __init__(self, broker: GroupsContext) -> None:
        self._broker = broker
        self._ids: list[int] = []
        self._task: asyncio.Task[None] | None = None

    def take(self) -> int | None:
        id_ = self._ids.pop(0) if self._ids else None
        self.fill()
        return id_

    def fill(self) -> None:
        if len(self._ids) < AT_HAND // 2 and self._task is None:
            self._task = self._broker.loop.create_task(self._fetch())

    async def filled(self) -> None:
        """Waits until there is one, or the keeper could not be asked."""
        self.fill()
        if not self._ids and self._task is not None:
            await asyncio.wait((self._task,))

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _fetch(self) -> None:
        try:
            while len(self._ids) < AT_HAND:
                self._ids.append(await self._broker.catalog.new_producer_id())
        except KafkaError as error:  # the next request tries again
            self._broker.log.warning("no producer ids", reason=error.detail)
        finally:
            self._task = None
