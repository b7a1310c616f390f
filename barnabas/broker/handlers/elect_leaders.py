"""ElectLeaders: the controller elects anew, on request."""

from typing import TYPE_CHECKING

from barnabas.broker.dispatch import Call
from barnabas.model.errors import KafkaError
from barnabas.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker


async def handle(
    broker: "Broker", request: ElectLeadersRequest, call: Call
) -> ElectLeadersResponse:
    assert broker.cluster is not None
    try:
        return await broker.cluster.controlling.elect_leaders(request)
    except KafkaError as error:
        return ElectLeadersResponse(error_code=error.code, replica_election_results=[])
