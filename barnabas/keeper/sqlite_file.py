"""The SQLite file under a keeper: its schema, its transactions, the tree and the sessions in it.

In: operations and the time. Out: rows, results, or a Failed that names the file.
Always: a transaction that writes holds the file's lock from its start, so its reads are still
valid when it writes; it uses the clock that it reads after it has the lock, as all others do.
Not here: watches and renewal (sqlite_session.py), the contract's methods (sqlite.py).
"""

import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import groupby
from typing import Any, NamedTuple, TypeVar

from barnabas.keeper.keeper import (
    ROOT,
    Create,
    Delete,
    NoChildren,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    OutcomeUnknown,
    Result,
    Set,
    check_version,
    parent,
    sequential_path,
)
from barnabas.keeper.session_locks import SessionLocks
from barnabas.keeper.sqlite_many import ADD_CHILDREN, CREATE, kind_of, write_many
from barnabas.model.errors import Code, Failed

T = TypeVar("T")

Clock = Callable[[], int]
Values = Sequence[object] | dict[str, object]

BUSY_MS_MAX = 10_000
# A process stopped within a transaction keeps all others from renewing: that time is added.
LOCKED_OUT_MS_MIN = 1_000
_ANOTHER_TRY_S = 0.001
_MANY = 500  # per query
_SCHEMA_VERSION = 3
_SCHEMA_1 = """
CREATE TABLE node (
    path TEXT PRIMARY KEY,
    parent TEXT NOT NULL,
    data BLOB NOT NULL,
    version INTEGER NOT NULL
) WITHOUT ROWID, STRICT;
CREATE INDEX node_by_parent ON node (parent, path);
"""
# created: the number of the change that created it; births: children created so far, for their
# names; changes: how often a child was created or deleted. The root has a row; its children have
# its path as parent.
_SCHEMA_2 = """
ALTER TABLE node ADD COLUMN created INTEGER NOT NULL DEFAULT 0;
ALTER TABLE node ADD COLUMN owner INTEGER NOT NULL DEFAULT 0;
ALTER TABLE node ADD COLUMN births INTEGER NOT NULL DEFAULT 0;
ALTER TABLE node ADD COLUMN changes INTEGER NOT NULL DEFAULT 0;
CREATE INDEX node_by_owner ON node (owner) WHERE owner != 0;
UPDATE node SET parent = '/' WHERE parent = '';
INSERT INTO node (path, parent, data, version) VALUES ('/', '', x'', 0);
UPDATE node SET births = (SELECT count(*) FROM node AS below WHERE below.parent = node.path);
CREATE TABLE session (
    id INTEGER PRIMARY KEY,
    boot TEXT NOT NULL,
    timeout_ms INTEGER NOT NULL,
    deadline_ms INTEGER NOT NULL
) STRICT;
CREATE TABLE tally (number INTEGER NOT NULL) STRICT;
INSERT INTO tally VALUES (0);
"""
# locked: its process holds its lock until it ends.
_SCHEMA_3 = """
ALTER TABLE session ADD COLUMN locked INTEGER NOT NULL DEFAULT 0
"""
_OTHERS = "SELECT id, locked, boot, deadline_ms, timeout_ms FROM session WHERE id != ?"


class OtherSession(NamedTuple):
    """A session of another keeper, from its row."""

    id: int
    locked: int
    boot: str
    deadline_ms: int
    timeout_ms: int


class Row(NamedTuple):
    data: bytes
    version: int
    created: int
    owner: int
    births: int
    changes: int


class SqliteFile:
    """One connection. For one thread at a time."""

    def __init__(self, path: str, clock: Clock, boot: str) -> None:
        self.path = path
        self.clock = clock
        self.boot = boot
        self.busy_ms_max = BUSY_MS_MAX
        self._locked_out_since: int | None = None
        self.locks = SessionLocks(path)
        try:
            with suppress(OSError):  # it exists, or SQLite reports the problem better
                # It holds credentials of users: a new file is for its owner only. An existing one
                # is not opened here: closing it would drop the locks of this process's SQLite.
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            self._database = sqlite3.connect(
                path,
                timeout=0,  # SQLite's own wait sleeps for up to a tenth of a second: see `_patient`
                isolation_level=None,
                check_same_thread=False,
                cached_statements=32,
            )
        except sqlite3.Error as problem:
            raise _failed(path, problem) from None
        try:
            self.execute("PRAGMA journal_mode=WAL")
            self.execute("PRAGMA synchronous=FULL")
            self._make_schema()
            self._check_writable()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._database.close()
        self.locks.close()

    def execute(self, statement: str, values: Values = ()) -> list[Any]:
        """Returns the rows."""
        return self._patient(lambda: self._database.execute(statement, values).fetchall())

    def execute_many(self, statement: str, values: Sequence[Values]) -> int:
        """How many rows it has changed; -1: one of them exists already."""

        def execute() -> int:
            try:
                return self._database.executemany(statement, values).rowcount
            except sqlite3.IntegrityError:
                return -1

        return self._patient(execute)

    def _patient(self, call: Callable[[], T]) -> T:
        """Retries while another process has the file."""
        give_up_at: float | None = None
        while True:
            try:
                return call()
            except sqlite3.Error as problem:
                now = time.monotonic()
                if give_up_at is None:
                    give_up_at = now + self.busy_ms_max / 1000
                if not _is_busy(problem) or now > give_up_at:
                    raise _failed(self.path, problem) from None
            time.sleep(_ANOTHER_TRY_S)

    @contextmanager
    def transaction(self) -> Iterator[int]:
        """Yields the time inside the transaction."""
        now = self._begin()
        try:
            yield now
        except BaseException:
            if self._database.in_transaction:  # SQLite ends it itself after some failures
                self.execute("ROLLBACK")
            raise
        try:
            self.execute("COMMIT")
        except Failed as problem:
            if self._database.in_transaction:
                self.execute("ROLLBACK")
            raise OutcomeUnknown(problem.detail) from None

    def _begin(self) -> int:
        since = self.clock() if self._locked_out_since is None else self._locked_out_since
        try:
            # IMMEDIATE: what is read inside is still valid when it is written.
            self.execute("BEGIN IMMEDIATE")
        except Failed:
            self._locked_out_since = since
            raise
        self._locked_out_since = None
        now = self.clock()
        if now - since >= LOCKED_OUT_MS_MIN:
            self.execute(
                "UPDATE session SET deadline_ms = min(deadline_ms + :lost, :now + timeout_ms)"
                " WHERE boot = :boot",
                {"lost": now - since, "now": now, "boot": self.boot},
            )
        return now

    def _make_schema(self) -> None:
        if self._schema() == _SCHEMA_VERSION:
            return
        self.execute("BEGIN IMMEDIATE")  # the table of sessions may not exist yet
        try:
            found = self._schema()
            if found not in range(_SCHEMA_VERSION + 1):
                raise Failed(
                    Code.KAFKA_STORAGE_ERROR,
                    f"{self.path} has schema {found}, this version reads {_SCHEMA_VERSION}: "
                    "use the version of Barnabas that wrote it",
                )
            for statement in "".join((_SCHEMA_1, _SCHEMA_2, _SCHEMA_3)[found:]).split(";"):
                self.execute(statement)
            self.execute(f"PRAGMA user_version = {_SCHEMA_VERSION}")
            self.execute("COMMIT")
        except BaseException:
            if self._database.in_transaction:
                self.execute("ROLLBACK")
            raise

    def _check_writable(self) -> None:
        """If SQLite cannot open a file for writing, it opens it for reading without an error: even
        BEGIN IMMEDIATE succeeds then, only a write fails."""
        self.execute("BEGIN IMMEDIATE")
        try:
            self.execute(f"PRAGMA user_version = {_SCHEMA_VERSION}")
        finally:
            self.execute("ROLLBACK")

    def _schema(self) -> int:
        [(found,)] = self.execute("PRAGMA user_version")
        return int(found)

    # Reading

    def find(self, path: str) -> Row | None:
        rows = self.execute(
            "SELECT data, version, created, owner, births, changes FROM node WHERE path = ?",
            (path,),
        )
        return Row(*rows[0]) if rows else None

    def find_many(self, paths: Sequence[str]) -> list[Any]:
        """Path, data, version, created and owner of the nodes that exist."""
        found: list[Any] = []
        for start in range(0, len(paths), _MANY):
            some = paths[start : start + _MANY]
            marks = ", ".join("?" * len(some))
            found += self.execute(
                f"SELECT path, data, version, created, owner FROM node WHERE path IN ({marks})",
                some,
            )
        return found

    def row(self, path: str) -> Row:
        found = self.find(path)
        if found is None:
            raise NoNode(path)
        return found

    def children(self, path: str) -> list[str]:
        rows = self.execute("SELECT path FROM node WHERE parent = ?", (path,))
        return sorted(name.rpartition("/")[2] for (name,) in rows)

    def tally(self) -> int:
        """The number of the last change of any node."""
        [(number,)] = self.execute("SELECT number FROM tally")
        return int(number)

    def data_version(self) -> int:
        """Changes when another connection has written."""
        [(version,)] = self.execute("PRAGMA data_version")
        return int(version)

    # Writing, in a transaction

    def write(self, operations: Sequence[Operation], owner: int) -> list[Result]:
        self.execute("UPDATE tally SET number = number + 1")
        number = self.tally()
        results: list[Result] = []
        for kind, group in groupby(operations, kind_of):
            some = list(group)
            if kind is None or not write_many(self, some, number):
                results += [self._apply(operation, owner, number) for operation in some]
            else:
                results += [e.version + 1 if isinstance(e, Set) else e.path for e in some]
        return results

    def _apply(self, operation: Operation, owner: int, number: int) -> Result:
        if isinstance(operation, Create):
            return self._create(operation, owner, number)
        path = operation.path
        version = self.row(path).version
        check_version(path, version, operation.version)
        if isinstance(operation, Set):
            self.execute(
                "UPDATE node SET data = ?, version = ? WHERE path = ?",
                (bytes(operation.data), version + 1, path),
            )
            return version + 1
        if isinstance(operation, Delete):
            if self.execute("SELECT 1 FROM node WHERE parent = ? LIMIT 1", (path,)):
                raise NotEmpty(path)
            self._delete(path)
        return None

    def _create(self, operation: Create, owner: int, number: int) -> str:
        name, above = operation.path, parent(operation.path)
        holder = self.find(above)
        if holder is None:
            raise NoNode(above, f"cannot create {name}")
        if holder.owner:
            raise NoChildren(above)
        path = sequential_path(name, holder.births) if operation.sequential else name
        if self.find(path) is not None:
            raise NodeExists(path)
        self.execute(
            CREATE,
            (path, above, bytes(operation.data), number, owner if operation.ephemeral else 0),
        )
        self.execute(ADD_CHILDREN, (1, 1, above))
        return path

    def _delete(self, path: str) -> None:
        assert path != ROOT
        self.execute("DELETE FROM node WHERE path = ?", (path,))
        self.execute("UPDATE node SET changes = changes + 1 WHERE path = ?", (parent(path),))

    # Sessions; all but the queries in a transaction

    def open_session(self, timeout_ms: int, now: int) -> int:
        self.execute("UPDATE tally SET number = number + 1")
        id_ = self.tally()
        locked = self.locks.hold(id_)  # before another session can see the row
        self.execute(
            "INSERT INTO session VALUES (?, ?, ?, ?, ?)",
            (id_, self.boot, timeout_ms, now + timeout_ms, locked),
        )
        return id_

    def is_open(self, session: int) -> bool:
        return bool(self.execute("SELECT 1 FROM session WHERE id = ?", (session,)))

    def renew(self, session: int, now: int) -> None:
        self.execute("UPDATE session SET deadline_ms = ? + timeout_ms WHERE id = ?", (now, session))

    def others(self, own: int) -> list[OtherSession]:
        return [OtherSession(*row) for row in self.execute(_OTHERS, (own,))]

    def ended(self, others: Iterable[OtherSession], now: int, *, late: bool) -> list[int]:
        """Those whose process has ended; with `late`, also those that were not renewed in time.

        The clock starts again with each boot: a deadline that is further away than its timeout is
        from another boot.
        """
        return [
            id_
            for id_, locked, boot, deadline_ms, timeout_ms in others
            if (late and (boot != self.boot or not now < deadline_ms <= now + timeout_ms))
            or (locked and self.locks.is_free(id_))
        ]

    def remove_ended(self, own: int, now: int, *, late: bool) -> None:
        for session in self.ended(self.others(own), now, late=late):
            self.remove_session(session)

    def remove_session(self, session: int) -> None:
        """With its ephemeral nodes."""
        paths = self.execute("SELECT path FROM node WHERE owner != 0 AND owner = ?", (session,))
        for (path,) in paths:
            self._delete(path)
        if paths:
            self.execute("UPDATE tally SET number = number + 1")
        self.execute("DELETE FROM session WHERE id = ?", (session,))


def _is_busy(problem: sqlite3.Error) -> bool:
    """Including the extended codes: the lowest byte is the kind."""
    return getattr(problem, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY


def _failed(file: str, problem: sqlite3.Error) -> Failed:
    return Failed(Code.KAFKA_STORAGE_ERROR, f"keeper file {file}: {problem}")
