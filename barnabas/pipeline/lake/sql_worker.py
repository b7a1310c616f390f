"""The process that runs a query over tables and their topics: as sql/worker.py, with `--lake`.

In: a request whose `lakes` are specs of pipelines. Out: as sql/worker.py.
Always: a name that a spec reads alone, and the name of the pipeline, is the table and its topics as
one (union.py). No Spark runs: this process reads files and records, and DuckDB does the rest.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow
from pyspark.sql import datasource
from pyspark.sql.pandas.types import to_arrow_schema

from barnabas.model.errors import KafkaError
from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.formats.ddl import struct_type
from barnabas.pipeline.lake.union import FilteringUnionReader, UnionSlice, union_columns
from barnabas.pipeline.run.spec import Spec, load
from barnabas.pipeline.spark.reading import Task
from barnabas.sql.statement import Condition
from barnabas.sql.topic_reader import QueryFailed
from barnabas.sql.worker import run, say

_FILTERS = {
    "=": datasource.EqualTo,
    ">": datasource.GreaterThan,
    ">=": datasource.GreaterThanOrEqual,
    "<": datasource.LessThan,
    "<=": datasource.LessThanOrEqual,
}


class LakeReader:
    """A table with its topics. Conditions on their places and times leave files and records out."""

    def __init__(self, name: str, path: str, spec: Spec, conditions: Sequence[Condition]) -> None:
        self.name = name
        self.notes: list[str] = []
        schema = struct_type(union_columns(spec))
        self._schema = to_arrow_schema(schema, timezone="UTC")
        self._reader = FilteringUnionReader({"lake": path}, schema)
        self._reader.pushFilters(
            [
                _FILTERS[each.operator]((each.column,), each.value)
                for each in conditions
                if each.value is not None
            ]
        )
        self._slices: list[UnionSlice] = self._reader.partitions()

    def plan(self) -> dict[str, Any]:
        """The ranges of the log, and the files."""
        ranges: dict[str, tuple[int, int]] = {}
        files = size = 0
        for each in self._slices:
            if isinstance(each.value, Task):
                found = each.value.range
                low, high = ranges.get(str(found.partition), (found.start, found.stop))
                ranges[str(found.partition)] = min(low, found.start), max(high, found.stop)
            elif each.value is not None:
                files += len(each.value[1])
                size += sum(file.size for file in each.value[1])
        return {
            "topic": self.name,
            "records": sum(stop - start for start, stop in ranges.values()),
            "ranges": ranges,
            "files": f"{self.name}: also {files} files of the table, {size:,} bytes",
        }

    def stream(self) -> Any:
        return pyarrow.RecordBatchReader.from_batches(self._schema, self._batches())

    def _batches(self) -> Iterator[Any]:
        for each in self._slices:
            yield from self._reader.read(each)


def lakes_of(paths: Sequence[str]) -> dict[str, tuple[str, Spec]]:
    """By the names that a query may use."""
    found: dict[str, tuple[str, Spec]] = {}
    for path in paths:
        spec = load(Path(path))
        names = {spec.name}
        if len(spec.source.topics) == 1:
            names.add(spec.source.topics[0])
        for name in names:
            if name in found:
                raise QueryFailed(f"--lake: {found[name][0]} and {path} both stand for {name!r}")
            found[name] = (path, spec)
    return found


def answer(request: dict[str, Any]) -> None:
    try:
        known = lakes_of(request["lakes"])

        def table(name: str, conditions: Sequence[Condition]) -> LakeReader | None:
            return LakeReader(name, *known[name], conditions) if name in known else None

        run(request, table)
    except (QueryFailed, PipelineError) as problem:
        say(error=str(problem))
    except KafkaError as problem:
        say(error=problem.detail)
    except (duckdb.Error, pyarrow.ArrowException) as problem:
        say(error=str(problem).strip())
    except BrokenPipeError:
        pass


if __name__ == "__main__":
    answer(json.loads(sys.stdin.readline()))
