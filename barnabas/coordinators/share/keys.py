"""Names a share partition: a group, a topic id and a partition.

In: the key of FindCoordinator. Out: its parts, and the partition of __share_group_state.
Always: the text of a key, and the partition that it hashes to, are Kafka's.
"""

from base64 import b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from functools import lru_cache
from typing import NamedTuple
from uuid import UUID

from barnabas.coordinators.groups.records import partition_of
from barnabas.model.errors import Code, InvalidRequest

SharePartitionKey = tuple[UUID, int]
"""A topic id and a partition."""


class StateKey(NamedTuple):
    """The key of the state of one share partition."""

    group: str
    topic_id: UUID
    partition: int


class StateResult(NamedTuple):
    """What a change of the state of one share partition came to."""

    key: SharePartitionKey
    code: Code
    message: str = ""


class StateSummary(NamedTuple):
    """Where a share partition begins; a start offset of -1: not known yet."""

    key: SharePartitionKey
    code: Code
    state_epoch: int = 0
    leader_epoch: int = -1
    start_offset: int = -1
    delivery_complete_count: int = -1
    message: str = ""


@lru_cache(maxsize=8_192)
def coordinator_key(key: StateKey) -> str:
    """As FindCoordinator has it."""
    id_ = urlsafe_b64encode(key.topic_id.bytes).rstrip(b"=").decode()
    return f"{key.group}:{id_}:{key.partition}"


def parse_coordinator_key(text: str) -> StateKey:
    """INVALID_REQUEST if it is not `group:topicId:partition`. A group id may contain colons."""
    group, _, rest = text.rpartition(":")[0].rpartition(":")
    number = text.rpartition(":")[2]
    try:
        if not group or len(rest) != 22:
            raise ValueError("expected a group and a topic id")
        topic_id = UUID(bytes=b64decode(rest + "==", altchars=b"-_", validate=True))
        partition = int(number)
        if partition < 0 or not number.isascii():
            raise ValueError("the partition is negative")
    except (NotBase64, ValueError) as error:
        raise InvalidRequest(
            Code.INVALID_REQUEST,
            f"share coordinator key {text[:100]!r}: expected group:topicId:partition",
        ) from error
    return StateKey(group, topic_id, partition)


def state_partition_of(key: StateKey, partitions: int) -> int:
    """The partition of __share_group_state that keeps the state."""
    return partition_of(coordinator_key(key), partitions)
