"""A table of Parquet files: a directory per batch.

In: the rows of a batch, and its identity. Out: PATH/batch=QUERY-VERSION/date=.../*.parquet.
Always: an attempt to write a batch has a hidden directory of its own, which one rename makes
visible. The batches of a query form a chain of versions without gaps: a batch gets the version
after the last one, so of two drivers only one can add a version, and the other one looks again at
what the table has. Each version stores the offsets up to which the table has rows
(pipeline/spark/batch_identity.py).
Readers of Parquet ignore names that begin with an underscore.
Not here: the rows (lake.py), the order of the steps (batch_commit.py), names and renames
(pipeline/spark/files.py).
"""

import json
from typing import TYPE_CHECKING, Any

from barnabas.pipeline.lake.batch_commit import NONE, Attempt, TableState
from barnabas.pipeline.lake.files import write_files
from barnabas.pipeline.run.spec import Spec
from barnabas.pipeline.spark.batch_identity import BatchIdentity, done_of
from barnabas.pipeline.spark.files import Directory

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_HIDDEN = "_unfinished"
_IDENTITY = "_barnabas.json"
_VISIBLE = "batch="


class ParquetTable:
    """The batches of one query at a time."""

    replaces = False

    def __init__(self, spec: Spec, directory: Directory) -> None:
        self.name = str(spec.sink.path)
        self._directory = directory
        self._columns = list(spec.sink.partition_by)
        self._options = spec.sink.options
        self._last: dict[str, int] = {}

    def check(self, schema: Any) -> None:
        """Files with different columns may be in one table."""

    def prepare(self, schema: Any) -> None:
        """Nothing to create."""

    def state(self, identity: BatchIdentity) -> TableState:
        query = identity.query
        if self._last.get(query, NONE) == NONE:
            self._last[query] = last_version(self._directory.names(), query)
        while self._last[query] != NONE and self._identity(query, self._last[query] + 1):
            self._last[query] += 1
        last = self._last[query]
        if last == NONE:
            return TableState(NONE, {})
        try:
            document = json.loads(self._identity(query, last) or "{}")
        except ValueError:
            document = {}
        done = done_of(document.get("done") if isinstance(document, dict) else None)
        return TableState(last, done)

    def _identity(self, query: str, version: int) -> str | None:
        return self._directory.read(f"{_VISIBLE}{_name(query, version)}/{_IDENTITY}")

    def write_files(self, rows: "DataFrame", attempt: Attempt) -> None:
        directory = _hidden(attempt)
        write_files(rows, f"{self._directory.uri}/{directory}", self._columns, self._options)
        document = {**attempt.identity.document(), "done": attempt.done_after}
        self._directory.write(f"{directory}/{_IDENTITY}", json.dumps(document, sort_keys=True))

    def commit(self, files: None, attempt: Attempt) -> bool:
        name = _name(attempt.identity.query, attempt.version)
        return self._directory.rename_new(_hidden(attempt), f"{_VISIBLE}{name}")

    def has_attempt(self, attempt: Attempt) -> bool:
        return False  # the outcome of a rename is always known

    def committed(self, attempt: Attempt) -> None:
        for name in self._directory.names(_HIDDEN):
            if name.startswith(f"{_name(attempt.identity.query, attempt.version)}-"):
                self._directory.delete(f"{_HIDDEN}/{name}")

    def discard(self, attempt: Attempt) -> None:
        self._directory.delete(_hidden(attempt))


def last_version(names: list[str], query: str) -> int:
    begin = f"{_VISIBLE}{query}-"
    versions = [name.removeprefix(begin) for name in names if name.startswith(begin)]
    return max((int(version) for version in versions if version.isdecimal()), default=NONE)


def _hidden(attempt: Attempt) -> str:
    return f"{_HIDDEN}/{_name(attempt.identity.query, attempt.version)}-{attempt.id}"


def _name(query: str, version: int) -> str:
    return f"{query}-{version:09d}"
