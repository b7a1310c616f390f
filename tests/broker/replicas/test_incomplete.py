"""What a broker reports about a log that it created although the partition was not new."""

import asyncio
from pathlib import Path
from uuid import uuid4

import pytest

from barnabas.broker.broker import Broker
from barnabas.broker.partition import Partition
from barnabas.broker.replicas.incomplete import IncompleteReplicas
from barnabas.broker.replicas.logs import describe
from barnabas.broker.storage.log_directory import OpenLogDirectory
from barnabas.controller.proof import ReplicaCompleteness
from barnabas.log.config import LogConfig
from barnabas.log.directory.checkpoints import INCOMPLETE
from barnabas.log.directory.directory import IncompleteMark
from barnabas.log.log import Log
from barnabas.model.ids import BrokerId, TopicPartition
from barnabas.replication.state import PartitionState
from barnabas.wire.records import Record, encode_batch
from tests.broker.clustered import cluster_of
from tests.waiting import eventually

NAME = TopicPartition("lost", 0)
TOPIC_ID = uuid4()


def created_again(broker: Broker) -> Log:
    broker.logs.mark_incomplete([NAME])
    return broker.logs.create(NAME, TOPIC_ID, LogConfig(), complete=False)


def report(broker: Broker) -> ReplicaCompleteness:
    return describe(broker, NAME, TOPIC_ID).copy


async def test_an_empty_log_without_a_trace_of_an_earlier_one_counts_as_none(
    tmp_path: Path,
) -> None:
    """A power loss took the unsynced logs of a new partition from all its replicas. If the empty
    logs that they created since then counted as lost ones, nobody could lead it again."""
    async with cluster_of(tmp_path) as cluster:
        broker = next(iter(cluster.brokers.values()))
        assert report(broker) is ReplicaCompleteness.ABSENT
        log = created_again(broker)
        assert report(broker) is ReplicaCompleteness.ABSENT
        batch = encode_batch([Record(0, 1, b"k", b"v", ())])
        log.append(memoryview(batch), 0, 1)
        assert report(broker) is ReplicaCompleteness.LOST


async def test_a_report_has_the_epoch_of_the_last_record(tmp_path: Path) -> None:
    """Recovery begins the latest epoch again at the end of a log that has lost records: a log with
    more records of an older epoch is compared with it."""
    async with cluster_of(tmp_path, 1) as cluster:
        broker = cluster.brokers[1]
        log = broker.logs.create(NAME, TOPIC_ID, LogConfig(), complete=True)
        batch = encode_batch([Record(0, 1, b"k", b"v", ())])
        log.append(memoryview(batch), 4, 1)
        log.begin_epoch(7)
        said = describe(broker, NAME, TOPIC_ID)
        assert (said.last_epoch, said.end_offset) == (4, 1)


async def test_a_directory_that_was_closed_cleanly_makes_no_other_log_clean(tmp_path: Path) -> None:
    """A log that moves to it may come from a directory that was offline when the broker stopped."""
    async with cluster_of(tmp_path, 1) as cluster:
        broker = cluster.brokers[1]
        [log_directory] = broker.logs.online()
        log_directory.logs.clean = True
        broker.logs.create(NAME, TOPIC_ID, LogConfig(), complete=True)
        assert not describe(broker, NAME, TOPIC_ID).clean


async def test_a_log_that_the_checkpoints_name_stays_lost(tmp_path: Path) -> None:
    async with cluster_of(tmp_path) as cluster:
        broker = next(iter(cluster.brokers.values()))
        [log_directory] = broker.logs.online()
        log_directory.logs.incomplete[NAME] = IncompleteMark.GONE
        created_again(broker)
        assert report(broker) is ReplicaCompleteness.LOST


async def test_a_role_does_not_make_a_killed_replica_clean_but_catching_up_does(
    tmp_path: Path,
) -> None:
    """After a power loss its end may be missing: it must not lead before it was compared with the
    others, also if it was told meanwhile that nobody leads."""
    async with cluster_of(tmp_path, 1) as cluster:
        broker = cluster.brokers[1]
        assert broker.replicas is not None
        [log_directory] = broker.logs.online()
        log = broker.logs.create(NAME, TOPIC_ID, LogConfig(), complete=True)
        log_directory.logs.clean = False
        partition = Partition(NAME, log, log_directory, BrokerId(1))
        for isr, clean in (((1, 2), False), ((2,), False), ((1, 2), True)):
            members = tuple(map(BrokerId, isr))
            state = PartitionState(BrokerId(2), 1, members, 1, (BrokerId(1), BrokerId(2)))
            broker.replicas.incomplete.isr_changed(partition, state)
            assert describe(broker, NAME, TOPIC_ID).clean is clean
        broker.replicas.incomplete.forget(NAME)
        assert not describe(broker, NAME, TOPIC_ID).clean


def two_directories(tmp_path: Path) -> dict[str, str]:
    return {"log.dirs": f"{tmp_path}/one,{tmp_path}/two"}


def home_and_other(broker: Broker) -> tuple[OpenLogDirectory, OpenLogDirectory]:
    home = broker.logs.home(NAME)
    [other] = [each for each in broker.logs.online() if each is not home]
    return home, other


async def test_the_directory_that_has_the_log_decides_whether_it_is_incomplete(
    tmp_path: Path,
) -> None:
    """The other directory was offline when the replica had caught up, and kept its mark. After a
    restart nobody could lead, if this replica was the only one in sync."""
    async with cluster_of(tmp_path, 1, settings=two_directories(tmp_path)) as cluster:
        broker = cluster.brokers[1]
        log = created_again(broker)
        log.append(memoryview(encode_batch([Record(0, 1, b"k", b"v", ())])), 0, 1)
        home, other = home_and_other(broker)
        assert NAME in home.logs.incomplete
        assert NAME in other.logs.incomplete
        assert report(broker) is ReplicaCompleteness.LOST
        del home.logs.incomplete[NAME]
        assert report(broker) is ReplicaCompleteness.COMPLETE
        home.logs.marks_damaged = True
        assert report(broker) is ReplicaCompleteness.LOST


async def test_a_log_takes_its_mark_along_when_it_moves(tmp_path: Path) -> None:
    async with cluster_of(tmp_path, 1, settings=two_directories(tmp_path)) as cluster:
        logs = cluster.brokers[1].logs
        created_again(cluster.brokers[1])
        home, other = home_and_other(cluster.brokers[1])
        del other.logs.incomplete[NAME]
        logs.copy_mark(NAME, other)
        assert other.logs.incomplete[NAME] is IncompleteMark.EMPTY
        del home.logs.incomplete[NAME]
        logs.copy_mark(NAME, other)  # what that directory has is outdated
        assert NAME not in other.logs.incomplete


async def test_a_replica_waits_until_its_mark_is_removed_on_disk_before_it_is_alone_in_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The controller shrinks a set to its leader after DescribeReplicas was answered, a leader
    proposes it: a crash right afterwards must find no mark."""
    async with cluster_of(tmp_path, 1, settings=two_directories(tmp_path)) as cluster:
        broker = cluster.brokers[1]
        assert broker.replicas is not None
        incomplete = broker.replicas.incomplete
        log = created_again(broker)
        home, _ = home_and_other(broker)
        slow, checkpoint = asyncio.Event(), home.checkpoint

        async def checkpoint_slowly() -> bool:
            await slow.wait()
            return await checkpoint()

        monkeypatch.setattr(home, "checkpoint", checkpoint_slowly)
        rejoin(incomplete, broker, log)
        said: list[str] = []
        incomplete.when_written(NAME, lambda: said.append("proposed"))
        described = asyncio.create_task(incomplete.marks_written([NAME]))
        await asyncio.wait([described], timeout=0.05)
        assert not described.done()
        assert not said
        slow.set()
        await described
        await eventually(lambda: said == ["proposed"])
        marks = (Path(home.path) / INCOMPLETE).read_text()
        assert NAME.topic not in marks
        incomplete.when_written(NAME, lambda: said.append("at once"))
        assert said[-1] == "at once"


def rejoin(incomplete: IncompleteReplicas, broker: Broker, log: Log) -> None:
    own = BrokerId(broker.id)
    partition = Partition(NAME, log, broker.logs.home(NAME), own)
    isrs: list[tuple[BrokerId, ...]] = [(BrokerId(2),), (BrokerId(2), own)]
    for isr in isrs:
        state = PartitionState(BrokerId(2), 1, isr, 1, (BrokerId(2), own))
        incomplete.isr_changed(partition, state)
