"""Where a group's offsets are: the partition of __consumer_offsets, and the formula."""

from typing import TYPE_CHECKING

from barnabas.model.errors import KafkaError

if TYPE_CHECKING:
    from barnabas.client.blocking.admin import Admin


def offsets_partition(admin: "Admin", group: str) -> str:
    """As `__consumer_offsets-12 = hash("billing") % 50`; empty if the topic cannot be seen.

    The leader of that partition is the coordinator. The hash is Java's of the name, without sign.
    """
    from barnabas.coordinators.groups.records import partition_of
    from barnabas.coordinators.record_text import OFFSETS_TOPIC

    try:
        count = len(admin.topic(OFFSETS_TOPIC).partitions)
    except KafkaError:
        return ""
    return f'{OFFSETS_TOPIC}-{partition_of(group, count)} = hash("{group}") % {count}'
