"""The broker, or the cluster, of one test: what a test asks of it, and what it does to it.

Always: closed, it leaves no thread, file, socket or process; helpers block, and end with an error
that says what was there instead.
Not here: the same for asyncio (awaiting.py), pytest (plugin.py).
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import ClassVar, Self, TypedDict, Unpack

from barnabas.client.consumer.message import Message
from barnabas.client.groups.report import GroupReport
from barnabas.model.errors import KafkaError
from barnabas.sync import Admin, Producer
from barnabas.testing import groups as in_coordinator
from barnabas.testing.brokers import LocalBroker, LocalBrokers, Replica
from barnabas.testing.clock import RUNNING, TestClock
from barnabas.testing.faults import Fault, Faults, api_key_of, code_of
from barnabas.testing.groups import Rebalance, is_level, rebalances_of, why_behind
from barnabas.testing.processes import BrokerProcesses
from barnabas.testing.records import Data, encoded, headers_of, read_all, setting_text
from barnabas.testing.report import report_of
from barnabas.testing.waiting import wait_until

CLIENT = "kafka-fixture"

RawRecord = Message[bytes | None, bytes | None]
Seconds = float | None


class Which(TypedDict, total=False):
    """A broker by its role."""

    leader_of: tuple[str, int]
    coordinator_of: str
    controller: bool


class Kafka:
    """`with Kafka() as kafka: run_app(kafka.bootstrap_servers)`

    `brokers`: one, or a cluster. `settings`: broker options by Kafka's names. `clock`: "running",
    or "manual", which stands still until `kafka.clock.advance()`. `process`: real processes
    instead of threads; they have no clock to advance and no faults but signals.
    """

    wait_s: ClassVar[float] = 60.0  # of the helpers that wait, without a `timeout`

    def __init__(
        self,
        brokers: int = 1,
        *,
        settings: Mapping[str, object] | None = None,
        clock: str = RUNNING,
        process: bool = False,
    ) -> None:
        if not 1 <= brokers <= 9:
            raise ValueError(f"brokers={brokers}: from 1 to 9")
        static = {name: setting_text(value) for name, value in (settings or {}).items()}
        self._faults = Faults()
        self._clock = TestClock(clock)
        self._local: LocalBrokers | None = None
        self._processes: BrokerProcesses | None = None
        self._admin: Admin | None = None
        if process:
            if clock != RUNNING:
                raise ValueError("process=True: a process has the machine's clock")
            self._processes = BrokerProcesses(brokers, static)
        else:
            self._local = LocalBrokers(brokers, self._clock, static, self._faults)

    @property
    def _brokers(self) -> LocalBrokers | BrokerProcesses:
        found = self._local or self._processes
        assert found is not None
        return found

    def _here(self, what: str) -> LocalBrokers:
        if self._local is None:
            raise RuntimeError(f"{what} is for brokers in this process, not for process=True")
        return self._local

    # Start and end

    def __enter__(self) -> Self:
        self._brokers.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None and not isinstance(error, (GeneratorExit, KeyboardInterrupt)):
            error.add_note(self.report())
        self.close()

    def close(self) -> None:
        """End everything, also after a start that failed."""
        self._disconnect()
        self._brokers.close()

    @property
    def bootstrap_servers(self) -> str:
        """For any client."""
        return self._brokers.bootstrap_servers

    @property
    def directory(self) -> str:
        """Where all files of these brokers are; removed at the end."""
        return self._brokers.directory

    @property
    def admin(self) -> Admin:
        """`barnabas.sync.Admin` of these brokers."""
        if self._admin is None:
            self._admin = Admin(bootstrap_servers=self._brokers.reachable, client_id=CLIENT)
        return self._admin

    def _disconnect(self) -> None:
        """The helpers connect again: a broker that they used may not answer any more."""
        admin, self._admin = self._admin, None
        if admin is not None:
            with suppress(KafkaError, OSError):
                admin.close()

    @property
    def clock(self) -> TestClock:
        self._here("clock")
        return self._clock

    # Topics and records

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        *,
        replicas: int = -1,
        configs: Mapping[str, object] | None = None,
    ) -> None:
        """Ready when this returns: every partition has a leader."""
        options = {option: setting_text(value) for option, value in (configs or {}).items()}
        self.admin.create_topic(
            name, partitions=partitions, replication_factor=replicas, configs=options
        )

    def topics(self) -> list[str]:
        """Their names, without the broker's own."""
        return sorted(name for name in self.admin.topics().topics if not name.startswith("__"))

    def produce(
        self,
        topic: str,
        values: Iterable[Data],
        *,
        key: Data = None,
        partition: int | None = None,
        headers: Mapping[str, bytes | str] | Iterable[tuple[str, bytes | None]] = (),
        timestamp: int | None = None,
    ) -> None:
        """Write records; they are committed when this returns. A dict becomes JSON."""
        if isinstance(values, (bytes, str)):
            raise TypeError("values: a list of records, as [b'x']")
        pairs = headers_of(headers)
        with Producer(bootstrap_servers=self._brokers.reachable, client_id=CLIENT) as sender:
            deliveries = [
                sender.send_nowait(
                    topic,
                    encoded(value),
                    key=encoded(key),
                    headers=pairs,
                    partition=partition,
                    timestamp=timestamp,
                )
                for value in values
            ]
            sender.flush()
            for delivery in deliveries:
                delivery.result()

    def records(
        self, topic: str, *, partition: int | None = None, committed_only: bool = False
    ) -> list[RawRecord]:
        """What is in the topic now, by partition and offset; nothing if it does not exist."""
        return read_all(self.admin, self._brokers.reachable, topic, partition, committed_only)

    def values(self, topic: str, *, partition: int | None = None) -> list[bytes | None]:
        return [record.value for record in self.records(topic, partition=partition)]

    def wait_for_records(self, topic: str, count: int, timeout: Seconds = None) -> list[RawRecord]:
        """The records, once there are so many."""
        found: list[RawRecord] = []

        def enough() -> bool:
            found[:] = self.records(topic)
            return len(found) >= count

        self.wait_until(
            enough, timeout, lambda: f"topic {topic!r} has {len(found)} records, not {count}"
        )
        return found

    def load(self, path: str, topic: str | None = None) -> int:
        """Write the records of a file that `barnabas record` made; returns their number."""
        from barnabas.client.recording.replay import replay

        return replay(path, self.bootstrap_servers, topic=topic)

    # Groups

    def groups(self) -> list[str]:
        return sorted(listing.group for listing in self.admin.groups())

    def group(self, group: str) -> GroupReport:
        """State, members, partitions with lag, rebalances."""
        return self.admin.group_report(group)

    def lag(self, group: str) -> int:
        """Records that the group has not committed yet, in all its partitions."""
        return self.group(group).lag

    def wait_for_lag(self, group: str, lag: int = 0, timeout: Seconds = None) -> None:
        """Until the group has at most so much lag; an error says what `explain` says."""
        self.wait_until(
            lambda: is_level(self.admin, group, lag),
            timeout,
            lambda: why_behind(self.admin, group, lag),
        )

    def rebalance_history(self, group: str) -> list[Rebalance]:
        """The rebalances of a group, the oldest first, with their causes."""
        return rebalances_of(self.group(group))

    def expire(self, group: str, member: int | str = 0) -> str:
        """The session of a member times out now; returns its id."""
        local = self._coordinator(group)
        return local.call(lambda broker: in_coordinator.expire(broker, group, member))

    def rebalance(self, group: str) -> None:
        """All members of a classic group must join again."""
        local = self._coordinator(group)
        local.call(lambda broker: in_coordinator.rebalance(broker, group))

    def _coordinator(self, group: str) -> LocalBroker:
        if paused := self._brokers.paused():
            raise RuntimeError(f"brokers {paused} are paused: resume() them first")
        for local in self._here("a group's member").running():
            if local.call(lambda broker: in_coordinator.coordinates(broker, group)):
                return local
        raise ValueError(f"there is no group {group!r}; there are {self.groups()}")

    # Waiting

    def wait_until(
        self,
        condition: Callable[[], object],
        timeout: Seconds = None,
        otherwise: str | Callable[[], str] = "it stayed false",
    ) -> None:
        """Ask again and again, in real time; AssertionError when it takes too long."""
        wait_until(condition, self.wait_s if timeout is None else timeout, otherwise)

    # Brokers

    def leader_of(self, topic: str, partition: int = 0) -> int:
        """The id of the broker; -1: none."""
        return int(self.admin.topic(topic).partitions[partition].leader)

    def controller(self) -> int:
        """The id of the active controller."""
        return int(self.admin.cluster().controller_id)

    def coordinator_of(self, group: str) -> int:
        return self._coordinator(group).id

    def kill(self, broker: int | None = None, **which: Unpack[Which]) -> int:
        """As `kill -9`; returns the broker's id. `start()` starts it again, on the same port."""
        id_ = self._chosen(broker, **which)
        self._disconnect()
        self._brokers.kill(id_)
        return id_

    def stop(self, broker: int | None = None, **which: Unpack[Which]) -> int:
        """In good order: its partitions get other leaders first."""
        id_ = self._chosen(broker, **which)
        self._disconnect()
        self._brokers.stop(id_)
        return id_

    def start(self, *brokers: int) -> None:
        """These brokers, or all that do not run."""
        self._brokers.start(*brokers)
        self._disconnect()

    def pause(
        self, broker: int | None = None, *, session_ends: bool = False, **which: Unpack[Which]
    ) -> int:
        """Freeze, as by SIGSTOP. `session_ends`: so long that the cluster takes it for dead."""
        id_ = self._chosen(broker, **which)
        self._disconnect()
        self._brokers.pause(id_, session_ends=session_ends)
        return id_

    def resume(self, *brokers: int) -> None:
        """These brokers, or all that are paused."""
        for id_ in brokers or self._brokers.paused():
            self._brokers.resume(id_)

    def _chosen(self, broker: int | None, **which: Unpack[Which]) -> int:
        if len(which) + (broker is not None) > 1:
            raise ValueError("name one broker: by id, leader_of, coordinator_of or controller")
        if "leader_of" in which:
            return self.leader_of(*which["leader_of"])
        if "coordinator_of" in which:
            return self.coordinator_of(which["coordinator_of"])
        if which.get("controller"):
            return self.controller()
        if broker is not None:
            return broker
        ids = self._brokers.ids
        if len(ids) > 1:
            raise ValueError(f"there are brokers {ids}: say which one")
        return ids[0]

    # Faults

    def fail(
        self, api: str, error: str | int, *, times: int | None = 1, client: str | None = None
    ) -> None:
        """The next requests of this API are refused, and not carried out.

        `fail("OffsetCommit", "REBALANCE_IN_PROGRESS")`. `times=None`: until `heal()`. `client`:
        only of this client.id.
        """
        self._add(Fault(api_key_of(api), client, times, code=code_of(error)))

    def slow(
        self,
        milliseconds: int,
        *,
        api: str | None = None,
        times: int | None = None,
        client: str | None = None,
    ) -> None:
        """Requests wait so long before they are carried out, until `heal()`."""
        key = None if api is None else api_key_of(api)
        self._add(Fault(key, client, times, delay_ms=milliseconds))

    def cut(self, client: str | None = None, *, lasting: bool = False) -> int:
        """Break the connections of a client.id, or of all; returns how many.

        `lasting`: its next requests break their connections too, until `heal()`.
        """
        if lasting:
            self._add(Fault(None, client, None, cut=True))
        running = self._here("cut").running()
        return sum(local.cut(client) for local in running if not local.is_paused)

    def disk_full(self, full: bool = True) -> None:
        """Every write to a log fails with "no space left on device"."""
        self._here("disk_full").disk.full = full

    def disk_fails(self, broker: int | None = None) -> None:
        """The disk of a broker has an error: its replicas are offline until it is killed and
        started again."""
        self._here("disk_fails").by_id[self._chosen(broker)].disk_fails()

    def heal(self) -> None:
        """No more faults; paused brokers go on. Killed ones stay dead: `start()`."""
        if self._local is not None:
            self._faults.active.clear()
            self._local.disk.full = False
            self._local.faults_changed()
        self.resume()

    def _add(self, fault: Fault) -> None:
        local = self._here("a fault in requests")
        self._faults.active.append(fault)
        local.faults_changed()

    # Looking

    def log_directory(self, broker: int | None = None) -> str:
        """Where a broker in this process has its files."""
        return self._here("log_directory").by_id[self._chosen(broker)].settings["log.dirs"]

    def replica(self, topic: str, partition: int, broker: int) -> Replica:
        """A replica on a broker in this process: its role, its high watermark, its log end."""
        return self._here("replica").by_id[broker].replica(topic, partition)

    def metrics(self, broker: int | None = None) -> str:
        """What a broker in this process would show at /metrics."""
        return self._here("metrics").by_id[self._chosen(broker)].metrics()

    @property
    def log(self) -> str:
        """What the brokers have logged."""
        return self._brokers.logs

    def report(self) -> str:
        """Topics, groups, rebalances with causes, warnings: what a failed test prints."""
        return report_of(self)
