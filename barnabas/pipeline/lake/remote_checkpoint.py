"""A checkpoint that is kept on S3, where Spark has no file system without jars.

In: a URI, a directory of this machine. Out: Spark works in the directory; before the commit of each
batch, the files that a driver on another machine needs are on the store.
Always: the store has the offsets of the batch that is being committed and of the one before: Spark
repeats this batch elsewhere, with the same query id and the same offsets, and the table says
whether it has it. One driver owns the checkpoint: each start takes it over with a higher epoch,
and the driver before stops at its next batch, before it commits.
Only for lakes: streams with state have more files than these.
"""

import json
import shutil
from pathlib import Path
from uuid import uuid4

from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.lake.conditional_put import S3Objects, check_conditional_writes
from barnabas.pipeline.lake.store import Store

_OWNER = "owner.json"
_CLAIMS_MAX = 20
QUERY = "lake"  # the directory of the query in the checkpoint


class RemoteCheckpoint:
    """The checkpoint of one pipeline. `directory`: of this machine, which is emptied."""

    def __init__(self, uri: str, directory: Path) -> None:
        self._store = Store(uri)
        self._objects = S3Objects(self._store)
        self._directory = directory
        self._epoch = 0
        self._driver = uuid4().hex
        self._tag = ""
        self._published = -1

    def fetch(self) -> None:
        """Takes the checkpoint over, and copies it to the directory."""
        check_conditional_writes(self._store)
        self._own()
        shutil.rmtree(self._directory, ignore_errors=True)
        self._directory.mkdir(parents=True)
        for name, _, _ in list(self._store.files()):
            if name == _OWNER or name.endswith("/"):
                continue
            content = self._store.read(name)
            if content is not None:
                path = self._directory / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)

    def _own(self) -> None:
        for _ in range(_CLAIMS_MAX):
            found = self._objects.read(_OWNER)
            before = _parsed(found[0]) if found is not None else {}
            epoch = before.get("epoch", 0)
            self._epoch = (epoch if isinstance(epoch, int) else 0) + 1
            tag = self._objects.write(
                _OWNER, self._document(), tag=None if found is None else found[1]
            )
            if tag is not None:
                self._tag = tag
                return
        raise PipelineError(f"run.checkpoint: {self._store.uri}: other drivers keep taking it over")

    def _document(self) -> bytes:
        return json.dumps({"epoch": self._epoch, "driver": self._driver}).encode()

    def publish(self, number: int) -> None:
        """Before the commit of a batch. PipelineError if another driver owns the checkpoint."""
        tag = self._objects.write(_OWNER, self._document(), tag=self._tag)
        if tag is None:
            found = self._objects.read(_OWNER)
            # The answer to a write that succeeded may have been lost.
            if found is None or _parsed(found[0]).get("driver") != self._driver:
                raise PipelineError(
                    f"run.checkpoint: {self._store.uri}: another driver has taken it over: this one"
                    " stops"
                )
            tag = found[1]
        self._tag = tag
        names = ["barnabas.json", f"{QUERY}/metadata"]
        names += [f"{QUERY}/offsets/{n}" for n in (number - 1, number) if n >= 0]
        for name in names:
            path = self._directory / name
            if path.is_file():
                self._store.write(name, path.read_bytes())
        if self._published >= 0 and number - 2 >= 0:
            self._store.delete_file(f"{QUERY}/offsets/{number - 2}")
        self._published = number


def _parsed(content: bytes) -> dict[str, object]:
    try:
        found = json.loads(content)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
