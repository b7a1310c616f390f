"""What the broker calls on the share groups of one shard, besides heartbeats.

In: answers of the share coordinator, requests to change or delete offsets. Out: outcomes for the
runtime.
Not here: the decisions (operations.py, offset_changes.py).
"""

from collections.abc import Iterable
from uuid import UUID

from barnabas.coordinators.caller import Caller
from barnabas.coordinators.groups.records import Record
from barnabas.coordinators.groups.share import offset_changes, operations
from barnabas.coordinators.groups.share.heartbeats import StateInitialization
from barnabas.coordinators.groups.share.state_partitions import SharePartitionId
from barnabas.coordinators.groups.state import ShardState
from barnabas.coordinators.runtime import Now, Outcome
from barnabas.wire.codec import ProtocolMessage
from barnabas.wire.messages.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from barnabas.wire.messages.delete_share_group_offsets import DeleteShareGroupOffsetsRequest


class ShareShard:
    """The share groups of one partition of __consumer_offsets."""

    def __init__(self, state: ShardState) -> None:
        self._state = state

    @property
    def asks(self) -> bool:
        """Whether heartbeats have asked something of the share coordinator."""
        return bool(self._state.initializations)

    def take_initializations(self) -> list[StateInitialization]:
        """What heartbeats have asked of the share coordinator since the last call."""
        taken, self._state.initializations = self._state.initializations, []
        return taken

    def initialized(
        self, group_id: str, keys: tuple[SharePartitionId, ...], now: Now
    ) -> Outcome[Record]:
        return operations.initialized(self._state, group_id, keys, now)

    def not_initialized(
        self, group_id: str, keys: Iterable[SharePartitionId], now: Now
    ) -> Outcome[Record]:
        return operations.not_initialized(self._state, group_id, keys, now)

    def begin_alter(
        self, request: AlterShareGroupOffsetsRequest, caller: Caller
    ) -> Outcome[Record]:
        return offset_changes.begin_alter(self._state, request, caller)

    def finish_alter(
        self,
        group_id: str,
        keys: tuple[SharePartitionId, ...],
        response: ProtocolMessage,
        caller: Caller,
    ) -> Outcome[Record]:
        return offset_changes.finish_alter(self._state, group_id, keys, response, caller)

    def begin_delete_offsets(
        self, request: DeleteShareGroupOffsetsRequest, caller: Caller
    ) -> Outcome[Record]:
        return offset_changes.begin_delete_offsets(self._state, request, caller)

    def begin_delete_group(self, group_id: str, caller: Caller) -> Outcome[Record]:
        return offset_changes.begin_delete_group(self._state, group_id, caller)

    def finish_delete_offsets(
        self, group_id: str, topic_ids: Iterable[UUID], response: ProtocolMessage, caller: Caller
    ) -> Outcome[Record]:
        return offset_changes.finish_delete_offsets(
            self._state, group_id, topic_ids, response, caller
        )

    def forget_topics(self, names: frozenset[str] | None) -> Outcome[Record]:
        """Topics do not exist any more, these or any."""
        return offset_changes.forget_topics(self._state, names)

    def unlock(self, group_id: str) -> None:
        """A change of offsets has failed."""
        offset_changes.unlock(self._state, group_id)
