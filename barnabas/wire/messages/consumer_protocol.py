"""The consumer protocol inside the classic group protocol.

Each message follows an int16 with its version.
"""

from barnabas.wire.codec import Int32, ProtocolMessage, Struct, message, since


class TopicPartition(Struct):
    topic: str
    partitions: list[Int32]


@message(versions="0-3", flexible="none")
class ConsumerProtocolSubscription(ProtocolMessage):
    """A consumer's subscription, inside JoinGroup. v1: owned partitions. v2:
    generation. v3: rack.
    """

    topics: list[str]
    user_data: bytes | None = None
    owned_partitions: list[TopicPartition] = since(1, default=[], ignorable=True)
    generation_id: Int32 = since(2, default=-1, ignorable=True)
    rack_id: str | None = since(3, default=None, ignorable=True)


@message(versions="0-3", flexible="none")
class ConsumerProtocolAssignment(ProtocolMessage):
    """A consumer's assignment, inside SyncGroup."""

    assigned_partitions: list[TopicPartition]
    user_data: bytes | None = None
