"""ControlledShutdown: a broker that is about to stop asks the controller to move its
leaderships."""

from typing import TYPE_CHECKING

from barnabas.broker.net.dispatch import Call
from barnabas.model.errors import KafkaError
from barnabas.model.ids import BrokerId
from barnabas.wire.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)

if TYPE_CHECKING:
    from barnabas.broker.context import ClusterContext

WAIT_FOR_BROKERS_MS = 5_000


async def handle(
    broker: "ClusterContext", request: ControlledShutdownRequest, call: Call
) -> ControlledShutdownResponse:
    assert broker.cluster is not None
    leaving, epoch = BrokerId(request.broker_id), request.broker_epoch
    try:
        # Once the other brokers know that they lead, the broker can stop without losing anything.
        remaining = await broker.cluster.controlling.ask(
            lambda machine, now: machine.shut_down(leaving, epoch, now),
            wait_for_brokers_ms=WAIT_FOR_BROKERS_MS,
        )
    except KafkaError as error:
        return ControlledShutdownResponse(error_code=error.code, remaining_partitions=[])
    return ControlledShutdownResponse(
        error_code=0,
        remaining_partitions=[
            RemainingPartition(topic_name=name.topic, partition_index=name.partition)
            for name in remaining
        ],
    )
