"""A cluster: a connection per broker, fresh metadata, coordinators, and retries.

Written once over `Net`, which waits as asyncio does or as a thread does (aio/, blocking/).
Always: a Retriable error is retried with fresh metadata until the timeout of the call; if no
bootstrap server answers, one error says so at once. A request that any broker can answer goes to a
broker without outstanding requests. Threads of a blocking client may use it at the same time, so
code that walks the connections walks a copy.
Not here: what to ask (client/admin/admin.py, producer, consumer).
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Self, TypeVar

from barnabas.client.backoff import waits_ms
from barnabas.client.errors import check
from barnabas.client.metadata_snapshot import MetadataSnapshot, NewestLeaders
from barnabas.client.net import BrokerConnection, Net, SharedTask
from barnabas.client.sockets import Unreached
from barnabas.config.client import ClientConfig
from barnabas.config.kinds import Address, parse_address
from barnabas.model.errors import Code, Corrupt, InvalidRequest, KafkaError, Retriable
from barnabas.model.ids import TopicPartition
from barnabas.wire.codec import ProtocolMessage
from barnabas.wire.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from barnabas.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)

if TYPE_CHECKING:
    from ssl import SSLContext

    from barnabas.security.sasl.client_login import SaslLogin

M = TypeVar("M", bound=ProtocolMessage)
T = TypeVar("T")
DEFAULT_PORT = 9092
GROUP, TRANSACTION = 0, 1  # kinds of coordinators
_BOOTSTRAP = -1
_LOGIN = ("sasl.username", "sasl.jaas.config")
RENEWED_AFTER = 0.85  # of the time for which a login is valid; Kafka: 0.85 to 0.95
PRODUCE = "produce"  # `apart`: connections that a blocking producer's thread has to itself
_OVERDUE_MS = 1_000  # a broker that takes longer is asked for metadata only if no other is there


class ClusterClient:
    """Opens connections as they are needed. To be closed."""

    def __init__(self, config: ClientConfig, net: Net) -> None:
        self.config = config
        self.net = net
        self.timeout_ms = config.request_timeout_ms
        self._bootstrap = bootstrap_addresses(config.bootstrap_servers)
        self._connections: dict[tuple[int, str], BrokerConnection] = {}
        self._opening: dict[tuple[int, str], SharedTask[BrokerConnection]] = {}
        self._coordinators: dict[tuple[int, str], int] = {}
        self._view: MetadataSnapshot | None = None
        self._leaders = NewestLeaders()
        self._view_lock = net.lock()
        self._topics: dict[str, None] = {}
        self._failed_at: dict[Address, int] = {}  # when a connection could last not be opened
        self.reached = False  # some broker accepted a connection
        self._login = _login_of(config)
        self._tls = _tls_of(config)
        self._renew_at: dict[tuple[int, str], int] = {}  # logins that end, by connection

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for opening in list(self._opening.values()):
            opening.cancel()
        for connection in list(self._connections.values()):
            connection.close()
        self._connections.clear()

    # --- who leads what ---

    @property
    def known(self) -> MetadataSnapshot | None:
        """The metadata of the last response, if there is one."""
        return self._view

    async def view(self, topics: Iterable[str] = ()) -> MetadataSnapshot:
        """Metadata with these topics, or why they are missing; requested again only if needed."""
        self.net.check_owner()
        before = self._view
        missing = self.missing(topics)
        if before is not None and not missing:
            return before
        self._topics.update(dict.fromkeys(missing))
        return await self.refresh(unless_newer_than=None if missing else before)

    def missing(self, topics: Iterable[str]) -> list[str]:
        """The topics that the cached metadata does not have."""
        view = self._view
        # Asked for by another flow, whose metadata has not arrived yet: that is missing, too.
        return [
            name
            for name in topics
            if name not in self._topics or (view is not None and not view.shows(name))
        ]

    async def refresh(
        self, *, create: bool = False, unless_newer_than: MetadataSnapshot | None = None
    ) -> MetadataSnapshot:
        """New metadata of the topics asked for so far. `create`: missing topics are created.

        `unless_newer_than`: newer metadata that another flow has received is enough.
        """
        async with self._view_lock:
            newer = self._view is not None and self._view is not unless_newer_than
            if unless_newer_than is not None and newer:
                assert self._view is not None
                return self._view
            response = await self._metadata(list(self._topics), create=create)
            self._view = MetadataSnapshot(response, self._leaders)
            return self._view

    async def view_of(self, topics: list[str] | None) -> MetadataSnapshot:
        """The metadata of these topics as one broker sees it; None: of all."""
        return MetadataSnapshot(await self._metadata(topics))

    async def _metadata(
        self, topics: list[str] | None, *, create: bool = False
    ) -> MetadataResponse:
        request = MetadataRequest(
            topics=None if topics is None else [MetadataRequestTopic(name=name) for name in topics],
            allow_auto_topic_creation=create,
        )
        connection = await self.anyone()
        try:
            response = await connection.call(request, MetadataResponse, timeout_ms=self.timeout_ms)
        except Retriable as problem:
            if problem.code is not Code.NETWORK_EXCEPTION or self._view or self._login:
                raise
            hint = "if its listener requires a login, set security.protocol and sasl.mechanism"
            raise Retriable(problem.code, f"{problem.detail}; {hint}") from None
        check(response.error_code, about="metadata")
        return response

    def watch(self, topics: Iterable[str]) -> None:
        """Include these topics in later Metadata requests."""
        self._topics.update(dict.fromkeys(topics))

    # --- whom to ask ---

    async def anyone(self) -> BrokerConnection:
        """The open connection whose broker owes no answer, else the first broker that answers."""
        self.net.check_owner()
        silent_ms: dict[str | Address, int] = {}
        usable: list[BrokerConnection] = []
        for key, each in list(self._connections.items()):
            silence = each.silent_ms()
            for name in (each.peer, each.address):
                silent_ms[name] = max(silence, silent_ms.get(name, 0))
            if not each.closed and key[1] != PRODUCE and not self.is_due(key):
                usable.append(each)
        best = min(usable, key=lambda each: silent_ms[each.peer], default=None)
        if best is not None and silent_ms[best.peer] < _OVERDUE_MS:
            return best
        known = [broker.address for broker in self._view.brokers.values()] if self._view else []
        problems: dict[Address, KafkaError] = {}
        for address in sorted(
            dict.fromkeys([*known, *self._bootstrap]),
            key=lambda each: (silent_ms.get(each, 0) >= _OVERDUE_MS, self._failed_at.get(each, 0)),
        ):
            if best is not None and silent_ms.get(address, 0) >= _OVERDUE_MS:
                continue
            try:
                return await self._open((_BOOTSTRAP, str(address)), address)
            except Retriable as why:
                problems[address] = why
        if best is not None:
            return best
        first = next(iter(problems.values()))
        if self._view is None:
            said = "; ".join(why.detail for why in problems.values())
            raise Retriable(first.code, f"no broker at {said}. Start one, or set bootstrap.servers")
        raise first

    async def broker(self, broker: int, *, apart: str = "") -> BrokerConnection:
        """`apart`: a connection of its own, so that long waits on others do not delay it."""
        self.net.check_owner()
        connection = self._connections.get((broker, apart))
        if connection is not None and not connection.closed and not self.is_due((broker, apart)):
            return connection
        brokers = (await self.view()).brokers
        if broker not in brokers:
            raise Retriable(
                Code.BROKER_NOT_AVAILABLE,
                f"broker {broker} is not in the cluster's metadata: it is down or was removed",
            )
        return await self._open((broker, apart), brokers[broker].address)

    def connected(self, broker: int, *, apart: str = "") -> BrokerConnection | None:
        """The open connection, if there is one."""
        connection = self._connections.get((broker, apart))
        if connection is None or connection.closed or self.is_due((broker, apart)):
            return None
        return connection

    async def controller(self) -> BrokerConnection:
        return await self.broker((await self.view()).controller_id)

    async def leader(self, at: TopicPartition) -> BrokerConnection:
        return await self.broker((await self.view([at.topic])).leader(at))

    async def by_leader(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[int, list[TopicPartition]]:
        """Partitions by the broker that leads them."""
        partitions = list(partitions)
        view = await self.view({at.topic: None for at in partitions})
        groups: dict[int, list[TopicPartition]] = {}
        for at in partitions:
            groups.setdefault(view.leader(at), []).append(at)
        return groups

    async def coordinator(
        self, key: str, *, kind: int = GROUP, apart: str = "coordinator"
    ) -> BrokerConnection:
        """Of a group or a transactional id; looked up once, until `forget_coordinator`."""
        return await self.broker(await self.coordinator_id(key, kind=kind), apart=apart)

    def coordinator_connected(self, key: str, *, kind: int = GROUP) -> BrokerConnection | None:
        """The open connection to it, if there is one."""
        found = self._coordinators.get((kind, key))
        return None if found is None else self.connected(found, apart="coordinator")

    async def coordinator_id(self, key: str, *, kind: int = GROUP) -> int:
        found = self._coordinators.get((kind, key))
        if found is not None:
            return found
        connection = await self.anyone()
        response = await connection.call(
            FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
            if connection.version_of(10) >= 4
            else FindCoordinatorRequest(key=key, key_type=kind),
            FindCoordinatorResponse,
            timeout_ms=self.timeout_ms,
        )
        about = f"{'group' if kind == GROUP else 'transactional id'} {key!r}"
        for answer in response.coordinators:
            check(answer.error_code, answer.error_message, about=about)
            node = answer.node_id
            break
        else:
            check(response.error_code, response.error_message, about=about)
            node = response.node_id
        if node not in (await self.view()).brokers:
            await self.refresh()
        self._coordinators[kind, key] = node
        return node

    def forget_coordinator(self, key: str, *, kind: int = GROUP) -> None:
        """It answered that it is not the one, or not at all."""
        self._coordinators.pop((kind, key), None)

    # --- trying again ---

    async def retrying(
        self, attempt: Callable[[], Awaitable[T]], *, timeout_ms: int | None = None
    ) -> T:
        """The result of `attempt`, retried with fresh metadata until the time is up."""
        self.net.check_owner()
        limit_ms = self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        deadline = self.net.now_ms() + limit_ms
        for wait_ms in self.waits_ms():
            try:
                return await attempt()
            except Retriable:
                # A wrong address should be reported at once, not after the timeout.
                if not self.reached:
                    raise
                if self.net.now_ms() + wait_ms > deadline:
                    raise
                self._coordinators.clear()
                self.drop_closed()
            await self.net.sleep(wait_ms)
            try:
                await self.refresh()
            except Retriable:
                self.drop_closed()
        raise AssertionError("the waits never end")

    def waits_ms(self) -> Iterable[int]:
        return waits_ms(
            iter(self.net.chance, None),
            self.config.retry_backoff_ms,
            self.config.retry_backoff_max_ms,
        )

    def drop_closed(self) -> None:
        for key, each in list(self._connections.items()):
            if each.closed and not each.silent_ms():  # else it says whom not to ask
                self._connections.pop(key, None)

    async def _log_in(
        self, key: tuple[int, str], opened: BrokerConnection, login: "SaslLogin"
    ) -> None:
        from barnabas.client.security.login import log_in

        try:
            lifetime_ms = await log_in(
                opened, login, self.config.socket_connection_setup_timeout_ms
            )
        except BaseException:
            opened.close()
            raise
        if lifetime_ms:
            self._renew_at[key] = self.net.now_ms() + int(lifetime_ms * RENEWED_AFTER)

    def is_due(self, key: tuple[int, str]) -> bool:
        """Whether its login ends soon, and no request waits on it: then another one replaces it."""
        if not self._renew_at:
            return False
        renew_at, connection = self._renew_at.get(key), self._connections.get(key)
        if renew_at is None or connection is None or connection.silent_ms():
            return False
        if self.net.now_ms() < renew_at:
            return False
        del self._renew_at[key]
        connection.close()
        return True

    async def _open(self, key: tuple[int, str], address: Address) -> BrokerConnection:
        """A login goes on if the caller gives up: else an impatient caller is never connected."""
        if key not in self._opening:
            self._opening[key] = self.net.shared_connection()
        return await self._opening[key].result(lambda: self._connect(key, address))

    async def _connect(self, key: tuple[int, str], address: Address) -> BrokerConnection:
        there = self._connections.get(key)
        if there is not None and not there.closed:
            return there
        try:
            opened = await self.net.connect(
                address,
                client_id=self.config.client_id,
                timeout_ms=self.config.socket_connection_setup_timeout_ms,
                tls=self._tls,
            )
        except KafkaError as problem:
            self._failed_at[address] = self.net.now_ms()
            self.reached = self.reached or not isinstance(problem, Unreached)
            if isinstance(problem, Corrupt) and self._view is not None:
                # A broker was there before: its greeting was garbled on the way.
                raise Retriable(Code.CORRUPT_MESSAGE, problem.detail) from None
            raise
        self.reached = True
        if self._login is not None:
            await self._log_in(key, opened, self._login)
        self._failed_at.pop(address, None)
        self._connections[key] = opened
        return opened


def bootstrap_addresses(text: str) -> list[Address]:
    """HOST[:PORT] between commas."""
    found = []
    for part in text.split(","):
        part = part.strip()
        if part.count(":") == 0 or part.endswith("]"):
            part = f"{part}:{DEFAULT_PORT}"
        try:
            address = parse_address(part)
        except ValueError as problem:
            raise InvalidRequest(
                Code.INVALID_CONFIG, f"bootstrap server {part[:100]!r}: {problem}"
            ) from None
        if not address.host or not address.port:
            raise InvalidRequest(
                Code.INVALID_CONFIG, f"bootstrap server {part[:100]!r}: expected HOST:PORT"
            )
        found.append(address)
    return found


def _login_of(config: ClientConfig) -> "SaslLogin | None":
    if config.security_protocol == "PLAINTEXT" and not config.given.intersection(_LOGIN):
        return None  # nothing about logins is imported
    from barnabas.client.security.settings import login_of

    return login_of(config)


def _tls_of(config: ClientConfig) -> "SSLContext | None":
    if not config.security_protocol.endswith("SSL"):
        return None  # nothing about TLS is imported
    from barnabas.client.security.tls import tls_context

    return tls_context(config)
