"""DescribeConnections: who is connected to this broker, for our own client.

Always: at most CONNECTIONS_MAX connections, texts of clients cut to TEXT_LENGTH_MAX, TOPICS_MAX
topics of each.
"""

from itertools import islice
from typing import TYPE_CHECKING

from barnabas.broker.net.dispatch import Call
from barnabas.wire.messages.describe_connections import (
    DescribeConnectionsRequest,
    DescribeConnectionsResponse,
    DescribedConnection,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker

CONNECTIONS_MAX = 1_000
TEXT_LENGTH_MAX = 200
TOPICS_MAX = 20


def handle(
    broker: "Broker", request: DescribeConnectionsRequest, call: Call
) -> DescribeConnectionsResponse:
    now_ms = broker.clock.monotonic_ms()
    reads = _topics_by_peer(broker, call)
    wanted = max(0, min(request.connections_max, CONNECTIONS_MAX))
    return DescribeConnectionsResponse(
        broker_id=broker.id,
        count=len(broker.connections),
        connections=[
            DescribedConnection(
                client_id=each.client_id[:TEXT_LENGTH_MAX],
                client=each.client,
                peer=each.peer,
                principal=str(each.principal)[:TEXT_LENGTH_MAX],
                listener=each.listener,
                idle_ms=max(0, now_ms - each.active_ms),
                waiting=each.waiting,
                reads=list(reads.get(each.peer, ())),
                requests=each.requests,
                bytes_in=each.bytes_in,
                bytes_out=each.bytes_out,
                errors=each.errors,
                last_error=each.last_error,
            )
            for each in islice(broker.connections, wanted)
        ],
    )


def _topics_by_peer(broker: "Broker", call: Call) -> dict[str, dict[str, None]]:
    """The topics of fetch sessions."""
    found: dict[str, dict[str, None]] = {}
    for session in broker.fetch_sessions.all():
        topics = found.setdefault(session.peer, {})
        for key, _ in session.wanted:
            if len(topics) >= TOPICS_MAX:
                break
            known = None if isinstance(key, str) else broker.topics.by_id(key)
            name = key if isinstance(key, str) else known.name if known is not None else None
            if name is None or name in topics:
                continue
            if call.may_describe is None or call.may_describe(name):
                topics[name] = None
    return found
