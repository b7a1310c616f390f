"""ListGroups: all groups, or those in certain states or of certain types."""

from typing import TYPE_CHECKING

from barnabas.broker.groups.coordination import Reply, coordination
from barnabas.broker.net.dispatch import Call
from barnabas.model.errors import KafkaError
from barnabas.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from barnabas.broker.context import GroupsContext


def handle(broker: "GroupsContext", request: ListGroupsRequest, call: Call) -> Reply:
    return coordination(broker).look(lambda: _answer(broker, request))


def _answer(broker: "GroupsContext", request: ListGroupsRequest) -> ListGroupsResponse:
    try:
        shards = coordination(broker).shards()
    except KafkaError as error:
        return ListGroupsResponse(error_code=error.code, groups=[])
    states = {state.lower() for state in request.states_filter}
    types = {type_.lower() for type_ in request.types_filter}
    return ListGroupsResponse(
        error_code=0,
        groups=[
            ListedGroup(
                group_id=group.id,
                protocol_type=group.protocol_type,
                group_state=group.state.value,
                group_type=group.type,
            )
            for shard in shards
            for group in shard.groups()
            if (not types or group.type in types)
            and (not states or group.state.value.lower() in states)
        ],
    )
