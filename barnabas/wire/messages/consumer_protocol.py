"""What consumers tell each other through the classic group protocol.

Each stands behind an int16 that gives its version.
"""

from barnabas.wire.codec import Int32, ProtocolMessage, Struct, message, since


class TopicPartition(Struct):
    topic: str
    partitions: list[Int32]


@message(versions="0-3", flexible="none")
class ConsumerProtocolSubscription(ProtocolMessage):
    """What a consumer wants, inside JoinGroup. v1: what it owns. v2: generation. v3: rack."""

    topics: list[str]
    user_data: bytes | None = None
    owned_partitions: list[TopicPartition] = since(1, default=[], ignorable=True)
    generation_id: Int32 = since(2, default=-1, ignorable=True)
    rack_id: str | None = since(3, default=None, ignorable=True)


@message(versions="0-3", flexible="none")
class ConsumerProtocolAssignment(ProtocolMessage):
    """What a consumer gets, inside SyncGroup."""

    assigned_partitions: list[TopicPartition]
    user_data: bytes | None = None
