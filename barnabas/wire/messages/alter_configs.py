"""AlterConfigs: replaces options."""

from barnabas.wire.codec import Int8, Int16, Int32, ProtocolMessage, Struct, message


class AlterableConfig(Struct):
    name: str
    value: str | None


class AlterConfigsResource(Struct):
    resource_type: Int8
    resource_name: str
    configs: list[AlterableConfig]


@message(api_key=33, versions="0-2", flexible="2+")
class AlterConfigsRequest(ProtocolMessage):
    """Options to set; those not named return to their defaults. v2: flexible."""

    resources: list[AlterConfigsResource]
    validate_only: bool


class AlterConfigsResourceResponse(Struct):
    error_code: Int16
    error_message: str | None = None
    resource_type: Int8
    resource_name: str


@message(api_key=33, versions="0-2", flexible="2+")
class AlterConfigsResponse(ProtocolMessage):
    """Which resources took their options. v2: flexible."""

    throttle_time_ms: Int32 = 0
    responses: list[AlterConfigsResourceResponse]
