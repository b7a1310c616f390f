"""The position of a follower in one partition that is led here.

In: the follower's fetch requests. Out: its position for the leader of the partition, once it is
certain that the follower's log is a prefix of the leader's; otherwise why it is ignored.
Not here: the contents of a reply, and when it is sent (follower_sessions.py).
"""

from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from barnabas.model.errors import Code, Fenced, InvalidRequest, KafkaError, Retriable
from barnabas.model.ids import BrokerId
from barnabas.model.ports import FileSlice
from barnabas.replication.follower import divergence
from barnabas.replication.leader import NotAReplica, OldIncarnation
from barnabas.wire.messages.fetch import (
    EpochEndOffset,
    FetchPartition,
    LeaderIdAndEpoch,
    PartitionData,
)

if TYPE_CHECKING:
    from barnabas.broker.partition import Partition
    from barnabas.broker.replicas.leading import LeaderReplica
    from barnabas.broker.topic import Topics

Key = tuple[UUID, int]
_NO_EPOCH = EpochEndOffset()


class FollowerSession(Protocol):
    """A follower's session, with all its positions (follower_sessions.py)."""

    follower: BrokerId
    broker_epoch: int

    def note(self, position: "FollowerPosition") -> None: ...

    def note_marks(self, position: "FollowerPosition") -> None: ...

    def note_invalid(self, position: "FollowerPosition") -> None: ...


class FollowerPosition:
    """The position of a follower in one partition."""

    __slots__ = (
        "bytes_max",
        "diverging",
        "error",
        "key",
        "last_epoch",
        "leader_epoch",
        "leading",
        "offset",
        "sent_marks",
        "session",
        "start",
        "warming",
    )  # fmt: skip

    def __init__(self, session: "FollowerSession", key: Key) -> None:
        self.session = session
        self.key = key
        self.leading: LeaderReplica | None = None
        self.error: KafkaError | None = None  # to be sent
        self.diverging: tuple[int, int] | None = None  # to be sent
        self.offset = self.start = self.last_epoch = self.leader_epoch = -1
        self.bytes_max = 0
        self.sent_marks = (-1, -1)  # high watermark and log start that were sent
        self.warming = False

    def ask(self, asked: FetchPartition) -> None:
        self.offset = asked.fetch_offset
        self.start = asked.log_start_offset
        self.last_epoch = asked.last_fetched_epoch
        self.leader_epoch = asked.current_leader_epoch
        self.bytes_max = asked.partition_max_bytes

    @property
    def partition(self) -> "Partition | None":
        """While the leadership that the follower fetched from lasts."""
        leading = self.leading
        if leading is None or leading.partition.leading is not leading:
            return None
        return leading.partition

    def leave(self) -> None:
        leading, self.leading = self.leading, None
        if leading is not None and leading.listeners.get(self.session.follower) is self:
            del leading.listeners[self.session.follower]

    # Listener of the leadership

    def records_available(self) -> None:
        self.session.note(self)

    def marks(self) -> None:
        self.session.note_marks(self)

    def position_invalid(self) -> None:
        self.session.note_invalid(self)

    # From the follower

    def take(self, topics: "Topics") -> "Partition":
        """Pass the follower's position to the partition, unless it is `diverging`."""
        topic_id, index = self.key
        topic = topics.by_id(topic_id)
        if topic is None:
            raise Retriable(Code.UNKNOWN_TOPIC_ID, f"no topic with id {topic_id}")
        partition = topic.partition(index)
        partition.check_leader_epoch(self.leader_epoch)
        leading = partition.leading
        if leading is None:
            raise Retriable(Code.NOT_LEADER_OR_FOLLOWER, f"{partition.name} has no followers")
        self._join(leading)
        log = partition.log
        if log.start_offset <= self.offset:
            found = divergence(log.epochs, log.end_offset, self.last_epoch, self.offset)
            if found is not None and found[0] < 0:
                raise InvalidRequest(
                    Code.OFFSET_OUT_OF_RANGE, f"{partition.name} has no epoch {self.last_epoch}"
                )
            if found is not None:
                self.diverging = found
                return partition
        if not log.start_offset <= self.offset <= log.end_offset:
            raise InvalidRequest(Code.OFFSET_OUT_OF_RANGE, f"{partition.name}: {self.offset}")
        follower = self.session.follower
        try:
            leading.fetched(follower, self.offset, self.start, self.session.broker_epoch)
        except NotAReplica:
            raise InvalidRequest(
                Code.UNKNOWN_TOPIC_OR_PARTITION,
                f"broker {follower} has no replica of {partition.name}",
            ) from None
        except OldIncarnation:
            raise Fenced(Code.NOT_LEADER_OR_FOLLOWER, "the broker has a newer epoch") from None
        return partition

    def _join(self, leading: "LeaderReplica") -> None:
        if self.leading is not leading:
            self.leave()
            self.leading = leading
            self.sent_marks = (-1, -1)
            leading.listeners[self.session.follower] = self

    # To the follower

    def data(
        self,
        partition: "Partition",
        records: FileSlice | bytes = b"",
        diverging: EpochEndOffset = _NO_EPOCH,
    ) -> PartitionData:
        log = partition.log
        self.sent_marks = (log.high_watermark, log.start_offset)
        return PartitionData(
            partition_index=self.key[1],
            error_code=0,
            high_watermark=log.high_watermark,
            last_stable_offset=log.high_watermark,
            log_start_offset=log.start_offset,
            diverging_epoch=diverging,
            records=records,
        )

    def failure(self, topics: "Topics", error: KafkaError) -> PartitionData:
        topic_id, index = self.key
        topic = topics.by_id(topic_id)
        leader = LeaderIdAndEpoch()
        if topic is not None and 0 <= index < len(topic.partitions):
            known = topic.partitions[index]
            leader = LeaderIdAndEpoch(leader_id=known.leader, leader_epoch=known.leader_epoch)
        return PartitionData(
            partition_index=index,
            error_code=error.code,
            high_watermark=-1,
            current_leader=leader,
            records=b"",
        )
