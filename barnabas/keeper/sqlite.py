"""A keeper in one SQLite file: the default, shared by the brokers of one machine.

Always: a write that returned is on disk (synchronous=FULL), even after a power failure. Every call
of a session first looks for its row, a write in the same transaction: a process that was stopped
until others removed its session cannot write any more. A session is late if it was not renewed in
time; it is expired once another session has removed it, with its ephemeral nodes. The session of a
process that has ended is removed without waiting.
A call may block on the disk, so do not call it from an event loop; any thread may call it.
"""

import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.keeper.keeper import (
    ANY_VERSION,
    Create,
    Delete,
    Idle,
    Listener,
    Node,
    Operation,
    Result,
    Set,
    check_operations,
)
from barnabas.keeper.sqlite_file import Clock, SqliteFile

if TYPE_CHECKING:
    from barnabas.keeper.sqlite_session import SqliteSession

SESSION_TIMEOUT_MS_MIN = 100
_BOOT_ID = "/proc/sys/kernel/random/boot_id"


class SqliteKeeper:
    """Implements the contract of keeper.py in a file, which can be opened again.

    With a timeout it is a session, which a thread renews. With a clock in milliseconds there is no
    thread: the caller that provides the clock calls `tick`.
    """

    def __init__(
        self,
        path: str,
        session_timeout_ms: int = 0,
        listener: Listener | None = None,
        *,
        clock: Clock | None = None,
    ) -> None:
        if session_timeout_ms and session_timeout_ms < SESSION_TIMEOUT_MS_MIN:
            raise ValueError(
                f"session timeout {session_timeout_ms} ms: the minimum is {SESSION_TIMEOUT_MS_MIN}"
            )
        if session_timeout_ms and path == ":memory:":
            raise ValueError("keeper file ':memory:': a session needs a file that others can open")
        time_ms = clock or _monotonic_ms
        boot = _boot_id()
        self._lock = threading.Lock()
        self._closed = False
        self._file = SqliteFile(path, time_ms, boot)
        self._session: SqliteSession | None = None
        if session_timeout_ms:
            try:
                self._open_session(session_timeout_ms, listener, threaded=clock is None)
            except BaseException:
                self._file.close()
                raise

    def _open_session(self, timeout_ms: int, listener: Listener | None, *, threaded: bool) -> None:
        from barnabas.keeper.sqlite_session import SqliteSession  # a lone broker has none

        file = self._file
        beside = SqliteFile(file.path, file.clock, file.boot)
        try:
            with file.transaction() as now:
                file.remove_ended(0, now, late=True)
                id_ = file.open_session(timeout_ms, now)
            self._session = SqliteSession(beside, id_, timeout_ms, listener)
        except BaseException:
            beside.close()
            raise
        if threaded:
            self._session.start()

    @property
    def session(self) -> int:
        return 0 if self._session is None else self._session.id

    def bind_to_owner(self, idle_ms: Idle) -> None:
        if self._session is not None:
            self._session.idle_ms = idle_ms

    def tick(self) -> None:
        """Only with a given clock: does what the thread does otherwise."""
        if self._session is not None:
            self._session.tick()

    def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False
    ) -> str:
        [made] = self.multi([Create(path, data, ephemeral, sequential)])
        return str(made)

    def get(self, path: str, *, watch: bool = False) -> Node:
        with self._lock:
            self._check_alive()
            row = self._file.row(path)
            if watch:
                self._watching(path).watch(path, row)
        return Node(row.data, row.version, row.created, row.owner)

    def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        with self._lock:
            self._check_alive()
            rows = self._file.find_many(paths)
        found = {path: Node(*node) for path, *node in rows}
        return [found.get(path) for path in paths]

    def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> int:
        [version_now] = self.multi([Set(path, data, version)])
        assert isinstance(version_now, int)
        return version_now

    def delete(self, path: str, version: int = ANY_VERSION) -> None:
        self.multi([Delete(path, version)])

    def exists(self, path: str, *, watch: bool = False) -> bool:
        with self._lock:
            self._check_alive()
            row = self._file.find(path)
            if watch:
                self._watching(path).watch(path, row)
        return row is not None

    def children(self, path: str, *, watch: bool = False) -> list[str]:
        with self._lock:
            self._check_alive()
            # Before the names: a change between the two reads is then reported, though without
            # need.
            row = self._file.row(path)
            names = self._file.children(path)
            if watch:
                self._watching(path).watch(path, row, children=True)
        return names

    def multi(self, operations: Sequence[Operation]) -> list[Result]:
        check_operations(operations, self.session)
        with self._lock, self._file.transaction() as now:
            self._check_alive()
            late = self._session is None or self._session.may_remove_late(now)
            self._file.remove_ended(self.session, now, late=late)
            return self._file.write(operations, self.session)

    def close(self) -> None:
        """An error means that the session is still there, and expires later."""
        session = self._session
        if session is not None:
            session.stop()
        with self._lock:
            if self._closed:
                return
            self._closed = True
            try:
                if session is not None:
                    with self._file.transaction():
                        self._file.remove_session(session.id)
            finally:
                self._file.close()

    def _check_alive(self) -> None:
        if self._session is not None:
            self._session.check()
            if not self._file.is_open(self._session.id):
                raise self._session.ended()

    def _watching(self, path: str) -> "SqliteSession":
        if self._session is None:
            raise ValueError(f"keeper node {path}: watches require a session")
        return self._session


def _monotonic_ms() -> int:
    """The same for all processes of one boot."""
    return time.monotonic_ns() // 1_000_000


def _boot_id() -> str:
    try:
        with open(_BOOT_ID, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""
