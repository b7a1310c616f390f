"""AlterPartition: a leader proposes in-sync sets to the controller."""

from typing import TYPE_CHECKING

from barnabas.broker.dispatch import Call
from barnabas.model.errors import KafkaError
from barnabas.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker


async def handle(
    broker: "Broker", request: AlterPartitionRequest, call: Call
) -> AlterPartitionResponse:
    assert broker.cluster is not None
    try:
        return await broker.cluster.controlling.alter_partition(request)
    except KafkaError as error:
        return AlterPartitionResponse(error_code=error.code, topics=[])
