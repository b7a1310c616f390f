"""Fetch: file slices out, now or as soon as there are enough bytes.

Always: whole batches; the first batch of a reply comes however large it is; a reply that
waits is planned at most twice. The bytes themselves never pass through here, and what is not
in memory is read in its log directory's thread before the reply leaves.
Not here: the wait for more bytes (requests/delayed_fetch.py), another replica to read from
(requests/read_replica.py), what a fetch session remembers (net/fetch_sessions.py).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias
from uuid import UUID

from barnabas.broker.net.deferred_reply import DeferredReply
from barnabas.broker.net.dispatch import Call
from barnabas.broker.net.fetch_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    IncrementalSession,
    SessionPartition,
)
from barnabas.broker.requests.delayed_fetch import READ_COMMITTED, FetchWait, reply_from_memory
from barnabas.broker.requests.read_replica import endpoints, failed, nearer_replica
from barnabas.broker.storage.log_directory import OpenLogDirectory
from barnabas.broker.topic import Topic
from barnabas.model.errors import Code, InvalidRequest, KafkaError
from barnabas.model.ports import FileSlice
from barnabas.wire.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker
    from barnabas.broker.partition import Partition
    from barnabas.broker.security.limited_requests import LimitedFetch
    from barnabas.log.log import Log
    from barnabas.log.reader import BatchSlice

FOLLOWERS_SINCE = 11  # a consumer may be sent to another replica, and fetch from it
LEADERS_SINCE = 12  # a response can name the leader
TOPIC_IDS_SINCE = 13


Denied = Callable[[str | UUID], bool]
"""Whether the client may not read the topic, by its name or id."""


def handle(
    broker: "Broker", request: FetchRequest, call: Call, denied: Denied | None = None
) -> FetchResponse | DeferredReply[FetchResponse]:
    if broker.replicas is not None and request.replica_state.replica_id >= 0:
        return broker.replicas.sessions.fetch(request)
    found: Unlimited
    if request.session_epoch == FINAL_EPOCH:
        broker.fetch_sessions.end(request.session_id)
        found = SessionlessFetch(broker, request, call, denied)
    else:
        try:
            found = _in_session(broker, request, call, denied)
        except KafkaError as error:
            return FetchResponse(error_code=error.code, session_id=NO_SESSION, responses=[])
    reading: Reading = found
    if broker.quotas is not None:
        from barnabas.broker.security.limited_requests import limited_fetch

        reading = limited_fetch(broker.quotas, found, call)
    plan = reading.plan()
    if (
        plan.size >= request.min_bytes
        or plan.answer_now
        or request.max_wait_ms <= 0
        or not plan.partitions
    ):
        return reply_from_memory(broker, reading, plan) if plan.cold else reading.respond(plan)
    partitions = dict.fromkeys(plan.partitions)
    if len(partitions) < len(plan.partitions):
        return reading.respond(plan)  # no consumer asks twice for a partition: nothing is held
    bytes_missing = request.min_bytes - plan.size
    return FetchWait(broker, reading, partitions, bytes_missing, call).deferred


class FetchPlan:
    """What a reply would carry if it was sent now; partitions are added one after the other."""

    __slots__ = (
        "_broker", "_denied", "_find", "_names_leaders", "_rack", "answer_now", "cold", "found",
        "left", "partitions", "responses", "size", "slices_left", "stable",
    )  # fmt: skip

    def __init__(
        self, broker: "Broker", request: FetchRequest, version: int, denied: Denied | None
    ) -> None:
        self._broker = broker
        self._denied = denied
        self._find = Topic.replica if version >= FOLLOWERS_SINCE else Topic.partition
        self._names_leaders = broker.replicas is not None and version >= LEADERS_SINCE
        self._rack = request.rack_id if broker.replicas is not None else ""
        self.left = min(request.max_bytes, broker.config.fetch_max_bytes)
        self.stable = request.isolation_level == READ_COMMITTED
        self.size = 0
        self.slices_left = broker.descriptors.slices_max(broker.clock.monotonic_ms())
        self.answer_now = False  # a partition has an error, or should be read from another replica
        self.cold: dict[OpenLogDirectory, list[FileSlice]] = {}  # slices that would wait for a disk
        self.partitions: list[Partition] = []
        self.responses: list[FetchableTopicResponse] = []
        self.found: list[tuple[SessionPartition, PartitionData]] = []

    def read(
        self,
        topic: Topic | None,
        key: str | UUID,
        by_id: bool,
        index: int,
        offset: int,
        bytes_max: int,
        epoch: int,
    ) -> PartitionData:
        try:
            if self._denied is not None and self._denied(key):
                raise InvalidRequest(Code.TOPIC_AUTHORIZATION_FAILED)
            if topic is None:
                raise InvalidRequest(
                    Code.UNKNOWN_TOPIC_ID if by_id else Code.UNKNOWN_TOPIC_OR_PARTITION
                )
            partition = self._find(topic, index)
            partition.check_leader_epoch(epoch)
            if self.slices_left:
                most = bytes_max if bytes_max < self.left else self.left
                found = partition.read(offset, most, self.size == 0, stable=self.stable)
            else:  # as if its bytes did not fit: the next fetch returns it
                found = partition.read(offset, 0, False)
        except KafkaError as error:
            self.answer_now, code = True, error.code
            if code is Code.OFFSET_OUT_OF_RANGE and (leading := partition.leading) is not None:
                code = Code.NOT_LEADER_OR_FOLLOWER if leading.may_be_behind(offset) else code
            return failed(index, code, topic if self._names_leaders else None)
        records, nearer = found.file_slice, -1
        if self._rack and partition.leading is not None and self._broker.replicas is not None:
            nearer = nearer_replica(
                self._broker.config, self._broker.replicas, partition, offset, self._rack
            )
        if nearer >= 0:  # it has the records too
            self.answer_now, records = True, None
        else:
            self.partitions.append(partition)
        if records is not None:
            self.slices_left -= 1
            self.size += records.length
            self.left = self.left - records.length if records.length < self.left else 0
            if partition.log_directory is not None and partition.log.is_cold(records):
                self.cold.setdefault(partition.log_directory, []).append(records)
        log = partition.log
        data = PartitionData(
            partition_index=index,
            error_code=0,
            high_watermark=log.high_watermark,
            last_stable_offset=log.high_watermark
            if log.producers.transactions is None  # most logs have none
            else log.last_stable_offset,
            log_start_offset=log.start_offset,
            preferred_read_replica=nearer,
            aborted_transactions=_aborted(log, offset, found) if self.stable else None,
            records=b"" if records is None else records,
        )
        return data if partition.delay is None else partition.delay.hide(data)


class SessionlessFetch:
    """A fetch without a session: every requested partition is answered, in the same order."""

    __slots__ = ("_broker", "_denied", "_listener", "_version", "request")

    def __init__(
        self, broker: "Broker", request: FetchRequest, call: Call, denied: Denied | None
    ) -> None:
        self._broker = broker
        self._listener = call.connection.listener
        self._version = call.version
        self._denied = denied
        self.request = request

    def plan(self) -> FetchPlan:
        plan = FetchPlan(self._broker, self.request, self._version, self._denied)
        by_id = self._version >= TOPIC_IDS_SINCE
        topics = self._broker.topics
        wanted = self.request.topics
        is_one = len(wanted) == 1 and len(wanted[0].partitions) == 1
        if not is_one and sum(len(asked.partitions) for asked in wanted) > plan.slices_left:
            return self._plan_from(plan, self._broker.descriptors.next_turn(), by_id)
        for asked in self.request.topics:
            topic = topics.by_id(asked.topic_id) if by_id else topics.get(asked.topic)
            partitions = [
                plan.read(
                    topic,
                    asked.topic_id if by_id else asked.topic,
                    by_id,
                    partition.partition,
                    partition.fetch_offset,
                    partition.partition_max_bytes,
                    partition.current_leader_epoch,
                )
                for partition in asked.partitions
            ]
            plan.responses.append(
                FetchableTopicResponse(
                    topic=asked.topic, topic_id=asked.topic_id, partitions=partitions
                )
            )
        return plan

    def _plan_from(self, plan: FetchPlan, turn: int, by_id: bool) -> FetchPlan:
        """More partitions than slices: begin at another partition each time, otherwise the last
        ones would never be read. Within a session `IncrementalSession.served` does this."""
        topics = self._broker.topics
        found: list[list[PartitionData]] = [[] for _ in self.request.topics]
        pairs = [
            (asked, one, answers)
            for asked, answers in zip(self.request.topics, found, strict=True)
            for one in asked.partitions
        ]
        start = turn * max(plan.slices_left, 1) % len(pairs)
        for asked, one, answers in pairs[start:] + pairs[:start]:
            topic = topics.by_id(asked.topic_id) if by_id else topics.get(asked.topic)
            data = plan.read(
                topic,
                asked.topic_id if by_id else asked.topic,
                by_id,
                one.partition,
                one.fetch_offset,
                one.partition_max_bytes,
                one.current_leader_epoch,
            )
            answers.append(data)
        plan.responses = [
            FetchableTopicResponse(topic=asked.topic, topic_id=asked.topic_id, partitions=answers)
            for asked, answers in zip(self.request.topics, found, strict=True)
        ]
        return plan

    def respond(self, plan: FetchPlan) -> FetchResponse:
        self._broker.counts.fetched(plan.size)
        return FetchResponse(
            responses=plan.responses,
            node_endpoints=endpoints(
                self._broker.cluster, self._listener, self._version, plan.responses
            )
            if plan.answer_now
            else [],
        )

    def without_records(self) -> FetchResponse:
        return FetchResponse(responses=[])


class SessionFetch:
    """A fetch within a session: the session has the partitions, and knows what has changed."""

    __slots__ = (
        "_broker", "_denied", "_full", "_listener", "_session", "_version", "_wanted", "request",
    )  # fmt: skip

    def __init__(
        self,
        broker: "Broker",
        request: FetchRequest,
        call: Call,
        session: IncrementalSession | None,
        wanted: list[SessionPartition],
        denied: Denied | None,
        *,
        full: bool,
    ) -> None:
        self._broker = broker
        self._denied = denied
        self._listener = call.connection.listener
        self._version = call.version
        self._session = session  # None: there was no room for one, as the reply says
        self._wanted = wanted
        self._full = full
        self.request = request

    def plan(self) -> FetchPlan:
        plan = FetchPlan(self._broker, self.request, self._version, self._denied)
        by_id = self._version >= TOPIC_IDS_SINCE
        find = self._broker.topics.by_id if by_id else self._broker.topics.get
        for wanted in self._wanted:
            data = plan.read(
                find(wanted.topic),  # type: ignore[arg-type]
                wanted.topic,
                by_id,
                wanted.partition,
                wanted.offset,
                wanted.bytes_max,
                wanted.leader_epoch,
            )
            plan.found.append((wanted, data))
        return plan

    def respond(self, plan: FetchPlan) -> FetchResponse:
        found = plan.found
        session = self._session
        if session is not None:
            if not self._full:
                found = [(wanted, data) for wanted, data in found if _is_news(wanted, data)]
            for wanted, data in found:
                wanted.sent_high_watermark = data.high_watermark
                wanted.sent_start_offset = data.log_start_offset
            session.served(wanted.key for wanted, data in found if data.records)
        self._broker.counts.fetched(plan.size)
        topics: dict[str | UUID, list[PartitionData]] = {}
        for wanted, data in found:
            topics.setdefault(wanted.topic, []).append(data)
        responses = [
            FetchableTopicResponse(topic_id=topic, partitions=partitions)
            if isinstance(topic, UUID)
            else FetchableTopicResponse(topic=topic, partitions=partitions)
            for topic, partitions in topics.items()
        ]
        return FetchResponse(
            session_id=session.id if session is not None else NO_SESSION,
            responses=responses,
            node_endpoints=endpoints(self._broker.cluster, self._listener, self._version, responses)
            if plan.answer_now
            else [],
        )

    def without_records(self) -> FetchResponse:
        """Instead of `respond`: the session goes on as if nothing was read; a new one, of which the
        client does not know all partitions yet, ends."""
        session_id = self._session.id if self._session is not None else NO_SESSION
        if self._full:
            self._broker.fetch_sessions.end(session_id)
            session_id = NO_SESSION
        return FetchResponse(session_id=session_id, responses=[])


Unlimited = SessionlessFetch | SessionFetch
Reading: TypeAlias = "Unlimited | LimitedFetch"


def _aborted(log: "Log", offset: int, found: "BatchSlice") -> list[AbortedTransaction]:
    """The aborted transactions that have records in a reply."""
    if found.file_slice is None or not log.has_aborted:
        return []
    return [
        AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset)
        for each in log.aborted_in(offset, found.next_offset)
    ]


def _in_session(
    broker: "Broker", request: FetchRequest, call: Call, denied: Denied | None
) -> SessionFetch:
    """A new session, or the next step of one."""
    by_id = call.version >= TOPIC_IDS_SINCE
    now_ms = broker.clock.monotonic_ms()
    wanted = [
        SessionPartition(
            topic.topic_id if by_id else topic.topic,
            partition.partition,
            partition.fetch_offset,
            partition.partition_max_bytes,
            partition.current_leader_epoch,
        )
        for topic in request.topics
        for partition in topic.partitions
    ]
    sessions = broker.fetch_sessions
    if request.session_epoch == INITIAL_EPOCH:
        sessions.end(request.session_id)
        wanted = list({one.key: one for one in wanted}.values())
        created = sessions.create(wanted, now_ms, call.connection.peer) if wanted else None
        return SessionFetch(broker, request, call, created, wanted, denied, full=True)
    session: IncrementalSession | None
    session = sessions.resume(request.session_id, request.session_epoch, now_ms)
    forgotten = [
        (topic.topic_id if by_id else topic.topic, partition)
        for topic in request.forgotten_topics_data
        for partition in topic.partitions
    ]
    fits = not (wanted or forgotten) or sessions.update(session, wanted, forgotten)
    everything = list(session.wanted.values())
    if not fits:
        session = None
    return SessionFetch(broker, request, call, session, everything, denied, full=False)


def _is_news(wanted: SessionPartition, data: PartitionData) -> bool:
    return bool(
        data.records
        or data.error_code
        or data.preferred_read_replica >= 0
        or data.high_watermark != wanted.sent_high_watermark
        or data.log_start_offset != wanted.sent_start_offset
    )
