"""Finds the group that a request about one kind of group describes, as ConsumerGroupDescribe does.

In: the id of a group, and the kind. Out: the group, or a KafkaError that says why there is none.
Not here: what is described (broker/handlers/).
"""

from typing import TYPE_CHECKING, TypeVar

from barnabas.broker.groups.coordination import coordination
from barnabas.coordinators.groups.replies import not_of_kind
from barnabas.model.errors import Code, InvalidRequest

if TYPE_CHECKING:
    from barnabas.broker.context import GroupsContext
    from barnabas.coordinators.groups.consumer.group import ConsumerGroup
    from barnabas.coordinators.groups.share.group import ShareGroup
    from barnabas.coordinators.groups.streams.group import StreamsGroup

G = TypeVar("G", bound="ConsumerGroup | ShareGroup | StreamsGroup")


def find_group(broker: "GroupsContext", group_id: str, kind: type[G]) -> G:
    if not group_id:
        raise InvalidRequest(Code.INVALID_GROUP_ID, "the group id is empty")
    group = coordination(broker).shard_of(group_id).group(group_id)
    if isinstance(group, kind):
        return group
    raise not_of_kind(kind.type, group_id, None if group is None else group.type)
