"""AlterConfigs: replaces the settings of a topic or broker."""

from typing import TYPE_CHECKING

from barnabas.broker.net.dispatch import Call
from barnabas.broker.requests.config_resources import Alteration, alter_each
from barnabas.config.alter import Operation
from barnabas.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker


async def handle(
    broker: "Broker", request: AlterConfigsRequest, call: Call
) -> AlterConfigsResponse:
    alterations = [
        Alteration(
            resource.resource_type,
            resource.resource_name,
            [(config.name, Operation.SET, config.value) for config in resource.configs],
            replace=True,
        )
        for resource in request.resources
    ]
    return AlterConfigsResponse(
        responses=await alter_each(
            broker, alterations, request.validate_only, AlterConfigsResourceResponse
        )
    )
