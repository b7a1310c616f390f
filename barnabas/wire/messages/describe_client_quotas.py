"""DescribeClientQuotas: the quotas of clients."""

from barnabas.wire.codec import Float64, Int8, Int16, Int32, ProtocolMessage, Struct, message


class ComponentData(Struct):
    entity_type: str
    match_type: Int8
    match: str | None


@message(api_key=48, versions="0-1", flexible="1+")
class DescribeClientQuotasRequest(ProtocolMessage):
    """Entities to look for. v1: flexible."""

    components: list[ComponentData]
    strict: bool


class EntityData(Struct):
    entity_type: str
    entity_name: str | None


class ValueData(Struct):
    key: str
    value: Float64


class EntryData(Struct):
    entity: list[EntityData]
    values: list[ValueData]


@message(api_key=48, versions="0-1", flexible="1+")
class DescribeClientQuotasResponse(ProtocolMessage):
    """Their limits. v1: flexible."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: str | None = None
    entries: list[EntryData] | None
