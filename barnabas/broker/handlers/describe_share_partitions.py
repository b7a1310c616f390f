"""DescribeSharePartitions: what a share group has in flight here, for our own client.

Always: at most PARTITIONS_MAX partitions, texts of clients cut to TEXT_LENGTH_MAX; a broker without
share groups answers that there are none, and loads nothing for it.
"""

import asyncio
from typing import TYPE_CHECKING

from barnabas.broker.net.dispatch import Call
from barnabas.wire.messages.describe_share_partitions import (
    DescribedSharePartition,
    DescribeSharePartitionsRequest,
    DescribeSharePartitionsResponse,
    ShareClient,
    ShareFailure,
    ShareHolder,
    ShareOutcome,
)

if TYPE_CHECKING:
    from barnabas.broker.context import GroupsContext
    from barnabas.broker.share.partitions import LoadedShare
    from barnabas.broker.share.service import ShareService
    from barnabas.coordinators.share.share_view import ShareView, WindowHolder

PARTITIONS_MAX = 200
TEXT_LENGTH_MAX = 200
AT_ONCE = 20  # partitions in one turn of the loop


async def handle(
    broker: "GroupsContext", request: DescribeSharePartitionsRequest, call: Call
) -> DescribeSharePartitionsResponse:
    service = broker.share
    now_ms = broker.clock.wall_ms()
    if service is None:
        return DescribeSharePartitionsResponse(now_ms=now_ms, partitions=[])
    shares = [
        share
        for share in service.partitions.of_group(request.group_id)
        if share.machine is not None
        and (call.may_describe is None or call.may_describe(share.partition.name.topic))
    ]
    shares.sort(key=_in_flight, reverse=True)
    wanted = max(0, min(request.partitions_max, PARTITIONS_MAX))
    found: list[DescribedSharePartition] = []
    for number, share in enumerate(shares[:wanted]):
        if number % AT_ONCE == AT_ONCE - 1:
            await asyncio.sleep(0)
        if share.machine is not None and not share.dropped:
            found.append(_described(service, share))
    return DescribeSharePartitionsResponse(count=len(shares), now_ms=now_ms, partitions=found)


def _in_flight(share: "LoadedShare") -> int:
    return 0 if share.machine is None else share.machine.in_flight


def _described(service: "ShareService", share: "LoadedShare") -> DescribedSharePartition:
    from barnabas.coordinators.share.share_view import look

    assert share.machine is not None
    now = service.now()
    view: ShareView = look(share.machine, now.ms)
    group = share.key.group
    return DescribedSharePartition(
        topic=share.partition.name.topic,
        partition=share.key.partition,
        start_offset=view.start,
        in_flight=view.in_flight,
        limit=view.limit,
        acquired=view.acquired,
        available=view.available,
        delivery_limit=view.delivery_limit,
        delivered=view.delivered,
        redelivered=view.redelivered,
        known_ms=max(0, now.ms - share.loaded_ms),
        holder=[] if view.holder is None else [_holder(service, group, view.holder)],
        outcomes=[ShareOutcome(name=name, records=each) for name, each in view.counts.items()],
        failures=[
            ShareFailure(
                at_ms=each.wall_ms,
                cause=each.cause.value,
                first_offset=each.first,
                last_offset=each.last,
                attempts=each.attempts,
                client=_client(service, group, each.member),
                archived=each.archived,
            )
            for each in view.failures
        ],
    )


def _holder(service: "ShareService", group: str, holder: "WindowHolder") -> ShareHolder:
    return ShareHolder(
        offset=holder.offset,
        attempts=holder.attempts,
        client=_client(service, group, holder.member),
        held_ms=holder.held_ms if holder.member else -1,
        lock_ms=holder.lock_ms if holder.member else -1,
        backoff_ms=holder.backoff_ms if holder.backoff_ms else -1,
        writing=holder.writing,
    )


def _client(service: "ShareService", group: str, member: str) -> ShareClient:
    client_id, host = service.sessions.client_of(group, member)
    return ShareClient(
        member_id=member, client_id=client_id[:TEXT_LENGTH_MAX], host=host.removeprefix("/")
    )
