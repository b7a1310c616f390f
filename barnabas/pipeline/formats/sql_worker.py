"""Runs one query over topics whose values name their schema.

As barnabas.sql.worker, and with a schema registry: Avro, Protobuf and JSON values become JSON text,
whose fields are columns. A value that cannot be decoded stays as it is, and a note says why.
Always: the registry is asked by this process, never by the query.
"""

import json
import sys
from typing import Any

import duckdb
import pyarrow

from barnabas.model.errors import KafkaError
from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.formats.framed import FramedValues
from barnabas.sql.topic_reader import QueryFailed
from barnabas.sql.worker import run, say

_FRAMES = (b"\0", b"\1")
_SCHEMA_HEADERS = {"key": "__key_schema_id", "value": "__value_schema_id"}


class BatchDecoder:
    """Decodes the keys and values of record batches."""

    def __init__(self, registry: str) -> None:
        self._values = FramedValues(registry)
        self.problem = ""

    def __call__(self, batch: Any) -> Any:
        for name, header in _SCHEMA_HEADERS.items():
            at = batch.schema.get_field_index(name)
            headers = batch.column("headers").to_pylist()
            texts = [
                self._text(value, _frame_in(pairs, header))
                for value, pairs in zip(batch.column(at).to_pylist(), headers, strict=True)
            ]
            column = pyarrow.array(texts, batch.schema.field(at).type)
            batch = batch.set_column(at, batch.schema.field(at), column)
        return batch

    def _text(self, value: bytes | None, frame: bytes | None) -> bytes | None:
        if value is None or (frame is None and value[:1] not in _FRAMES):
            return value
        try:
            return self._values.decode((frame or b"") + value).text.encode()
        except ValueError as problem:
            self.problem = str(problem)
            return value


def _frame_in(headers: list[dict[str, Any]] | None, name: str) -> bytes | None:
    return next((each["value"] for each in headers or () if each["key"] == name), None)


def answer(request: dict[str, Any]) -> None:
    try:
        run(request, decoded=BatchDecoder(request["registry"]))
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
