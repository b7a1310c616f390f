"""The contract of the store through which brokers agree.

A tree of small nodes, each with data and a version that every change raises by one.
Paths are ZooKeeper-era Kafka's (paths.py).
Always: a write that returned survives a crash of the machine, unless the store is in memory;
`multi` does all of its operations or none.
Not here yet: sessions, ephemeral and sequential nodes, watches.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple, Protocol

ANY_VERSION = -1
DATA_LENGTH_MAX = 1_048_576  # ZooKeeper's limit, so that a store can move there
PATH_LENGTH_MAX = 1024
OPERATIONS_MAX = 10_000

_PATH = re.compile(r"(/[^/\x00-\x1f\x7f]+)+")


class KeeperError(Exception):
    """A node is not as the caller thinks. `path` says which."""

    problem = "is not as expected"

    def __init__(self, path: str, detail: str = "") -> None:
        super().__init__(f"{path} {self.problem}{detail and ': ' + detail}")
        self.path = path


class NodeExists(KeeperError):
    """Created by someone before."""

    problem = "exists"


class NoNode(KeeperError):
    """Not there, or not there any more; of `create`, the parent."""

    problem = "does not exist"


class BadVersion(KeeperError):
    """Changed by someone since it was read: read again."""

    problem = "has another version"


class NotEmpty(KeeperError):
    """Has children: delete them first."""

    problem = "has children"


class Node(NamedTuple):
    """What a node holds. A new node has version 0."""

    data: bytes
    version: int


class Create(NamedTuple):
    path: str
    data: bytes = b""


class Set(NamedTuple):
    path: str
    data: bytes
    version: int = ANY_VERSION


class Delete(NamedTuple):
    path: str
    version: int = ANY_VERSION


class Check(NamedTuple):
    """Fails the whole `multi` unless the node has this version."""

    path: str
    version: int


Operation = Create | Set | Delete | Check


class Keeper(Protocol):
    """The store. Methods raise the errors above; all but these four are a broken store."""

    def create(self, path: str, data: bytes = b"") -> None:
        """The parent must be there."""
        ...

    def get(self, path: str) -> Node: ...

    def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> int:
        """The new version."""
        ...

    def delete(self, path: str, version: int = ANY_VERSION) -> None: ...

    def exists(self, path: str) -> bool: ...

    def children(self, path: str) -> list[str]:
        """Names, sorted."""
        ...

    def multi(self, operations: Sequence[Operation]) -> None:
        """All, or none and the error of the first that cannot be done."""
        ...

    def close(self) -> None: ...


def ensure(keeper: Keeper, path: str) -> None:
    """Create a node and its parents, where they are not there yet."""
    parts = path.strip("/").split("/")
    for depth in range(1, len(parts) + 1):
        try:
            keeper.create("/" + "/".join(parts[:depth]))
        except NodeExists:
            continue


def check_path(path: str) -> str:
    if len(path) > PATH_LENGTH_MAX or not _PATH.fullmatch(path):
        raise ValueError(f"keeper path {path[:100]!r}: expected /name/name, without empty names")
    for name in path.split("/"):
        if name in (".", ".."):
            raise ValueError(f"keeper path {path!r}: '.' and '..' are not names")
    return path


def check_data(path: str, data: bytes) -> bytes:
    if len(data) > DATA_LENGTH_MAX:
        raise ValueError(f"keeper node {path}: {len(data)} bytes, {DATA_LENGTH_MAX} at most")
    return data


def check_operations(operations: Sequence[Operation]) -> Sequence[Operation]:
    if len(operations) > OPERATIONS_MAX:
        raise ValueError(f"{len(operations)} operations in one multi, {OPERATIONS_MAX} at most")
    for operation in operations:
        check_path(operation.path)
        if isinstance(operation, Create | Set):
            check_data(operation.path, operation.data)
    return operations


def parent(path: str) -> str:
    """Of a top node: the root, which is always there and has no data."""
    return path.rpartition("/")[0]


def of_version(path: str, found: int, wanted: int) -> None:
    if wanted not in (ANY_VERSION, found):
        raise BadVersion(path, f"{found}, not {wanted}")
