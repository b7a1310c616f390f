"""Objects on S3 that are written only under a condition, and a test whether a store keeps to it.

In: a bucket, keys. Out: objects and their tags; False if the condition did not hold.
Always: Delta's log and the owner of a checkpoint are safe only on a store that lets exactly one of
several writers create an object. A store that ignores the condition, or races, is refused at the
start: with it, two drivers would overwrite each other's commits without an error.
Credentials come from the environment or a role, by boto3.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.lake.store import Store
from barnabas.pipeline.run.spec import SpecError

PROBE_ROUNDS = 3
PROBE_WRITERS = 16
_REFUSED = ("PreconditionFailed", "ConditionalRequestConflict", "412", "409")
_MISSING = ("NoSuchKey", "404")


class S3Objects:
    """The objects of a bucket, below a store's prefix."""

    def __init__(self, store: Store) -> None:
        try:
            import boto3
            from botocore.config import Config
        except ImportError:
            raise PipelineError(
                f"boto3 is not installed, which {store.uri} needs: pip install 'barnabas[s3]'"
            ) from None
        self._store = store
        self._bucket, _, self._prefix = store.root.partition("/")
        self._client: Any = boto3.client(
            "s3",
            config=Config(
                max_pool_connections=PROBE_WRITERS,
                retries={"max_attempts": 4, "mode": "standard"},
                s3={"addressing_style": "path"} if store.has_endpoint else None,
            ),
        )

    def _key(self, name: str) -> str:
        return f"{self._prefix}/{name}".lstrip("/")

    def read(self, name: str) -> tuple[bytes, str] | None:
        """The content and the tag of an object; None if there is none."""
        try:
            found = self._client.get_object(Bucket=self._bucket, Key=self._key(name))
            return found["Body"].read(), found["ETag"]
        except Exception as problem:
            if _code(problem) in _MISSING:
                return None
            raise self._failed(problem) from None

    def write(self, name: str, content: bytes, *, tag: str | None) -> str | None:
        """The new tag. None if the object does not have this tag any more; with `tag` None, if it
        exists.
        """
        condition = {"IfNoneMatch": "*"} if tag is None else {"IfMatch": tag}
        try:
            done = self._client.put_object(
                Bucket=self._bucket, Key=self._key(name), Body=content, **condition
            )
        except Exception as problem:
            if _code(problem) in _REFUSED or (tag is not None and _code(problem) in _MISSING):
                return None
            raise self._failed(problem) from None
        found: str = done["ETag"]
        return found

    def delete(self, name: str) -> None:
        self._client.delete_object(Bucket=self._bucket, Key=self._key(name))

    def _failed(self, problem: Exception) -> PipelineError:
        return PipelineError(f"{self._store.uri}: {' '.join(str(problem).split())[:300]}")


def check_conditional_writes(store: Store) -> None:
    """SpecError if several writers can create one object."""
    objects = S3Objects(store)
    with ThreadPoolExecutor(PROBE_WRITERS) as writers:
        for _ in range(PROBE_ROUNDS):
            name = f"_barnabas-probe-{uuid4().hex}"
            begun = [
                writers.submit(objects.write, name, b"%d" % n, tag=None)
                for n in range(PROBE_WRITERS)
            ]
            won = [each.result() for each in begun]
            winners = PROBE_WRITERS - won.count(None)
            if not winners and objects.read(name) is not None:
                winners = 1  # its answer was lost, and its repetition was refused
            objects.delete(name)
            if winners != 1:
                raise SpecError(
                    f"{store.uri}: the store let {winners} of {PROBE_WRITERS} writers create one"
                    " object (If-None-Match): two drivers would overwrite each other's commits. Use"
                    " a store with conditional writes, or an Iceberg table with a catalog"
                )


def _code(problem: Exception) -> str:
    response = getattr(problem, "response", None)
    error = response.get("Error", {}) if isinstance(response, dict) else {}
    return str(error.get("Code", ""))
