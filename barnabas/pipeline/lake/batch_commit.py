"""Adds the rows of a batch to a table, each once: the frame that all kinds of tables share.

In: the rows of a batch, its identity, and a table with three steps: look at what it has, write
files, commit. Out: a table that has the rows.
Always: the table is asked before each attempt, and the commit is refused if another driver
committed since. An attempt has files of its own. If the outcome of a commit is unknown, the table
is asked again, and nothing is deleted: a commit may still arrive until a later one succeeds.
Not here: the tables (parquet.py, delta_table.py, iceberg_table.py).
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import uuid4

from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.run.explain import COMMIT, FILES
from barnabas.pipeline.spark.batch_identity import BatchIdentity
from barnabas.pipeline.spark.offsets import Offsets

NONE = -1  # the version of a table that has no rows of the query
ATTEMPTS_MAX = 20
UNKNOWN_MAX = 3


@dataclass(frozen=True)
class TableState:
    """The last version of a query in the table, and up to where the table has rows."""

    version: int
    done: Mapping[str, int]

    def next_version(self, identity: BatchIdentity) -> int:
        return identity.number if self.version == NONE else self.version + 1


@dataclass(frozen=True)
class Attempt:
    """One attempt to commit a batch. `directory`: for its files."""

    identity: BatchIdentity
    version: int
    done_before: Mapping[str, int]
    id: str

    @property
    def done_after(self) -> dict[str, int]:
        return self.identity.done_after(self.done_before)

    @property
    def versions_directory(self) -> str:
        """The directory of all attempts for this version."""
        return f"{self.identity.query}/{self.version:09d}"

    @property
    def directory(self) -> str:
        return f"{self.versions_directory}/{self.id}"


class CommitUnknown(Exception):
    """A commit failed in a way that does not say whether it is in the table."""


class LakeTable(Protocol):
    """A table as `write_batch` uses it."""

    name: str  # for errors
    replaces: bool  # a batch replaces all rows, so its files hold only for the table that was read

    def check(self, schema: Any) -> None:
        """PipelineError, in one line, if rows of this schema do not fit the existing table."""

    def prepare(self, schema: Any) -> None:
        """Creates the table if there is none, and adds new columns. Before each attempt."""

    def state(self, identity: BatchIdentity) -> TableState:
        """What the table has now, from any writer."""

    def write_files(self, rows: Any, attempt: Attempt) -> Any:
        """Writes the files of an attempt, which are not part of the table yet."""

    def commit(self, files: Any, attempt: Attempt) -> bool:
        """False, and nothing is changed, if another driver committed in between. CommitUnknown if
        the store or the catalog did not answer.
        """

    def has_attempt(self, attempt: Attempt) -> bool:
        """Whether this attempt is in the table. Asked when a commit was refused, or its outcome is
        unknown.
        """

    def committed(self, attempt: Attempt) -> None:
        """Deletes files of other attempts for this version: none of them can be committed now."""

    def discard(self, attempt: Attempt) -> None:
        """Deletes the files of an attempt that was refused."""


def has_batch(table: LakeTable, identity: BatchIdentity) -> bool:
    return not identity.remaining(table.state(identity).done)


def write_batch(
    table: LakeTable,
    identity: BatchIdentity,
    schema: Any,
    rows_from: Callable[[Offsets], Any],
) -> dict[str, int]:
    """Adds the rows that the table does not have. `rows_from`: the rows of the batch from these
    offsets on. Returns how long files and commits took, in milliseconds.
    """
    unknown = 0
    took_ms = {FILES: 0, COMMIT: 0}
    for _ in range(ATTEMPTS_MAX):
        try:
            if _wrote(table, identity, schema, rows_from, took_ms):
                return took_ms
        except CommitUnknown as problem:
            unknown += 1
            if unknown == UNKNOWN_MAX:
                raise PipelineError(
                    f"sink: {table.name}: the commit of batch {identity.number} failed: {problem}"
                ) from None
    raise PipelineError(
        f"sink: {table.name}: {ATTEMPTS_MAX} commits of batch {identity.number} were refused"
        " because of other commits: does another program write to this table?"
    )


def _wrote(
    table: LakeTable,
    identity: BatchIdentity,
    schema: Any,
    rows_from: Callable[[Offsets], Any],
    took_ms: dict[str, int],
) -> bool:
    """False: another driver committed in between. CommitUnknown: the commit is not in the table,
    but may still arrive.
    """
    table.prepare(schema)
    state = table.state(identity)
    remaining = identity.remaining(state.done)
    if not remaining:
        return True
    attempt = Attempt(identity, state.next_version(identity), state.done, uuid4().hex)
    begun = time.monotonic()
    try:
        files = table.write_files(rows_from(remaining), attempt)
    except Exception:
        if table.state(identity).version != state.version:
            table.discard(attempt)
            return False  # the other driver has deleted the files
        raise
    written = time.monotonic()
    took_ms[FILES] += int((written - begun) * 1000)
    try:
        won = table.commit(files, attempt)
        for _ in range(ATTEMPTS_MAX):
            if won or table.replaces or table.state(identity) != state:
                break
            won = table.commit(files, attempt)  # somebody joined files, or wrote other rows
        # A client that repeats a request by itself is refused because of its own first one.
        won = won or table.has_attempt(attempt)
    except CommitUnknown:
        if not table.has_attempt(attempt):
            raise  # its files stay
        won = True
    took_ms[COMMIT] += int((time.monotonic() - written) * 1000)
    if won:
        table.committed(attempt)
    else:
        table.discard(attempt)
    return won
