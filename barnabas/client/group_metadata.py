"""What a consumer passes to a producer, so that a transaction can commit its offsets."""

from typing import NamedTuple


class GroupMetadata(NamedTuple):
    """Who commits offsets in a transaction: a group, and the member as it was when it read."""

    group_id: str
    generation: int = -1
    member_id: str = ""
    instance_id: str | None = None
