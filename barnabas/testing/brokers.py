"""The brokers of a test, in this process: each on its own thread, all on one store in memory.

In: a number of brokers, settings, faults. Out: addresses; brokers that stop, die, freeze and start
again on the same port and the same files.
Always: `close` ends every thread and removes every file.
Not here: brokers as processes of their own (processes.py).
"""

import asyncio
import errno
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from io import StringIO
from typing import NamedTuple, TypeVar

from barnabas.broker.broker import Broker
from barnabas.broker.role import Role
from barnabas.keeper.keeper import Keeper, Listener
from barnabas.keeper.memory import MemoryKeeper, MemoryStore
from barnabas.model.errors import KafkaError
from barnabas.model.ports import Stream
from barnabas.system.logs import Logger
from barnabas.system.network import SocketListening, SystemNetwork
from barnabas.testing.broker_thread import CALL_S_MAX, BrokerThread
from barnabas.testing.clock import TestClock
from barnabas.testing.disk import FillableDisk
from barnabas.testing.faults import Faults
from barnabas.testing.locked_session import locked_session

T = TypeVar("T")

HOST = "127.0.0.1"
OPEN_FILES_MAX = 4_096
SESSION_MS = 20_000
MEMORY = "/dev/shm"
# Of a test: no process for compaction, few files, no waits that are there for large clusters.
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "log.cleaner.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1",
    "auto.create.topics.enable": "true",
}
OF_SEVERAL = {
    "controlled.shutdown.max.retries": "1",
    "zookeeper.session.timeout.ms": str(SESSION_MS),
}


class ReleasingNetwork(SystemNetwork):
    """Closes at once what would be closed with the last reference to it."""

    def __init__(self, log: Logger) -> None:
        super().__init__(log)
        self._listening: list[SocketListening] = []

    def listen(
        self, host: str, port: int, accepted: Callable[[Stream], None], near: bool = True
    ) -> SocketListening:
        listening = super().listen(host, port, accepted, near)
        self._listening.append(listening)
        return listening

    def release(self) -> None:
        for listening in self._listening:
            listening.release()
        if self._pipe is not None:
            self._pipe.close()


class Replica(NamedTuple):
    """A replica on one broker. Without a log there, the offsets are -1."""

    role: str
    high_watermark: int
    log_end: int


class LocalBroker:
    """One broker, running or not; it keeps its id, its port and its files."""

    def __init__(self, id_: int, port: int, settings: Mapping[str, str]) -> None:
        self.id = id_
        self.port = port
        self.settings = dict(settings)
        self.log = StringIO()
        self.thread: BrokerThread | None = None
        self.broker: Broker | None = None
        self.session: MemoryKeeper | None = None
        self.network = ReleasingNetwork(Logger(self.log))

    @property
    def is_running(self) -> bool:
        return self.broker is not None

    @property
    def is_paused(self) -> bool:
        return self.thread is not None and self.thread.paused is not None

    def call(self, function: Callable[[Broker], T]) -> T:
        """Run a function on its loop."""
        thread, broker = self._parts()
        return thread.call(lambda: function(broker))

    def replica(self, topic: str, partition: int) -> Replica:
        def look(broker: Broker) -> Replica:
            found = broker.topics.get(topic)
            if found is None:
                return Replica(Role.ABSENT.value, -1, -1)
            part = found.partitions[partition]
            if part.log_directory is None:
                return Replica(part.role.value, -1, -1)
            return Replica(part.role.value, part.log.high_watermark, part.log.end_offset)

        return self.call(look)

    def disk_fails(self) -> None:
        def fail(broker: Broker) -> None:
            for directory in tuple(broker.logs.log_directories):
                directory.fail(OSError(errno.EIO, os.strerror(errno.EIO), directory.path))

        self.call(fail)

    def metrics(self) -> str:
        from barnabas.broker.metrics import page

        thread, broker = self._parts()
        return thread.run(page(broker)).decode()

    def cut(self, client: str | None) -> int:
        """Break the connections of a client.id, or all; returns how many."""

        def cut(broker: Broker) -> int:
            found = [each for each in tuple(broker.connections) if client in (None, each.client_id)]
            for connection in found:
                connection.close("cut by the test")
            return len(found)

        return self.call(cut)

    def _parts(self) -> tuple[BrokerThread, Broker]:
        if self.thread is None or self.broker is None:
            raise ValueError(f"broker {self.id} does not run: start() starts it")
        return self.thread, self.broker


class LocalBrokers:
    """Brokers by id: 0 for a lone one, 1, 2, 3 in a cluster."""

    def __init__(
        self, count: int, clock: TestClock, settings: Mapping[str, str], faults: Faults
    ) -> None:
        self.clock = clock
        self.faults = faults
        self.disk = FillableDisk()
        self._count = count
        self._store = MemoryStore()
        self._lock = threading.RLock()
        memory = MEMORY if os.access(MEMORY, os.W_OK) else None
        self.directory = tempfile.mkdtemp(prefix="barnabas-test-", dir=memory)
        self.by_id = {
            id_: LocalBroker(id_, 0, self._settings(id_, settings)) for id_ in self._ids()
        }
        clock.at_rest = self._at_rest

    def _ids(self) -> range:
        return range(1) if self._count == 1 else range(1, self._count + 1)

    def _settings(self, id_: int, settings: Mapping[str, str]) -> dict[str, str]:
        replicas = str(min(3, self._count))
        several = {
            **OF_SEVERAL,
            "default.replication.factor": replicas,
            "offsets.topic.replication.factor": replicas,
            "transaction.state.log.replication.factor": replicas,
        }
        return {
            **SETTINGS,
            **(several if self._count > 1 else {}),
            **settings,
            "node.id": str(id_),
            "log.dirs": os.path.join(self.directory, f"broker-{id_}"),
        }

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{HOST}:{each.port}" for each in self.by_id.values())

    @property
    def reachable(self) -> str:
        """Those that answer now, for the helpers: a paused broker would keep them waiting."""
        there = [each for each in self.running() if not each.is_paused]
        return ",".join(f"{HOST}:{each.port}" for each in there) or self.bootstrap_servers

    @property
    def logs(self) -> str:
        return "".join(each.log.getvalue() for each in self.by_id.values())

    @property
    def ids(self) -> list[int]:
        return list(self.by_id)

    def paused(self) -> list[int]:
        return [each.id for each in self.running() if each.is_paused]

    def running(self) -> list[LocalBroker]:
        return [each for each in self.by_id.values() if each.is_running]

    # Starting and stopping

    def start(self, *ids: int) -> None:
        """These, or all that do not run. Ready when this returns."""
        wanted = [self.by_id[id_] for id_ in ids] or list(self.by_id.values())
        waiting = [each for each in wanted if not each.is_running]
        try:
            joining = [self._begin(each) for each in waiting]
            for future in joining:
                future.result(CALL_S_MAX)
        except BaseException:
            self.close()
            raise
        for each in waiting:
            assert each.broker is not None
            each.port = each.broker.port

    def _begin(self, local: LocalBroker) -> Future[None]:
        thread = local.thread = BrokerThread(self.clock, f"broker-{local.id}")

        async def join() -> None:
            local.broker = broker = self._make(local)
            broker.dispatcher.wrap = self.faults.wrapped if self.faults.active else None
            await broker.join()

        return asyncio.run_coroutine_threadsafe(join(), thread.loop)

    def _make(self, local: LocalBroker) -> Broker:
        log = Logger(local.log)
        local.network = ReleasingNetwork(log)
        if self._count > 1:
            log.node = local.id

        def session(listener: Listener) -> Keeper:
            with self._lock:
                local.session = MemoryKeeper(self._store, SESSION_MS, listener)
            return locked_session(local.session, self._lock)

        settings = {**local.settings, "listeners": f"PLAINTEXT://{HOST}:{local.port}"}
        return Broker(
            settings,
            self.clock,
            self.disk,
            local.network,
            MemoryKeeper(self._store) if self._count == 1 else session,
            log,
            OPEN_FILES_MAX,
        )

    def stop(self, id_: int) -> None:
        """In good order."""
        local = self._found(id_)
        thread, broker = local.thread, local.broker
        assert thread is not None
        assert broker is not None
        thread.resume()
        try:
            thread.run(broker.stop())
        finally:
            self._ended(local)

    def kill(self, id_: int) -> None:
        """As if its process were killed: nothing is said, connections break, its session ends."""
        local = self._found(id_)
        thread, broker = local.thread, local.broker
        assert thread is not None
        assert broker is not None
        thread.resume()
        try:
            thread.run(_die(broker))
        finally:
            self._ended(local)

    def _ended(self, local: LocalBroker) -> None:
        assert local.thread is not None
        local.thread.close()
        local.thread = local.broker = local.session = None
        # Parts of a broker refer to each other: without this, files and pipes would stay open
        # until the garbage collector comes.
        self.disk.close_all(local.settings["log.dirs"])
        local.network.release()

    def pause(self, id_: int, *, session_ends: bool = False) -> None:
        """Frozen, as by SIGSTOP. `session_ends`: for longer than its session with the keeper."""
        local = self._found(id_)
        assert local.thread is not None
        local.thread.pause()
        if session_ends and local.session is not None:
            with self._lock:
                self._store.expire(local.session.session)

    def resume(self, id_: int) -> None:
        local = self._found(id_)
        assert local.thread is not None
        local.thread.resume()

    def _found(self, id_: int) -> LocalBroker:
        local = self.by_id.get(id_)
        if local is None:
            raise ValueError(f"there is no broker {id_}; there are {list(self.by_id)}")
        if not local.is_running:
            raise ValueError(f"broker {id_} does not run: start() starts it")
        return local

    def _at_rest(self, jump: Callable[[], None]) -> None:
        threads = [each.thread for each in self.running() if not each.is_paused]
        go_on = threading.Event()
        passed = [thread.rest(go_on) for thread in threads if thread is not None]
        jump()
        go_on.set()
        for each in passed:
            each.wait()

    def close(self) -> None:
        """Stop all that run, and remove their files."""
        self.disk.full = False
        try:
            for local in self.by_id.values():
                if local.thread is not None and local.is_paused:
                    local.thread.resume()
            for local in self.by_id.values():
                if local.thread is None:
                    continue
                if local.broker is None:  # it could not be created
                    self._ended(local)
                    continue
                self._stop_at_end(local)
        finally:
            shutil.rmtree(self.directory, ignore_errors=True)

    def _stop_at_end(self, local: LocalBroker) -> None:
        """The files are removed next: a broker of a cluster need not hand over partitions."""
        assert local.thread is not None
        assert local.broker is not None
        with suppress(KafkaError, OSError, TimeoutError):
            local.thread.run(_die(local.broker))
        self._ended(local)

    def faults_changed(self) -> None:
        """Handlers are looked up again, wrapped or not."""
        for local in self.running():
            broker, thread = local.broker, local.thread
            if broker is None or thread is None or local.is_paused:
                continue
            broker.dispatcher.wrap = self.faults.wrapped if self.faults.active else None
            thread.call(broker.dispatcher.forget_routes)


async def _die(broker: Broker) -> None:
    """Everything of a broker ends at once; its files stay as they are."""
    cluster = broker.cluster
    broker.listeners.close()
    for connection in tuple(broker.connections):
        connection.close("")
    if cluster is not None:
        cluster.peers.close()
    for part in (broker.coordination, broker.transactions, broker.recompression, broker.quotas):
        if part is not None:
            part.stop()
    if broker.replicas is not None:
        await broker.replicas.close()
    await broker.moves.stop()
    await broker.cleaner.stop()
    await broker.housekeeping.stop()
    await broker.logs.stop()
    if cluster is None:
        broker.catalog.close()
    else:
        await cluster.close()
    broker.heartbeat.stop()
