"""A keeper in memory: for tests, the simulator and brokers that store nothing.

One `MemoryStore` holds the tree; each `MemoryKeeper` on it is a session of its own.
In: operations, time (`advance`), faults. Out: results, and events for each session's listener,
which are delivered before the call that caused them returns.
Always: the same calls give the same results and the same events in the same order.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from barnabas.keeper.keeper import (
    ANY_VERSION,
    ROOT,
    Check,
    Create,
    Delete,
    Disconnected,
    Event,
    Idle,
    KeeperError,
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
    check_version,
    parent,
    sequential_path,
)


@dataclass(slots=True)
class _StoredNode:
    """A node and its children."""

    node: Node
    below: dict[str, None] = field(default_factory=dict)
    births: int = 0  # children created so far


@dataclass(slots=True)
class _Session:
    id: int
    timeout_ms: int
    deadline_ms: int
    listener: Listener | None
    state: SessionState = SessionState.CONNECTED
    # By path and whether of its children.
    watches: dict[tuple[str, bool], None] = field(default_factory=dict)
    fails_next: str = ""

    def notify(self, news: Event | SessionState) -> None:
        if self.listener is not None:
            self.listener(news)


class MemoryStore:
    """The tree, its sessions, and all faults that tests can cause."""

    def __init__(self, now_ms: int = 0) -> None:
        self._nodes = {ROOT: _StoredNode(Node(b"", 0))}
        self._sessions: dict[int, _Session] = {}
        self._last_id = 0
        self.now_ms = now_ms

    # Time

    def advance(self, now_ms: int) -> None:
        """Sessions that were not renewed within their timeout expire, in the order of their
        deadlines."""
        self.now_ms = max(self.now_ms, now_ms)
        due = [each for each in self._sessions.values() if each.deadline_ms <= self.now_ms]
        for session in sorted(due, key=lambda each: (each.deadline_ms, each.id)):
            self.expire(session.id)

    def next_deadline(self) -> int | None:
        return min((each.deadline_ms for each in self._sessions.values()), default=None)

    # Faults

    def expire(self, session: int) -> None:
        """Immediately. A suspended session is notified when it reconnects."""
        over = self._sessions.pop(session, None)
        if over is None:
            return
        over.watches.clear()
        self._remove_ephemerals(over.id)
        if over.state is SessionState.CONNECTED:
            over.state = SessionState.EXPIRED
            over.notify(SessionState.EXPIRED)

    def disconnect(self, session: int) -> None:
        """Its calls fail and its watches are removed; time continues."""
        found = self._sessions[session]
        if found.state is SessionState.CONNECTED:
            found.state = SessionState.SUSPENDED
            found.watches.clear()
            found.notify(SessionState.SUSPENDED)

    def lose_watches(self, session: int) -> None:
        """As if the watches had been set and had never fired."""
        self._sessions[session].watches.clear()

    def fail_next_write(self, session: int, *, done: bool) -> None:
        """The next write is done, or not; its session is disconnected before it knows which."""
        self._sessions[session].fails_next = "done" if done else "lost"

    # For the sessions

    def open(self, timeout_ms: int, listener: Listener | None) -> _Session:
        self._last_id += 1
        session = _Session(self._last_id, timeout_ms, self.now_ms + timeout_ms, listener)
        self._sessions[session.id] = session
        return session

    def is_open(self, session: int) -> bool:
        return session in self._sessions

    def held(self, path: str) -> _StoredNode:
        held = self._nodes.get(path)
        if held is None:
            raise NoNode(path)
        return held

    def holds(self, path: str) -> bool:
        return path in self._nodes

    def write(self, operations: Sequence[Operation], owner: int) -> list[Result]:
        undo: list[Callable[[], object]] = []
        events: list[Event] = []
        self._last_id += 1
        try:
            results = [self._apply(operation, owner, undo, events) for operation in operations]
        except BaseException:
            for step in reversed(undo):
                step()
            raise
        self._fire(events)
        return results

    def _remove_ephemerals(self, owner: int) -> None:
        gone = sorted(path for path, held in self._nodes.items() if held.node.owner == owner)
        if gone:
            self.write([Delete(path) for path in gone], 0)

    def _apply(
        self,
        operation: Operation,
        owner: int,
        undo: list[Callable[[], object]],
        events: list[Event],
    ) -> Result:
        if isinstance(operation, Create):
            return self._create(operation, owner, undo, events)
        path = operation.path
        held = self.held(path)
        node = held.node
        check_version(path, node.version, operation.version)
        if isinstance(operation, Set):
            held.node = node._replace(data=bytes(operation.data), version=node.version + 1)
            undo.append(lambda: setattr(held, "node", node))
            events.append(Event(WatchEventType.CHANGED, path))
            return held.node.version
        if isinstance(operation, Delete):
            if held.below:
                raise NotEmpty(path)
            above = self._nodes[parent(path)]
            del self._nodes[path], above.below[path]
            undo.append(
                lambda: (self._nodes.update({path: held}), above.below.update({path: None}))
            )
            events += [
                Event(WatchEventType.DELETED, path),
                Event(WatchEventType.CHILDREN, parent(path)),
            ]
        else:
            assert isinstance(operation, Check)
        return None

    def _create(
        self,
        operation: Create,
        owner: int,
        undo: list[Callable[[], object]],
        events: list[Event],
    ) -> str:
        name = operation.path
        above = self._nodes.get(parent(name))
        if above is None:
            raise NoNode(parent(name), f"cannot create {name}")
        if above.node.owner:
            raise NoChildren(parent(name))
        path = sequential_path(name, above.births) if operation.sequential else name
        if path in self._nodes:
            raise NodeExists(path)
        node = Node(bytes(operation.data), 0, self._last_id, owner if operation.ephemeral else 0)
        self._nodes[path] = _StoredNode(node)
        above.below[path] = None
        above.births += 1

        def undo_create() -> None:
            del self._nodes[path], above.below[path]
            above.births -= 1

        undo.append(undo_create)
        events += [
            Event(WatchEventType.CREATED, path),
            Event(WatchEventType.CHILDREN, parent(path)),
        ]
        return path

    def _fire(self, events: Sequence[Event]) -> None:
        heard = [
            (session, event)
            for event in events
            for session in self._sessions.values()
            if _takes_watch(session, event)
        ]
        for session, event in heard:
            session.notify(event)


def _takes_watch(session: _Session, event: Event) -> bool:
    """Whether it watches for this event; if so, the watch is removed."""
    watches, path = session.watches, event.path
    if event.what is WatchEventType.CHILDREN:
        return watches.pop((path, True), 0) is None
    data = watches.pop((path, False), 0) is None
    below = event.what is WatchEventType.DELETED and watches.pop((path, True), 0) is None
    return data or below


class MemoryKeeper:
    """Implements the contract of keeper.py, but does not survive a crash.

    Without a timeout it has no session, and can be used again after it was closed.
    """

    def __init__(
        self,
        store: MemoryStore | None = None,
        session_timeout_ms: int = 0,
        listener: Listener | None = None,
    ) -> None:
        self.store = store or MemoryStore()
        self._session = None
        self._idle_ms: Idle = lambda: 0
        if session_timeout_ms:
            self._session = self.store.open(session_timeout_ms, listener)

    @property
    def session(self) -> int:
        return 0 if self._session is None else self._session.id

    def bind_to_owner(self, idle_ms: Idle) -> None:
        self._idle_ms = idle_ms

    def _deadline_ms(self, session: _Session) -> int:
        """For a session that is renewed now: counted from the last activity of its owner."""
        return self.store.now_ms - self._idle_ms() + session.timeout_ms

    def renew(self) -> None:
        """A live process does this every third of its timeout."""
        self._check_alive()
        if self._session is not None:
            self._session.deadline_ms = self._deadline_ms(self._session)

    def reconnect(self) -> None:
        """After `MemoryStore.disconnect`: it is connected again, or learns that it has expired."""
        session = self._session
        if session is None or session.state is not SessionState.SUSPENDED:
            return
        alive = self.store.is_open(session.id)
        session.state = SessionState.CONNECTED if alive else SessionState.EXPIRED
        if alive:
            session.deadline_ms = self._deadline_ms(session)
        session.notify(session.state)

    def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False
    ) -> str:
        [made] = self.multi([Create(path, data, ephemeral, sequential)])
        return str(made)

    def get(self, path: str, *, watch: bool = False) -> Node:
        self._check_alive()
        node = self.store.held(path).node
        self._watch(path, watch)
        return node

    def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        self._check_alive()
        return [self.store.held(path).node if self.store.holds(path) else None for path in paths]

    def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> int:
        [version_now] = self.multi([Set(path, data, version)])
        assert isinstance(version_now, int)
        return version_now

    def delete(self, path: str, version: int = ANY_VERSION) -> None:
        self.multi([Delete(path, version)])

    def exists(self, path: str, *, watch: bool = False) -> bool:
        self._check_alive()
        self._watch(path, watch)
        return self.store.holds(path)

    def children(self, path: str, *, watch: bool = False) -> list[str]:
        self._check_alive()
        below = self.store.held(path).below
        self._watch(path, watch, children=True)
        return sorted(name.rpartition("/")[2] for name in below)

    def multi(self, operations: Sequence[Operation]) -> list[Result]:
        check_operations(operations, self.session)
        self._check_alive()
        session = self._session
        fails = "" if session is None else session.fails_next
        if session is None or not fails:
            return self.store.write(operations, self.session)
        session.fails_next = ""
        if fails == "done":
            try:
                self.store.write(operations, session.id)
            except KeeperError:
                pass  # the result is lost in any case
        self.store.disconnect(session.id)
        raise OutcomeUnknown(f"session {session.id} was disconnected during a write")

    def close(self) -> None:
        if self._session is not None:
            self._session.listener = None
            self.store.expire(self._session.id)
            self._session.state = SessionState.EXPIRED

    def _check_alive(self) -> None:
        session = self._session
        if session is None or session.state is SessionState.CONNECTED:
            return
        if session.state is SessionState.SUSPENDED:
            raise Disconnected(f"session {session.id} is disconnected")
        raise SessionExpired(f"session {session.id} has expired")

    def _watch(self, path: str, watch: bool, *, children: bool = False) -> None:
        if not watch:
            return
        if self._session is None:
            raise ValueError(f"keeper node {path}: watches require a session")
        self._session.watches[path, children] = None
