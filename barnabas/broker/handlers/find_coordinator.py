"""FindCoordinator: the coordinator of a group: the leader of the partition with its offsets."""

from typing import TYPE_CHECKING

from barnabas.broker.net.dispatch import Call
from barnabas.broker.topic import OFFSETS_TOPIC
from barnabas.model.errors import Code, Failed, InvalidRequest, KafkaError, Retriable
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


async def handle(
    broker: "Broker", request: FindCoordinatorRequest, call: Call
) -> FindCoordinatorResponse:
    keys = request.coordinator_keys if call.version >= SEVERAL_SINCE else [request.key]
    error: KafkaError | None = None
    try:
        await _ready(broker, request.key_type)
    except KafkaError as refused:
        error = refused
        broker.refused("coordinator not found", call, refused, type=request.key_type)
    coordinators = [_coordinator(broker, key, error) for key in keys]
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


async def _ready(broker: "Broker", key_type: int) -> None:
    if key_type == GROUP:
        from barnabas.broker.groups.coordination import coordination

        try:
            await coordination(broker).ready()
        except KafkaError as error:
            # Too few brokers for its replicas, or no controller: this passes, and clients wait for
            # it only if the error is, as in Kafka, that there is no coordinator.
            problem = f"topic {OFFSETS_TOPIC} cannot be created now: {error.detail}"
            raise Retriable(Code.COORDINATOR_NOT_AVAILABLE, problem) from error
    elif key_type == TRANSACTION:
        # librdkafka stops at this code and retries after any other.
        raise Failed(
            Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            "transactions are not supported yet; leave transactional.id out",
        )
    else:
        raise InvalidRequest(
            Code.INVALID_REQUEST, f"coordinator type {key_type} is not supported; 0 (groups) is"
        )


def _coordinator(broker: "Broker", key: str, error: KafkaError | None) -> Coordinator:
    if error is not None:
        return Coordinator(
            key=key,
            node_id=-1,
            host="",
            port=-1,
            error_code=error.code,
            error_message=error.detail,
        )
    assert broker.coordination is not None
    leader = broker.coordination.leader_of(key)
    for node in broker.nodes():
        if node.id == leader:
            return Coordinator(
                key=key, node_id=node.id, host=node.host, port=node.port, error_code=0
            )
    problem = f"the partition of {OFFSETS_TOPIC} for group {key[:100]!r} has no leader now"
    return _coordinator(broker, key, Retriable(Code.COORDINATOR_NOT_AVAILABLE, problem))
