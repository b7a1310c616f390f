"""UnregisterBroker: forgets a broker that will not come back."""

from typing import TYPE_CHECKING

from barnabas.broker.net.dispatch import Call
from barnabas.broker.requests.lone_replicas import unregister
from barnabas.model.errors import KafkaError
from barnabas.model.ids import BrokerId
from barnabas.wire.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.context import ClusterContext


async def handle(
    broker: "ClusterContext", request: UnregisterBrokerRequest, call: Call
) -> UnregisterBrokerResponse:
    gone = BrokerId(request.broker_id)
    if broker.cluster is None:
        refused = unregister(broker.id, gone)
        return UnregisterBrokerResponse(error_code=refused.code, error_message=refused.detail)
    try:
        await broker.cluster.controlling.ask(lambda machine, now: machine.unregister(gone, now))
    except KafkaError as error:
        return UnregisterBrokerResponse(error_code=error.code, error_message=error.detail)
    return UnregisterBrokerResponse(error_code=0)
