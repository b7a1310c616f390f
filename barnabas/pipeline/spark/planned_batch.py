"""The identity of a batch of any query: its number, and the offsets that Spark planned for it.

In: the checkpoint of the query, as the options of the sink have it. Out: a short text that is the
same for each repetition of a batch, and another one if the number stands for other records.
Spark writes the offsets of all sources of a query into the checkpoint before a batch runs. The
driver's Python process has no access to Spark's file systems: it reads the file itself, with
pyarrow where the checkpoint is not on this machine.
"""

import hashlib
import json
from typing import NamedTuple

from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.spark.files import local_path

_NOTE_LENGTH_MAX = 16_000
_TEXT_SIZE_MAX = 16 * 1024 * 1024
_HEADER_LINES = 2  # the version, and Spark's metadata, which has times


class PlannedBatch(NamedTuple):
    """`note`: where the sources end, for people."""

    number: int
    identity: str
    note: str


def planned_batch(checkpoint: str | None, number: int, salt: str = "") -> PlannedBatch:
    """`salt`: what else identifies the records, such as the ids of their topics. Without a
    checkpoint that can be read, only the number identifies the batch.
    """
    if checkpoint is None:
        return PlannedBatch(number, "", "")
    end = _sources(checkpoint, number)
    if end is None:
        return PlannedBatch(number, "", "")
    start = _sources(checkpoint, number - 1) or [] if number else []
    hashed = hashlib.sha256(json.dumps([start, end, salt]).encode()).hexdigest()[:32]
    note = " ".join(end)
    return PlannedBatch(number, hashed, note if len(note) <= _NOTE_LENGTH_MAX else "")


def query_id(checkpoint: str) -> str:
    """Spark stores it when a query starts for the first time."""
    text = _read(checkpoint, "metadata")
    try:
        found = json.loads(text or "")["id"]
    except (ValueError, KeyError, TypeError):
        found = None
    if not isinstance(found, str) or not found:
        raise PipelineError(
            f"checkpointLocation: {checkpoint}/metadata cannot be read by Python: on Apache Kafka,"
            " exactlyOnce needs a checkpoint on this machine, or on a store that pyarrow reads"
        )
    return found


def _sources(checkpoint: str, number: int) -> list[str] | None:
    text = _read(checkpoint, f"offsets/{number}")
    return None if text is None else text.splitlines()[_HEADER_LINES:]


def _read(checkpoint: str, name: str) -> str | None:
    path = local_path(checkpoint)
    try:
        if path is not None:
            with open(f"{path}/{name}", encoding="utf-8", errors="replace") as file:
                return file.read(_TEXT_SIZE_MAX)
        from pyarrow import fs

        store, where = fs.FileSystem.from_uri(f"{checkpoint.rstrip('/')}/{name}")
        with store.open_input_stream(where) as stream:
            return bytes(stream.read(_TEXT_SIZE_MAX)).decode(errors="replace")
    except (OSError, ValueError, ImportError):
        return None
