"""ListConfigResources: the names of resources that have settings."""

from typing import TYPE_CHECKING

from barnabas.broker.net.dispatch import Call
from barnabas.broker.requests.config_resources import ENTITIES, ResourceType
from barnabas.model.errors import Code
from barnabas.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker

TYPES_SINCE = 1


def handle(
    broker: "Broker", request: ListConfigResourcesRequest, call: Call
) -> ListConfigResourcesResponse:
    asked = set(request.resource_types) or set(ResourceType)  # none named: all
    if call.version < TYPES_SINCE:
        asked = {ResourceType.CLIENT_METRICS}
    if not asked <= set(ResourceType):
        return ListConfigResourcesResponse(error_code=Code.UNSUPPORTED_VERSION, config_resources=[])
    resources = []
    if ResourceType.BROKER in asked:
        members = [broker.id] if broker.cluster is None else sorted(broker.cluster.members)
        resources += [
            ConfigResource(resource_name=str(each), resource_type=ResourceType.BROKER)
            for each in members
        ]
    if ResourceType.TOPIC in asked:
        resources += [
            ConfigResource(resource_name=topic.name, resource_type=ResourceType.TOPIC)
            for topic in broker.topics
        ]
    resources += [
        ConfigResource(resource_name=name, resource_type=kind)
        for kind, node in ENTITIES.items()
        if kind in asked
        for (found, name), settings in broker.catalog.entities.items()
        if found == node and settings
    ]
    return ListConfigResourcesResponse(error_code=0, config_resources=resources)
