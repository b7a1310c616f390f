"""Decides what to fetch from which broker, and evaluates the responses.

In: metadata, time, fetch responses. Out: fetch requests; partitions whose position must be looked
up again; whether the metadata is out of date.
Always: one request per broker at a time. A partition with `partition_bytes_max` bytes fetched
ahead, and all partitions with `bytes_max`, are not fetched until some bytes are used. The response
to a fetch from a position that has moved is dropped (during a leader change a partition may be
fetched from both leaders for a moment).
Not here: sending (reader.py), positions (positions.py).
"""

from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID

from barnabas.client.consumer.decoding import FetchedRecords
from barnabas.client.consumer.fetch_session import FetchSession, PartitionFetch, SessionRequest
from barnabas.client.consumer.positions import UNKNOWN, FetchPosition, ReadPartition, ReadPositions
from barnabas.client.errors import error_of
from barnabas.client.metadata_snapshot import MetadataSnapshot
from barnabas.model.errors import Code, InvalidRequest, KafkaError
from barnabas.model.ids import NO_TOPIC_ID, TopicPartition
from barnabas.wire.messages.fetch import FetchRequest, FetchResponse, PartitionData

_BY_NAME_MAX = 12  # the last version of Fetch that names topics
_READ_COMMITTED = 1
_DOUBTED_MS_MAX = 10_000  # then the position may be from a topic of the same name before
# While a partition has enough bytes fetched ahead, a fetch of the others must not wait for long:
# that partition could not be fetched in the meantime.
_SHORT_WAIT_MS = 20
_AGAIN = frozenset(
    {
        Code.UNKNOWN_SERVER_ERROR,
        Code.UNKNOWN_TOPIC_OR_PARTITION,
        Code.LEADER_NOT_AVAILABLE,
        Code.NOT_LEADER_OR_FOLLOWER,
        Code.REPLICA_NOT_AVAILABLE,
        Code.KAFKA_STORAGE_ERROR,
        Code.FENCED_LEADER_EPOCH,
        Code.UNKNOWN_LEADER_EPOCH,
        Code.OFFSET_NOT_AVAILABLE,
        Code.UNKNOWN_TOPIC_ID,
        Code.INCONSISTENT_TOPIC_ID,
    }
)


class FetchLimits(NamedTuple):
    """The size limits of a fetch, and its wait time."""

    wait_ms_max: int = 500
    bytes_min: int = 1
    bytes_max: int = 50 * 1024 * 1024
    partition_bytes_max: int = 1024 * 1024
    backoff_ms: int = 100
    replica_ms_max: int = 300_000


class FetchRequestPlan(NamedTuple):
    """A request to send to a broker."""

    broker: int
    request: FetchRequest
    version_max: int | None


class _From(NamedTuple):
    """The position that a partition was fetched from."""

    moves: int
    offset: int


class FetchOutcome(NamedTuple):
    """What to do after a response, besides using its records."""

    stale: bool = False  # refresh the metadata
    out_of_range: tuple[TopicPartition, ...] = ()
    # partitions whose log was truncated: find the end of the last known epoch
    truncated: Mapping[TopicPartition, FetchPosition] = {}


class FetchPlanner:
    """Plans the fetches of all partitions of `progress`."""

    def __init__(
        self, progress: ReadPositions, limits: FetchLimits, *, committed_only: bool, rack: str = ""
    ) -> None:
        self._progress = progress
        self._limits = limits
        self._committed_only = committed_only
        self._rack = rack
        self._sessions: dict[int, FetchSession] = {}
        self._asked: dict[int, dict[TopicPartition, _From]] = {}

    @property
    def waiting(self) -> list[int]:
        """Brokers with a fetch in flight."""
        return list(self._asked)

    def plan(self, view: MetadataSnapshot, now: int) -> tuple[list[FetchRequestPlan], bool]:
        """The requests to send now, and whether a leader is missing in the metadata."""
        by_broker: dict[int, dict[TopicPartition, PartitionFetch]] = {}
        places: dict[TopicPartition, _From] = {}
        by_name = False
        stale = False
        full: set[int] = set()
        room = self._progress.buffered < self._limits.bytes_max
        for one in self._progress:
            if one.retry_at > now:
                continue
            one.retry_at = 0
            if not room or one.offset == UNKNOWN or one.paused or one.failed is not None:
                continue
            if one.fetch_offset >= one.stop:
                continue
            try:
                broker, epoch = self._whom(one, view, now)
                topic_id = view.topic(one.at.topic).id
            except KafkaError:
                stale = True
                one.retry_at = now + self._limits.backoff_ms
                continue
            if _is_outdated(one, epoch, topic_id, now):
                stale = True
                one.retry_at = now + self._limits.backoff_ms
                continue
            one.topic_id = topic_id
            if broker in self._asked:
                continue
            if one.buffered >= self._limits.partition_bytes_max:
                full.add(broker)
                continue
            by_name = by_name or topic_id == NO_TOPIC_ID
            by_broker.setdefault(broker, {})[one.at] = PartitionFetch(
                topic_id,
                one.fetch_offset,
                epoch,
                one.fetch_epoch,
                self._limits.partition_bytes_max,
            )
            places[one.at] = _From(one.moves, one.fetch_offset)
        asks = []
        for broker, wanted in by_broker.items():
            session = self._sessions.setdefault(broker, FetchSession())
            request = self._request(session.request(wanted), short=broker in full)
            self._asked[broker] = {at: places[at] for at in wanted}
            asks.append(FetchRequestPlan(broker, request, _BY_NAME_MAX if by_name else None))
        return asks, stale

    def closing_requests(self) -> list[FetchRequestPlan]:
        """Requests that end the sessions."""
        asks = []
        for broker, session in self._sessions.items():
            if broker not in self._asked and (parts := session.end()) is not None:
                asks.append(FetchRequestPlan(broker, self._request(parts, short=True), None))
        self._sessions.clear()
        return asks

    def answered(
        self, broker: int, response: FetchResponse, view: MetadataSnapshot, now: int
    ) -> FetchOutcome:
        asked = self._asked.pop(broker, {})
        session = self._sessions.get(broker)
        if session is None or not session.answered(response):
            return FetchOutcome()
        stale = False
        out_of_range: list[TopicPartition] = []
        truncated: dict[TopicPartition, FetchPosition] = {}
        for topic in response.responses:
            name = topic.topic or view.name_of(topic.topic_id)
            for answer in topic.partitions:
                at = TopicPartition(name, answer.partition_index)
                one = self._progress.get(at)
                if one is None or asked.get(at) != (one.moves, one.fetch_offset):
                    continue
                if answer.error_code == Code.OFFSET_OUT_OF_RANGE:
                    if one.replica == broker and broker != _leader(view, at):
                        one.replica = -1  # the follower may be behind: fetch from the leader
                    elif one.fetch_epoch >= 0:
                        one.fetch_epoch = -1  # the leader may not know that epoch any more
                    else:
                        out_of_range.append(at)
                elif answer.error_code:
                    stale = self._trouble(one, answer, now) or stale
                elif answer.diverging_epoch.end_offset >= 0:
                    end = answer.diverging_epoch
                    truncated[at] = FetchPosition(min(end.end_offset, one.fetch_offset), end.epoch)
                else:
                    self._took(one, answer, now)
        return FetchOutcome(stale, tuple(out_of_range), truncated)

    def lost(self, broker: int, now: int) -> None:
        """A fetch failed: the connection broke, or the broker did not answer."""
        asked = self._asked.pop(broker, {})
        if session := self._sessions.get(broker):
            session.lost()
        for at in asked:
            if one := self._progress.get(at):
                one.retry_at = now + self._limits.backoff_ms
                if one.replica == broker:
                    one.replica = -1

    def next_deadline(self) -> int | None:
        """When a partition that failed may be fetched again."""
        return min((one.retry_at for one in self._progress if one.retry_at), default=None)

    def _whom(self, one: ReadPartition, view: MetadataSnapshot, now: int) -> tuple[int, int]:
        leader = view.leader(one.at)
        epoch = view.partition(one.at).leader_epoch
        if one.replica >= 0 and now < one.replica_until and one.replica in view.brokers:
            return one.replica, epoch
        return leader, epoch

    def _request(self, parts: SessionRequest, *, short: bool) -> FetchRequest:
        limits = self._limits
        return FetchRequest(
            max_wait_ms=min(limits.wait_ms_max, _SHORT_WAIT_MS) if short else limits.wait_ms_max,
            min_bytes=limits.bytes_min,
            max_bytes=limits.bytes_max,
            isolation_level=_READ_COMMITTED if self._committed_only else 0,
            session_id=parts.session_id,
            session_epoch=parts.epoch,
            topics=parts.topics,
            forgotten_topics_data=parts.forgotten,
            rack_id=self._rack,
        )

    def _trouble(self, one: ReadPartition, answer: PartitionData, now: int) -> bool:
        """Whether the metadata is out of date. An error that a retry cannot fix is kept for the
        reader.
        """
        if answer.error_code in _AGAIN:
            one.retry_at = now + self._limits.backoff_ms
            one.replica = -1
            return True
        one.failed = error_of(answer.error_code, about=f"{one.at}, offset {one.fetch_offset}")
        return False

    def _took(self, one: ReadPartition, answer: PartitionData, now: int) -> None:
        if answer.preferred_read_replica >= 0:
            one.replica = answer.preferred_read_replica
            one.replica_until = now + self._limits.replica_ms_max
        try:
            one.add(FetchedRecords(one.at, answer, self._committed_only))
        except KafkaError as problem:
            one.failed = problem


def _is_outdated(one: ReadPartition, epoch: int, topic_id: UUID, now: int) -> bool:
    """Is this the leader from before the one that the position is from? A broker that does not know
    the newer leader names it. It may lack records that were read, and would answer
    OFFSET_OUT_OF_RANGE (KIP-320). A topic that was created again has other epochs: whether the
    position is from this topic is not known before the first fetch."""
    if topic_id == NO_TOPIC_ID or not 0 <= epoch < one.fetch_epoch:
        one.doubted_since = -1
        return False
    if one.topic_id != NO_TOPIC_ID:
        return topic_id == one.topic_id
    if one.doubted_since < 0:
        one.doubted_since = now
    return now - one.doubted_since < _DOUBTED_MS_MAX


def _leader(view: MetadataSnapshot, at: TopicPartition) -> int:
    try:
        return view.leader(at)
    except KafkaError:
        return -1


def no_place(at: TopicPartition, offset: int) -> InvalidRequest:
    """The error when auto.offset.reset is none."""
    where = f"offset {offset} is not in the log" if offset >= 0 else "no offset is committed"
    return InvalidRequest(
        Code.OFFSET_OUT_OF_RANGE,
        f"{at}: {where}, and auto.offset.reset is none: seek, or set it to earliest or latest",
    )
