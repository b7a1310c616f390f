"""DescribeConnections: the clients that are connected. An API of Barnabas for its own client
(docs/adr/0010)."""

from barnabas.wire.codec import Int16, Int32, Int64, ProtocolMessage, Struct, message, since


@message(api_key=20_010, versions="0-1", flexible="0+")
class DescribeConnectionsRequest(ProtocolMessage):
    """Each broker reports its own connections, the oldest first. v1: counts of each."""

    connections_max: Int32 = 1000


class DescribedConnection(Struct):
    """`client`: name and version of its software; empty: it did not say.

    `idle_ms`: since it last sent or received anything. `waiting`: a request waits for its reply.
    `reads`: topics of its fetch session, those that the client of this request may describe.
    `requests` and the fields after it: since the connection was opened; -1: not known. `errors`:
    requests that were refused, in whole or in part; `last_error`: the code of the last one.
    """

    client_id: str
    client: str
    peer: str
    principal: str
    listener: str
    idle_ms: Int64
    waiting: bool
    reads: list[str]
    requests: Int64 = since(1, default=-1, ignorable=True)
    bytes_in: Int64 = since(1, default=-1, ignorable=True)
    bytes_out: Int64 = since(1, default=-1, ignorable=True)
    errors: Int64 = since(1, default=-1, ignorable=True)
    last_error: str = since(1, default="", ignorable=True)


@message(api_key=20_010, versions="0-1", flexible="0+")
class DescribeConnectionsResponse(ProtocolMessage):
    """`count`: all connections, also those that were left out."""

    error_code: Int16 = 0
    broker_id: Int32 = -1
    count: Int32 = 0
    connections: list[DescribedConnection]
