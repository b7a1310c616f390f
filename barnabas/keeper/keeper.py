"""The contract of the store through which brokers agree.

A tree of small nodes, each with data and a version that every change raises by one.
Paths are ZooKeeper-era Kafka's (paths.py). A keeper that is opened with a timeout is one session:
when it is not heard of for that long, or its owner stands still for that long (`tie_to`), or it is
closed, its ephemeral nodes go. A session that has expired
stays so: open another.
Always: a write that returned survives a crash of the machine, unless the store is in memory;
`multi` does all of its operations or none; a write under a session that has expired is not done;
a write that may or may not be done raises `OutcomeUnknown`.
Watches fire once, for the next change after the read that set them. While SUSPENDED there are
none: after CONNECTED, read and watch again. A keeper that polls may miss a node that came and went
between two looks; it never misses one that is different from what was read.
"""

import re
from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple, Protocol

from barnabas.model.errors import Code, Failed

ROOT = "/"  # always there
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


class NoChildren(KeeperError):
    """Ephemeral: nothing can be below it."""

    problem = "is ephemeral and cannot have children"


class Unavailable(Failed):
    """Nothing is wrong with a node: the store cannot be asked, or not by this session."""

    code_ = Code.BROKER_NOT_AVAILABLE

    def __init__(self, detail: str) -> None:
        super().__init__(self.code_, detail)


class Disconnected(Unavailable):
    """Nothing was done: try again when the session is connected."""


class OutcomeUnknown(Unavailable):
    """The write may be done, now or later, or not: read before going on."""

    code_ = Code.REQUEST_TIMED_OUT


class SessionExpired(Unavailable):
    """Nothing was done, nor will be: the ephemeral nodes are gone; open another session."""


class TooLarge(ValueError):
    """A write that the keeper cannot take at once; nothing was written."""

    def __init__(self, size: int, limit: int, path: str) -> None:
        super().__init__(f"{size} bytes in one write, beginning with {path}: {limit} are possible")
        self.size = size
        self.limit = limit


class SessionState(Enum):
    """What a listener is told of its session. It is connected when it is opened."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"  # it may expire meanwhile; all its watches are gone
    EXPIRED = "expired"  # the last that is told


class WatchEventType(Enum):
    """happened to a node that was watched."""

    CREATED = "created"
    CHANGED = "changed"
    DELETED = "deleted"
    CHILDREN = "children"  # one came or went


class Event(NamedTuple):
    what: WatchEventType
    path: str


Idle = Callable[[], int]
"""For how many milliseconds the owner of a session has stood still. Called on any thread."""

Listener = Callable[[Event | SessionState], None]
"""Called on any thread, one call at a time. It hands over and returns, and asks no keeper."""


class Node(NamedTuple):
    """What a node holds. A new node has version 0.

    `created` is larger for each later creation, in the whole store: a node that was deleted and
    created again is another one. `owner` is the session of an ephemeral node, or 0.
    """

    data: bytes
    version: int
    created: int = 0
    owner: int = 0


class Create(NamedTuple):
    """`sequential`: ten digits are added to the name, of a number that its parent counts up."""

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
    """TooLarge, if they are more than `limit` bytes."""
    total = 0
    for operation in operations:
        total += _BYTES_PER_OPERATION + len(root) + len(operation.path.encode())
        total += len(operation.data) if isinstance(operation, Create | Set) else 0
    if total > limit:
        raise TooLarge(total, limit, operations[0].path)


class Keeper(Protocol):
    """The store, seen by one session. Calls may block: not for an event loop."""

    @property
    def session(self) -> int:
        """Its id, as in `Node.owner`; 0: opened without a timeout, nothing ephemeral."""
        ...

    def tie_to(self, idle_ms: Idle) -> None:
        """From now on the session ends when its owner has stood still for the timeout, as it
        ends with the process. Without this a thread that still runs keeps the session of an
        owner that hangs. Does not block."""
        ...

    def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False
    ) -> str:
        """The path, with its number if sequential. The parent must be there."""
        ...

    def get(self, path: str, *, watch: bool = False) -> Node:
        """Watches for CHANGED and DELETED; sets no watch where there is no node."""
        ...

    def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        """Many at once, in their order, without a watch; None where there is no node."""
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
        """All, or none and the error of the first that cannot be done."""
        ...

    def close(self) -> None:
        """Ends the session, and with it its ephemeral nodes, at once."""
        ...


def ensure(keeper: Keeper, path: str) -> None:
    """Create a node and its parents, where they are not there yet."""
    for each in lineage(path):
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
        raise ValueError(f"keeper node {path}: {len(data)} bytes, {DATA_LENGTH_MAX} at most")
    return data


def check_operations(operations: Sequence[Operation], session: int) -> Sequence[Operation]:
    if len(operations) > OPERATIONS_MAX:
        raise ValueError(f"{len(operations)} operations in one multi, {OPERATIONS_MAX} at most")
    for operation in operations:
        check_path(operation.path)
        if isinstance(operation, Create | Set):
            check_data(operation.path, operation.data)
        if operation.path == ROOT and isinstance(operation, Create | Delete):
            raise ValueError("keeper path '/': the root is always there")
        if isinstance(operation, Create) and operation.ephemeral and not session:
            raise ValueError(
                f"keeper node {operation.path}: ephemeral, but the keeper has no session: "
                "open it with a timeout"
            )
    return operations


def numbered(path: str, number: int) -> str:
    return f"{path}{number:010d}"


def lineage(path: str) -> list[str]:
    """All above it but the root, from the top, and itself."""
    names = path.strip("/").split("/")
    return ["/" + "/".join(names[:depth]) for depth in range(1, len(names) + 1)]


def parent(path: str) -> str:
    return path.rpartition("/")[0] or ROOT


def of_version(path: str, found: int, wanted: int) -> None:
    if wanted not in (ANY_VERSION, found):
        raise BadVersion(path, f"{found}, not {wanted}")
