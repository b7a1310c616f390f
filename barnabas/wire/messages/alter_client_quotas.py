"""AlterClientQuotas: changes the quotas of clients."""

from barnabas.wire.codec import Float64, Int16, Int32, ProtocolMessage, Struct, message


class EntityData(Struct):
    entity_type: str
    entity_name: str | None


class OpData(Struct):
    key: str
    value: Float64
    remove: bool


class EntryData(Struct):
    entity: list[EntityData]
    ops: list[OpData]


@message(api_key=49, versions="0-1", flexible="1+")
class AlterClientQuotasRequest(ProtocolMessage):
    """Limits to set and to lift. v1: flexible."""

    entries: list[EntryData]
    validate_only: bool


class EntryResult(Struct):
    error_code: Int16
    error_message: str | None = None
    entity: list[EntityData]


@message(api_key=49, versions="0-1", flexible="1+")
class AlterClientQuotasResponse(ProtocolMessage):
    """Whether each was altered. v1: flexible."""

    throttle_time_ms: Int32 = 0
    entries: list[EntryResult]
