"""DescribeConfigs: reads options."""

from barnabas.wire.codec import Int8, Int16, Int32, ProtocolMessage, Struct, message, since


class DescribeConfigsResource(Struct):
    resource_type: Int8
    resource_name: str
    configuration_keys: list[str] | None


@message(api_key=32, versions="1-4", flexible="4+")
class DescribeConfigsRequest(ProtocolMessage):
    """Options of topics and brokers, all or by name.

    v1: synonyms. v3: documentation. v4: flexible.
    """

    resources: list[DescribeConfigsResource]
    include_synonyms: bool = False
    include_documentation: bool = since(3, default=False)


class DescribeConfigsSynonym(Struct):
    name: str
    value: str | None = None
    source: Int8


class DescribeConfigsResourceResult(Struct):
    name: str
    value: str | None = None
    read_only: bool
    config_source: Int8 = -1
    is_sensitive: bool
    synonyms: list[DescribeConfigsSynonym]
    config_type: Int8 = since(3, default=0, ignorable=True)
    documentation: str | None = since(3, default="", ignorable=True)


class DescribeConfigsResult(Struct):
    error_code: Int16
    error_message: str | None = None
    resource_type: Int8
    resource_name: str
    configs: list[DescribeConfigsResourceResult]


@message(api_key=32, versions="1-4", flexible="4+")
class DescribeConfigsResponse(ProtocolMessage):
    """Options with their values and where these come from.

    v3: kinds, documentation. v4: flexible.
    """

    throttle_time_ms: Int32 = 0
    results: list[DescribeConfigsResult]
