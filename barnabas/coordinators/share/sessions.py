"""The share sessions of members: which partitions each reads, and the order of its requests.

In: the session fields of ShareFetch and ShareAcknowledge. Out: a session, or Kafka's error.
Always: a session belongs to one connection, and only the end of that connection ends it; an epoch
is used once; sessions and their partitions are bounded.
Not here: reading and acknowledging (broker/share).
"""

from collections.abc import Iterable
from typing import NamedTuple

from barnabas.coordinators.share.keys import SharePartitionKey
from barnabas.model.errors import Code, InvalidRequest, KafkaError, Retriable

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
EPOCH_MAX = 0x7FFF_FFFF
PARTITIONS_MAX = 200_000
ENDED_MAX = 1_000  # sessions whose client is still known
CLIENT_ID_MAX = 200


class SessionKey(NamedTuple):
    group: str
    member: str


class ShareSession:
    """The partitions of one member, in the order in which they joined the session.

    `partitions`: whether the next reply must name it, even if there is nothing to say about it.
    """

    __slots__ = ("client_id", "connection", "epoch", "host", "key", "partitions")

    def __init__(self, key: SessionKey, connection: object, client_id: str, host: str) -> None:
        self.key = key
        self.connection = connection
        self.client_id = client_id
        self.host = host
        self.epoch = 1
        self.partitions: dict[SharePartitionKey, bool] = {}

    def rotated(self, epoch: int) -> list[SharePartitionKey]:
        """Each request begins with another partition."""
        keys = list(self.partitions)
        start = epoch % len(keys) if keys else 0
        return keys[start:] + keys[:start]


class ShareSessions:
    """All sessions of a broker."""

    def __init__(self, sessions_max: int) -> None:
        self.sessions_max = sessions_max
        self.sessions: dict[SessionKey, ShareSession] = {}
        self.partitions = 0
        self.evictions = 0
        self._of_connection: dict[object, dict[SessionKey, None]] = {}
        self._of_group: dict[str, int] = {}
        self._readers: dict[tuple[str, SharePartitionKey], int] = {}
        self._ended: dict[SessionKey, tuple[str, str]] = {}  # the oldest first

    def client_of(self, group: str, member: str) -> tuple[str, str]:
        """The client id and the host of a member, also of one whose session ended lately."""
        key = SessionKey(group, member)
        session = self.sessions.get(key)
        if session is not None:
            return session.client_id, session.host
        return self._ended.get(key, ("", ""))

    def open(
        self,
        key: SessionKey,
        wanted: Iterable[SharePartitionKey],
        connection: object,
        client_id: str = "",
        host: str = "",
    ) -> ShareSession:
        """A new session; the member's old one ends, and keeps its records. If it is refused, the
        old one goes on."""
        added = dict.fromkeys(wanted, False)
        old = self.sessions.get(key)
        if old is None and len(self.sessions) >= self.sessions_max:
            raise Retriable(
                Code.SHARE_SESSION_LIMIT_REACHED,
                f"this broker has {len(self.sessions)} sessions; try again",
            )
        if self._is_full(len(added) - (0 if old is None else len(old.partitions))):
            raise too_many_partitions()
        self._remove(key)
        session = ShareSession(key, connection, client_id[:CLIENT_ID_MAX], host)
        session.partitions = added
        for partition in added:
            self._count(key.group, partition, 1)
        self.sessions[key] = session
        self._of_group[key.group] = self._of_group.get(key.group, 0) + 1
        self._of_connection.setdefault(connection, {})[key] = None
        return session

    def resume(self, key: SessionKey, epoch: int) -> ShareSession:
        """The session, for its next request; with the final epoch, for its last."""
        if epoch == INITIAL_EPOCH:
            raise InvalidRequest(
                Code.INVALID_SHARE_SESSION_EPOCH, "only ShareFetch opens a session"
            )
        session = self.sessions.get(key)
        if session is None:
            raise Retriable(Code.SHARE_SESSION_NOT_FOUND, f"of member {key.member[:36]}")
        if epoch == FINAL_EPOCH:
            return session
        if epoch != session.epoch:
            raise Retriable(
                Code.INVALID_SHARE_SESSION_EPOCH,
                f"epoch {epoch}; expected {session.epoch}",
            )
        session.epoch = 1 if epoch == EPOCH_MAX else epoch + 1
        return session

    def update(
        self,
        session: ShareSession,
        added: Iterable[SharePartitionKey],
        forgotten: Iterable[SharePartitionKey],
    ) -> None:
        for key in added:
            if key not in session.partitions:
                if self._is_full(1):
                    raise too_many_partitions()
                session.partitions[key] = True
                self._count(session.key.group, key, 1)
        for key in forgotten:
            if session.partitions.pop(key, None) is not None:
                self._count(session.key.group, key, -1)

    def end(self, session: ShareSession) -> bool:
        """Whether what the member holds is to be released: not if it has opened another session
        meanwhile."""
        if self.has(session):
            self._remove(session.key)
        return session.key not in self.sessions

    def disconnected(self, connection: object) -> list[ShareSession]:
        """Its sessions have ended: what their members hold is to be released. A member that has
        opened a session on another connection meanwhile keeps that."""
        ended = [self.sessions[key] for key in self._of_connection.get(connection, ())]
        for session in ended:
            self._remove(session.key)
        self.evictions += len(ended)
        return ended

    def has(self, session: ShareSession) -> bool:
        """Whether it goes on: it has not ended, and its member has not opened another one."""
        return self.sessions.get(session.key) is session

    def readers(self, partition: SharePartitionKey, group: str) -> int:
        """Members of the group whose session has the partition."""
        return self._readers.get((group, partition), 0)

    def has_members(self, group: str) -> bool:
        """Whether a member of the group has a session here."""
        return group in self._of_group

    def _count(self, group: str, partition: SharePartitionKey, more: int) -> None:
        self.partitions += more
        count = self._readers.get((group, partition), 0) + more
        if count:
            self._readers[group, partition] = count
        else:
            del self._readers[group, partition]

    def _is_full(self, more: int) -> bool:
        return self.partitions + more > PARTITIONS_MAX

    def _remove(self, key: SessionKey) -> None:
        session = self.sessions.pop(key, None)
        if session is None:
            return
        self._ended.pop(key, None)
        self._ended[key] = (session.client_id, session.host)
        if len(self._ended) > ENDED_MAX:
            del self._ended[next(iter(self._ended))]
        for partition in session.partitions:
            self._count(key.group, partition, -1)
        self._of_group[key.group] -= 1
        if not self._of_group[key.group]:
            del self._of_group[key.group]
        of_connection = self._of_connection[session.connection]
        del of_connection[key]
        if not of_connection:
            del self._of_connection[session.connection]


def too_many_partitions() -> KafkaError:
    return Retriable(
        Code.SHARE_SESSION_LIMIT_REACHED, f"the sessions of this broker have {PARTITIONS_MAX}"
    )
