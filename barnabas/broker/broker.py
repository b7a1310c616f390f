"""The whole broker: its parts, how it starts, how it stops.

In: ports, static settings, a keeper, or for a cluster a function that opens keeper sessions. Out:
a listener that answers, and a clean stop.
Always: everything that changes state runs on one event loop, so nothing here has a lock.
Not here: which real ports are used (main.py).
"""

import asyncio
import traceback
from collections.abc import Callable, Container, Iterable, Mapping
from secrets import randbelow
from typing import TYPE_CHECKING
from uuid import uuid4

from barnabas.broker.catalog import Catalog
from barnabas.broker.catalog_interface import AnyCatalog
from barnabas.broker.cluster_member import ClusterMember, LiveBroker, at_listener
from barnabas.broker.loop_heartbeat import LoopHeartbeat
from barnabas.broker.metrics import Counts
from barnabas.broker.net.buffers import Buffers
from barnabas.broker.net.connection import Connection
from barnabas.broker.net.dispatch import Call, Dispatcher
from barnabas.broker.net.fetch_sessions import FetchSessions
from barnabas.broker.net.file_descriptors import FileDescriptorBudget
from barnabas.broker.net.lanes import Lanes
from barnabas.broker.net.listener_context import ListenerContext
from barnabas.broker.net.listeners import OpenListeners
from barnabas.broker.net.refused_requests import RefusedRequests
from barnabas.broker.partition import Partition
from barnabas.broker.quota_settings import quota_configured
from barnabas.broker.storage.cleaner import Cleaner
from barnabas.broker.storage.housekeeping import Housekeeping
from barnabas.broker.storage.log_directory import OpenLogDirectory
from barnabas.broker.storage.moves import Moves
from barnabas.broker.storage.storage import Storage
from barnabas.broker.topic import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, Topics
from barnabas.config.broker import BrokerConfig
from barnabas.config.kinds import Address
from barnabas.config.resolve import Layers
from barnabas.keeper.keeper import Keeper
from barnabas.keeper.paths import GROUPS, USERS, uuid_text
from barnabas.log.directory.checkpoints import MetaProperties
from barnabas.model.errors import Code, KafkaError
from barnabas.model.ids import BrokerId
from barnabas.model.ports import Clock, Disk, Network
from barnabas.system.logs import Logger

if TYPE_CHECKING:
    from barnabas.broker.cluster.keeper_calls import Sessions
    from barnabas.broker.cluster.membership import ClusterMembership
    from barnabas.broker.groups.coordination import Coordination
    from barnabas.broker.replicas.roles import Replicas
    from barnabas.broker.requests.recompression import Recompression
    from barnabas.broker.security.authorizer import Authorizer
    from barnabas.broker.security.logins import Logins
    from barnabas.broker.security.quotas import ClientQuotas
    from barnabas.broker.share.service import ShareService
    from barnabas.broker.transactions.coordination import TransactionCoordination

FRAMES_BYTES_MAX = 256 * 1024 * 1024


class Broker:
    """One broker on one loop."""

    def __init__(
        self,
        settings: Mapping[str, str],
        clock: Clock,
        disk: Disk,
        network: Network,
        keeper: "Keeper | Sessions",
        log: Logger,
        open_files_max: int = 4096,
        host_name: Callable[[], str] = lambda: "localhost",
    ) -> None:
        """`keeper`: for a lone broker, its keeper; for a broker in a cluster, what opens a
        session."""
        self.clock = clock
        self.disk = disk
        self.log = log
        self.loop = asyncio.get_running_loop()
        self.static = settings
        self.descriptors = FileDescriptorBudget(open_files_max, disk.open_files)
        self._metrics: asyncio.Server | None = None
        self.layers = Layers(settings)
        self.config = BrokerConfig(self.layers)
        self.id = self.config.node_id
        self.counts = Counts()
        self._refusals = RefusedRequests(log, self.loop)
        self.topics = Topics()
        self.connections: dict[Connection, None] = {}
        self.fetch_sessions = FetchSessions(
            self.config.max_incremental_fetch_session_cache_slots, lambda: randbelow(2**31 - 1) + 1
        )
        self.dispatcher = Dispatcher(self)
        self.authorizer = self._authorizer()
        self.quotas: ClientQuotas | None = None  # as long as a client has a quota
        self.cluster: ClusterMembership | None = None
        bytes_max = self.config.queued_max_request_bytes
        self._context = ListenerContext(
            self.dispatcher,
            self._closed,
            self.failed,
            Lanes(self.loop),
            Buffers(bytes_max if bytes_max > 0 else FRAMES_BYTES_MAX),
            self.config.socket_request_max_bytes,
        )
        self.listeners = OpenListeners(self, network, self._context, host_name)
        self.catalog: AnyCatalog = self._catalog(keeper)
        self.logins: Logins | None = None  # if a listener has logins
        self.heartbeat = LoopHeartbeat(clock, self.loop, log)
        self.housekeeping = Housekeeping(self, self.listeners.contexts)
        self.cleaner = Cleaner(self)
        self.recompression: Recompression | None = None  # created when a topic first needs it
        self.moves = Moves(self)
        self.replicas: Replicas | None = None  # in a cluster
        self.coordination: Coordination | None = None  # created for the first group request
        self.transactions: TransactionCoordination | None = None  # created when first used
        self.share: ShareService | None = None  # created when first used
        self._to_load: list[asyncio.Handle] = []
        # The program that runs the broker stops it when this is set.
        self.stopping = asyncio.Event()
        self.failure = ""
        self.cluster_id = ""
        self.logs = Storage(disk, log, self._log_directory_failed)
        self._close_logs = False  # whether closing them may be recorded as a clean stop
        self.host = ""
        self.port = 0

    # Starting and stopping

    def _catalog(self, keeper: "Keeper | Sessions") -> AnyCatalog:
        if not callable(keeper):
            return Catalog(self, keeper)
        from barnabas.broker.cluster.catalog import ClusterCatalog
        from barnabas.broker.cluster.membership import ClusterMembership

        self.cluster = ClusterMembership(self, keeper)
        return ClusterCatalog(self, self.cluster)

    def _authorizer(self) -> "Authorizer | None":
        if not self.config.authorizer_class_name:
            return None
        from barnabas.broker.security.authorizer import Authorizer

        return Authorizer(self)

    async def join(self) -> None:
        """Start, alone or in the cluster; when this returns, the broker answers."""
        if self.cluster is None:
            self.start()
        else:
            await self.cluster.start()

    def start(self) -> None:
        """Start alone: open the logs, then the listener; when this returns, the broker answers."""
        catalog = self.catalog
        assert isinstance(catalog, Catalog), "in a cluster, call join()"
        self.cluster_id = catalog.load_cluster_id(new_id())
        catalog.load_settings()
        if self.authorizer is not None:
            self.authorizer.take_all(catalog.at_start(self.authorizer.read))
        self.open_logs()
        catalog.load_topics()
        self._close_logs = True  # after a crash too: the new leader epochs are in the logs
        self.logs.forget_gone()
        if self.config.has_logins:
            from barnabas.broker.security.logins import Logins, read_login_secret

            self.logins = Logins(self, catalog.at_start(read_login_secret))
        self.listen()
        # After the first replies, in slices; until then, requests to coordinators get a retriable
        # error.
        if self.topics.get(OFFSETS_TOPIC) is not None:
            self._to_load.append(self.loop.call_soon(self._load_groups))
        if self.topics.get(TRANSACTIONS_TOPIC) is not None:
            self._to_load.append(self.loop.call_soon(self._load_transactions))

    def open_logs(self) -> None:
        """The settings in the keeper and the id of this broker are known."""
        self.layers = self.catalog.layers(self.static)
        self.config = BrokerConfig(self.layers)
        directories = self.config.directories
        self.logs.open(
            directories,
            lambda: MetaProperties(self.cluster_id, self.id, new_id()),
            self.catalog.log_config_of,
            self.descriptors.segments_max // len(directories),
        )
        # In a cluster, records that a crash destroyed are copied from other replicas.
        clean = all(log_directory.logs.clean for log_directory in self.logs.log_directories)
        self._close_logs = clean or self.cluster is not None

    def listen(self) -> None:
        for kind, name in self.catalog.entities:
            quota_configured(self, kind, name)
        self.heartbeat.start()
        self.housekeeping.start()
        self.cleaner.start()
        self.listeners.open()
        first = self.config.listeners[0].name
        advertised = self.listeners.advertised
        self.host, self.port = advertised.get(first) or next(iter(advertised.values()))

    def _load_groups(self) -> None:
        from barnabas.broker.groups.coordination import coordination

        coordination(self)

    def _load_transactions(self) -> None:
        from barnabas.broker.transactions.coordination import transaction_coordination

        transaction_coordination(self)

    async def start_metrics(self) -> None:
        address = self.config.metrics_listen
        if address is not None:
            from barnabas.broker.metrics import page
            from barnabas.broker.metrics_http import serve

            self._metrics = await serve(lambda: page(self), address.host, address.port)
            host, port = self._metrics.sockets[0].getsockname()[:2]
            self.log.info("metrics served", at=f"http://{Address(host, port)}/metrics")

    def nodes(self, listener: str) -> list[ClusterMember]:
        """The live brokers, as clients of this listener see them: those that have it too. Empty:
        the listener between brokers."""
        if self.cluster is None or not self.cluster.members:
            own = LiveBroker(BrokerId(self.id), self.config.broker_rack, self.listeners.advertised)
            brokers: Iterable[LiveBroker] = [own]
        else:
            brokers = self.cluster.members.values()
        return at_listener(brokers, listener or self.config.between_brokers)

    @property
    def controller_id(self) -> int:
        """On a lone broker, its own id; -1 if there is no controller."""
        if self.cluster is None:
            return self.id
        controller = self.cluster.controller_id
        return -1 if controller is None else controller

    def offline(self, partition: Partition, live: Container[int]) -> list[int]:
        """Its replicas that are unreachable; `live`: the brokers that the client can connect to."""
        if self.cluster is None:
            return [] if partition.is_open else [partition.leader]
        return [each for each in partition.replicas if each not in live]

    def leader_error(self, partition: Partition, live: Container[int], version: int) -> int:
        """0, or why a client that can connect to the brokers in `live` cannot use the leader.

        `version`: of Metadata, which has LISTENER_NOT_FOUND since 6.
        """
        leader = partition.leader
        if leader in live:
            return 0
        if leader < 0:
            return Code.LEADER_NOT_AVAILABLE
        members = {self.id: None} if self.cluster is None else self.cluster.members
        if leader not in members:  # it has just left: the next leader is not elected yet
            return 0
        return Code.LISTENER_NOT_FOUND if version >= 6 else Code.LEADER_NOT_AVAILABLE

    @property
    def request_buffer_bytes(self) -> int:
        return self._context.buffers.bytes_out

    async def stop(self) -> None:
        """Refuse new connections, finish running requests, sync the logs, and record a clean stop.

        Also called after a start that failed at any point.
        """
        if self.cluster is not None:
            await self.cluster.leave()
        self.listeners.close()
        if self.logins is not None:
            self.logins.close()
        await self.dispatcher.finish()
        if self.authorizer is not None:
            await self.authorizer.stop()
        self._refusals.flush()
        if self.quotas is not None:
            self.quotas.stop()
        for connection in tuple(self.connections):
            connection.close("")
        if self._metrics is not None:
            self._metrics.close()
        for loading in self._to_load:
            loading.cancel()
        if self.coordination is not None:
            self.coordination.stop()
        if self.transactions is not None:
            self.transactions.stop()
        if self.share is not None:
            self.share.stop()
        if self.recompression is not None:
            self.recompression.stop()
        if self.cluster is not None:
            await self.cluster.stop_replicas()
        await self.moves.stop()
        await self.cleaner.stop()
        await self.housekeeping.stop()
        await self.logs.stop()
        try:
            if self._close_logs and not self.failure:
                self._close_logs = False  # once: after a failed sync, another one would do nothing
                self.logs.close()
        finally:
            self.catalog.close()
            if self.cluster is not None:
                await self.cluster.close()
            self.heartbeat.stop()

    def _log_directory_failed(self, log_directory: OpenLogDirectory) -> None:
        """Its partitions are offline; without any log directory the broker stops."""
        for topic in self.topics:
            for partition in topic.partitions:
                if partition.name in log_directory.logs.logs:
                    partition.fail(log_directory.failure)
        if self.replicas is not None:
            self.replicas.disk_failed(list(log_directory.logs.logs))
        if not self.logs.online():
            self.abort("no log directory is online")

    def abort(self, reason: str) -> None:
        """The broker cannot continue: log the reason and stop."""
        self.failure = reason
        self.log.error("broker stopping: fatal error", reason=reason)
        self.stopping.set()

    def reconfigure(self) -> None:
        """Dynamic settings have changed: apply them everywhere."""
        self.layers = self.catalog.layers(self.static)
        self.config = BrokerConfig(self.layers)
        for topic in self.topics:
            self.catalog.apply(topic)

    def entity_configured(self, kind: str, name: str) -> None:
        """The settings of a group, a user, or a subscription to client metrics have changed."""
        if kind == USERS and self.logins is not None:
            self.logins.users.changed()
        if kind == GROUPS and self.coordination is not None:
            self.coordination.group_configured(name)
        if kind == GROUPS and self.share is not None:
            self.share.group_configured(name)
        quota_configured(self, kind, name)

    # Connections

    def _closed(self, connection: Connection, reason: str) -> None:
        self.connections.pop(connection, None)
        self.listeners.closed(connection.host)
        if self.quotas is not None:
            self.quotas.closed(connection)
        if self.share is not None:
            self.share.closed(connection)
        if reason:
            self.counts.connections_broken += 1
            self.log.warning(
                "connection closed",
                peer=connection.peer,
                client=connection.client_id,
                reason=reason,
            )

    def failed(self, connection: Connection, error: Exception) -> None:
        """An internal error: it closes this one connection, and is logged with a traceback."""
        self.counts.failures += 1
        self.log.error(
            "request failed",
            peer=connection.peer,
            error=repr(error),
            trace="".join(traceback.format_exception(error)),
        )
        connection.close("the broker failed on this request")

    def refused(self, event: str, call: Call, error: KafkaError, **values: object) -> None:
        """A valid request that was refused."""
        self.counts.refused += 1
        connection = call.connection
        connection.errors += 1
        connection.last_error = error.code.name
        self._refusals.add(event, connection.peer, connection.client_id, error, values)

    def logged_in(self, connection: Connection, mechanism: str) -> None:
        self.counts.logins += 1
        if self.logins is not None:
            self.logins.succeeded(connection, mechanism)

    def login_failed(self, connection: Connection, error: KafkaError, mechanism: str) -> None:
        self.counts.logins_failed += 1
        values: dict[str, object] = {"listener": connection.listener, "mechanism": mechanism}
        self._refusals.add("login failed", connection.peer, connection.client_id, error, values)


def new_id() -> str:
    """A random id in Kafka's format."""
    return uuid_text(uuid4())
