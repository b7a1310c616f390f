"""A keeper in a real ZooKeeper, through kazoo: for clusters of several machines.

In: addresses, `host:port,host:port/root`; the root is created if it does not exist.
Always: one keeper is one session; when it has expired, no other replaces it. kazoo's threads only
put events into a queue, and one thread delivers them to the listener: a call that blocks inside
kazoo's own threads would hang forever. kazoo keeps renewing the session while the owner hangs, so
the thread that delivers events ends the session of such an owner.
Beyond the contract: a `multi` must fit into one message of ZooKeeper's.
"""

import logging
import threading
import time
from collections.abc import Sequence
from queue import Empty, SimpleQueue
from typing import Any

from kazoo import exceptions as kazoo
from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError, SequentialThreadingHandler
from kazoo.protocol.states import EventType, KazooState, WatchedEvent
from kazoo.retry import KazooRetry
from kazoo.security import CREATOR_ALL_ACL

from barnabas.keeper.keeper import (
    ANY_VERSION,
    ROOT,
    BadVersion,
    Create,
    Delete,
    Disconnected,
    Event,
    Idle,
    Listener,
    NoChildren,
    Node,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    OutcomeUnknown,
    Result,
    SessionExpired,
    SessionState,
    Set,
    WatchEventType,
    check_operations,
    check_path,
    check_size,
    parent,
)
from barnabas.model.errors import Code, Failed

CONNECT_MS_MAX = 15_000
AGAIN_S = 0.05
# ZooKeeper closes the connection on more than 1,048,575 bytes in a message.
MULTI_BYTES_MAX = 1_000_000
_MANY = 500  # requests without a response

_WHAT = {
    EventType.CREATED: WatchEventType.CREATED,
    EventType.CHANGED: WatchEventType.CHANGED,
    EventType.DELETED: WatchEventType.DELETED,
    EventType.CHILD: WatchEventType.CHILDREN,
}
_log = logging.getLogger("barnabas.keeper.zookeeper")
_log.addHandler(logging.NullHandler())


class _OneSession(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo would connect again with another session, and send waiting requests in that session.

    It must also not wait for a server's first response, or the rest of a response, for the whole
    session timeout: a server that is just starting accepts connections and then forgets them.
    """

    over = False

    def __init__(self, answer_s_max: float) -> None:
        super().__init__()
        self._answer_s_max = answer_s_max

    def select(self, *arguments: Any, **named: Any) -> Any:
        if len(arguments) == 4 and len(arguments[0]) == 1 and arguments[3] is not None:
            # While reading; not while idle, when it has a wake-up.
            waits_s = min(arguments[3], self._answer_s_max)
            arguments = (*arguments[:3], waits_s)
        return super().select(*arguments, **named)

    def create_connection(self, *arguments: Any, **named: Any) -> Any:
        if self.over:
            raise OSError("the session has expired")
        return super().create_connection(*arguments, **named)


class ZookeeperKeeper:
    """Implements the contract of keeper.py on a ZooKeeper ensemble."""

    def __init__(
        self,
        addresses: str,
        session_timeout_ms: int,
        listener: Listener | None = None,
        connect_ms_max: int = CONNECT_MS_MAX,
        digest: str = "",
        own_nodes: bool = False,
    ) -> None:
        """`digest`: USER:PASSWORD at ZooKeeper. `own_nodes`: new nodes are for this user only."""
        hosts, slash, root = addresses.partition("/")
        self._addresses = addresses
        self._root = check_path(slash + root).rstrip("/") if root else ""
        self._listener = listener
        self._events: SimpleQueue[Event | SessionState | None] = SimpleQueue()
        self._closing = False
        self._idle_ms: Idle = lambda: 0
        self._timeout_ms = session_timeout_ms
        self._last_event: WatchedEvent | None = None
        self._answer_s_max = max(2 * session_timeout_ms, 10_000) / 1000
        self._handler = _OneSession(session_timeout_ms / 1000 / 3)
        self._client = KazooClient(
            hosts,
            timeout=session_timeout_ms / 1000,
            handler=self._handler,
            connection_retry=KazooRetry(
                max_tries=-1, delay=0.05, max_delay=1, sleep_func=self._handler.sleep_func
            ),
            logger=_log,
            auth_data=[("digest", digest)] if digest else None,
            default_acl=[CREATOR_ALL_ACL[0]] if own_nodes else None,
        )
        self._client.add_listener(self._on_state)
        try:
            self._client.start(timeout=connect_ms_max / 1000)
        except KazooTimeoutError:
            raise Disconnected(
                f"ZooKeeper at {addresses}: no connection within {connect_ms_max} ms"
            ) from None
        opened = self._client.client_id
        if opened is None:
            self._client.stop()
            self._client.close()
            raise Disconnected(f"ZooKeeper at {addresses}: the connection was lost immediately")
        self._session = int(opened[0])
        self._thread = threading.Thread(target=self._notify, name="keeper-session", daemon=True)
        self._thread.start()
        try:
            if self._root:
                self._make_root(connect_ms_max)
        except BaseException:
            self.close()
            raise

    def _make_root(self, wait_ms: int) -> None:
        """The connection may be lost again at once: the session lives on."""
        deadline = time.monotonic() + wait_ms / 1000
        while True:
            try:
                self._read(self._client.ensure_path_async(self._root), ROOT)
            except Disconnected:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(AGAIN_S)
            else:
                return

    @property
    def session(self) -> int:
        return self._session

    def bind_to_owner(self, idle_ms: Idle) -> None:
        self._idle_ms = idle_ms
        self._events.put(None)  # from now on the thread checks the owner

    def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False
    ) -> str:
        [made] = self.multi([Create(path, data, ephemeral, sequential)])
        return str(made)

    def get(self, path: str, *, watch: bool = False) -> Node:
        self._check_alive()
        data, stat = self._read(
            self._client.get_async(self._full(path), watch=self._watch(watch)), path
        )
        return Node(data or b"", stat.version, stat.czxid, stat.ephemeralOwner)

    def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        """Pipelined: one after the other would take a round trip for each."""
        found: list[Node | None] = []
        for start in range(0, len(paths), _MANY):
            self._check_alive()
            some = paths[start : start + _MANY]
            asked = [self._client.get_async(self._full(path)) for path in some]
            for path, answer in zip(some, asked, strict=True):
                try:
                    data, stat = self._read(answer, path)
                except NoNode:
                    found.append(None)
                else:
                    node = Node(data or b"", stat.version, stat.czxid, stat.ephemeralOwner)
                    found.append(node)
        return found

    def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> int:
        [version_now] = self.multi([Set(path, data, version)])
        assert isinstance(version_now, int)
        return version_now

    def delete(self, path: str, version: int = ANY_VERSION) -> None:
        self.multi([Delete(path, version)])

    def exists(self, path: str, *, watch: bool = False) -> bool:
        self._check_alive()
        asked = self._client.exists_async(self._full(path), watch=self._watch(watch))
        return self._read(asked, path) is not None

    def children(self, path: str, *, watch: bool = False) -> list[str]:
        self._check_alive()
        asked = self._client.get_children_async(self._full(path), watch=self._watch(watch))
        return sorted(self._read(asked, path))

    def multi(self, operations: Sequence[Operation]) -> list[Result]:
        check_operations(operations, self._session)
        if not operations:
            return []
        check_size(operations, MULTI_BYTES_MAX, self._root)
        self._check_alive()
        transaction = self._client.transaction()
        for operation in operations:
            path = self._full(operation.path)
            if isinstance(operation, Create):
                data, ephemeral = bytes(operation.data), operation.ephemeral
                transaction.create(path, data, None, ephemeral, operation.sequential)
            elif isinstance(operation, Set):
                transaction.set_data(path, bytes(operation.data), operation.version)
            elif isinstance(operation, Delete):
                transaction.delete(path, operation.version)
            else:
                transaction.check(path, operation.version)
        answers = self._written(transaction.commit_async())
        for operation, answer in zip(operations, answers, strict=True):
            if isinstance(answer, Exception):
                self._raise(operation, answer)
        return [self._result(*each) for each in zip(operations, answers, strict=True)]

    def close(self) -> None:
        self._closing = True
        self._listener = None
        self._handler.over = True
        try:
            self._client.stop()
        finally:
            self._client.close()
            self._events.put(None)
            if self._thread is not threading.current_thread():
                self._thread.join()

    # Results

    def _read(self, asked: Any, path: str) -> Any:
        try:
            return asked.get(timeout=self._answer_s_max)
        except kazoo.NoNodeError:
            raise NoNode(path) from None
        except (kazoo.ConnectionLoss, kazoo.ConnectionClosedError, KazooTimeoutError) as problem:
            self._check_alive()
            raise Disconnected(f"{self._name()}: {problem!r}") from None
        except (kazoo.SessionExpiredError, kazoo.AuthFailedError) as problem:
            raise self._expired(problem) from None
        except kazoo.NoAuthError:
            raise self._not_allowed(path) from None

    def _written(self, asked: Any) -> list[Any]:
        try:
            answers: list[Any] = asked.get(timeout=self._answer_s_max)
            return answers
        except (kazoo.ConnectionLoss, kazoo.ConnectionClosedError, KazooTimeoutError) as problem:
            raise OutcomeUnknown(f"{self._name()}: no response to a write: {problem!r}") from None
        except (kazoo.SessionExpiredError, kazoo.AuthFailedError) as problem:
            raise self._expired(problem) from None

    def _raise(self, operation: Operation, problem: Exception) -> None:
        """Unless this operation was not done because another one failed."""
        path = operation.path
        if isinstance(problem, kazoo.RolledBackError | kazoo.RuntimeInconsistency):
            return
        if isinstance(problem, kazoo.NoNodeError):
            if isinstance(operation, Create):
                raise NoNode(parent(path), f"cannot create {path}")
            raise NoNode(path)
        if isinstance(problem, kazoo.NodeExistsError):
            raise NodeExists(path)
        if isinstance(problem, kazoo.BadVersionError):
            raise BadVersion(path, f"not {getattr(operation, 'version', '')}")
        if isinstance(problem, kazoo.NotEmptyError):
            raise NotEmpty(path)
        if isinstance(problem, kazoo.NoChildrenForEphemeralsError):
            raise NoChildren(parent(path))
        if isinstance(problem, kazoo.SessionExpiredError):
            raise self._expired(problem)
        if isinstance(problem, kazoo.NoAuthError):
            raise self._not_allowed(path)
        raise Disconnected(f"{self._name()} refused to write {path}: {problem!r}")

    def _result(self, operation: Operation, answer: Any) -> Result:
        if isinstance(operation, Create):
            return self._short(answer)
        return int(answer.version) if isinstance(operation, Set) else None

    def _check_alive(self) -> None:
        if self._handler.over:
            raise self._expired()
        if not self._client.connected:
            raise Disconnected(f"{self._name()} is disconnected")

    def _expired(self, problem: object = "") -> SessionExpired:
        return SessionExpired(f"{self._name()} has expired{problem and f': {problem!r}'}")

    def _not_allowed(self, path: str) -> Failed:
        return Failed(
            Code.CLUSTER_AUTHORIZATION_FAILED,
            f"ZooKeeper at {self._addresses}: {path} belongs to another user: set"
            " zookeeper.digest.file to a file with USER:PASSWORD of its owner",
        )

    def _name(self) -> str:
        return f"session {self._session:#x} at {self._addresses}"

    def _full(self, path: str) -> str:
        check_path(path)
        return self._root + path if path != ROOT else self._root or ROOT

    def _short(self, path: str) -> str:
        return path.removeprefix(self._root) or ROOT

    # Events: on kazoo's threads, which must never wait

    def _on_state(self, state: str) -> None:
        if state == KazooState.LOST:
            self._handler.over = True
            if not self._closing:
                self._events.put(SessionState.EXPIRED)
        elif state == KazooState.SUSPENDED:
            self._events.put(SessionState.SUSPENDED)
        elif state == KazooState.CONNECTED:
            self._events.put(SessionState.CONNECTED)

    def _watch(self, watch: bool) -> Any:
        return self._on_watch if watch else None

    def _on_watch(self, event: WatchedEvent) -> None:
        # The same object twice: a deletion, for the watch of the node and for that of its children.
        if event is self._last_event or event.type not in _WHAT:
            return
        self._last_event = event
        self._events.put(Event(_WHAT[event.type], self._short(event.path)))

    def _notify(self) -> None:
        connected = False  # the first connection is not an event
        while not self._closing:
            news = self._next_event()
            if news is None:
                continue
            if news is SessionState.CONNECTED and not connected:
                connected = True
                continue
            listener = self._listener
            if listener is not None:
                listener(news)
            if news is SessionState.EXPIRED:
                return

    def _next_event(self) -> Event | SessionState | None:
        """None: there is none yet, or it is time to check the owner again."""
        left_ms = self._timeout_ms - self._idle_ms()
        if left_ms <= 0:
            self._end_session()
        try:
            return self._events.get(timeout=max(1, left_ms) / 1000)
        except Empty:
            return None

    def _end_session(self) -> None:
        """The owner has hung for the timeout. If the server cannot be reached, it misses the pings
        from now on."""
        if self._handler.over:
            return
        _log.warning("%s: its owner hangs; ending the session", self._name())
        self._handler.over = True
        try:
            self._client.stop()
        except kazoo.WriterNotClosedException:
            pass
        finally:
            self._events.put(SessionState.EXPIRED)
