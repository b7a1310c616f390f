"""InitProducerId: an id for an idempotent producer; id and epoch for a transactional one.

Always: no id is given out twice. A producer without a transactional id that asks for a new
epoch gets a new id instead, as in Kafka: no other producer uses its id.
"""

from typing import TYPE_CHECKING

from barnabas.broker.net.deferred_reply import settled
from barnabas.broker.net.dispatch import Call
from barnabas.model.errors import Code, InvalidRequest, KafkaError
from barnabas.model.ids import NO_PRODUCER_ID
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker

NO_EPOCH = -1
FIRST_EPOCH = 0


async def handle(
    broker: "Broker", request: InitProducerIdRequest, call: Call
) -> InitProducerIdResponse:
    try:
        _check(request)
        if request.transactional_id is not None:
            return await _initialised(broker, request, call)
        id_ = await broker.catalog.new_producer_id()
    except KafkaError as error:
        broker.refused(
            "producer refused", call, error, transactional_id=(request.transactional_id or "")[:300]
        )
        return InitProducerIdResponse(
            error_code=error.code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_EPOCH
        )
    return InitProducerIdResponse(error_code=0, producer_id=id_, producer_epoch=FIRST_EPOCH)


async def _initialised(
    broker: "Broker", request: InitProducerIdRequest, call: Call
) -> InitProducerIdResponse:
    from barnabas.broker.transactions.coordination import origin_of, transaction_coordination

    coordination = transaction_coordination(broker)
    await coordination.ids.filled()
    reply = await settled(
        coordination.run(
            request.transactional_id or "",
            lambda shard, caller, now: shard.init_producer_id(request, caller, now),
            origin_of(call),
        )
    )
    assert isinstance(reply, InitProducerIdResponse)
    return reply


def _check(request: InitProducerIdRequest) -> None:
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_EPOCH):
        raise InvalidRequest(
            Code.INVALID_REQUEST,
            f"producer id {request.producer_id} with epoch {request.producer_epoch}:"
            " give both or neither",
        )
    if request.transactional_id == "":
        raise InvalidRequest(Code.INVALID_REQUEST, "the transactional id is empty")
