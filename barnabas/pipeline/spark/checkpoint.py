"""What a checkpoint tells besides Spark's own: whose it is, of which topics, where it was cut off.

In: a directory in whatever file system Spark writes to. Out: PipelineError if it is not to be used.
Always: a checkpoint belongs to one pipeline, and to the very topics it was begun with: offsets of
topics that were deleted and made anew under the same names mean other records.
"""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from uuid import UUID

from barnabas.model.ids import NO_TOPIC_ID
from barnabas.pipeline.errors import DataLoss, PipelineError, from_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FILE = "barnabas.json"
_SIZE_MAX = 16 * 1024 * 1024


def ensure_directory(spark: "SparkSession", path: str, key: str) -> None:
    """One line that names the key if it cannot be made: Spark says that late, and in many words."""
    jvm: Any = spark._jvm
    at = jvm.org.apache.hadoop.fs.Path(path)
    try:
        made = at.getFileSystem(spark._jsc.hadoopConfiguration()).mkdirs(at)
    except Exception as problem:
        raise PipelineError(f"{key}: {path}: {from_spark(problem) or problem}") from None
    if not made:
        raise PipelineError(
            f"{key}: {path} cannot be made: name a directory that may be written to here and on"
            " the workers"
        )


class Checkpoint:
    """Of one pipeline, whose queries have a directory each in it."""

    def __init__(self, spark: "SparkSession", path: str) -> None:
        self._path = path
        self._jvm: Any = spark._jvm
        root = self._at("")
        self._fs = root.getFileSystem(spark._jsc.hadoopConfiguration())

    def claim(self, pipeline: str, topics: Mapping[str, UUID], *, fail_on_data_loss: bool) -> None:
        """Note whose it is. PipelineError if it is another's, DataLoss if topics are others."""
        noted = self._read()
        owner = noted.get("pipeline", pipeline)
        if owner != pipeline:
            raise PipelineError(
                f"run.checkpoint: {self._path} is that of pipeline {owner!r}: give"
                f" {pipeline!r} a directory of its own"
            )
        known = noted.get("topics")
        before: dict[str, Any] = known if isinstance(known, dict) else {}
        now = {name: str(id_) for name, id_ in topics.items() if id_ != NO_TOPIC_ID}
        for name, id_ in now.items():
            if before.get(name, id_) != id_ and fail_on_data_loss:
                raise DataLoss(
                    f"topic {name!r} was deleted, and made anew: {self._path} has offsets of the"
                    " one before. Name another run.checkpoint to read it from the start, or set"
                    " failOnDataLoss to false in source.options to go on"
                )
        if noted != (noting := {"pipeline": pipeline, "topics": {**before, **now}}):
            self._write(noting)

    def mend(self) -> None:
        """Remove offsets that a killed driver had not written to the end: Spark, which finds them
        where it has begun nothing yet, would not start."""
        for torn in self._fs.globStatus(self._at("*/offsets/.*.tmp")) or ():
            self._fs.delete(torn.getPath(), False)

    def unfinished(self, query: str) -> int | None:
        """The batch that Spark will repeat: it was begun, and it is not noted that it has ended."""
        begun, ended = (self._last(f"{query}/{log}") for log in ("offsets", "commits"))
        return begun if begun > ended else None

    def _last(self, directory: str) -> int:
        found = self._fs.globStatus(self._at(f"{directory}/[0-9]*")) or ()
        names = [each.getPath().getName() for each in found]
        return max((int(name) for name in names if name.isdecimal()), default=-1)

    def _at(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self._path}/{name}")

    def _read(self) -> dict[str, Any]:
        if not self._fs.exists(self._at(_FILE)):
            return {}
        stream = self._fs.open(self._at(_FILE))
        try:
            read = self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
            found = json.loads(str(read)[:_SIZE_MAX])
        except ValueError:
            return {}
        finally:
            stream.close()
        return found if isinstance(found, dict) else {}

    def _write(self, document: dict[str, Any]) -> None:
        """Whole or not at all: a rename, as Spark writes its own."""
        new = self._at(f".{_FILE}.new")
        stream = self._fs.create(new, True)
        try:
            stream.write(bytearray(json.dumps(document, sort_keys=True).encode()))
        finally:
            stream.close()
        self._fs.delete(self._at(_FILE), False)
        if not self._fs.rename(new, self._at(_FILE)):
            raise PipelineError(f"run.checkpoint: {self._path} cannot be written to")
