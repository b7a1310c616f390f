"""ListConfigResources: names of what has settings."""

from typing import TYPE_CHECKING

from barnabas.broker.dispatch import Call
from barnabas.broker.resources import ENTITIES, Kind
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
    asked = set(request.resource_types) or set(Kind)  # none named: all
    if call.version < TYPES_SINCE:
        asked = {Kind.CLIENT_METRICS}
    if not asked <= set(Kind):
        return ListConfigResourcesResponse(error_code=Code.UNSUPPORTED_VERSION, config_resources=[])
    resources = []
    if Kind.BROKER in asked:
        members = [broker.id] if broker.cluster is None else sorted(broker.cluster.members)
        resources += [
            ConfigResource(resource_name=str(each), resource_type=Kind.BROKER) for each in members
        ]
    if Kind.TOPIC in asked:
        resources += [
            ConfigResource(resource_name=topic.name, resource_type=Kind.TOPIC)
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
