"""Which leaders a client believes in."""

from uuid import UUID

import pytest

from barnabas.client.blocking import open_cluster
from barnabas.client.blocking.net import run
from barnabas.client.metadata_snapshot import NewestLeaders, PartitionMetadata
from barnabas.model.errors import Retriable
from barnabas.model.ids import NO_TOPIC_ID, TopicPartition
from barnabas.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.client.impostor import METADATA, Impostor, Request

ID = UUID(int=7)
AT = TopicPartition("t", 0)


def named(leader: int, epoch: int, number: int = 0) -> PartitionMetadata:
    return PartitionMetadata(number, leader, epoch, [1, 2], [1, 2], [])


def test_a_leader_of_before_is_not_believed_in_though_a_broker_names_it_again() -> None:
    """It lacks what was written to the newer one, and what was read from it (KIP-320)."""
    leaders = NewestLeaders()
    newer = leaders.newest("t", ID, named(2, epoch=4))
    assert leaders.newest("t", ID, named(1, epoch=3)) is newer
    assert leaders.newest("t", ID, named(-1, epoch=4)).leader == -1
    assert leaders.newest("t", ID, named(1, epoch=5)).leader == 1
    assert leaders.newest("t", ID, named(1, epoch=0, number=1)).leader == 1


def test_a_topic_that_was_created_again_has_low_epochs() -> None:
    leaders = NewestLeaders()
    leaders.newest("t", ID, named(2, epoch=4))
    assert leaders.newest("t", UUID(int=8), named(1, epoch=0)).leader == 1
    assert leaders.newest("t", ID, named(1, epoch=3)).leader == 2


def test_without_ids_and_epochs_the_last_response_counts() -> None:
    """Brokers before Apache Kafka 2.8 name no ids: a topic may have been created again."""
    leaders = NewestLeaders()
    leaders.newest("t", NO_TOPIC_ID, named(2, epoch=4))
    assert leaders.newest("t", NO_TOPIC_ID, named(1, epoch=0)).leader == 1
    leaders.newest("t", ID, named(2, epoch=4))
    assert leaders.newest("t", ID, named(1, epoch=-1)).leader == 1


def test_a_cluster_keeps_the_newest_leader_of_all_responses() -> None:
    answers = [(1, 4), (9, 3), (9, 5)]  # 9 is a broker that is not there
    asked: list[int] = []

    def behave(request: Request) -> None:
        assert request.key == METADATA
        leader, epoch = answers[len(asked)]
        asked.append(leader)
        partition = MetadataResponsePartition(
            error_code=0,
            partition_index=0,
            leader_id=leader,
            leader_epoch=epoch,
            replica_nodes=[1],
            isr_nodes=[1],
        )
        topic = MetadataResponseTopic(error_code=0, name="t", topic_id=ID, partitions=[partition])
        brokers = impostor.metadata().brokers
        request.answer(MetadataResponse(brokers=brokers, controller_id=1, topics=[topic]))

    with (
        Impostor(behave) as impostor,
        open_cluster({"bootstrap.servers": impostor.address}, {}) as cluster,
    ):
        assert run(cluster.view(["t"])).leader(AT) == 1
        assert run(cluster.refresh()).leader(AT) == 1
        with pytest.raises(Retriable, match="no leader"):
            run(cluster.refresh()).leader(AT)
    assert len(asked) == 3
