"""A keeper in one SQLite file: the default, shared by the brokers of one machine.

Always: a write that returned is on disk (synchronous=FULL), even after a power cut.
Used from one thread at a time; a call may block on the disk, so not from an event loop.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from barnabas.keeper.keeper import (
    ANY_VERSION,
    Create,
    Delete,
    Node,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    Set,
    check_operations,
    of_version,
    parent,
)
from barnabas.model.errors import Code, Failed

_BUSY_MS_MAX = 10_000
_SCHEMA_VERSION = 1
_SCHEMA = """
CREATE TABLE node (
    path TEXT PRIMARY KEY,
    parent TEXT NOT NULL,
    data BLOB NOT NULL,
    version INTEGER NOT NULL
) WITHOUT ROWID, STRICT;
CREATE INDEX node_by_parent ON node (parent, path);
"""


class SqliteKeeper:
    """Holds the contract of keeper.py in a file; opening it again finds what was there."""

    def __init__(self, path: str) -> None:
        self._file = path
        try:
            self._database = sqlite3.connect(
                path,
                timeout=_BUSY_MS_MAX / 1000,
                isolation_level=None,
                check_same_thread=False,
                cached_statements=32,
            )
        except sqlite3.Error as problem:
            raise _failed(path, problem) from None
        try:
            self._execute("PRAGMA journal_mode=WAL")
            self._execute("PRAGMA synchronous=FULL")
            self._make_schema()
        except BaseException:
            self._database.close()
            raise

    def create(self, path: str, data: bytes = b"") -> None:
        self.multi([Create(path, data)])

    def get(self, path: str) -> Node:
        rows = self._execute("SELECT data, version FROM node WHERE path = ?", (path,))
        if not rows:
            raise NoNode(path)
        return Node(*rows[0])

    def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> int:
        check_operations([Set(path, data, version)])
        with self._transaction():
            return self._set(path, data, version)

    def delete(self, path: str, version: int = ANY_VERSION) -> None:
        self.multi([Delete(path, version)])

    def exists(self, path: str) -> bool:
        return bool(self._execute("SELECT 1 FROM node WHERE path = ?", (path,)))

    def children(self, path: str) -> list[str]:
        above = "" if path == "/" else path
        rows = self._execute("SELECT path FROM node WHERE parent = ?", (above,))
        if not rows and above:
            self._version(path)
        return sorted(name.rpartition("/")[2] for (name,) in rows)

    def multi(self, operations: Sequence[Operation]) -> None:
        check_operations(operations)
        with self._transaction():
            for operation in operations:
                self._apply(operation)

    def close(self) -> None:
        self._database.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        # IMMEDIATE: what is read inside is still so when it is written.
        self._execute("BEGIN IMMEDIATE")
        try:
            yield
            self._execute("COMMIT")
        except BaseException:
            if self._database.in_transaction:  # SQLite ends it by itself after some failures
                self._execute("ROLLBACK")
            raise

    def _execute(self, statement: str, values: Sequence[object] = ()) -> list[Any]:
        """The rows it gives."""
        try:
            return self._database.execute(statement, values).fetchall()
        except sqlite3.Error as problem:
            raise _failed(self._file, problem) from None

    def _make_schema(self) -> None:
        with self._transaction():
            [(found,)] = self._execute("PRAGMA user_version")
            if found == _SCHEMA_VERSION:
                return
            if found != 0:
                raise Failed(
                    Code.KAFKA_STORAGE_ERROR,
                    f"{self._file} has schema {found}, this version reads {_SCHEMA_VERSION}: "
                    "use the version of Barnabas that wrote it",
                )
            for statement in _SCHEMA.split(";"):
                self._execute(statement)
            self._execute(f"PRAGMA user_version = {_SCHEMA_VERSION}")

    def _apply(self, operation: Operation) -> None:
        path = operation.path
        if isinstance(operation, Create):
            self._create(path, operation.data)
        elif isinstance(operation, Set):
            self._set(path, operation.data, operation.version)
        elif isinstance(operation, Delete):
            of_version(path, self._version(path), operation.version)
            if self.children(path):
                raise NotEmpty(path)
            self._execute("DELETE FROM node WHERE path = ?", (path,))
        else:
            of_version(path, self._version(path), operation.version)

    def _create(self, path: str, data: bytes) -> None:
        above = parent(path)
        if above and not self.exists(above):
            raise NoNode(above, f"cannot create {path}")
        if self.exists(path):
            raise NodeExists(path)
        self._execute("INSERT INTO node VALUES (?, ?, ?, 0)", (path, above, bytes(data)))

    def _set(self, path: str, data: bytes, version: int) -> int:
        found = self._version(path)
        of_version(path, found, version)
        self._execute(
            "UPDATE node SET data = ?, version = ? WHERE path = ?", (bytes(data), found + 1, path)
        )
        return found + 1

    def _version(self, path: str) -> int:
        query = "SELECT version FROM node WHERE path = ?"
        rows: list[tuple[int]] = self._execute(query, (path,))
        if not rows:
            raise NoNode(path)
        return rows[0][0]


def _failed(file: str, problem: sqlite3.Error) -> Failed:
    return Failed(Code.KAFKA_STORAGE_ERROR, f"keeper file {file}: {problem}")
