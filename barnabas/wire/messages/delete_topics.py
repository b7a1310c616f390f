"""DeleteTopics: deletes topics."""

from uuid import UUID

from barnabas.model.ids import NO_TOPIC_ID as NO_ID
from barnabas.wire.codec import (
    Int16,
    Int32,
    ProtocolMessage,
    Struct,
    message,
    nullable_since,
    since,
    until,
)


class DeleteTopicState(Struct):
    name: str | None = None
    topic_id: UUID


@message(api_key=20, versions="1-6", flexible="4+")
class DeleteTopicsRequest(ProtocolMessage):
    """Topics to delete. v4: flexible. v6: by name or id."""

    topics: list[DeleteTopicState] = since(6, default=[])
    topic_names: list[str] = until(5, default=[], ignorable=True)
    timeout_ms: Int32


class DeletableTopicResult(Struct):
    name: str | None = nullable_since(6)
    topic_id: UUID = since(6, default=NO_ID, ignorable=True)
    error_code: Int16
    error_message: str | None = since(5, default=None, ignorable=True)


@message(api_key=20, versions="1-6", flexible="4+")
class DeleteTopicsResponse(ProtocolMessage):
    """Which topics were deleted. v4: flexible. v5: error messages. v6: ids."""

    throttle_time_ms: Int32 = 0
    responses: list[DeletableTopicResult]
