"""Several real brokers in this process, on one loop and real sockets, and a keeper to be hurt.

What a test asks goes over the wire, to the broker it says.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from io import StringIO
from pathlib import Path
from threading import RLock
from typing import TypeVar

from barnabas.broker.broker import Broker
from barnabas.broker.cluster.peers import Peers
from barnabas.broker.partition import Partition
from barnabas.config.kinds import Address
from barnabas.keeper.keeper import Keeper, Listener
from barnabas.keeper.memory import MemoryKeeper, MemoryStore
from barnabas.model.ids import BrokerId
from barnabas.system.clock import SystemClock
from barnabas.system.disk import SystemDisk
from barnabas.system.logs import Logger
from barnabas.system.network import SystemNetwork
from barnabas.testing.locked_session import locked_session
from barnabas.wire.codec import ProtocolMessage
from barnabas.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from tests.broker.running import creatable
from tests.waiting import WAIT_S, eventually

ANSWER_MS_MAX = int(WAIT_S * 1000)
NOBODY = BrokerId(-7)  # the id under which a test calls brokers
R = TypeVar("R", bound=ProtocolMessage)


class Clustered:
    """Brokers by id; each can be stopped, killed and started again."""

    def __init__(self, directory: Path, settings: Mapping[str, str]) -> None:
        self.directory = directory
        self.settings = settings
        self.brokers: dict[int, Broker] = {}
        self.logs: dict[int, StringIO] = {}
        self.store = MemoryStore()
        self.lock = RLock()
        self.sessions: dict[int, MemoryKeeper] = {}  # by broker, the last one
        self._peers: dict[int, Peers] = {}

    # Brokers

    def make(self, id_: int, settings: Mapping[str, str | None] | None = None) -> Broker:
        """With other settings than the others, or without (None)."""
        said = self.logs.setdefault(id_, StringIO())
        log = Logger(said)

        def session(listener: Listener) -> Keeper:
            with self.lock:
                opened = self.sessions[id_] = MemoryKeeper(self.store, 2_000, listener)
            return locked_session(opened, self.lock)

        wanted = {
            "node.id": str(id_),
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": str(self.directory / f"b{id_}"),
            "log.cleaner.enable": "false",
            "group.initial.rebalance.delay.ms": "0",
            "offsets.topic.num.partitions": "4",
            "zookeeper.session.timeout.ms": "300",
            **self.settings,
            **(settings or {}),
        }
        broker = Broker(
            {option: value for option, value in wanted.items() if value is not None},
            SystemClock(),
            SystemDisk(),
            SystemNetwork(log),
            session,
            log,
        )
        self.brokers[id_] = broker
        return broker

    async def start(self, *ids: int) -> None:
        async with asyncio.timeout(WAIT_S):
            await asyncio.gather(*(self.make(id_).join() for id_ in ids))

    async def stop(self, *ids: int) -> None:
        """In good order."""
        for id_ in ids:
            self._forget(id_)
            await self.brokers.pop(id_).stop()

    async def kill(self, id_: int) -> None:
        """As if its process ended: nothing is said, its connections break, its session ends."""
        self._forget(id_)
        broker = self.brokers.pop(id_)
        await kill(broker)

    def expire(self, id_: int) -> None:
        """The broker lives, and the keeper takes it for dead."""
        with self.lock:
            self.store.expire(self.sessions[id_].session)

    def disconnect(self, id_: int) -> None:
        with self.lock:
            self.store.disconnect(self.sessions[id_].session)

    def reconnect(self, id_: int) -> None:
        with self.lock:
            self.sessions[id_].reconnect()

    def _forget(self, id_: int) -> None:
        peers = self._peers.pop(id_, None)
        if peers is not None:
            peers.close()

    # Asking

    async def ask(
        self, id_: int, request: ProtocolMessage, expected: type[R], version: int | None = None
    ) -> R:
        peers = self._peers.get(id_)
        if peers is None:
            log = Logger(StringIO())
            peers = self._peers[id_] = Peers(
                NOBODY, SystemNetwork(log).connect, log, _nobody, "test"
            )
            peers.known({BrokerId(id_): Address("127.0.0.1", self.brokers[id_].port)})
        answer = await peers.call(BrokerId(id_), request, timeout_ms=ANSWER_MS_MAX, version=version)
        assert isinstance(answer, expected)
        return answer

    async def create(
        self, name: str, partitions: int = 1, replicas: int = 3, *, by: int | None = None,
        **configs: str,
    ) -> None:  # fmt: skip
        at = next(iter(self.brokers)) if by is None else by
        topic = creatable(
            name, partitions, replicas, {k.replace("_", "."): v for k, v in configs.items()}
        )
        answer = await self.ask(at, CreateTopicsRequest(topics=[topic]), CreateTopicsResponse)
        assert not answer.topics[0].error_code, answer.topics[0].error_message
        await eventually(lambda: all(b.topics.get(name) is not None for b in self.brokers.values()))

    # Looking

    def partition(self, id_: int, topic: str, index: int = 0) -> Partition:
        found = self.brokers[id_].topics.get(topic)
        assert found is not None
        return found.partitions[index]

    def leader(self, topic: str, index: int = 0) -> int:
        """As the first broker sees it."""
        return self.partition(next(iter(self.brokers)), topic, index).leader

    def controller(self) -> int | None:
        return next(
            (i for i, b in self.brokers.items() if b.cluster and b.cluster.controlling.active), None
        )


async def _nobody(request: ProtocolMessage, version: int) -> ProtocolMessage:
    raise AssertionError("a test calls brokers, not itself")


async def kill(broker: Broker) -> None:
    """Everything of it ends at once; the files stay as they are."""
    cluster = broker.cluster
    assert cluster is not None
    broker.listeners.close()
    for connection in tuple(broker.connections):
        connection.close("")
    cluster.peers.close()
    if broker.coordination is not None:
        broker.coordination.stop()
    if broker.replicas is not None:
        await broker.replicas.close()
    await broker.cleaner.stop()
    await broker.housekeeping.stop()
    await broker.logs.stop()
    await cluster._keeper_calls.end()


@asynccontextmanager
async def cluster_of(
    directory: Path, count: int = 3, settings: Mapping[str, str] | None = None
) -> AsyncIterator[Clustered]:
    clustered = Clustered(directory, settings or {})
    try:
        await clustered.start(*range(1, count + 1))
        yield clustered
    finally:
        for id_, said in clustered.logs.items():
            print(f"--- broker {id_}\n{said.getvalue()[-20_000:]}")
        for id_ in list(clustered.brokers):
            await clustered.stop(id_)
