"""ListConfigResources: resources that have options."""

from barnabas.wire.codec import Int8, Int16, Int32, ProtocolMessage, Struct, message, since


@message(api_key=74, versions="0-1", flexible="0+")
class ListConfigResourcesRequest(ProtocolMessage):
    """Which resources have options. v0: client metrics only. v1: by type."""

    resource_types: list[Int8] = since(1, default=[])


class ConfigResource(Struct):
    resource_name: str
    resource_type: Int8 = since(1, default=16, ignorable=True)


@message(api_key=74, versions="0-1", flexible="0+")
class ListConfigResourcesResponse(ProtocolMessage):
    """Names of resources. v1: their types."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    config_resources: list[ConfigResource]
