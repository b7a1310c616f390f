"""This broker's membership in its cluster: its session, id and epoch, and the other brokers.

In: sessions of the keeper, UpdateMetadata. Out: a registered broker that knows the cluster.
Always: no two live brokers have one id; a broker whose session has expired registers again, with
a new epoch, before it accepts requests of the controller again.
Not here: what the controller decides (broker/controller/controller_election.py), replicas
(broker/replicas/roles.py), topics (metadata.py). Why a lone broker has none of this: ADR 22.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from barnabas.broker.broker import new_id
from barnabas.broker.cluster.forwarding import Forwarding
from barnabas.broker.cluster.keeper_calls import KeeperCalls, Sessions
from barnabas.broker.cluster.metadata import MetadataUpdates
from barnabas.broker.cluster.peers import Lane, Peers
from barnabas.broker.cluster.registration import (
    check_remembered,
    claim,
    first_id,
    prepare,
)
from barnabas.broker.cluster.settings import ClusterSettings, read_all, read_changes, read_topics
from barnabas.broker.cluster_member import LiveBroker, at_listener
from barnabas.broker.controller.controller_election import ControllerElection
from barnabas.broker.replicas.roles import Replicas
from barnabas.config.kinds import Address
from barnabas.keeper import paths
from barnabas.keeper.keeper import (
    Event,
    Keeper,
    KeeperError,
    SessionState,
    Unavailable,
)
from barnabas.model.errors import Code, Fenced, KafkaError, Retriable
from barnabas.model.ids import BrokerId
from barnabas.wire.codec import ProtocolMessage
from barnabas.wire.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from barnabas.wire.messages.update_metadata import UpdateMetadataRequest

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker
    from barnabas.broker.topic import Topic

T = TypeVar("T")

AGAIN_MS = 50  # until a controller is looked for again
REJOIN_MS_MAX = 1_000
SHUTDOWN_MS_MAX = 15_000
SHUTDOWN_AGAIN_MS = 200


class ClusterMembership:
    """Created with the broker; `start` joins, `leave` and then `close` end it."""

    def __init__(self, broker: "Broker", sessions: Sessions) -> None:
        self._broker = broker
        self._keeper_calls = KeeperCalls(sessions, self._heard, broker.log)
        self.settings = ClusterSettings()
        self.view = MetadataUpdates(broker, self.settings)
        self.forwarding = Forwarding(broker, self)
        connect = broker.listeners.connect_between_brokers
        self.peers = Peers(BrokerId(broker.id), connect, broker.log, broker.dispatcher.answer)
        self.controlling = ControllerElection(
            broker, self.peers, self._keeper_calls.in_thread, self._meet
        )
        self.members: dict[BrokerId, LiveBroker] = {}
        self.broker_epoch = -1
        self.registered = asyncio.Event()  # with `broker_epoch`
        self.ready = asyncio.Event()  # the controller has sent the cluster's metadata
        self.left = False
        self._given_up = False  # before it was registered
        self._controller_epoch = 0
        self._rejoining: asyncio.Task[None] | None = None
        self._reading: asyncio.Task[None] | None = None
        self._unread = False

    # Joining and leaving

    async def start(self) -> None:
        """When this returns, the broker knows its cluster, and answers."""
        broker = self._broker
        first = await self._keeper_calls.open()
        ask = self._keeper_calls.run_patiently
        cluster_id = new_id()  # if there is none yet
        disk, directories = broker.disk, broker.config.directories
        wanted = first_id(broker.static, disk, directories)
        await ask(lambda keeper: check_remembered(keeper, disk, directories))
        broker.cluster_id, broker.id, self._controller_epoch = await ask(
            lambda keeper: prepare(keeper, wanted, cluster_id)
        )
        self.peers.own = BrokerId(broker.id)
        broker.replicas = Replicas(broker, self)
        self.settings.take_all(await ask(read_all))
        if broker.authorizer is not None:
            broker.authorizer.take_all(await ask(broker.authorizer.read))
        broker.open_logs()
        if broker.config.has_logins:
            from barnabas.broker.security.logins import join_logins

            await join_logins(broker, self.peers, ask)
        broker.listen()
        keeper = self._keeper_calls.keeper
        try:
            await self._register(keeper)
            if keeper is not first:  # the watches of the first session are lost
                await self._take_everything()
            await self.controlling.stand(keeper)
        except Unavailable as error:  # the machine may be too busy to renew a session
            broker.log.warning("not registered yet", reason=str(error))
            self.registered.clear()
            self._start_rejoin()
        await self.ready.wait()

    async def _register(self, keeper: Keeper) -> None:
        broker = self._broker
        endpoints = tuple(
            paths.Endpoint(name, *address, broker.listeners.protocols[name].name)
            for name, address in broker.listeners.advertised.items()
        )
        directories = tuple(
            log_directory.logs.meta.directory_id for log_directory in broker.logs.log_directories
        )
        registration = paths.Registration(
            endpoints,
            broker.config.broker_rack,
            directories,
            broker.config.min_insync_replicas,
        )
        data = paths.broker_data(registration, broker.clock.wall_ms())
        # Not before: until now the session had no nodes, and recovery may have taken long.
        keeper.bind_to_owner(broker.heartbeat.idle_ms)
        self.broker_epoch = await claim(
            broker.id,
            data,
            keeper.session,
            self._keeper_calls.run,
            # ZooKeeper ends a session at one of its ticks; a timeout has at least two.
            broker.config.zookeeper_session_timeout_ms * 3 // 2,
            broker.log,
        )
        self.registered.set()
        broker.log.info("registered", broker=broker.id, epoch=self.broker_epoch)

    async def leave(self) -> None:
        """Before the broker stops: others take over its leaderships, while it still answers."""
        self.left = True
        if not self.registered.is_set():
            self._given_up = True
            self.registered.set()  # waiting tasks continue
        self.ready.set()
        others = [each for each in self.members if each != self._broker.id]
        if self._given_up or not others or self._broker.failure:
            return
        request = ControlledShutdownRequest(
            broker_id=self._broker.id, broker_epoch=self.broker_epoch
        )
        loop = self._broker.loop
        deadline = loop.time() + SHUTDOWN_MS_MAX / 1000
        remaining: object = "unknown"
        while (left_ms := round((deadline - loop.time()) * 1000)) > 0:
            try:
                answer = await self.ask_controller(request, left_ms)
            except KafkaError as error:
                remaining = error.detail
            else:
                assert isinstance(answer, ControlledShutdownResponse)
                if not answer.error_code and not answer.remaining_partitions:
                    return
                remaining = len(answer.remaining_partitions)
                if not answer.error_code:  # no other replica can lead these
                    break
            await asyncio.sleep(SHUTDOWN_AGAIN_MS / 1000)
        self._broker.log.warning("broker leaves partitions without a leader", partitions=remaining)

    async def stop_replicas(self) -> None:
        """The logs are closed next."""
        if self._broker.replicas is not None:
            await self._broker.replicas.close()

    async def close(self) -> None:
        """Also after a failed start."""
        for task in (self._rejoining, self._reading):
            if task is not None:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
        with suppress(KafkaError, KeeperError):  # then it ends with the session
            await self.controlling.stop()
        self.forwarding.close()
        self.peers.close()
        await self._keeper_calls.close()

    async def run(self, call: Callable[[Keeper], T]) -> T:
        """In the keeper's thread."""
        return await self._keeper_calls.run(call)

    # Events of the session

    def _heard(self, news: Event | SessionState) -> None:
        if news is SessionState.SUSPENDED:
            self._broker.log.warning("keeper unreachable")
        elif news is SessionState.EXPIRED:
            self._expired()
        elif news is SessionState.CONNECTED:
            self._broker.log.info("keeper reachable again")
            self._read_settings()  # watches are lost
        elif news.path == paths.CONFIG_CHANGES:
            self._read_settings()
        self.controlling.heard(news)
        if self._broker.authorizer is not None:
            self._broker.authorizer.heard(news)

    def _expired(self) -> None:
        """Others elect other leaders. Until it learns that, its in-sync sets keep records safe."""
        if not self.registered.is_set() or self.left:
            return
        self.registered.clear()
        self._broker.log.warning("session expired: registering again", epoch=self.broker_epoch)
        self._start_rejoin()

    def _start_rejoin(self) -> None:
        if self._rejoining is None or self._rejoining.done():
            self._rejoining = self._broker.loop.create_task(self._rejoin())

    async def _rejoin(self) -> None:
        wait_ms = AGAIN_MS
        while not self.registered.is_set():
            try:
                keeper = await self._keeper_calls.open()
                await self._register(keeper)
                await self._take_everything()
                await self.controlling.stand(keeper)
            except (Unavailable, KeeperError, OSError) as error:
                self.registered.clear()
                self._broker.log.warning("not registered yet", reason=str(error))
                await asyncio.sleep(wait_ms / 1000)
                wait_ms = min(2 * wait_ms, REJOIN_MS_MAX)
            except KafkaError as error:
                self._broker.abort(error.detail)
                return

    # Settings

    def _read_settings(self) -> None:
        self._unread = True
        if self._reading is None or self._reading.done():
            self._reading = self._broker.loop.create_task(self._read_changes())

    async def refresh(self) -> None:
        """Wait until the settings in the keeper are applied here."""
        self._read_settings()
        assert self._reading is not None
        await asyncio.shield(self._reading)

    async def _read_changes(self) -> None:
        while self._unread:
            self._unread = False
            read = partial(read_changes, seen=self.settings.seen)
            try:
                found = await self._keeper_calls.run(read)
                if found.missed:
                    await self._take_everything()
                    continue
            except (Unavailable, KeeperError) as error:  # it reconnects, or another is opened
                self._broker.log.warning("settings not read", reason=str(error))
                return
            try:
                self._put_in_force(*self.settings.take(found))
            except KafkaError as error:
                self._broker.log.error("settings not applied", reason=error.detail)

    async def _take_everything(self) -> None:
        if self._broker.authorizer is not None:
            self._broker.authorizer.read_again(everything=True)
        self.settings.take_all(await self._keeper_calls.run(read_all))
        self._put_in_force(
            [topic.name for topic in self._broker.topics], True, list(self.settings.entities)
        )

    def _put_in_force(
        self, topics: Iterable[str], brokers: bool, others: Iterable[tuple[str, str]]
    ) -> None:
        for name in topics:
            topic = self._broker.topics.get(name)
            settings = self.settings.of_topic(name)
            if topic is not None and topic.overrides != settings:
                topic.overrides = dict(settings)
                self._broker.catalog.apply(topic)
                self._broker.log.info("topic configured", topic=name, settings=settings)
        if brokers:
            self._broker.reconfigure()
        for kind, name in others:
            self._broker.entity_configured(kind, name)

    # Requests of the controller

    def admit(self, controller_id: int, controller_epoch: int, broker_epoch: int) -> None:
        """Raises Fenced unless it is of the latest controller and for this registration."""
        if controller_epoch < self._controller_epoch:
            raise Fenced(
                Code.STALE_CONTROLLER_EPOCH,
                f"controller {controller_id} has epoch {controller_epoch}, the latest known"
                f" controller has {self._controller_epoch}",
            )
        if broker_epoch < self.broker_epoch:
            raise Fenced(
                Code.STALE_BROKER_EPOCH,
                f"the request is for broker epoch {broker_epoch}, not {self.broker_epoch}",
            )
        self._controller_epoch = controller_epoch

    async def known(self) -> None:
        """Wait until it is registered: before, it cannot check the broker epoch of requests."""
        await self.registered.wait()
        if self._given_up:
            raise Retriable(Code.BROKER_NOT_AVAILABLE, "this broker is stopping")

    async def update(self, request: UpdateMetadataRequest) -> None:
        await self.known()
        self.admit(request.controller_id, request.controller_epoch, request.broker_epoch)
        await self.learn((each.topic_name, each.topic_id) for each in request.topic_states)
        # Other tasks may have run meanwhile.
        self.admit(request.controller_id, request.controller_epoch, request.broker_epoch)
        self.members = {
            BrokerId(each.id): LiveBroker(
                BrokerId(each.id),
                each.rack,
                {at.listener: Address(at.host, at.port) for at in each.endpoints},
            )
            for each in request.live_brokers
            if each.endpoints
        }
        if not self.controlling.active:  # the controller itself knows sooner
            self._meet()
        self.view.update(request)
        self.ready.set()

    def _meet(self) -> None:
        members = at_listener(self.members.values(), self._broker.config.between_brokers)
        self.peers.known({each.id: Address(each.host, each.port) for each in members})

    async def learn(self, topics: Iterable[tuple[str, UUID]]) -> None:
        """Read the settings of new topics, so that `view.topic` can create them."""
        new = [name for name, id_ in topics if self._broker.topics.by_id(id_) is None]
        if new:
            found = await self._keeper_calls.run(lambda keeper: read_topics(keeper, new))
            for name in new:
                self.settings.topics.pop(name, None)
            self.settings.topics.update(found)

    def topic(self, name: str, id_: UUID) -> "Topic":
        """The topic with this id, created if it is new; an older topic of its name is removed."""
        return self.view.topic(name, id_)

    # Other brokers

    @property
    def controller_id(self) -> BrokerId | None:
        return self.controlling.controller

    def is_connected(self) -> bool:
        """To the keeper; if not, other brokers may have been elected to lead its partitions."""
        return self._keeper_calls.connected

    def rack_of(self, broker: int) -> str | None:
        return member.rack if (member := self.members.get(BrokerId(broker))) else None

    async def ask_controller(
        self,
        request: ProtocolMessage,
        timeout_ms: int,
        *,
        lane: Lane = "control",
        version: int | None = None,
    ) -> ProtocolMessage:
        """The controller's response; Retriable if there is none in time, from any controller."""
        loop = self._broker.loop
        deadline = loop.time() + timeout_ms / 1000
        problem = Retriable(Code.NOT_CONTROLLER, "there is no controller")
        while (left_ms := round((deadline - loop.time()) * 1000)) > 0:
            controller = self.controller_id
            if controller is not None:
                try:
                    return await self.peers.call(
                        controller, request, lane=lane, timeout_ms=left_ms, version=version
                    )
                except Retriable as error:
                    problem = error
            await asyncio.sleep(min(AGAIN_MS, left_ms) / 1000)
        raise Retriable(Code.NOT_CONTROLLER, problem.detail)
