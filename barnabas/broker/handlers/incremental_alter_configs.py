"""IncrementalAlterConfigs: sets or deletes single settings, or appends to or subtracts from
lists."""

from typing import TYPE_CHECKING

from barnabas.broker.net.dispatch import Call
from barnabas.broker.requests.config_resources import Alteration, alter_each
from barnabas.wire.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker


async def handle(
    broker: "Broker", request: IncrementalAlterConfigsRequest, call: Call
) -> IncrementalAlterConfigsResponse:
    alterations = [
        Alteration(
            resource.resource_type,
            resource.resource_name,
            [(config.name, config.config_operation, config.value) for config in resource.configs],
            replace=False,
        )
        for resource in request.resources
    ]
    return IncrementalAlterConfigsResponse(
        responses=await alter_each(
            broker, alterations, request.validate_only, AlterConfigsResourceResponse
        )
    )
