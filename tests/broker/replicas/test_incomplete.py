"""What a broker reports about a log that it created although the partition was not new."""

from pathlib import Path
from uuid import uuid4

from barnabas.broker.broker import Broker
from barnabas.broker.replicas.logs import describe
from barnabas.controller.proof import ReplicaCompleteness
from barnabas.log.config import LogConfig
from barnabas.log.directory.directory import IncompleteMark
from barnabas.log.log import Log
from barnabas.model.ids import TopicPartition
from barnabas.wire.records import Record, encode_batch
from tests.broker.clustered import cluster_of

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


async def test_a_log_that_the_checkpoints_name_stays_lost(tmp_path: Path) -> None:
    async with cluster_of(tmp_path) as cluster:
        broker = next(iter(cluster.brokers.values()))
        [log_directory] = broker.logs.online()
        log_directory.logs.incomplete[NAME] = IncompleteMark.GONE
        created_again(broker)
        assert report(broker) is ReplicaCompleteness.LOST
