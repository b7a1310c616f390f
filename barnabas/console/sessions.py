"""Users of the cluster who have logged in: each has their own rights, not those of the console.

In: a user and a password, as the cluster knows them. Out: a session, with a connection of its own.
Always: the password is checked by the cluster alone and kept in memory only, for the connections of
the session; a session ends with a log out, eight hours after its last request, or with the process.
"""

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from barnabas.console.cluster_state import ConsoleCluster
from barnabas.model.errors import KafkaError

SESSIONS_MAX = 20
IDLE_S_MAX = 8 * 3600


@dataclass
class ConsoleSession:
    """One login."""

    user: str
    settings: dict[str, str]
    state: ConsoleCluster
    seen_at: float


class ClusterSessions:
    """All sessions of a console, by the random value of their cookie."""

    def __init__(self, settings: dict[str, str], now: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._now = now
        self._sessions: dict[str, ConsoleSession] = {}

    async def log_in(self, user: str, password: str) -> tuple[str, str]:
        """The cookie of a new session, or "" and why there is none."""
        settings = {**self._settings, "sasl.username": user, "sasl.password": password}
        try:
            state = ConsoleCluster(settings)
        except KafkaError as problem:
            return "", problem.detail
        try:
            await state.admin.cluster()
        except (KafkaError, OSError) as problem:
            state.cluster.close()
            return "", str(getattr(problem, "detail", problem))
        while len(self._sessions) >= SESSIONS_MAX:
            await self.log_out(min(self._sessions, key=lambda each: self._sessions[each].seen_at))
        cookie = secrets.token_urlsafe(32)
        self._sessions[cookie] = ConsoleSession(user, settings, state, self._now())
        state.open()
        return cookie, ""

    async def find(self, cookie: str) -> ConsoleSession | None:
        found = self._sessions.get(cookie)
        if found is None:
            return None
        if self._now() - found.seen_at > IDLE_S_MAX:
            await self.log_out(cookie)
            return None
        self._sessions[cookie] = replace(found, seen_at=self._now())
        return found

    async def log_out(self, cookie: str) -> None:
        found = self._sessions.pop(cookie, None)
        if found is not None:
            await found.state.close()

    async def close(self) -> None:
        for cookie in list(self._sessions):
            await self.log_out(cookie)
