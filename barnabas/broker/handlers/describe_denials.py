"""DescribeDenials: the last requests that access rules denied, the newest first."""

from itertools import islice
from typing import TYPE_CHECKING

from barnabas.broker.net.dispatch import Call
from barnabas.model.errors import Code
from barnabas.wire.messages.describe_denials import (
    DescribedDenial,
    DescribeDenialsRequest,
    DescribeDenialsResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker


def handle(
    broker: "Broker", request: DescribeDenialsRequest, call: Call
) -> DescribeDenialsResponse:
    if broker.authorizer is None:
        return DescribeDenialsResponse(error_code=Code.SECURITY_DISABLED, denials=[])
    denials = broker.authorizer.denials
    return DescribeDenialsResponse(
        error_code=0,
        count=denials.count,
        denials=[
            DescribedDenial(
                at_ms=each.at_ms,
                principal=str(each.question.principal),
                host=each.question.host,
                operation=each.question.operation,
                resource_type=each.question.type,
                resource_name=each.question.name,
                api=each.api,
                client_id=each.client_id,
                rule="" if each.rule is None else str(each.rule),
                named=each.named,
            )
            for each in islice(reversed(denials.last), max(0, request.denials_max))
        ],
    )
