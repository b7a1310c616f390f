"""Keeps one session in a SQLite file alive, and detects changes of the nodes it watches.

In: `tick`, often. Out: events for the listener.
Always: a watch is compared with what was read when it was set, so no change in between is lost;
an expired session gets one EXPIRED event, and none after it.
Why a thread: a broker that is busy for seconds is alive; one that is stopped is not.
Why the deadline counts from the owner's last activity, not from the renewal: a broker whose loop
hangs in a call still has this thread, and must lose its session as if it were stopped.
"""

import threading

from barnabas.keeper.keeper import (
    Event,
    Idle,
    Listener,
    SessionExpired,
    SessionState,
    WatchEventType,
)
from barnabas.keeper.sqlite_file import OtherSession, Row, SqliteFile
from barnabas.model.errors import Failed

POLL_MS = 25

Seen = tuple[int, int] | None
"""Which node it was and how often it had changed; None: it did not exist."""


class SqliteSession:
    """`file` is a connection of its own: it sees the writes of all others, including this
    keeper's."""

    def __init__(
        self, file: SqliteFile, id_: int, timeout_ms: int, listener: Listener | None
    ) -> None:
        self.id = id_
        self.idle_ms: Idle = lambda: 0
        self._file = file
        self._timeout_ms = timeout_ms
        self._listener = listener
        opened_at = file.clock()
        self._renew_at = opened_at + timeout_ms // 3
        self._late_at = opened_at + timeout_ms
        self._removes_from = opened_at
        self._seen: dict[tuple[str, bool], Seen] = {}  # by path and whether of its children
        self._data_version = -1
        self._tally = -1
        self._others: list[OtherSession] = []
        self._others_version = -1
        self._new_watches = False
        self._state = SessionState.CONNECTED
        self._lock = threading.Lock()  # protects the watches
        self._notify_lock = threading.Lock()  # protects the state and the listener
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        # Never synced by itself: a power failure can only undo data of sessions that it ends
        # anyway.
        file.execute("PRAGMA synchronous=NORMAL")

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="keeper-session", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._listener = None
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self._file.close()

    def watch(self, path: str, row: Row | None, *, children: bool = False) -> None:
        """For the next change after the read."""
        with self._lock:
            self._seen.setdefault((path, children), _seen(row, children))
            self._new_watches = True

    def check(self) -> None:
        if self._state is SessionState.EXPIRED:
            raise self.ended()

    def ended(self) -> SessionExpired:
        """The session was found to be expired."""
        with self._lock:
            self._seen.clear()
        self._become(SessionState.EXPIRED)
        self._stop.set()
        return SessionExpired(f"session {self.id} in {self._file.path} has expired")

    def may_remove_late(self, now: int) -> bool:
        """Whether it removes late sessions. Not if it was late itself: the others may have been
        delayed for the same reason."""
        return self._removes_from <= now < self._late_at

    def tick(self) -> None:
        """Renew, remove late sessions, check watches; each when it is due."""
        if self._state is SessionState.EXPIRED:
            return
        try:
            now, version = self._file.clock(), self._file.data_version()
            due = now - self.idle_ms() >= self._renew_at  # otherwise there is nothing new to write
            if due or self._another_has_ended(now, version):
                self._renew()
            self._check_watches(version)
        except SessionExpired:
            return
        except Failed:
            with self._lock:
                self._seen.clear()
            self._become(SessionState.SUSPENDED)
        else:
            self._become(SessionState.CONNECTED)

    def _run(self) -> None:
        while not self._stop.wait(POLL_MS / 1000):
            self.tick()

    def _another_has_ended(self, now: int, version: int) -> bool:
        """A hint: the rows are read again only when the file has changed, and in a transaction."""
        if version != self._others_version:
            self._others = self._file.others(self.id)
            self._others_version = version
        return bool(self._file.ended(self._others, now, late=self.may_remove_late(now)))

    def _renew(self) -> None:
        file = self._file
        with file.transaction() as now:
            if file.is_open(self.id):
                moved_at = now - self.idle_ms()
                file.renew(self.id, moved_at)
                if now >= self._late_at:
                    self._removes_from = now + self._timeout_ms // 3
                self._renew_at = moved_at + self._timeout_ms // 3
                self._late_at = moved_at + self._timeout_ms
                file.remove_ended(self.id, now, late=self.may_remove_late(now))
                # It does not change by writes of its own connection.
                self._data_version = self._others_version = -1
                return
        raise self.ended()

    def _check_watches(self, version: int) -> None:
        """A write after `version` was read is seen now or at the next check."""
        with self._lock:
            fresh, self._new_watches = self._new_watches, False
        tally = self._tally
        if version != self._data_version:
            if not self._file.is_open(self.id):
                raise self.ended()
            tally = self._file.tally()  # renewals do not change it
        if fresh or tally != self._tally:
            for event in self._changed():
                self._notify(event)
        self._data_version, self._tally = version, tally

    def _changed(self) -> list[Event]:
        with self._lock:
            watched = list(self._seen.items())
        events = []
        for (path, children), seen in watched:
            what = _difference(seen, _seen(self._file.find(path), children), children)
            if what is not None:
                events.append((Event(what, path), children))
        heard = []
        with self._lock:
            for event, children in events:
                if self._seen.pop((event.path, children), 0) != 0:
                    heard.append(event)
        return list(dict.fromkeys(heard))  # a deletion is reported once for both watches

    def _become(self, state: SessionState) -> None:
        with self._notify_lock:
            if self._state in (state, SessionState.EXPIRED):
                return
            self._state = state
            if self._listener is not None:
                self._listener(state)

    def _notify(self, event: Event) -> None:
        with self._notify_lock:
            if self._listener is not None and self._state is not SessionState.EXPIRED:
                self._listener(event)


def _seen(row: Row | None, children: bool) -> Seen:
    if row is None:
        return None
    return row.created, row.changes if children else row.version


def _difference(before: Seen, now: Seen, children: bool) -> WatchEventType | None:
    if before == now:
        return None
    if before is None:
        return WatchEventType.CREATED
    if now is None or now[0] != before[0]:
        return WatchEventType.DELETED
    return WatchEventType.CHILDREN if children else WatchEventType.CHANGED
