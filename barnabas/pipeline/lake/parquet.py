"""A table of Parquet files: a directory per batch.

In: the rows of a batch, and its identity. Out: PATH/batch=QUERY-VERSION/date=.../*.parquet.
Always: an attempt to write a batch has a hidden directory of its own, which one rename makes
visible. The batches of a query form a chain of versions without gaps: a batch gets the version
after the last one, so of two drivers only one can add a version, and the other one looks again at
what the table has. Each version stores the offsets up to which the table has rows
(pipeline/spark/batch_identity.py).
Readers of Parquet ignore names that begin with an underscore.
Not here: the rows (lake.py), names and renames (pipeline/spark/files.py).
"""

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from barnabas.pipeline.lake.files import write_files
from barnabas.pipeline.run.rows import rows_from
from barnabas.pipeline.run.spec import Spec
from barnabas.pipeline.spark.batch_identity import BatchIdentity, done_of
from barnabas.pipeline.spark.files import Directory

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    Shape = Callable[[DataFrame], DataFrame]

_HIDDEN = "_unfinished"
_IDENTITY = "_barnabas.json"
_VISIBLE = "batch="
NONE = -1


class ParquetTable:
    """The batches of one query at a time."""

    def __init__(self, spec: Spec, directory: Directory) -> None:
        self._directory = directory
        self._columns = list(spec.sink.partition_by)
        self._options = spec.sink.options
        self._last: dict[str, int] = {}

    def check(self, schema: Any) -> None:
        """Files with different columns may be in one table."""

    def has(self, identity: BatchIdentity) -> bool:
        return not identity.remaining(self._done(identity.query)[1])

    def write(self, batch: "DataFrame", shape: "Shape", identity: BatchIdentity) -> None:
        """Adds the rows that the table does not have. `shape`: from rows of the source to rows of
        the table.
        """
        while not self._wrote(batch, shape, identity):
            pass

    def _wrote(self, batch: "DataFrame", shape: "Shape", identity: BatchIdentity) -> bool:
        """False: another driver added a version in between."""
        query = identity.query
        last, done = self._done(query)
        remaining = identity.remaining(done)
        if not remaining:
            return True
        version = identity.number if last == NONE else last + 1
        attempt = f"{_HIDDEN}/{_name(query, version)}-{uuid4().hex}"
        rows = shape(rows_from(batch, identity, remaining))
        try:
            write_files(rows, f"{self._directory.uri}/{attempt}", self._columns, self._options)
        except Exception:
            if self._done(query)[0] != last:
                return False  # the other driver has deleted the files
            raise
        document = {**identity.document(), "done": identity.done_after(done)}
        self._directory.write(f"{attempt}/{_IDENTITY}", json.dumps(document, sort_keys=True))
        won = self._directory.rename_new(attempt, f"{_VISIBLE}{_name(query, version)}")
        if won:
            self._forget(query, version)
        else:
            self._directory.delete(attempt)
        return won

    def _done(self, query: str) -> tuple[int, dict[str, int]]:
        """The last version of a query, and up to where the table has rows."""
        if self._last.get(query, NONE) == NONE:
            self._last[query] = last_version(self._directory.names(), query)
        while self._last[query] != NONE and self._identity(query, self._last[query] + 1):
            self._last[query] += 1
        last = self._last[query]
        if last == NONE:
            return NONE, {}
        try:
            document = json.loads(self._identity(query, last) or "{}")
        except ValueError:
            document = {}
        return last, done_of(document.get("done") if isinstance(document, dict) else None)

    def _identity(self, query: str, version: int) -> str | None:
        return self._directory.read(f"{_VISIBLE}{_name(query, version)}/{_IDENTITY}")

    def _forget(self, query: str, version: int) -> None:
        """Deletes attempts for a version that is in the table: none of them can be added now."""
        for name in self._directory.names(_HIDDEN):
            if name.startswith(f"{_name(query, version)}-"):
                self._directory.delete(f"{_HIDDEN}/{name}")


def last_version(names: list[str], query: str) -> int:
    begin = f"{_VISIBLE}{query}-"
    versions = [name.removeprefix(begin) for name in names if name.startswith(begin)]
    return max((int(version) for version in versions if version.isdecimal()), default=NONE)


def _name(query: str, version: int) -> str:
    return f"{query}-{version:09d}"
