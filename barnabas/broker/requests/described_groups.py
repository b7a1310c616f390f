"""Describes groups of one kind, as ConsumerGroupDescribe, ShareGroupDescribe and
StreamsGroupDescribe do.

In: a request, the kind, and two functions: one describes a group, one says why there is none.
Out: the descriptions, in the order of the request.
Not here: what is described (broker/handlers/).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from barnabas.broker.groups.coordination import coordination
from barnabas.broker.requests.authorized_operations import GROUP_OPERATIONS, NOT_ASKED
from barnabas.coordinators.groups.replies import not_of_kind
from barnabas.model.errors import Code, InvalidRequest, KafkaError

if TYPE_CHECKING:
    from barnabas.broker.context import GroupsContext
    from barnabas.coordinators.groups.consumer.group import ConsumerGroup
    from barnabas.coordinators.groups.share.group import ShareGroup
    from barnabas.coordinators.groups.streams.group import StreamsGroup
    from barnabas.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
    from barnabas.wire.messages.share_group_describe import ShareGroupDescribeRequest
    from barnabas.wire.messages.streams_group_describe import StreamsGroupDescribeRequest

    DescribeRequest = (
        ConsumerGroupDescribeRequest | ShareGroupDescribeRequest | StreamsGroupDescribeRequest
    )

G = TypeVar("G", bound="ConsumerGroup | ShareGroup | StreamsGroup")
D = TypeVar("D")


def describe_groups(
    broker: "GroupsContext",
    request: "DescribeRequest",
    kind: type[G],
    describe: Callable[["GroupsContext", G, int], D],
    refused: Callable[[str, Code, str | None], D],
) -> list[D]:
    """`describe` also gets the authorized operations."""
    operations = GROUP_OPERATIONS if request.include_authorized_operations else NOT_ASKED

    def described(group_id: str) -> D:
        try:
            group = _find_group(broker, group_id, kind)
        except KafkaError as error:
            return refused(group_id, error.code, error.detail)
        return describe(broker, group, operations)

    return [described(group_id) for group_id in request.group_ids]


def _find_group(broker: "GroupsContext", group_id: str, kind: type[G]) -> G:
    if not group_id:
        raise InvalidRequest(Code.INVALID_GROUP_ID, "the group id is empty")
    group = coordination(broker).shard_of(group_id).group(group_id)
    if isinstance(group, kind):
        return group
    raise not_of_kind(kind.type, group_id, None if group is None else group.type)
