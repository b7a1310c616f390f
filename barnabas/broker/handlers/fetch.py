"""Fetch: file slices out, now or as soon as there are enough bytes.

Always: whole batches; the first batch of a reply comes however large it is; a reply that
waits is planned at most twice. The bytes themselves never pass through here.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from barnabas.broker.dispatch import Call
from barnabas.broker.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION, Session, Wanted
from barnabas.broker.later import Later
from barnabas.broker.partition import Partition
from barnabas.model.errors import Code, InvalidRequest, KafkaError
from barnabas.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)

if TYPE_CHECKING:
    import asyncio

    from barnabas.broker.broker import Broker

TOPIC_IDS_SINCE = 13
READ_COMMITTED = 1


def handle(
    broker: "Broker", request: FetchRequest, call: Call
) -> FetchResponse | Later[FetchResponse]:
    try:
        reading = _begin(broker, request, call)
    except KafkaError as error:
        return FetchResponse(error_code=error.code, session_id=NO_SESSION, responses=[])
    plan = reading.plan()
    if plan.size >= request.min_bytes or plan.failed or request.max_wait_ms <= 0:
        return reading.respond(plan)
    if not plan.partitions:
        return reading.respond(plan)
    return FetchWait(broker.loop, reading, plan).later


@dataclass(slots=True)
class Plan:
    """What a reply would carry if it left now."""

    found: "list[tuple[Wanted, PartitionData]]"
    partitions: list[Partition]
    size: int
    failed: bool


@dataclass(slots=True)
class Reading:
    """One fetch: what is wanted, within which session and limits."""

    broker: "Broker"
    request: FetchRequest
    version: int
    session: Session | None
    wanted: list[Wanted]
    full: bool

    def plan(self) -> Plan:
        """Look at every partition once, in the order of the request or session."""
        left = min(self.request.max_bytes, self.broker.config.fetch_max_bytes)
        committed = self.request.isolation_level == READ_COMMITTED
        found = []
        partitions = []
        size = 0
        failed = False
        topics = self.broker.topics
        by_id = self.version >= TOPIC_IDS_SINCE
        for wanted in self.wanted:
            try:
                topic = topics.by_id(wanted.topic) if by_id else topics.get(wanted.topic)  # type: ignore[arg-type]
                if topic is None:
                    raise InvalidRequest(
                        Code.UNKNOWN_TOPIC_ID if by_id else Code.UNKNOWN_TOPIC_OR_PARTITION
                    )
                partition = topic.partition(wanted.partition)
                partition.check_leader_epoch(wanted.leader_epoch)
                slice_ = partition.read(wanted.offset, min(wanted.bytes_max, left), size == 0)
            except KafkaError as error:
                failed = True
                found.append((wanted, _failed(wanted.partition, error.code)))
                continue
            partitions.append(partition)
            log = partition.log
            records = slice_.file_slice
            if records is not None:
                size += records.length
                left = max(0, left - records.length)
            found.append(
                (
                    wanted,
                    PartitionData(
                        partition_index=wanted.partition,
                        error_code=0,
                        high_watermark=log.high_watermark,
                        last_stable_offset=log.high_watermark,
                        log_start_offset=log.start_offset,
                        aborted_transactions=[] if committed else None,
                        records=b"" if records is None else records,
                    ),
                )
            )
        return Plan(found, partitions, size, failed)

    def respond(self, plan: Plan) -> FetchResponse:
        found = plan.found
        session = self.session
        if session is not None:
            if not self.full:
                found = [(wanted, data) for wanted, data in found if _is_news(wanted, data)]
            for wanted, data in found:
                wanted.told_watermark = data.high_watermark
                wanted.told_start = data.log_start_offset
            session.served(wanted.key for wanted, data in found if data.records)
        self.broker.counts.fetched(plan.size)
        topics: dict[str | UUID, list[PartitionData]] = {}
        for wanted, data in found:
            topics.setdefault(wanted.topic, []).append(data)
        return FetchResponse(
            session_id=session.id if session is not None else NO_SESSION,
            responses=[
                FetchableTopicResponse(topic_id=topic, partitions=partitions)
                if isinstance(topic, UUID)
                else FetchableTopicResponse(topic=topic, partitions=partitions)
                for topic, partitions in topics.items()
            ],
        )


class FetchWait:
    """A fetch that found too little: it waits for bytes or for its time to be up."""

    __slots__ = ("_loop", "_missing", "_plan", "_reading", "_timer", "_woken", "later")

    def __init__(self, loop: "asyncio.AbstractEventLoop", reading: Reading, plan: Plan) -> None:
        self._loop = loop
        self._reading = reading
        self._plan = plan
        self._missing = reading.request.min_bytes - plan.size
        self._woken = False
        self.later: Later[FetchResponse] = Later()
        self.later.cancelled = self._leave
        for partition in plan.partitions:
            partition.waiters.append(self)
        wait_s = reading.request.max_wait_ms / 1000
        self._timer = loop.call_later(wait_s, self._finish)

    def appended(self, size: int) -> None:
        self._missing -= size
        if self._missing <= 0:
            self.gone()

    def gone(self) -> None:
        if not self._woken:  # once per turn of the loop, however many batches arrive in it
            self._woken = True
            self._loop.call_soon(self._finish)

    def _finish(self) -> None:
        if self.later.done:
            return
        self._leave()
        reading = self._reading
        self.later.set(reading.respond(reading.plan()))

    def _leave(self) -> None:
        self._timer.cancel()
        for partition in self._plan.partitions:
            if self in partition.waiters:
                partition.waiters.remove(self)


def _begin(broker: "Broker", request: FetchRequest, call: Call) -> Reading:
    now_ms = broker.clock.monotonic_ms()
    by_id = call.version >= TOPIC_IDS_SINCE
    wanted = [
        Wanted(
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
    epoch = request.session_epoch
    if epoch == FINAL_EPOCH:
        sessions.end(request.session_id)
        return Reading(broker, request, call.version, None, wanted, full=True)
    if epoch == INITIAL_EPOCH:
        sessions.end(request.session_id)
        session = sessions.create(wanted, now_ms) if wanted else None
        return Reading(broker, request, call.version, session, wanted, full=True)
    session = sessions.resume(request.session_id, epoch, now_ms)
    forgotten = [
        (topic.topic_id if by_id else topic.topic, partition)
        for topic in request.forgotten_topics_data
        for partition in topic.partitions
    ]
    session.update(wanted, forgotten)
    return Reading(
        broker, request, call.version, session, list(session.wanted.values()), full=False
    )


def _failed(partition: int, code: Code) -> PartitionData:
    return PartitionData(
        partition_index=partition,
        error_code=code,
        high_watermark=-1,
        last_stable_offset=-1,
        log_start_offset=-1,
        aborted_transactions=[],
        records=b"",
    )


def _is_news(wanted: Wanted, data: PartitionData) -> bool:
    return bool(
        data.records
        or data.error_code
        or data.high_watermark != wanted.told_watermark
        or data.log_start_offset != wanted.told_start
    )
