"""AlterShareGroupOffsets: new start offsets for a share group without members."""

from typing import TYPE_CHECKING

from barnabas.broker.groups.coordination import coordination
from barnabas.broker.groups.share_groups import alter_offsets
from barnabas.broker.net.dispatch import Call
from barnabas.model.errors import Code
from barnabas.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.context import GroupsContext


async def handle(
    broker: "GroupsContext", request: AlterShareGroupOffsetsRequest, call: Call
) -> AlterShareGroupOffsetsResponse:
    if not request.group_id:
        code = Code.INVALID_GROUP_ID
        return AlterShareGroupOffsetsResponse(
            error_code=code, error_message=code.text, responses=[]
        )
    return await alter_offsets(broker, coordination(broker), request, call)
