"""ShareFetch: acknowledges records of a share session, and acquires others.

Always: answered when the acknowledgements are committed and the fetch is done; codes as Kafka's.
Not here: the session (coordinators/share/sessions.py), fetching and acknowledging (broker/share).
"""

from typing import TYPE_CHECKING

from barnabas.broker.cluster_member import at_listener
from barnabas.broker.net.deferred_reply import DeferredReply
from barnabas.broker.net.dispatch import Call
from barnabas.broker.share.acknowledgements import AskedAcks, Denied, Results, acknowledge
from barnabas.broker.share.fetching import (
    RECORD_LIMIT,
    AskedFetch,
    Fetched,
    FetchedShare,
    ShareFetchWait,
)
from barnabas.broker.share.service import ShareService, share_service
from barnabas.coordinators.share.keys import SharePartitionKey
from barnabas.coordinators.share.sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    SessionKey,
    ShareSession,
)
from barnabas.model.errors import Code, InvalidRequest, KafkaError
from barnabas.wire.messages.share_fetch import (
    AcquiredRecords,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker
    from barnabas.broker.security.limited_requests import ShareFetchLimit

MEMBER_ID_MAX = 36
RENEWALS_SINCE = 2
_LEADER_ERRORS = (Code.NOT_LEADER_OR_FOLLOWER, Code.FENCED_LEADER_EPOCH)
_NONE = FetchedShare(Code.NONE)
Reply = DeferredReply[ShareFetchResponse]


def handle(
    broker: "Broker", request: ShareFetchRequest, call: Call, denied: Denied | None = None
) -> ShareFetchResponse | Reply:
    service = share_service(broker)
    try:
        key = session_key(request.group_id, request.member_id)
        _check_renewal(request)
        session = _session(service, request, call, key)
    except KafkaError as error:
        refusal = refused(error.code)
        if error.code is not Code.SHARE_SESSION_LIMIT_REACHED or request.max_wait_ms <= 0:
            return refusal
        deferred: Reply = DeferredReply()  # a member that is refused would ask again at once
        timer = broker.loop.call_later(
            min(request.max_wait_ms, 30_000) / 1000, deferred.set, refusal
        )
        deferred.cancelled = timer.cancel
        return deferred
    return _InProgress(broker, service, request, call, session, denied).deferred


def session_key(group: str | None, member: str | None) -> SessionKey:
    if group is None:
        raise InvalidRequest(Code.INVALID_REQUEST, "the group id is missing")
    if not member or len(member) > MEMBER_ID_MAX:
        raise InvalidRequest(Code.INVALID_REQUEST, "expected a member id of 1 to 36 characters")
    return SessionKey(group, member)


def refused(code: Code) -> ShareFetchResponse:
    return ShareFetchResponse(
        error_code=code,
        error_message=code.text,
        acquisition_lock_timeout_ms=0,
        responses=[],
        node_endpoints=[],
    )


def _check_renewal(request: ShareFetchRequest) -> None:
    limits = (request.max_bytes, request.min_bytes, request.max_records, request.max_wait_ms)
    if request.is_renew_ack and any(limits):
        raise InvalidRequest(Code.INVALID_REQUEST, "a renewal must not fetch: set its limits to 0")


def _session(
    service: ShareService, request: ShareFetchRequest, call: Call, key: SessionKey
) -> ShareSession:
    epoch = request.share_session_epoch
    named = [
        (topic.topic_id, each.partition_index)
        for topic in request.topics
        for each in topic.partitions
    ]
    sessions = service.sessions
    if epoch == INITIAL_EPOCH:
        if any(
            each.acknowledgement_batches for topic in request.topics for each in topic.partitions
        ):
            raise InvalidRequest(
                Code.INVALID_REQUEST, "a request that opens a session acknowledges no records"
            )
        return sessions.open(
            key, named, call.connection, call.client_id, f"/{call.connection.host}"
        )
    session = sessions.resume(key, epoch)
    if epoch != FINAL_EPOCH:
        forgotten = [
            (topic.topic_id, index)
            for topic in request.forgotten_topics_data
            for index in topic.partitions
        ]
        sessions.update(session, named, forgotten)
    return session


class _InProgress:
    """One request: its acknowledgements and its fetch, each now or later."""

    def __init__(
        self,
        broker: "Broker",
        service: ShareService,
        request: ShareFetchRequest,
        call: Call,
        session: ShareSession,
        denied: Denied | None,
    ) -> None:
        self._broker = broker
        self._service = service
        self._request = request
        self._call = call
        self._session = session
        self._acks: Results | None = None
        self._fetched: Fetched | None = None
        self._limit: ShareFetchLimit | None = None
        self.deferred: Reply = DeferredReply()
        self._acknowledge(denied)
        self._fetch(denied)

    def _acknowledge(self, denied: Denied | None) -> None:
        request = self._request
        asked = [
            AskedAcks((topic.topic_id, each.partition_index), each.acknowledgement_batches)
            for topic in request.topics
            for each in topic.partitions
            if each.acknowledgement_batches
        ]
        if not asked:
            self._acks = {}
            return
        renews = self._call.version >= RENEWALS_SINCE and request.is_renew_ack
        acknowledge(self._service, self._session.key, asked, denied, may_renew=renews).then(
            self._acknowledged
        )

    def _acknowledged(self, acks: Results) -> None:
        self._acks = acks
        self._finish()

    def _fetch(self, denied: Denied | None) -> None:
        request, epoch = self._request, self._request.share_session_epoch
        if request.is_renew_ack or epoch == FINAL_EPOCH:
            self._fetch_done({})
            return
        if self._broker.quotas is not None:
            from barnabas.broker.security.limited_requests import share_fetch_limit

            self._limit = share_fetch_limit(self._broker.quotas, self._call)
        asked = AskedFetch(
            self._session,
            self._session.rotated(epoch),
            request.max_wait_ms,
            max(0, request.min_bytes),
            request.max_bytes,
            request.max_records,
            request.batch_size,
            request.share_acquire_mode == RECORD_LIMIT,
            self._limit,
        )
        wait = ShareFetchWait(self._broker, self._service, asked, denied)
        if not wait.deferred.done:
            self.deferred.cancelled = wait.deferred.abandon
        wait.deferred.then(self._fetch_done)

    def _fetch_done(self, fetched: Fetched) -> None:
        self._fetched = fetched
        self._finish()

    def _finish(self) -> None:
        if self._acks is None or self._fetched is None:
            return
        self.deferred.set(self._response(self._acks, self._fetched))
        final = self._request.share_session_epoch == FINAL_EPOCH
        if final and self._service.sessions.end(self._session):
            self._service.released(self._session)

    def _response(self, acks: Results, fetched: Fetched) -> ShareFetchResponse:
        first = self._request.share_session_epoch == INITIAL_EPOCH
        named = self._session.partitions
        shown: dict[SharePartitionKey, FetchedShare] = {}
        if first:
            shown = {key: fetched.get(key, _NONE) for key in named}
        else:
            for key, must in named.items():
                found = fetched.get(key, _NONE)
                if found.records is not None or found.code or must:
                    shown[key] = found
                if must or found.code:
                    named[key] = bool(found.code)
        for key in acks:
            shown.setdefault(key, fetched.get(key, _NONE))
        topics: dict[object, ShareFetchableTopicResponse] = {}
        leaders: set[int] = set()
        for key, found in shown.items():
            data = self._partition(key, found, acks.get(key, Code.NONE), leaders)
            topic = topics.get(key[0])
            if topic is None:
                topics[key[0]] = ShareFetchableTopicResponse(topic_id=key[0], partitions=[data])
            else:
                topic.partitions.append(data)
        return ShareFetchResponse(
            throttle_time_ms=0 if self._limit is None else self._limit.wait_ms,
            error_code=0,
            acquisition_lock_timeout_ms=self._service.settings_of(
                self._session.key.group
            ).options.lock_ms,
            responses=list(topics.values()),
            node_endpoints=leader_endpoints(self._broker, self._call, leaders),
        )

    def _partition(
        self, key: SharePartitionKey, found: FetchedShare, ack: Code, leaders: set[int]
    ) -> PartitionData:
        leader = LeaderIdAndEpoch(leader_id=0, leader_epoch=0)
        if found.code in _LEADER_ERRORS or ack in _LEADER_ERRORS:
            leader_id, epoch = leader_of(self._broker, key)
            leader = LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=epoch)
            leaders.add(leader_id)
        return PartitionData(
            partition_index=key[1],
            error_code=found.code,
            error_message=found.code.text if found.code else None,
            acknowledge_error_code=ack,
            acknowledge_error_message=ack.text if ack else None,
            current_leader=leader,
            records=b"" if found.records is None else found.records,
            acquired_records=[
                AcquiredRecords(first_offset=first, last_offset=last, delivery_count=attempts)
                for first, last, attempts in found.ranges
            ],
        )


def leader_of(broker: "Broker", key: SharePartitionKey) -> tuple[int, int]:
    topic = broker.topics.by_id(key[0])
    if topic is None or not 0 <= key[1] < len(topic.partitions):
        return -1, -1
    partition = topic.partitions[key[1]]
    return partition.leader, partition.leader_epoch


def leader_endpoints(broker: "Broker", call: Call, leaders: set[int]) -> list[NodeEndpoint]:
    """The addresses of the leaders that a response names, for clients of this listener."""
    if not leaders or broker.cluster is None:
        return []
    return [
        NodeEndpoint(node_id=member.id, host=member.host, port=member.port, rack=member.rack)
        for member in at_listener(broker.cluster.members.values(), call.connection.listener)
        if member.id in leaders
    ]
