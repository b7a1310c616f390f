"""Our own file in a checkpoint: its pipeline, its topics, and where it began; the identity of its
batches.

In: a directory in the file system that Spark writes to. Out: PipelineError if it must not be used.
Always: a checkpoint belongs to one pipeline and to the topics it was created with: if a topic was
deleted and created again under its name, its offsets stand for other records. The offsets where its
queries begin are looked up once and stored: Spark does not store them, and would look them up again
until the first batch is done.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from barnabas.pipeline.errors import DataLoss, PipelineError
from barnabas.pipeline.spark.batch_identity import BatchIdentity, known_ids, planned_offsets
from barnabas.pipeline.spark.files import Directory
from barnabas.pipeline.spark.offsets import Offsets, from_json, to_json

_FILE = "barnabas.json"
_OFFSETS = "offsets"  # Spark's log of the batches it has planned


class Checkpoint:
    """The checkpoint of one pipeline; each of its queries has a directory in it."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self.topic_ids: dict[str, str] = {}
        self.began: Offsets | None = None  # None: a file of an older checkpoint was lost

    def claim(
        self,
        pipeline: str,
        topics: Mapping[str, UUID],
        begin: Callable[[], Offsets],
        *,
        fail_on_data_loss: bool,
    ) -> None:
        """Record pipeline and topics, and for a new checkpoint where it begins. PipelineError if it
        belongs to another pipeline, DataLoss if a topic was created again.
        """
        noted = self._read()
        where = self._directory.uri
        owner = noted.get("pipeline", pipeline)
        if owner != pipeline:
            raise PipelineError(
                f"run.checkpoint: {where} belongs to pipeline {owner!r}: use"
                f" another directory for {pipeline!r}"
            )
        known = noted.get("topics")
        before: dict[str, Any] = known if isinstance(known, dict) else {}
        now = known_ids(topics)
        for name, id_ in now.items():
            if before.get(name, id_) != id_ and fail_on_data_loss:
                raise DataLoss(
                    f"topic {name!r} was deleted and created again: {where} has offsets of the"
                    " old topic. Use another run.checkpoint to read the new one from the start,"
                    " or set"
                    " failOnDataLoss to false in source.options to continue"
                )
        self.topic_ids = {**before, **now}
        if "began" in noted:
            self.began = from_json(noted["began"], f"{where}/{_FILE}, began")
        elif not self._has_batches():
            self.began = begin()
        noting: dict[str, Any] = {"pipeline": pipeline, "topics": self.topic_ids}
        if self.began is not None:
            noting["began"] = to_json(self.began)
        if noted != noting:
            self._directory.write(_FILE, json.dumps(noting, sort_keys=True))

    def mend(self) -> None:
        """Remove an offsets file that a killed driver wrote in part: Spark would not start with it
        if no batch has begun.
        """
        for query in self._directory.names():
            for name in self._directory.names(f"{query}/{_OFFSETS}"):
                if name.startswith(".") and name.endswith(".tmp"):
                    self._directory.delete(f"{query}/{_OFFSETS}/{name}")

    def identity(
        self, directory: str, query: str, number: int, ids_now: Callable[[], Mapping[str, UUID]]
    ) -> BatchIdentity:
        """The identity of a batch that Spark has planned. `directory`: of its query. `ids_now`:
        looked up if the batch has topics that are new since the run began.
        """
        end = self._planned(directory, number)
        start = self._planned(directory, number - 1) if number else self.began or {}
        if any(at.topic not in self.topic_ids for at in end):
            self.topic_ids = {**known_ids(ids_now()), **self.topic_ids}
        named = {at.topic for at in end}
        ids = {name: id_ for name, id_ in self.topic_ids.items() if name in named}
        return BatchIdentity(query, number, start, end, ids)

    def _planned(self, directory: str, number: int) -> Offsets:
        name = f"{directory}/{_OFFSETS}/{number}"
        text = self._directory.read(name)
        if text is None:
            raise PipelineError(
                f"run.checkpoint: {self._directory.uri}/{name} is missing: was it deleted while"
                " the pipeline runs? Restore the checkpoint, or use another run.checkpoint"
            )
        return planned_offsets(text, f"{self._directory.uri}/{name}")

    def _has_batches(self) -> bool:
        return any(
            name.isdecimal()
            for query in self._directory.names()
            for name in self._directory.names(f"{query}/{_OFFSETS}")
        )

    def _read(self) -> dict[str, Any]:
        try:
            found = json.loads(self._directory.read(_FILE) or "{}")
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}
