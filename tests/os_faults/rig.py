"""Brokers as processes under the library.

In: how many brokers. Out: whether they are well again, and whether every acknowledged record is
where it was acknowledged. The first broker is the one that faults befall.
"""

import atexit
import functools
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from barnabas.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from barnabas.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from barnabas.wire.messages.fetch import FetchResponse
from barnabas.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from barnabas.wire.messages.metadata import MetadataResponse
from barnabas.wire.messages.offset_commit import OffsetCommitResponse
from barnabas.wire.records import Record, encode_batch
from tests.group_requests import commit_request
from tests.os_faults.control import Control
from tests.os_faults.load import FILL, PARTITIONS, SYNCED, TOPIC, Load
from tests.os_faults.reading import Reading
from tests.ports import free_ports_from
from tests.process import BrokerProcess
from tests.raw import FETCH_BY_NAME, RawClient, batch_of, fetch_request
from tests.waiting import WAIT_S, until

COMPACTED, CUT = "compacted", "cut"
ASKED_EVERY_S = 0.03
RECOVERS_S_MAX = 30.0  # by itself, else it is restarted
CALL_S_MAX = 10.0
REPEATED_S = 65.0
LARGE = b"x" * 20_000
ALONE = {
    "log.segment.bytes": "20000",
    "log.index.interval.bytes": "512",
    "log.cleaner.backoff.ms": "1000",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.segment.delete.delay.ms": "500",
    "log.retention.check.interval.ms": "1000",
    "log.initial.task.delay.ms": "500",
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
}
TOGETHER = {
    "zookeeper.session.timeout.ms": "6000",
    "replica.lag.time.max.ms": "4000",
    "replica.fetch.wait.max.ms": "400",
    "min.insync.replicas": "2",
    "default.replication.factor": "3",
    "offsets.topic.replication.factor": "3",
    "leader.imbalance.check.interval.seconds": "1",  # the victim leads again soon
    "leader.imbalance.per.broker.percentage": "0",
}


Say = Callable[[], object] | str


class Victim(BrokerProcess):
    """One that hangs leaves the stacks of its threads in its log."""

    def stop(self) -> int:
        process = self._running()
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGABRT)
        return super().stop()


class Rig:
    """One broker, or three; `victim` runs under a Control."""

    def __init__(self, home: Path, count: int) -> None:
        home.mkdir(parents=True)
        self.home = home
        self.count = count
        ports = [free_ports_from(1) for _ in range(count)]
        self.members: list[BrokerProcess] = []
        self.control = Control(home, home / "data-1")
        # Brokers start often: what Python has compiled once is kept, away from the sources.
        compiled = {"PYTHONPYCACHEPREFIX": compiled_code(), "PYTHONDONTWRITEBYTECODE": ""}
        for number, port in enumerate(ports, 1):
            options = dict(ALONE)
            env = {"PYTHONFAULTHANDLER": "1", **compiled}
            env |= self.control.env if number == 1 else {}
            if count > 1:
                keeper = {"keeper.file": str(home / "data-1/keeper.db"), "node.id": str(number)}
                options |= TOGETHER | keeper
            self.members.append(
                Victim(
                    home / f"data-{number}", options, port=port, log=home / f"log-{number}", env=env
                )
            )
        (home / "data-1").mkdir()
        self.victim = self.members[0]
        self.servers = ",".join(f"127.0.0.1:{port}" for port in ports)
        self._reading = Reading()
        self._round = self._probes = 0
        self.compacted, self.compaction_paused = COMPACTED, False
        self._log_positions: list[tuple[float, int]] = []
        self.load: Load | None = None

    # Starting and ending

    def begin(self) -> None:
        for member in self.members:
            if not member.is_running():
                member.start()
        _until(self._created, "no topics")
        self.load = Load(self.servers)
        self.wait_well()

    def _created(self) -> bool:
        small = [("segment.bytes", "20000")]
        with suppress(OSError), self.client() as client:
            self._create(client, TOPIC, PARTITIONS, small)
            self._create(client, SYNCED, PARTITIONS, [*small, ("flush.messages", "1")])
            self._create(client, CUT, 1, small)
            self._create(client, self.compacted, 1, [*small, ("cleanup.policy", "compact")])
            names = {topic.name for topic in client.metadata().topics}
            return {TOPIC, SYNCED, CUT, self.compacted} <= names
        return False

    def end(self) -> None:
        self.control.disarm()
        if self.load is not None:
            self.load.end()
        for member in self.members:
            if member.is_running():
                member.kill()

    def forget(self) -> None:
        """The victim has ended by itself; it can be started again."""
        with suppress(AssertionError):
            self.victim.kill()

    def client(self) -> RawClient:
        return RawClient("127.0.0.1", self.victim.port, timeout_s=CALL_S_MAX)

    def make_compaction_due(self) -> None:
        """After one that failed, the broker waits a minute, and leaves that log alone for good."""
        if self.compaction_paused:
            self.victim.restart()
            self.wait_well()
            self.compaction_paused = False
        with suppress(OSError, IndexError), self.client() as client:
            request = DeleteTopicsRequest(topic_names=[self.compacted], timeout_ms=1_000)
            client.call(request, 5, DeleteTopicsResponse)
        self.compacted = f"{COMPACTED}-{self._round}"
        _until(self._created, "no compacted topic")

    # The state it is in

    def metadata(self) -> MetadataResponse:
        problem: OSError | None = None
        for member in self.members:
            if member.is_running():
                try:
                    with RawClient("127.0.0.1", member.port, timeout_s=CALL_S_MAX) as client:
                        return client.metadata()
                except OSError as error:
                    problem = error
        raise problem or ConnectionError("no broker runs")

    def well(self) -> bool:
        """All run, all replicas are in sync, and each partition of the load has a new record."""
        try:
            answer = self.metadata()
        except OSError:
            return False
        whole = len(answer.brokers) == self.count and all(
            partition.leader_id >= 0 and len(partition.isr_nodes) == len(partition.replica_nodes)
            for topic in answer.topics
            for partition in topic.partitions
        )
        return whole and self._advanced(self._before)

    def _advanced(self, before: dict[tuple[str, int], int], *topics: str) -> bool:
        assert self.load is not None
        now = self.load.counts()
        places = [(t, p) for t in topics or (TOPIC, SYNCED) for p in range(PARTITIONS)]
        return all(now.get(place, 0) > before.get(place, 0) for place in places)

    def wait_well(self) -> None:
        assert self.load is not None
        self._before = self.load.counts()
        _until(self.well, self._diagnosis)
        _until(self._makes_topics, "no topic can be made")
        _until(self._leads, self._diagnosis)

    def wait_served(self) -> None:
        """Every partition takes records, whatever has become of the victim. While only the thread
        of its directory is held, records that must be synced wait for that, and no others."""
        assert self.load is not None
        self._before = before = self.load.counts()
        _until(
            lambda: self._advanced(before, TOPIC) and (self._advanced(before) or self._answers()),
            self._diagnosis,
        )

    def _answers(self) -> bool:
        with suppress(OSError), self.client() as client:
            return bool(client.metadata().brokers)
        return False

    def _makes_topics(self) -> bool:
        """The keeper can be written through the victim."""
        self._probes += 1
        with suppress(OSError, IndexError), self.client() as client:
            made = self._create(client, name := f"probe-{self._probes}") == 0
            request = DeleteTopicsRequest(topic_names=[name], timeout_ms=1_000)
            return (
                made and not client.call(request, 5, DeleteTopicsResponse).responses[0].error_code
            )
        return False

    def _leads(self) -> bool:
        """The victim leads what it should, so that it is asked for everything."""
        with suppress(OSError):
            return all(
                partition.leader_id == partition.replica_nodes[0]
                for topic in self.metadata().topics
                for partition in topic.partitions
                if topic.name in (TOPIC, SYNCED, CUT, self.compacted)
            )
        return False

    def wait_well_or_ended(self) -> None:
        assert self.load is not None
        self._before = self.load.counts()
        _until(lambda: self.well() or not self.victim.is_running(), self._diagnosis, RECOVERS_S_MAX)

    def _diagnosis(self) -> str:
        try:
            states = [
                f"{t.name}-{p.partition_index}: {p.leader_id} of {p.isr_nodes} ({p.error_code})"
                for t in self.metadata().topics
                for p in t.partitions
            ]
        except OSError as problem:
            states = [repr(problem)]
        assert self.load is not None
        return f"{states}; acknowledged {self._before} to {self.load.counts()}"

    def log_position(self) -> int:
        """Where its log was a minute ago: a refusal that repeats is logged once a minute."""
        now = time.monotonic()
        self._log_positions.append((now, len(self.victim.log)))
        return next(at for then, at in self._log_positions if then > now - REPEATED_S)

    # What is asked of the victim

    def _create(
        self,
        client: RawClient,
        name: str,
        partitions: int = 1,
        configs: Sequence[tuple[str, str]] = (),
    ) -> int:
        """With a replica on each broker, for the first partition first the victim; error code."""
        ids = list(range(1, self.count + 1))
        placed = [
            CreatableReplicaAssignment(
                partition_index=index, broker_ids=ids[index % 3 :] + ids[: index % 3]
            )
            for index in range(partitions)
        ]
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions if self.count == 1 else -1,
            replication_factor=-1,
            assignments=[] if self.count == 1 else placed,
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs],
        )
        answer = client.call(CreateTopicsRequest(topics=[topic]), 7, CreateTopicsResponse)
        return answer.topics[0].error_code

    def exercise(self) -> None:
        """Once through what brokers are asked for; answers may be errors, but must come."""
        self._round += 1
        step: Callable[[RawClient], object]
        for step in (
            self._make,
            self._drop,
            self._write_more,
            self._read,
            self._cut,
            self._commit,
        ):
            with suppress(OSError, AssertionError, IndexError), self.client() as client:
                step(client)

    def _make(self, client: RawClient) -> None:
        self._create(client, f"gone-{self._round}")

    def _drop(self, client: RawClient) -> None:
        """On another connection: the answer to the creation may still be on its way."""
        request = DeleteTopicsRequest(topic_names=[f"gone-{self._round}"], timeout_ms=1_000)
        client.call(request, 5, DeleteTopicsResponse)

    def _write_more(self, client: RawClient) -> None:
        for number in range(6):
            client.produce(CUT, batch_of(LARGE[:5_000]))
            records = [Record(n, 1, b"key-%d" % n, b"%d" % number + FILL) for n in range(5)]
            client.produce(self.compacted, encode_batch(records))

    def _read(self, client: RawClient) -> None:
        for topic in (TOPIC, CUT):
            for size in (100_000, 5_000):  # sent from the file, and read for the reply
                request = fetch_request(topic, 0, 0, bytes_max=size)
                client.call(request, FETCH_BY_NAME, FetchResponse)
            asked = ListOffsetsPartition(partition_index=0, timestamp=int(time.time() * 1000) - 500)
            topics = [ListOffsetsTopic(name=topic, partitions=[asked])]
            client.call(ListOffsetsRequest(replica_id=-1, topics=topics), 4, ListOffsetsResponse)

    def _cut(self, client: RawClient) -> None:
        asked = [DeleteRecordsPartition(partition_index=0, offset=-1)]
        request = DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name=CUT, partitions=asked)], timeout_ms=1_000
        )
        client.call(request, 2, DeleteRecordsResponse)

    def _commit(self, client: RawClient) -> None:
        client.call(commit_request("g", {0: self._round}, topic=TOPIC), 8, OffsetCommitResponse)

    # What was acknowledged

    def check(self) -> None:
        """Read on from where the last check ended: all that was acknowledged since is there."""
        assert self.load is not None
        ports = {
            (topic.name or "", partition.partition_index): self.members[
                partition.leader_id - 1 if self.count > 1 else 0
            ].port
            for topic in self.metadata().topics
            for partition in topic.partitions
        }
        self._reading.check(self.load, ports)


def _until(condition: Callable[[], object], say: Say, wait_s: float = WAIT_S) -> None:
    until(condition, say, wait_s, ASKED_EVERY_S)


@functools.cache
def compiled_code() -> str:
    """Where the brokers of this run keep what Python has compiled."""
    directory = tempfile.mkdtemp(prefix="os-faults-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory
