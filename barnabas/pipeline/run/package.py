"""This package for Spark's executors, wherever they run: an archive that Spark unpacks beside them.

In: what is installed here. Out: a tar with barnabas as it is, compiled loops too, and with the
small packages its tasks import; a user's own modules besides.
Spark asks for the same minor version of Python on both sides, so what was compiled here loads there
if the platform is the same. pyspark and pyarrow are the cluster's own.
"""

import tarfile
from collections.abc import Iterable
from importlib import import_module
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from types import ModuleType

import barnabas
from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.run.transform import look_here

FOLDER = "barnabas-package"
_WITH = ("crc32c", "cramjam", "msgspec")
_LEFT_OUT = (".c", ".pxd", ".pyc", ".html")


def write_package(path: Path, modules: Iterable[str] = ()) -> None:
    """`modules`: names of modules of the user's, which may be in the working directory."""
    with tarfile.open(path, "w") as archive:
        _add(archive, Path(barnabas.__file__).parent)
        _add(archive, Path(barnabas.__file__).parent.parent / "pyspark_barnabas.py")
        for name in _WITH:
            for each in _files(name):
                archive.add(each[0], each[1], recursive=False)
        for name in dict.fromkeys(name.partition(".")[0] for name in modules):
            if name == "barnabas":
                continue
            found = _imported(name)
            if hasattr(found, "__path__"):
                for part in found.__path__:
                    _add(archive, Path(part))
            elif found.__file__ is not None:
                _add(archive, Path(found.__file__))


def _imported(name: str) -> ModuleType:
    look_here()
    try:
        return import_module(name)
    except ImportError as problem:
        raise PipelineError(f"module {name!r}: {problem}; run it where {name} is") from None


def _add(archive: tarfile.TarFile, path: Path) -> None:
    def wanted(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
        left_out = info.name.endswith(_LEFT_OUT) or "__pycache__" in info.name
        return None if left_out else info

    archive.add(path, path.name, filter=wanted)


def _files(distribution: str) -> list[tuple[str, str]]:
    """Path and name in the archive of each of its modules."""
    try:
        known = files(distribution) or []
    except PackageNotFoundError:
        return []
    return [
        (str(each.locate()), str(each))
        for each in known
        if not str(each).startswith("..") and not str(each).endswith(_LEFT_OUT)
        and Path(str(each.locate())).is_file()
    ]  # fmt: skip
