"""Directories that a pipeline writes to: one rule for their names, and what is done with them.

A path in a spec is a name, letter by letter: `[`, `%20` and `:` mean nothing in it. Only a scheme
with a slash at the beginning does (`file:/`, `hdfs://`). A path without a scheme is in Spark's
default file system, usually this machine's.
Always: a file is replaced completely or not at all; `rename_new` never moves a directory onto, or
into, one that exists, so of two drivers that use it for one name only one succeeds. Hadoop's own
rename moves it into the other, and its local file system then even copies file by file; so
directories of this machine are used through the operating system.
"""

import os
import re
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from barnabas.pipeline.errors import PipelineError, from_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(?://([^/]*))?(/.*)", re.DOTALL)
_TEXT_SIZE_MAX = 16 * 1024 * 1024
_EXISTS = ("FileAlreadyExistsException", "PathExistsException")


class PathParts(NamedTuple):
    """A path of a spec, taken apart."""

    scheme: str | None
    authority: str | None
    path: str


def path_parts(text: str) -> PathParts:
    found = _SCHEME.fullmatch(text)
    if found is None:
        return PathParts(None, None, text)
    return PathParts(found[1], found[2] or None, found[3])


def local_path(text: str) -> str | None:
    """The absolute path of a directory on this machine; None if it has another scheme."""
    parts = path_parts(text)
    return os.path.abspath(parts.path) if parts.scheme in (None, "file") else None


class Directory(Protocol):
    """A directory. Names are relative to it."""

    uri: str  # for Spark

    def names(self, name: str = "") -> list[str]:
        """The names in a directory; none if it does not exist."""

    def read(self, name: str) -> str | None:
        """The text of a file; None if there is no such file."""

    def write(self, name: str, text: str) -> None:
        """Replaces a file."""

    def rename_new(self, name: str, to: str) -> bool:
        """False, and nothing is changed, if `to` exists."""

    def delete(self, name: str) -> None:
        """Deletes a file or a directory with its content, if it exists."""


class LocalDirectory:
    """A directory on this machine."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.uri = f"file:{path}"

    def _at(self, name: str) -> str:
        return os.path.join(self.path, name) if name else self.path

    def names(self, name: str = "") -> list[str]:
        try:
            return sorted(os.listdir(self._at(name)))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def read(self, name: str) -> str | None:
        try:
            with open(self._at(name), encoding="utf-8", errors="replace") as file:
                return file.read(_TEXT_SIZE_MAX)
        except FileNotFoundError:
            return None

    def write(self, name: str, text: str) -> None:
        at = self._at(name)
        new = f"{at}.new"
        os.makedirs(os.path.dirname(at), exist_ok=True)
        with open(new, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, at)

    def rename_new(self, name: str, to: str) -> bool:
        try:
            os.rename(self._at(name), self._at(to))
        except OSError:
            # Not an empty directory: every directory that is renamed here has a file.
            if not os.path.lexists(self._at(to)):
                raise
            return False
        return True

    def delete(self, name: str) -> None:
        with suppress(FileNotFoundError):
            if os.path.isdir(self._at(name)):
                shutil.rmtree(self._at(name), ignore_errors=True)
            else:
                os.unlink(self._at(name))


class HadoopDirectory:
    """A directory in another file system, whose rename is atomic: HDFS."""

    def __init__(self, spark: "SparkSession", path: Any) -> None:
        self._jvm: Any = spark._jvm
        self._path = path
        configuration = spark._jsc.hadoopConfiguration()
        self._fs = path.getFileSystem(configuration)
        self._context = self._jvm.org.apache.hadoop.fs.FileContext.getFileContext(
            self._fs.getUri(), configuration
        )
        self._option: Any = getattr(self._jvm.org.apache.hadoop.fs, "Options$Rename")
        self._array = spark.sparkContext._gateway.new_array
        self.uri = str(path.toString())

    def _at(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._path, name) if name else self._path

    def names(self, name: str = "") -> list[str]:
        if not self._fs.exists(self._at(name)):
            return []
        return sorted(
            str(found.getPath().getName()) for found in self._fs.listStatus(self._at(name))
        )

    def read(self, name: str) -> str | None:
        if not self._fs.exists(self._at(name)):
            return None
        stream = self._fs.open(self._at(name))
        try:
            text = self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
            return str(text)[:_TEXT_SIZE_MAX]
        finally:
            stream.close()

    def write(self, name: str, text: str) -> None:
        new = self._at(f"{name}.new")
        stream = self._fs.create(new, True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        options = self._array(self._option, 1)
        options[0] = self._option.OVERWRITE
        self._context.rename(new, self._at(name), options)

    def rename_new(self, name: str, to: str) -> bool:
        try:
            self._context.rename(self._at(name), self._at(to), self._array(self._option, 0))
        except Exception as problem:
            if any(name in str(problem) for name in _EXISTS):
                return False
            raise PipelineError(
                f"{self.uri}/{name} cannot be renamed to {to}: {from_spark(problem) or problem}"
            ) from None
        return True

    def delete(self, name: str) -> None:
        self._fs.delete(self._at(name), True)


def directory_of(spark: "SparkSession", text: str) -> Directory:
    parts = path_parts(text)
    path = _qualified(spark, parts)
    if str(path.toUri().getScheme()) == "file":
        return LocalDirectory(str(path.toUri().getPath()))
    return HadoopDirectory(spark, path)


def ensure_directory(spark: "SparkSession", text: str, key: str) -> Directory:
    """Creates the directory. The error is one line that names the key: Spark reports it late, in
    many lines.
    """
    try:
        path = _qualified(spark, path_parts(text))
        made = path.getFileSystem(spark._jsc.hadoopConfiguration()).mkdirs(path)
    except Exception as problem:
        raise PipelineError(f"{key}: {text}: {from_spark(problem) or problem}") from None
    if not made:
        raise PipelineError(
            f"{key}: {text} cannot be created: name a directory that may be written to here and on"
            " the workers"
        )
    return directory_of(spark, text)


def _qualified(spark: "SparkSession", parts: PathParts) -> Any:
    jvm: Any = spark._jvm
    path = jvm.org.apache.hadoop.fs.Path(parts.scheme, parts.authority, parts.path)
    return path.getFileSystem(spark._jsc.hadoopConfiguration()).makeQualified(path)
