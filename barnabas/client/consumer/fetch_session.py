"""A fetch session with one broker: partitions are named once, then only what changed (KIP-227).

In: what is wanted now. Out: the session part of a fetch request.
Always: an answer that does not fit ends the session, and the next request names everything anew.
Not here: what is wanted (fetching.py).
"""

from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID

from barnabas.model.errors import Code
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.fetch import (
    FetchPartition,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
)

_NO_SESSION = 0
_FIRST_EPOCH = 0
_LAST_EPOCH = -1
_EPOCH_MAX = 0x7FFF_FFFF


class PartitionFetch(NamedTuple):
    """What is asked of one partition."""

    topic_id: UUID
    offset: int
    leader_epoch: int
    last_epoch: int
    bytes_max: int


class SessionRequest(NamedTuple):
    """What goes into the request."""

    session_id: int
    epoch: int
    topics: list[FetchTopic]
    forgotten: list[ForgottenTopic]


class FetchSession:
    """Both sides remember what is asked for; this is our side."""

    def __init__(self) -> None:
        self._id = _NO_SESSION
        self._epoch = _FIRST_EPOCH
        self._known: dict[TopicPartition, PartitionFetch] = {}

    def request(self, wanted: Mapping[TopicPartition, PartitionFetch]) -> SessionRequest:
        """`wanted` is all there is to be in the session from now on."""
        known = self._known
        if self._epoch == _FIRST_EPOCH:
            changed = dict(wanted)
            forgotten: dict[TopicPartition, PartitionFetch] = {}
        else:
            # A topic made anew under its name has another id: the old one must be forgotten.
            forgotten = {
                at: old
                for at, old in known.items()
                if at not in wanted or wanted[at].topic_id != old.topic_id
            }
            changed = {at: new for at, new in wanted.items() if known.get(at) != new}
        self._known = dict(wanted)
        return SessionRequest(self._id, self._epoch, _topics(changed), _forgotten(forgotten))

    def answered(self, response: FetchResponse) -> bool:
        """Whether the answer stands; if not, ask again: the request will be a full one."""
        if response.error_code:
            # The broker has no session, or one of another epoch: start anew. That of another
            # epoch is replaced.
            self._epoch = _FIRST_EPOCH
            if response.error_code != Code.INVALID_FETCH_SESSION_EPOCH:
                self._id = _NO_SESSION
            return False
        if response.session_id == _NO_SESSION:
            self._id, self._epoch = _NO_SESSION, _FIRST_EPOCH
        elif response.session_id != self._id:
            self._id, self._epoch = response.session_id, 1
        else:
            self._epoch = self._epoch + 1 if self._epoch < _EPOCH_MAX else 1
        return True

    def lost(self) -> None:
        """The connection broke: whether the broker saw the last request is not known."""
        self._epoch = _FIRST_EPOCH

    def end(self) -> SessionRequest | None:
        """What tells the broker that nothing more will come."""
        if self._id == _NO_SESSION:
            return None
        return SessionRequest(self._id, _LAST_EPOCH, [], [])


def _topics(wanted: Mapping[TopicPartition, PartitionFetch]) -> list[FetchTopic]:
    topics: dict[tuple[str, UUID], list[FetchPartition]] = {}
    for at, one in wanted.items():
        topics.setdefault((at.topic, one.topic_id), []).append(
            FetchPartition(
                partition=at.partition,
                current_leader_epoch=one.leader_epoch,
                fetch_offset=one.offset,
                last_fetched_epoch=one.last_epoch,
                partition_max_bytes=one.bytes_max,
            )
        )
    return [
        FetchTopic(topic=name, topic_id=topic_id, partitions=partitions)
        for (name, topic_id), partitions in topics.items()
    ]


def _forgotten(wanted: Mapping[TopicPartition, PartitionFetch]) -> list[ForgottenTopic]:
    topics: dict[tuple[str, UUID], list[int]] = {}
    for at, one in wanted.items():
        topics.setdefault((at.topic, one.topic_id), []).append(at.partition)
    return [
        ForgottenTopic(topic=name, topic_id=topic_id, partitions=partitions)
        for (name, topic_id), partitions in topics.items()
    ]
