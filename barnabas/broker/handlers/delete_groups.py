"""DeleteGroups: deletes empty groups with their offsets."""

from typing import TYPE_CHECKING

from barnabas.broker.groups.coordination import Reply, coordination
from barnabas.broker.net.deferred_reply import DeferredReply
from barnabas.broker.net.dispatch import Call
from barnabas.model.errors import KafkaError
from barnabas.wire.codec import ProtocolMessage
from barnabas.wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.context import GroupsContext


def handle(broker: "GroupsContext", request: DeleteGroupsRequest, call: Call) -> Reply:
    """Each group separately, so that a log that refuses one does not delay another."""
    group_ids = list(dict.fromkeys(request.groups_names))
    if not group_ids:
        return DeleteGroupsResponse(results=[])
    gathered = _Gathered(len(group_ids))
    for group_id in group_ids:
        gathered.add(_delete(broker, group_id, call))
    return gathered.deferred


def _delete(broker: "GroupsContext", group_id: str, call: Call) -> Reply:
    try:
        groups = coordination(broker)
        if group_id in groups.shard_of(group_id).shares:
            return _delete_share_group(broker, group_id, call)
        return groups.run(
            group_id, lambda shard, caller, now: shard.delete([group_id], caller), call
        )
    except KafkaError as error:
        result = DeletableGroupResult(group_id=group_id, error_code=error.code)
        return DeleteGroupsResponse(results=[result])


def _delete_share_group(broker: "GroupsContext", group_id: str, call: Call) -> Reply:
    from barnabas.broker.groups.share_groups import delete_group

    deferred: DeferredReply[ProtocolMessage] = DeferredReply()
    groups = coordination(broker)

    async def delete() -> None:
        deferred.set(await delete_group(broker, groups, group_id, call))

    groups.start(delete())
    return deferred


class _Gathered:
    """One reply from several, when the last of them is ready."""

    def __init__(self, count: int) -> None:
        self.deferred: DeferredReply[ProtocolMessage] = DeferredReply()
        self._left = count
        self._results: list[DeletableGroupResult] = []

    def add(self, reply: Reply) -> None:
        if isinstance(reply, DeferredReply):
            reply.then(self._arrived)
        else:
            self._arrived(reply)

    def _arrived(self, response: ProtocolMessage) -> None:
        assert isinstance(response, DeleteGroupsResponse)
        self._results += response.results
        self._left -= 1
        if not self._left:
            self.deferred.set(DeleteGroupsResponse(results=self._results))
