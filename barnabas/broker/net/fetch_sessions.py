"""Incremental fetch sessions: a consumer names its partitions once, then only what changed.

In: the session fields of fetch requests. Out: the partitions to read, and which to omit from a
reply because nothing about them has changed.
Always: at most `slots` sessions, of PARTITIONS_MAX partitions together; an epoch is used once;
a full reply names exactly the partitions of its request.
Not here: reading (handlers/fetch.py).
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from uuid import UUID

from barnabas.model.errors import Code, Retriable

NO_SESSION = 0
FINAL_EPOCH = -1  # ends a session, or requests none
INITIAL_EPOCH = 0
EVICTION_MS_MIN = 120_000
EPOCH_MAX = 2**31 - 1
PARTITIONS_MAX = 200_000

Key = tuple[str | UUID, int]


@dataclass(slots=True)
class SessionPartition:
    """One partition that a consumer reads, and the values last sent for it."""

    topic: str | UUID  # the name up to version 12, the id from 13 on
    partition: int
    offset: int
    bytes_max: int
    leader_epoch: int
    sent_high_watermark: int = -1
    sent_start_offset: int = -1

    @property
    def key(self) -> Key:
        return self.topic, self.partition


class IncrementalSession:
    """The partitions of one consumer, in the order they are served."""

    __slots__ = ("epoch", "id", "peer", "used_ms", "wanted")

    def __init__(
        self, id_: int, wanted: Iterable[SessionPartition], now_ms: int, peer: str = ""
    ) -> None:
        self.id = id_
        self.peer = peer
        self.epoch = 1
        self.used_ms = now_ms
        self.wanted = {w.key: w for w in wanted}

    def update(self, changed: Iterable[SessionPartition], forgotten: Iterable[Key]) -> None:
        for key in forgotten:
            self.wanted.pop(key, None)
        for new in changed:
            known = self.wanted.get(new.key)
            if known is None:
                self.wanted[new.key] = new
            else:
                known.offset = new.offset
                known.bytes_max = new.bytes_max
                known.leader_epoch = new.leader_epoch

    def served(self, keys: Iterable[Key]) -> None:
        """Partitions that got records move to the end, so that the others get their turn."""
        for key in keys:
            wanted = self.wanted.pop(key, None)
            if wanted is not None:
                self.wanted[key] = wanted


class FetchSessions:
    """All sessions of this broker."""

    def __init__(self, slots: int, new_id: Callable[[], int]) -> None:
        self._slots = slots
        self._new_id = new_id
        self._sessions: dict[int, IncrementalSession] = {}  # least recently used first
        self._partitions = 0  # of all sessions

    def __len__(self) -> int:
        return len(self._sessions)

    def all(self) -> Iterable[IncrementalSession]:
        return self._sessions.values()

    def create(
        self, wanted: Collection[SessionPartition], now_ms: int, peer: str = ""
    ) -> IncrementalSession | None:
        """None when all slots are used by consumers that are still reading."""
        if len(wanted) > PARTITIONS_MAX:
            return None
        while len(self._sessions) >= self._slots or self._partitions + len(wanted) > PARTITIONS_MAX:
            if not self._evict(now_ms):
                return None
        id_ = self._new_id()
        while id_ in self._sessions or id_ == NO_SESSION:
            id_ = self._new_id()
        session = self._sessions[id_] = IncrementalSession(id_, wanted, now_ms, peer)
        self._partitions += len(session.wanted)
        return session

    def update(
        self,
        session: IncrementalSession,
        changed: Collection[SessionPartition],
        forgotten: Collection[Key],
    ) -> bool:
        """False when there is no room for so many partitions: then the session has ended."""
        before = len(session.wanted)
        session.update(changed, forgotten)
        self._partitions += len(session.wanted) - before
        if self._partitions > PARTITIONS_MAX and len(session.wanted) > before:
            self.end(session.id)
            return False
        return True

    def resume(self, id_: int, epoch: int, now_ms: int) -> IncrementalSession:
        session = self._sessions.pop(id_, None)
        if session is None:
            raise Retriable(Code.FETCH_SESSION_ID_NOT_FOUND, f"there is no fetch session {id_}")
        self._sessions[id_] = session
        if session.epoch != epoch:
            raise Retriable(
                Code.INVALID_FETCH_SESSION_EPOCH,
                f"fetch session {id_} is in epoch {session.epoch}, not {epoch}",
            )
        session.epoch = epoch + 1 if epoch < EPOCH_MAX else 1
        session.used_ms = now_ms
        return session

    def end(self, id_: int) -> None:
        session = self._sessions.pop(id_, None)
        if session is not None:
            self._partitions -= len(session.wanted)

    def _evict(self, now_ms: int) -> bool:
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None or now_ms - oldest.used_ms < EVICTION_MS_MIN:
            return False
        self.end(oldest.id)
        return True
