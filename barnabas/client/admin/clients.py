"""Which clients are connected to the brokers of a cluster.

Not here: members of groups (groups/).
"""

from typing import NamedTuple

from barnabas.client.cluster import ClusterClient
from barnabas.client.errors import check
from barnabas.client.groups.offered import offers
from barnabas.model.errors import Retriable
from barnabas.wire.messages.describe_connections import (
    DescribeConnectionsRequest,
    DescribeConnectionsResponse,
)

_SOON_MS = 3_000


class ConnectedClient(NamedTuple):
    """One connection to a broker. `reads`: topics of its fetch session.

    `requests`, the bytes of requests and replies, and `errors` (requests that were refused): since
    it was opened; -1: the broker does not count them.
    """

    broker: int
    client_id: str
    client: str  # its software; empty: it did not say
    peer: str
    principal: str
    listener: str
    idle_ms: int
    waiting: bool
    reads: tuple[str, ...]
    requests: int = -1
    bytes_in: int = -1
    bytes_out: int = -1
    errors: int = -1
    last_error: str = ""


class Connections(NamedTuple):
    """`total`: how many there are, also those that a broker left out."""

    total: int
    clients: list[ConnectedClient]


class GroupMember(NamedTuple):
    """A member of a group, as its coordinator knows it."""

    group: str
    client_id: str
    host: str
    topics: tuple[str, ...]


class ClientsAdmin:
    """Connections of clients."""

    _cluster: ClusterClient

    async def connections(self, *, per_broker: int = 1000) -> Connections | None:
        """The clients that are connected to the brokers that answer, the oldest connections first.

        None if no broker is Barnabas. Requires DESCRIBE of the cluster.
        """
        request = DescribeConnectionsRequest(connections_max=per_broker)
        found: list[ConnectedClient] = []
        total, offered = 0, False
        for broker in sorted((await self._cluster.retrying(self._cluster.refresh)).brokers):
            try:
                connection = await self._cluster.broker(broker)
                if not offers(connection, request.api_key):
                    continue
                answer = await connection.call(
                    request, DescribeConnectionsResponse, timeout_ms=_SOON_MS
                )
            except Retriable:
                continue
            check(answer.error_code, about=f"connections of broker {broker}")
            offered = True
            total += answer.count
            found += [
                ConnectedClient(
                    broker,
                    each.client_id,
                    each.client,
                    each.peer,
                    each.principal,
                    each.listener,
                    each.idle_ms,
                    each.waiting,
                    tuple(each.reads),
                    each.requests,
                    each.bytes_in,
                    each.bytes_out,
                    each.errors,
                    each.last_error,
                )
                for each in answer.connections
            ]
        return Connections(total, found) if offered else None
