"""Calls to the keeper, through the session that this broker has at the moment.

In: calls that may block. Out: their results, on the loop; the events of the session.
Always: one call at a time, in order, in a thread of its own; events of a replaced session are
dropped.
Not here: the reaction to events (membership.py).
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from barnabas.keeper.keeper import (
    Disconnected,
    Event,
    Keeper,
    KeeperError,
    Listener,
    OutcomeUnknown,
    SessionExpired,
    SessionState,
)
from barnabas.model.errors import KafkaError
from barnabas.system.logs import Logger

T = TypeVar("T")

AGAIN_MS = 100

Sessions = Callable[[Listener], Keeper]
"""Opens a session; may block until it is connected. Raises Unavailable."""


class KeeperCalls:
    """Open a session before the first call, and again after the session has expired."""

    def __init__(
        self, open_: Sessions, heard: Callable[[Event | SessionState], None], log: Logger
    ) -> None:
        self._open = open_
        self._heard = heard
        self._log = log
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="keeper")
        self._number = 0
        self._keeper: Keeper | None = None
        self.connected = False  # else the session may have expired without a word

    async def open(self) -> Keeper:
        """Open a new session, after the old one was closed."""
        await self.end()
        self._number += 1
        number = self._number

        def listen(news: Event | SessionState) -> None:
            with suppress(RuntimeError):  # the loop is closed: the event is not needed
                self._loop.call_soon_threadsafe(self._pass_on, number, news)

        while self._keeper is None:
            try:
                self._keeper = await self.in_thread(lambda: self._open(listen))
            except SessionExpired as error:
                self._log.warning("session expired before it was used", reason=str(error))
        self.connected = True
        return self._keeper

    def _pass_on(self, number: int, news: Event | SessionState) -> None:
        if number == self._number:
            if isinstance(news, SessionState):
                self.connected = news is SessionState.CONNECTED
            self._heard(news)

    @property
    def keeper(self) -> Keeper:
        if self._keeper is None:
            raise Disconnected("the last session has ended, and no other is open yet")
        return self._keeper

    async def run(self, call: Callable[[Keeper], T]) -> T:
        keeper = self.keeper
        return await self.in_thread(lambda: call(keeper))

    async def run_patiently(self, call: Callable[[Keeper], T]) -> T:
        """The result of a call that may run twice, however long the keeper is unreachable.

        A session that has expired is replaced. Its watches are lost: read again what they were for.
        """
        while True:
            try:
                return await self.run(call)
            except (OutcomeUnknown, Disconnected):
                await asyncio.sleep(AGAIN_MS / 1000)
            except SessionExpired as error:
                self._log.warning("session expired: opening another one", reason=str(error))
                await self.open()

    async def in_thread(self, call: Callable[[], T]) -> T:
        return await self._loop.run_in_executor(self._thread, call)

    async def end(self) -> None:
        """Its ephemeral nodes are deleted; no more events arrive."""
        self._number += 1
        keeper, self._keeper = self._keeper, None
        self.connected = False
        if keeper is not None:
            try:
                await self.in_thread(keeper.close)
            except (KeeperError, KafkaError, OSError) as error:
                self._log.warning("keeper session not closed: it will expire", reason=str(error))

    async def close(self) -> None:
        await self.end()
        self._thread.shutdown(wait=False)
