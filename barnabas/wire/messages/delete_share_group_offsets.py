"""DeleteShareGroupOffsets: deletes the start offsets of a share group."""

from uuid import UUID

from barnabas.wire.codec import Int16, Int32, ProtocolMessage, Struct, message


class DeleteShareGroupOffsetsRequestTopic(Struct):
    topic_name: str


@message(api_key=92, versions="0", flexible="0+")
class DeleteShareGroupOffsetsRequest(ProtocolMessage):
    """Topics of a group without members."""

    group_id: str
    topics: list[DeleteShareGroupOffsetsRequestTopic]


class DeleteShareGroupOffsetsResponseTopic(Struct):
    topic_name: str
    topic_id: UUID
    error_code: Int16
    error_message: str | None = None


@message(api_key=92, versions="0", flexible="0+")
class DeleteShareGroupOffsetsResponse(ProtocolMessage):
    """The result for each topic."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: str | None = None
    responses: list[DeleteShareGroupOffsetsResponseTopic]
