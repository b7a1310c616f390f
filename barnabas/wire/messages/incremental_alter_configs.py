"""IncrementalAlterConfigs: changes single options."""

from barnabas.wire.codec import Int8, Int16, Int32, ProtocolMessage, Struct, message


class AlterableConfig(Struct):
    name: str
    config_operation: Int8
    value: str | None


class AlterConfigsResource(Struct):
    resource_type: Int8
    resource_name: str
    configs: list[AlterableConfig]


@message(api_key=44, versions="0-1", flexible="1+")
class IncrementalAlterConfigsRequest(ProtocolMessage):
    """Options to set, delete, append to or subtract from. v1: flexible."""

    resources: list[AlterConfigsResource]
    validate_only: bool


class AlterConfigsResourceResponse(Struct):
    error_code: Int16
    error_message: str | None = None
    resource_type: Int8
    resource_name: str


@message(api_key=44, versions="0-1", flexible="1+")
class IncrementalAlterConfigsResponse(ProtocolMessage):
    """Which resources took their changes. v1: flexible."""

    throttle_time_ms: Int32 = 0
    responses: list[AlterConfigsResourceResponse]
