"""ControlledShutdown: a broker that is about to stop asks the controller to be relieved."""

from typing import TYPE_CHECKING

from barnabas.broker.dispatch import Call
from barnabas.model.errors import KafkaError
from barnabas.wire.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker


async def handle(
    broker: "Broker", request: ControlledShutdownRequest, call: Call
) -> ControlledShutdownResponse:
    assert broker.cluster is not None
    try:
        return await broker.cluster.controlling.controlled_shutdown(request)
    except KafkaError as error:
        return ControlledShutdownResponse(error_code=error.code, remaining_partitions=[])
