"""DescribeClientQuotas: there are no quotas. Kafka's tools ask for them when they list users."""

from typing import TYPE_CHECKING

from barnabas.broker.net.dispatch import Call
from barnabas.wire.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.context import RefusalsContext


def handle(
    broker: "RefusalsContext", request: DescribeClientQuotasRequest, call: Call
) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(error_code=0, entries=[])
