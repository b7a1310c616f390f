"""The contract of the store that brokers share.

A tree of small nodes, each with data and a version that every change increases by one.
Paths are those of ZooKeeper-era Kafka (paths.py). A keeper that is opened with a timeout is one
session. Its ephemeral nodes are deleted when the session is not renewed for that long, when its
owner hangs for that long (`bind_to_owner`), or when it is closed. An expired session stays expired:
open another.
Always: a write that returned survives a crash of the machine, unless the store is in memory;
`multi` does all of its operations or none; a write in an expired session is not done;
a write whose outcome is unknown raises `OutcomeUnknown`.
Watches fire once, for the next change after the read that set them. While SUSPENDED there are
none: after CONNECTED, read and watch again. A keeper that polls may miss a node that was created
and deleted between two polls; it never misses a node that differs from what was read.
"""

import re
from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple, Protocol

from barnabas.model.errors import Code, Failed

ROOT = "/"  # always exists
ANY_VERSION = -1
DATA_LENGTH_MAX = 1_048_576  # ZooKeeper's limit, so that a store can move there
PATH_LENGTH_MAX = 1024
OPERATIONS_MAX = 10_000

_PATH = re.compile(r"(/[^/\x00-\x1f\x7f]+)+")


class KeeperError(Exception):
    """A node is not as the caller expects. `path` names the node."""

    problem = "is not as expected"

    def __init__(self, path: str, detail: str = "") -> None:
        super().__init__(f"{path} {self.problem}{detail and ': ' + detail}")
        self.path = path


class NodeExists(KeeperError):
    """Another session created it before."""

    problem = "exists"


class NoNode(KeeperError):
    """It does not exist, or no longer exists; for `create`, the parent."""

    problem = "does not exist"


class BadVersion(KeeperError):
    """It was changed since it was read: read again."""

    problem = "has another version"


class NotEmpty(KeeperError):
    """It has children: delete them first."""

    problem = "has children"


class NoChildren(KeeperError):
    """It is ephemeral and cannot have children."""

    problem = "is ephemeral and cannot have children"


class Unavailable(Failed):
    """The node is not the problem: the store cannot be reached, or not by this session."""

    code_ = Code.BROKER_NOT_AVAILABLE

    def __init__(self, detail: str) -> None:
        super().__init__(self.code_, detail)


class Disconnected(Unavailable):
    """Nothing was done: retry when the session is connected."""


class OutcomeUnknown(Unavailable):
    """The write may be done, now or later, or not: read before you continue."""

    code_ = Code.REQUEST_TIMED_OUT


class SessionExpired(Unavailable):
    """Nothing was done or will be done; the ephemeral nodes are deleted. Open another session."""


class TooLarge(ValueError):
    """The write is larger than the keeper accepts; nothing was written."""

    def __init__(self, size: int, limit: int, path: str) -> None:
        super().__init__(f"{size} bytes in one write that begins with {path}; the limit is {limit}")
        self.size = size
        self.limit = limit


class SessionState(Enum):
    """What a listener receives about its session. A session is connected when it is opened."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"  # it may expire meanwhile; all its watches are removed
    EXPIRED = "expired"  # the last event


class WatchEventType(Enum):
    """What happened to a watched node."""

    CREATED = "created"
    CHANGED = "changed"
    DELETED = "deleted"
    CHILDREN = "children"  # one was created or deleted


class Event(NamedTuple):
    what: WatchEventType
    path: str


Idle = Callable[[], int]
"""For how many milliseconds the owner of a session has hung. Called on any thread."""

Listener = Callable[[Event | SessionState], None]
"""Called on any thread, one call at a time. It must return soon and must not call a keeper."""


class Node(NamedTuple):
    """The contents of a node. A new node has version 0.

    `created` is larger for each later creation in the whole store, so a node that was deleted and
    created again has another value. `owner` is the session of an ephemeral node, or 0.
    """

    data: bytes
    version: int
    created: int = 0
    owner: int = 0


class Create(NamedTuple):
    """`sequential`: ten digits are added to the name, from a counter of the parent."""

    path: str
    data: bytes = b""
    ephemeral: bool = False
    sequential: bool = False


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
Result = str | int | None
"""Of a Create the path, of a Set the new version."""


_BYTES_PER_OPERATION = 100


def check_size(operations: Sequence[Operation], limit: int, root: str = "") -> None:
    """Raise TooLarge if the operations have more than `limit` bytes."""
    total = 0
    for operation in operations:
        total += _BYTES_PER_OPERATION + len(root) + len(operation.path.encode())
        total += len(operation.data) if isinstance(operation, Create | Set) else 0
    if total > limit:
        raise TooLarge(total, limit, operations[0].path)


class Keeper(Protocol):
    """The store as one session sees it. Calls may block: do not call it from an event loop."""

    @property
    def session(self) -> int:
        """Its id, as in `Node.owner`; 0: opened without a timeout, no ephemeral nodes."""
        ...

    def bind_to_owner(self, idle_ms: Idle) -> None:
        """From now on the session ends when its owner has hung for the timeout, as it ends with the
        process. Without this, a thread that still runs would keep the session of an owner that
        hangs. Does not block."""
        ...

    def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False
    ) -> str:
        """The path, with its number if sequential. The parent must exist."""
        ...

    def get(self, path: str, *, watch: bool = False) -> Node:
        """Watches for CHANGED and DELETED; sets no watch if the node does not exist."""
        ...

    def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        """Many at once, in the same order, without a watch; None if a node does not exist."""
        ...

    def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> int:
        """The new version."""
        ...

    def delete(self, path: str, version: int = ANY_VERSION) -> None: ...

    def exists(self, path: str, *, watch: bool = False) -> bool:
        """Watches for CREATED, or for CHANGED and DELETED."""
        ...

    def children(self, path: str, *, watch: bool = False) -> list[str]:
        """Names, sorted. Watches for CHILDREN and DELETED."""
        ...

    def multi(self, operations: Sequence[Operation]) -> list[Result]:
        """All, or none and the error of the first operation that fails."""
        ...

    def close(self) -> None:
        """Ends the session at once and deletes its ephemeral nodes."""
        ...


def ensure(keeper: Keeper, path: str) -> None:
    """Create a node and its parents, if they do not exist."""
    for each in with_parents(path):
        try:
            keeper.create(each)
        except NodeExists:
            continue


def check_path(path: str) -> str:
    if path == ROOT:
        return path
    if len(path) > PATH_LENGTH_MAX or not _PATH.fullmatch(path):
        raise ValueError(f"keeper path {path[:100]!r}: expected /name/name, without empty names")
    for name in path.split("/"):
        if name in (".", ".."):
            raise ValueError(f"keeper path {path!r}: '.' and '..' are not names")
    return path


def check_data(path: str, data: bytes) -> bytes:
    if len(data) > DATA_LENGTH_MAX:
        raise ValueError(f"keeper node {path}: {len(data)} bytes, the limit is {DATA_LENGTH_MAX}")
    return data


def check_operations(operations: Sequence[Operation], session: int) -> Sequence[Operation]:
    if len(operations) > OPERATIONS_MAX:
        raise ValueError(
            f"{len(operations)} operations in one multi, the limit is {OPERATIONS_MAX}"
        )
    for operation in operations:
        check_path(operation.path)
        if isinstance(operation, Create | Set):
            check_data(operation.path, operation.data)
        if operation.path == ROOT and isinstance(operation, Create | Delete):
            raise ValueError("keeper path '/': the root cannot be created or deleted")
        if isinstance(operation, Create) and operation.ephemeral and not session:
            raise ValueError(
                f"keeper node {operation.path}: ephemeral nodes require a session: "
                "open it with a timeout"
            )
    return operations


def sequential_path(path: str, number: int) -> str:
    return f"{path}{number:010d}"


def with_parents(path: str) -> list[str]:
    """All its parents except the root, from the top, and the path itself."""
    names = path.strip("/").split("/")
    return ["/" + "/".join(names[:depth]) for depth in range(1, len(names) + 1)]


def parent(path: str) -> str:
    return path.rpartition("/")[0] or ROOT


def check_version(path: str, found: int, wanted: int) -> None:
    if wanted not in (ANY_VERSION, found):
        raise BadVersion(path, f"{found}, not {wanted}")
