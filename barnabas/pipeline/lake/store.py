"""Where the files of a table are: a directory, or a prefix of a bucket on S3.

In: the URI of a table. Out: files, read and written with pyarrow, in the driver and in tasks.
Always: credentials come from the environment or a role of the process that uses the store. They are
never part of this object, which Spark sends to tasks and which may be logged.
Not here: Delta's and Iceberg's own access to the store, which read the same environment.
"""

import os
import re
from collections.abc import Iterator
from typing import Any

from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.spark.files import local_path, path_parts

_S3 = ("s3", "s3a", "s3n")
_TEXT_SIZE_MAX = 16 * 1024 * 1024


_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_LOGIN = re.compile(r"://[^/@\s]*:[^/@\s]*@")  # catalogs repeat the address that they were given
_REFUSED = ("ACCESS_DENIED", "403 Forbidden", "ExpiredToken", "InvalidAccessKeyId", "AccessDenied")


def answer_of(problem: Exception) -> str:
    """What a store or a catalog said, in one line, without passwords. If it refused the
    credentials, with the remedy.
    """
    text = " ".join(_COLOURS.sub("", str(problem)).split()) or type(problem).__name__
    text = _LOGIN.sub("://...@", text)
    if any(each in text for each in _REFUSED):
        return (
            "the store refused the credentials of this process, or they have expired: renew them"
            f" and run again, no row is lost or written twice: {text[:200]}"
        )
    return text[:300]


class Store:
    """A directory or prefix. Names are relative to it."""

    def __init__(self, uri: str) -> None:
        parts = path_parts(uri)
        self.on_s3 = parts.scheme in _S3
        local = None if self.on_s3 else local_path(uri)
        if self.on_s3:
            if not parts.authority:
                raise PipelineError(f"{uri}: name a bucket, as in s3://BUCKET/PATH")
            self.root = f"{parts.authority}/{parts.path.strip('/')}".rstrip("/")
            self.uri = f"s3://{self.root}"
        elif local is not None:
            self.root = self.uri = local
        else:
            raise PipelineError(f"{uri}: use a directory, or s3://BUCKET/PATH")
        # No secrets; workers on other machines may not have them in their environment.
        self._endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
        self._region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
        self._filesystem: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_filesystem": None}  # each process has its own connections

    @property
    def filesystem(self) -> Any:
        if self._filesystem is None:
            from pyarrow import fs

            if self.on_s3:
                given: dict[str, Any] = {}
                if self._endpoint:
                    given["endpoint_override"] = self._endpoint
                if self._region:
                    given["region"] = self._region
                self._filesystem = fs.S3FileSystem(**given)
            else:
                self._filesystem = fs.LocalFileSystem()
        return self._filesystem

    @property
    def has_endpoint(self) -> bool:
        """Whether it is another server than Amazon's."""
        return self._endpoint is not None

    def path(self, name: str) -> str:
        return f"{self.root}/{name}" if name else self.root

    def name_of(self, uri: str) -> str | None:
        """The name of a file in this store; None if it is somewhere else."""
        whole = local_path(uri)
        if self.on_s3:
            parts = path_parts(uri)
            whole = f"{parts.authority}{parts.path}" if parts.scheme in _S3 else None
        begin = f"{self.root}/"
        return whole.removeprefix(begin) if whole is not None and whole.startswith(begin) else None

    def open_output(self, name: str) -> Any:
        path = self.path(name)
        if not self.on_s3:
            os.makedirs(os.path.dirname(path), exist_ok=True)
        return self.filesystem.open_output_stream(path, compression=None)

    def open_input(self, name: str) -> Any:
        return self.filesystem.open_input_file(self.path(name))

    def names(self, name: str = "") -> list[str]:
        """The names in a directory; none if it does not exist."""
        return sorted(found.base_name for found in self._listed(name, recursive=False))

    def files(self, name: str = "") -> Iterator[tuple[str, int, float]]:
        """All files below a directory: name, size, and time of the last change in seconds."""
        from pyarrow import fs

        begin = len(self.root) + 1
        for found in self._listed(name, recursive=True):
            if found.type == fs.FileType.File:
                yield found.path[begin:], found.size, found.mtime.timestamp()

    def _listed(self, name: str, *, recursive: bool) -> list[Any]:
        from pyarrow import fs

        selector = fs.FileSelector(self.path(name), allow_not_found=True, recursive=recursive)
        found: list[Any] = self.filesystem.get_file_info(selector)
        return found

    def read(self, name: str) -> bytes | None:
        """The content of a small file; None if there is no such file."""
        try:
            with self.open_input(name) as file:
                content: bytes = file.read(_TEXT_SIZE_MAX)
                return content
        except FileNotFoundError:
            return None

    def write(self, name: str, content: bytes) -> None:
        with self.open_output(name) as file:
            file.write(content)

    def delete(self, name: str) -> None:
        """Deletes a directory with its content, if it exists."""
        try:
            self.filesystem.delete_dir(self.path(name))
        except FileNotFoundError:
            pass

    def delete_file(self, name: str) -> None:
        try:
            self.filesystem.delete_file(self.path(name))
        except FileNotFoundError:
            pass
