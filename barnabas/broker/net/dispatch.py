"""Decodes a frame, calls its handler, and encodes the response.

In: one request frame of one connection. Out: the parts of its reply, now or later, or none.
Always: a frame that cannot be decoded closes its connection, and no other.
Not here: the responses themselves (handlers/).
"""

import asyncio
from collections.abc import Callable, Coroutine
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from msgspec import Struct

from barnabas.broker.cluster_member import PEER
from barnabas.broker.net.connection import Connection
from barnabas.broker.net.deferred_reply import DeferredReply
from barnabas.broker.net.lanes import Lane
from barnabas.broker.net.listener_context import Parts
from barnabas.model.errors import Code, InvalidRequest, KafkaError, Retriable
from barnabas.security.principal import ANONYMOUS
from barnabas.wire.apis import API_VERSIONS, APIS
from barnabas.wire.codec import ProtocolMessage
from barnabas.wire.frames import RequestHeader, read_request_header, response_parts

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker

# The module of handlers/ for each API. APIs that are not listed are not advertised.
HANDLERS = {
    0: "produce",
    1: "fetch",
    2: "list_offsets",
    3: "metadata",
    4: "leader_and_isr",
    5: "stop_replica",
    6: "update_metadata",
    7: "controlled_shutdown",
    8: "offset_commit",
    9: "offset_fetch",
    10: "find_coordinator",
    11: "join_group",
    12: "heartbeat",
    13: "leave_group",
    14: "sync_group",
    15: "describe_groups",
    16: "list_groups",
    17: "sasl_handshake",
    18: "api_versions",
    19: "create_topics",
    20: "delete_topics",
    21: "delete_records",
    22: "init_producer_id",
    23: "offset_for_leader_epoch",
    24: "add_partitions_to_txn",
    25: "add_offsets_to_txn",
    26: "end_txn",
    27: "write_txn_markers",
    28: "txn_offset_commit",
    29: "describe_acls",
    30: "create_acls",
    31: "delete_acls",
    32: "describe_configs",
    33: "alter_configs",
    34: "alter_replica_log_dirs",
    35: "describe_log_dirs",
    36: "sasl_authenticate",
    37: "create_partitions",
    38: "create_delegation_token",
    39: "renew_delegation_token",
    40: "expire_delegation_token",
    41: "describe_delegation_token",
    42: "delete_groups",
    43: "elect_leaders",
    44: "incremental_alter_configs",
    45: "alter_partition_reassignments",
    46: "list_partition_reassignments",
    47: "offset_delete",
    48: "describe_client_quotas",
    49: "alter_client_quotas",
    50: "describe_user_scram_credentials",
    51: "alter_user_scram_credentials",
    56: "alter_partition",
    60: "describe_cluster",
    61: "describe_producers",
    64: "unregister_broker",
    65: "describe_transactions",
    66: "list_transactions",
    68: "consumer_group_heartbeat",
    69: "consumer_group_describe",
    74: "list_config_resources",
    75: "describe_topic_partitions",
    76: "share_group_heartbeat",
    77: "share_group_describe",
    78: "share_fetch",
    79: "share_acknowledge",
    83: "initialize_share_group_state",
    84: "read_share_group_state",
    85: "write_share_group_state",
    86: "delete_share_group_state",
    87: "read_share_group_state_summary",
    88: "streams_group_heartbeat",
    89: "streams_group_describe",
    90: "describe_share_group_offsets",
    91: "alter_share_group_offsets",
    92: "delete_share_group_offsets",
    20_000: "describe_group_history",
    20_001: "describe_logs",
    20_002: "describe_broker",
    20_003: "replicas_failed",
    20_004: "refresh_settings",
    20_005: "describe_replicas",
    20_006: "describe_transaction_history",
    20_007: "describe_denials",
    20_008: "commit_transaction_group",
    20_009: "describe_transaction_group",
    20_010: "describe_connections",
    20_011: "describe_share_partitions",
}
# Requests between brokers: never advertised, and unknown to a lone broker.
BETWEEN_BROKERS = (4, 5, 6, 7, 56, 20_003, 20_004, 20_005)
# Accepted by any broker of a cluster and answered by the controller (broker/cluster/forwarding.py).
FORWARDED = (19, 20, 33, 37, 43, 44, 45, 46, 49, 51, 64)
# A broker that has just joined cannot answer these before it knows its cluster.
_NEEDS_VIEW = (3, 10, 60, 75)
PRODUCE = 0
_DATA = (PRODUCE, 1, 78)  # and Fetch, ShareFetch
FINISH_S_MAX = 5.0


class _NoConnection:
    """Replaces the connection when a broker calls itself."""

    peer = "itself:0"
    host = "itself"
    listener = ""
    principal = ANONYMOUS
    client_id = last_error = ""
    errors = 0

    def close(self, reason: str) -> None:
        """After an internal error, as for a connection."""


NO_CONNECTION = cast(Connection, _NoConnection())


class Call(Struct, frozen=True):
    """The client of a request, and the version."""

    version: int
    connection: Connection
    client_id: str
    may_describe: Callable[[str], bool] | None = None  # which topics; None: all
    may_create: Callable[[str], bool] | None = None  # the same


class Route(NamedTuple):
    """The decoder and the handler for one API and version."""

    decode: Callable[[memoryview, int, int], Any]
    handle: Callable[["Broker", Any, Call], Any]
    lane: Lane
    counter: list[int]


class Dispatcher:
    """Called by connections, once per frame."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._routes: dict[tuple[int, int], Route] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.requests: dict[int, list[int]] = {key: [0] for key in HANDLERS}
        # Wraps each handler when its route is looked up: faults of barnabas.testing.
        self.wrap: Callable[[int, Callable[..., Any]], Callable[..., Any]] | None = None

    def __call__(
        self, connection: Connection, frame: memoryview
    ) -> Parts | DeferredReply[Parts] | None:
        header = read_request_header(frame)
        key, version = header.api_key, header.api_version
        route = self._routes.get((key, version))
        if route is None:
            if key == API_VERSIONS and version > APIS[key].max_version:
                return self._unknown_api_versions(header)
            route = self._find_route(key, version)
        decode, handle, lane, counter = route
        counter[0] += 1
        connection.lane = lane
        connection.client_id = client_id = header.client_id or ""
        request = decode(frame, version, header.body_position)
        answer = handle(self._broker, request, Call(version, connection, client_id))
        if isinstance(answer, ProtocolMessage):
            return response_parts(key, version, header.correlation_id, answer)
        if answer is None:
            return None
        if isinstance(answer, DeferredReply):
            return self._framed(answer, connection, header)
        return self._run(answer, connection, header)

    async def answer(self, request: ProtocolMessage, version: int) -> ProtocolMessage:
        """A request of this broker to itself, without a connection.

        It fails as it would over a connection: the caller gets a KafkaError and may retry.
        """
        try:
            return await self._answer(request, version)
        except KafkaError:
            raise
        except Exception as error:
            self._broker.failed(NO_CONNECTION, error)
            raise Retriable(
                Code.UNKNOWN_SERVER_ERROR, f"{type(request).__name__} to itself failed: {error}"
            ) from error

    async def _answer(self, request: ProtocolMessage, version: int) -> ProtocolMessage:
        key = request.api_key
        route = self._routes.get((key, version)) or self._find_route(key, version)
        route.counter[0] += 1
        call = Call(version, NO_CONNECTION, f"{PEER}{self._broker.id}")
        answer = route.handle(self._broker, request, call)
        if isinstance(answer, DeferredReply):
            future = asyncio.get_running_loop().create_future()
            answer.then(lambda response: None if future.done() else future.set_result(response))
            answer = future
        response = answer if isinstance(answer, ProtocolMessage) else await answer
        assert isinstance(response, ProtocolMessage)
        return response

    async def finish(self) -> None:
        """Wait for the requests in progress, and for those that follow them."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + FINISH_S_MAX
        while self._tasks and (left := deadline - loop.time()) > 0:
            await asyncio.wait(self._tasks, timeout=left)

    def _find_route(self, key: int, version: int) -> Route:
        name = HANDLERS.get(key)
        cluster = self._broker.cluster
        if name is None or (cluster is None and key in BETWEEN_BROKERS):
            raise InvalidRequest(
                Code.UNSUPPORTED_VERSION, f"API key {key} is not supported by this broker"
            )
        known = APIS[key]
        if not known.min_version <= version <= known.max_version:
            raise InvalidRequest(
                Code.UNSUPPORTED_VERSION,
                f"{known.name} version {version}; this broker supports"
                f" {known.min_version} to {known.max_version}",
            )
        if cluster is not None and key == PRODUCE and not cluster.ready.is_set():
            # It knows no topic yet. Were each batch refused on its own, a later one could be the
            # first to be taken; without the connection, the producer sends all again in order.
            raise Retriable(Code.BROKER_NOT_AVAILABLE, "this broker has not joined its cluster yet")
        lane = Lane.DATA if key in _DATA else Lane.CONTROL
        handle = handler(name).handle
        if cluster is not None and key in FORWARDED:
            handle = cluster.forwarding.forwarded(handle)
        quotas = self._broker.quotas
        if quotas is not None:
            handle = quotas.limited_mutations(key, handle)
        if self._broker.authorizer is not None:
            from barnabas.broker.authorization.table import authorized

            # Before it is forwarded, because only this broker knows the client; but not before
            # this broker knows the topics, because a check of an unknown id would miss one.
            handle = authorized(key, handle)
        if cluster is not None and key in _NEEDS_VIEW:
            handle = cluster.forwarding.when_ready(handle)
        decode: Callable[[memoryview, int, int], Any] = known.request.decode
        if quotas is not None:
            decode, handle = quotas.limited(key, decode, handle)
        if self.wrap is not None:
            handle = self.wrap(key, handle)
        route = Route(decode, handle, lane, self.requests[key])
        self._routes[key, version] = route
        return route

    def forget_routes(self) -> None:
        """What wraps handlers has changed: wrap them again when they are next used."""
        self._routes.clear()

    def _unknown_api_versions(self, header: RequestHeader) -> Parts:
        """A newer client asks for our versions: answer in version 0, which all clients can read."""
        response = handler("api_versions").unsupported()
        return response_parts(API_VERSIONS, 0, header.correlation_id, response)

    def _run(
        self, answer: Coroutine[Any, Any, Any], connection: Connection, header: RequestHeader
    ) -> DeferredReply[Parts]:
        """A request that takes a while delays the later ones of its connection."""
        deferred: DeferredReply[Parts] = DeferredReply()
        connection.hold()

        async def finish() -> None:
            try:
                response = await answer
                if isinstance(response, DeferredReply):
                    # Only the reply is still missing: the next request need not wait for it.
                    connection.release()
                    self._framed(response, connection, header).then(deferred.set)
                    return
                parts: Parts = []  # acks=0: the producer gets no reply
                if response is not None:
                    parts = response_parts(
                        header.api_key, header.api_version, header.correlation_id, response
                    )
            except KafkaError as error:
                connection.close(str(error))
            except Exception as error:
                self._broker.failed(connection, error)
            else:
                connection.release()
                deferred.set(parts)

        self.keep(asyncio.get_running_loop().create_task(finish()))
        return deferred

    def _framed(
        self, answer: DeferredReply[Any], connection: Connection, header: RequestHeader
    ) -> DeferredReply[Parts]:
        framed: DeferredReply[Parts] = DeferredReply()
        framed.cancelled = answer.cancelled

        def frame(response: ProtocolMessage) -> None:
            try:
                parts = response_parts(
                    header.api_key, header.api_version, header.correlation_id, response
                )
            except Exception as error:  # the code that sets the reply may have others to set
                self._broker.failed(connection, error)
            else:
                framed.set(parts)

        answer.then(frame)
        return framed

    def keep(self, task: asyncio.Task[None]) -> None:
        """Until it is done: the loop alone would not keep a reference."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def handler(name: str) -> ModuleType:
    return import_module(f"barnabas.broker.handlers.{name}")
