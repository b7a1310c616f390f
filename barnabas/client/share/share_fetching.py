"""Decides what a member of a share group asks of which broker, and what the answers mean.

In: the assigned partitions, metadata, responses, time. Out: requests; messages and results go to
`messages`.
Always: every acknowledgement has one result; records whose session ended are acknowledged no more:
the broker delivers them again.
Not here: one session (sessions.py), messages (held_messages.py), sending (share_reader.py).
"""

import logging
from collections.abc import Iterable
from typing import NamedTuple

from barnabas.client.errors import error_of
from barnabas.client.metadata_snapshot import MetadataSnapshot
from barnabas.client.share.held_messages import HeldMessages
from barnabas.client.share.held_records import AckRun
from barnabas.client.share.sessions import (
    Acks,
    BrokerShareSession,
    PartitionId,
    SentShareRequest,
    ShareFetchLimits,
    ShareRequest,
)
from barnabas.client.share.share_decoding import acquired_ranges, decoded
from barnabas.model.errors import Code, Corrupt, KafkaError, Retriable
from barnabas.model.ids import TopicPartition
from barnabas.model.ports import FileSlice
from barnabas.wire.messages import share_fetch
from barnabas.wire.messages.share_acknowledge import ShareAcknowledgeResponse
from barnabas.wire.messages.share_fetch import ShareFetchResponse

_log = logging.getLogger("barnabas.client")
_LOCK_MS = 30_000  # until a broker says how long a lock lasts: Kafka's default
_SESSION_ENDED = frozenset({Code.SHARE_SESSION_NOT_FOUND, Code.INVALID_SHARE_SESSION_EPOCH})
_AGAIN = frozenset({Code.SHARE_SESSION_LIMIT_REACHED, Code.UNKNOWN_SERVER_ERROR})
_MOVED = frozenset(
    {
        Code.NOT_LEADER_OR_FOLLOWER,
        Code.FENCED_LEADER_EPOCH,
        Code.UNKNOWN_LEADER_EPOCH,
        Code.UNKNOWN_TOPIC_OR_PARTITION,
        Code.UNKNOWN_TOPIC_ID,
        Code.INCONSISTENT_TOPIC_ID,
        Code.LEADER_NOT_AVAILABLE,
        Code.REPLICA_NOT_AVAILABLE,
        Code.KAFKA_STORAGE_ERROR,
    }
)


class ShareRequestPlan(NamedTuple):
    broker: int
    request: ShareRequest


class ShareFetching:
    """All sessions of one member. A new member needs a new one."""

    def __init__(self, group_id: str, member_id: str, *, backoff_ms: int, crc: bool) -> None:
        self._group_id = group_id
        self._member_id = member_id
        self._backoff_ms = backoff_ms
        self._crc = crc
        self._sessions: dict[int, BrokerShareSession] = {}
        self.messages = HeldMessages()
        self._assigned: dict[TopicPartition, None] = {}
        self.stale = False  # the metadata does not fit what the brokers say
        self.failed: KafkaError | None = None  # raised by the next poll
        self.lock_ms: int | None = None  # as the last response said

    # --- the group ---

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """These, and no others, are fetched from now on. The user may acknowledge what it has."""
        self._assigned = dict.fromkeys(partitions)
        for hold in self.messages.holds.values():
            if hold.at not in self._assigned:
                hold.ready.clear()
                hold.records.release_unreturned()

    @property
    def assigned(self) -> list[TopicPartition]:
        return list(self._assigned)

    def unsettled(self) -> list[TopicPartition]:
        """The partitions with acknowledgements that wait to be sent, or for an answer."""
        found: dict[TopicPartition, None] = {}
        for session in self._sessions.values():
            waiting = [*session.pending(), *(session.sent.acks if session.sent else ())]
            found.update(dict.fromkeys(session.held[one].at for one in waiting))
        return list(found)

    @property
    def unsent(self) -> bool:
        """Whether an acknowledgement waits to be sent, or for its answer."""
        return any(
            session.pending() or (session.sent is not None and session.sent.acks)
            for session in self._sessions.values()
        )

    # --- requests ---

    def plan(
        self, view: MetadataSnapshot, now: int, limits: ShareFetchLimits | None
    ) -> list[ShareRequestPlan]:
        """What to send now. `limits`: of fetches; None: only acknowledgements are sent."""
        wanted = self._by_leader(view)
        if limits is not None and limits.acquire_mode and len(wanted) > 1:
            share = -(-limits.records_max // len(wanted))
            limits = limits._replace(records_max=share)
        plans = []
        for broker in dict.fromkeys([*wanted, *self._sessions]):
            session = self._sessions.get(broker)
            if session is None:
                session = self._sessions[broker] = BrokerShareSession(
                    self._group_id, self._member_id
                )
            if session.sent is not None or now < session.retry_at:
                continue
            mine = wanted.get(broker, {})
            self._drop_moved(session, mine, wanted)
            request: ShareRequest | None = None
            pending = session.pending() if session.is_open else {}
            if pending and (
                limits is None or any(r or one not in mine for one, r in pending.items())
            ):
                request = session.acknowledge(now)
            elif limits is not None and mine:
                request = session.fetch(mine, limits, now)
            elif not mine and session.is_open and not session.held:
                request = session.close(now)
            if request is not None:
                plans.append(ShareRequestPlan(broker, request))
            elif not mine and not session.is_open:
                del self._sessions[broker]
        return plans

    def next_retry(self) -> int | None:
        """When a broker may be asked again after an error."""
        return min(
            (one.retry_at for one in self._sessions.values() if one.sent is None and one.retry_at),
            default=None,
        )

    def closing_requests(self, now: int) -> list[ShareRequestPlan]:
        """Close all sessions. Acknowledgements go along; the brokers release the rest."""
        plans = []
        for broker, session in self._sessions.items():
            if session.is_open or session.sent is not None:
                if session.sent is not None:
                    self._report_all(session.sent.acks, session, _unanswered(broker))
                plans.append(ShareRequestPlan(broker, session.close(now)))
        return plans

    def _by_leader(self, view: MetadataSnapshot) -> dict[int, dict[PartitionId, TopicPartition]]:
        wanted: dict[int, dict[PartitionId, TopicPartition]] = {}
        for at in self._assigned:
            try:
                leader = view.leader(at)
            except KafkaError:
                self.stale = True
                continue
            topic_id = view.topic(at.topic).id
            wanted.setdefault(leader, {})[topic_id, at.partition] = at
        return wanted

    def _drop_moved(
        self,
        session: BrokerShareSession,
        mine: dict[PartitionId, TopicPartition],
        wanted: dict[int, dict[PartitionId, TopicPartition]],
    ) -> None:
        """Another broker leads them now: it delivers again what was not returned here."""
        for one, hold in session.held.items():
            if one not in mine and any(one in others for others in wanted.values()):
                hold.ready.clear()
                hold.records.drop_unreturned()
        for hold in session.forget_finished():
            self.messages.forget(hold)

    # --- answers ---

    def answered(
        self, broker: int, response: ShareFetchResponse | ShareAcknowledgeResponse, now: int
    ) -> None:
        session = self._sessions.get(broker)
        sent = session.sent if session is not None else None
        if session is None or sent is None:
            return
        session.sent = None
        session.retry_at = 0
        if response.error_code:
            self._refused(broker, session, sent, response, now)
            return
        if response.acquisition_lock_timeout_ms > 0:
            self.lock_ms = response.acquisition_lock_timeout_ms
        session.advanced()
        left = dict(sent.acks)
        lock_until = sent.sent_at + (self.lock_ms or _LOCK_MS)
        for topic in response.responses:
            for part in topic.partitions:
                one = (topic.topic_id, part.partition_index)
                if runs := left.pop(one, None):
                    self._acknowledged(session, one, runs, part, lock_until)
                if isinstance(part, share_fetch.PartitionData):
                    self._fetched(session, one, part, lock_until, now)
        if left:
            error = Corrupt(f"broker {broker} did not say what became of acknowledgements")
            self._report_all(left, session, error)
        if sent.closing:
            self._end(session, None)
        for hold in session.forget_finished():
            self.messages.forget(hold)

    def failed_request(self, broker: int, error: KafkaError, now: int, *, sent: bool) -> None:
        """A request got no answer; `sent`: it may have arrived."""
        session = self._sessions.get(broker)
        if session is None or session.sent is None:
            return
        request, session.sent = session.sent, None
        session.retry_at = now + self._backoff_ms
        self.stale = True
        self._report_all(request.acks, session, error)
        if sent or isinstance(error, Retriable):
            # The session belongs to its connection: the broker has released all records.
            self._end(session, error)

    def _refused(
        self,
        broker: int,
        session: BrokerShareSession,
        sent: SentShareRequest,
        response: ShareFetchResponse | ShareAcknowledgeResponse,
        now: int,
    ) -> None:
        code = response.error_code
        about = f"group {self._group_id!r}, broker {broker}"
        error = error_of(code, response.error_message, about=about)
        session.retry_at = now + self._backoff_ms
        self._report_all(sent.acks, session, error)
        if code in _SESSION_ENDED or sent.closing:
            _log.info("%s: the share session begins again: %s", about, error)
            self._end(session, error)
            session.retry_at = 0 if code in _SESSION_ENDED else session.retry_at
        elif code in _AGAIN or isinstance(error, Retriable):
            _log.warning("%s: %s", about, error)
            if session.is_open:
                session.advanced()
        else:
            self.failed = error

    def _acknowledged(
        self,
        session: BrokerShareSession,
        one: PartitionId,
        runs: list[AckRun],
        part: object,
        lock_until: int,
    ) -> None:
        hold = session.held.get(one)
        if isinstance(part, share_fetch.PartitionData):
            code, said = part.acknowledge_error_code, part.acknowledge_error_message
        else:
            code, said = part.error_code, part.error_message  # type: ignore[attr-defined]
        about = hold.name if hold is not None else "partition"
        error = error_of(code, said, about=about) if code else None
        if code in _MOVED:
            self.stale = True
        if hold is not None:
            hold.records.renewed(None if error is not None else lock_until)
            self.messages.report({hold: runs}, error)

    def _fetched(
        self,
        session: BrokerShareSession,
        one: PartitionId,
        part: share_fetch.PartitionData,
        lock_until: int,
        now: int,
    ) -> None:
        at = session.known.get(one)
        if at is None:
            return  # a partition with acknowledgements only
        if part.error_code:
            self._not_fetched(session, at, part, now)
            return
        ranges = acquired_ranges(at, part.acquired_records)
        if not ranges:
            return
        hold = session.held.get(one)
        if hold is None:
            hold = session.held[one] = self.messages.new_hold(at)
        for first, last, count in ranges:
            hold.records.acquired(first, last, count, lock_until)
        if at not in self._assigned:  # the group took it away meanwhile
            hold.records.release_unreturned()
            return
        records = part.records or b""
        assert not isinstance(records, FileSlice)  # file slices are only sent, never received
        try:
            messages, gaps, corrupt = decoded(
                at, memoryview(records), ranges, hold.number, crc=self._crc
            )
        except Corrupt as problem:  # not even the headers of the batches can be read
            messages, gaps = [], []
            corrupt = [((ranges[0].first, ranges[-1].last), str(problem))]
        for first, last in gaps:
            hold.records.gap(first, last)
        for (first, last), why in corrupt:
            _log.warning("%s: offsets %d to %d are released: %s", at, first, last, why)
            hold.records.release_unreturned(first, last)
        hold.ready.extend(messages)

    def _not_fetched(
        self,
        session: BrokerShareSession,
        at: TopicPartition,
        part: share_fetch.PartitionData,
        now: int,
    ) -> None:
        error = error_of(part.error_code, part.error_message, about=str(at))
        if part.error_code in _MOVED:
            self.stale = True
        elif part.error_code in _AGAIN or isinstance(error, Retriable):
            _log.warning("%s", error)
        else:
            self.failed = error
        session.retry_at = now + self._backoff_ms

    # --- results ---

    def _end(self, session: BrokerShareSession, error: KafkaError | None) -> None:
        for hold in session.reset():
            hold.ready.clear()
            hold.records.drop_unreturned()
            hold.lost = error or Retriable(
                Code.SHARE_SESSION_NOT_FOUND, f"{hold.at}: the share session was closed"
            )
            if not hold.records:
                self.messages.forget(hold)

    def _report_all(self, acks: Acks, session: BrokerShareSession, error: KafkaError) -> None:
        found = {session.held[one]: runs for one, runs in acks.items() if one in session.held}
        for hold in found:
            hold.records.renewed(None)
        self.messages.report(found, error)


def _unanswered(broker: int) -> KafkaError:
    return Retriable(
        Code.REQUEST_TIMED_OUT,
        f"broker {broker} had not answered when the consumer was closed: the records may be"
        " delivered again",
    )
