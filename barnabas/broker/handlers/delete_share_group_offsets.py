"""DeleteShareGroupOffsets: a share group without members forgets topics."""

from typing import TYPE_CHECKING

from barnabas.broker.groups.coordination import coordination
from barnabas.broker.groups.share_groups import delete_offsets
from barnabas.broker.net.dispatch import Call
from barnabas.model.errors import Code
from barnabas.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.context import GroupsContext


async def handle(
    broker: "GroupsContext", request: DeleteShareGroupOffsetsRequest, call: Call
) -> DeleteShareGroupOffsetsResponse:
    if not request.group_id:
        code = Code.INVALID_GROUP_ID
        return DeleteShareGroupOffsetsResponse(
            error_code=code, error_message=code.text, responses=[]
        )
    return await delete_offsets(broker, coordination(broker), request, call)
