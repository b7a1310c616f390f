"""What a share group has in flight: asks the brokers that lead its partitions.

A flow over `Net`. Only Barnabas has this request; other brokers report nothing.
"""

from barnabas.client.cluster import ClusterClient
from barnabas.client.errors import check
from barnabas.client.groups.offered import offers
from barnabas.model.errors import Retriable
from barnabas.wire.messages.describe_share_partitions import (
    DescribedSharePartition,
    DescribeSharePartitionsRequest,
    DescribeSharePartitionsResponse,
)

_SOON_MS = 3_000


async def share_partitions(
    cluster: ClusterClient, group: str
) -> tuple[DescribedSharePartition, ...]:
    """By topic and partition; of brokers that do not answer soon, none."""
    request = DescribeSharePartitionsRequest(group_id=group)
    found: list[DescribedSharePartition] = []
    for broker in sorted((await cluster.view()).brokers):
        try:
            connection = await cluster.broker(broker)
            if not offers(connection, request.api_key):
                continue
            answer = await connection.call(
                request, DescribeSharePartitionsResponse, timeout_ms=_SOON_MS
            )
        except Retriable:
            continue
        check(answer.error_code, answer.error_message, about=f"share group {group!r}")
        found += answer.partitions
    return tuple(sorted(found, key=lambda one: (one.topic, one.partition)))
