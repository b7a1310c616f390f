"""FindCoordinator: the coordinator of a group, of a transactional id, or of a share partition.

It is the leader of the partition that holds their state. The first search creates the topic.
"""

from typing import TYPE_CHECKING

from barnabas.broker.cluster_member import ClusterMember
from barnabas.broker.net.dispatch import Call
from barnabas.broker.topic import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC
from barnabas.model.errors import Code, InvalidRequest, KafkaError, Retriable
from barnabas.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker

SEVERAL_SINCE = 4
GROUP = 0
TRANSACTION = 1
SHARE = 2
SHARES_SINCE = 6


async def handle(
    broker: "Broker", request: FindCoordinatorRequest, call: Call
) -> FindCoordinatorResponse:
    keys = request.coordinator_keys if call.version >= SEVERAL_SINCE else [request.key]
    error: KafkaError | None = None
    try:
        await _ready(broker, request.key_type, call.version)
    except KafkaError as refused:
        error = refused
        broker.refused("coordinator not found", call, refused, type=request.key_type)
    nodes = broker.nodes(call.connection.listener)
    coordinators = [_coordinator(broker, request.key_type, key, error, nodes) for key in keys]
    if call.version >= SEVERAL_SINCE:
        return FindCoordinatorResponse(coordinators=coordinators)
    (one,) = coordinators
    return FindCoordinatorResponse(
        error_code=one.error_code,
        error_message=one.error_message,
        node_id=one.node_id,
        host=one.host,
        port=one.port,
    )


async def _ready(broker: "Broker", key_type: int, version: int) -> None:
    topic = OFFSETS_TOPIC
    try:
        if key_type == GROUP:
            from barnabas.broker.groups.coordination import coordination

            await coordination(broker).ready()
        elif key_type == TRANSACTION:
            from barnabas.broker.transactions.coordination import transaction_coordination

            topic = TRANSACTIONS_TOPIC
            await transaction_coordination(broker).ready()
        elif key_type == SHARE and version >= SHARES_SINCE:
            from barnabas.broker.share.service import share_service

            topic = SHARE_STATE_TOPIC
            await share_service(broker).coordination.ready()
    except KafkaError as error:
        # Too few brokers for its replicas, or no controller: this passes, and clients wait for
        # it only if the error is, as in Kafka, that there is no coordinator.
        problem = f"topic {topic} cannot be created now: {error.detail}"
        raise Retriable(Code.COORDINATOR_NOT_AVAILABLE, problem) from error
    if key_type not in (GROUP, TRANSACTION) and not (key_type == SHARE and version >= SHARES_SINCE):
        raise InvalidRequest(
            Code.INVALID_REQUEST,
            f"coordinator type {key_type} is not supported; 0 (groups), 1 (transactions) and, since"
            f" version {SHARES_SINCE}, 2 (share groups) are",
        )


def _coordinator(
    broker: "Broker",
    key_type: int,
    key: str,
    error: KafkaError | None,
    nodes: list[ClusterMember],
) -> Coordinator:
    if error is not None:
        return Coordinator(
            key=key,
            node_id=-1,
            host="",
            port=-1,
            error_code=error.code,
            error_message=error.detail,
        )
    if key_type == SHARE:
        assert broker.share is not None
        try:
            leader = broker.share.coordinator_of(key)
        except KafkaError as invalid:
            return _coordinator(broker, key_type, key, invalid, nodes)
    else:
        coordination = broker.coordination if key_type == GROUP else broker.transactions
        assert coordination is not None
        leader = coordination.leader_of(key)
    for node in nodes:
        if node.id == leader:
            return Coordinator(
                key=key, node_id=node.id, host=node.host, port=node.port, error_code=0
            )
    topic, kind = OFFSETS_TOPIC, "group"
    if key_type == TRANSACTION:
        topic, kind = TRANSACTIONS_TOPIC, "transactional id"
    elif key_type == SHARE:
        topic, kind = SHARE_STATE_TOPIC, "share partition"
    problem = f"the partition of {topic} for {kind} {key[:100]!r} has no leader now"
    none = Retriable(Code.COORDINATOR_NOT_AVAILABLE, problem)
    return _coordinator(broker, key_type, key, none, nodes)
