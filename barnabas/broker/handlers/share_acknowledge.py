"""ShareAcknowledge: acknowledges records of a share session without fetching.

Always: answered when the acknowledgements are committed.
"""

from typing import TYPE_CHECKING

from barnabas.broker.handlers.share_fetch import (
    RENEWALS_SINCE,
    leader_endpoints,
    leader_of,
    session_key,
)
from barnabas.broker.net.deferred_reply import DeferredReply
from barnabas.broker.net.dispatch import Call
from barnabas.broker.share.acknowledgements import AskedAcks, Denied, Results, acknowledge
from barnabas.broker.share.service import share_service
from barnabas.coordinators.share.sessions import FINAL_EPOCH
from barnabas.model.errors import Code, KafkaError
from barnabas.wire.messages.share_acknowledge import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker

Reply = DeferredReply[ShareAcknowledgeResponse]


def handle(
    broker: "Broker", request: ShareAcknowledgeRequest, call: Call, denied: Denied | None = None
) -> ShareAcknowledgeResponse | Reply:
    service = share_service(broker)
    epoch = request.share_session_epoch
    try:
        key = session_key(request.group_id, request.member_id)
        session = service.sessions.resume(key, epoch)
    except KafkaError as error:
        return refused(error.code)
    asked = [
        AskedAcks((topic.topic_id, each.partition_index), each.acknowledgement_batches)
        for topic in request.topics
        for each in topic.partitions
    ]
    deferred: Reply = DeferredReply()

    def done(results: Results) -> None:
        deferred.set(
            _response(broker, call, results, service.settings_of(key.group).options.lock_ms)
        )
        if epoch == FINAL_EPOCH and service.sessions.end(session):
            service.released(session)

    renews = call.version >= RENEWALS_SINCE and request.is_renew_ack
    acknowledge(service, key, asked, denied, may_renew=renews).then(done)
    return deferred.take() if deferred.done else deferred


def refused(code: Code) -> ShareAcknowledgeResponse:
    return ShareAcknowledgeResponse(
        error_code=code, error_message=code.text, responses=[], node_endpoints=[]
    )


def _response(
    broker: "Broker", call: Call, results: Results, lock_ms: int
) -> ShareAcknowledgeResponse:
    topics: dict[object, ShareAcknowledgeTopicResponse] = {}
    leaders: set[int] = set()
    for key, code in results.items():
        leader = LeaderIdAndEpoch(leader_id=0, leader_epoch=0)
        if code is Code.NOT_LEADER_OR_FOLLOWER:
            leader_id, epoch = leader_of(broker, key)
            leader = LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=epoch)
            leaders.add(leader_id)
        data = PartitionData(
            partition_index=key[1],
            error_code=code,
            error_message=code.text if code else None,
            current_leader=leader,
        )
        topic = topics.get(key[0])
        if topic is None:
            topics[key[0]] = ShareAcknowledgeTopicResponse(topic_id=key[0], partitions=[data])
        else:
            topic.partitions.append(data)
    return ShareAcknowledgeResponse(
        error_code=0,
        acquisition_lock_timeout_ms=lock_ms,
        responses=list(topics.values()),
        node_endpoints=[
            NodeEndpoint(node_id=each.node_id, host=each.host, port=each.port, rack=each.rack)
            for each in leader_endpoints(broker, call, leaders)
        ],
    )
