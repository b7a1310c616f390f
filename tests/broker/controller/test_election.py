"""Real brokers under a real controller: elections, requests, and what becomes of one that is
followed by another.

What the controller decides is proven in tests/controller; here, that it is carried out.
"""

import asyncio
from pathlib import Path

import pytest

from barnabas.controller.steps import Steps, Write
from barnabas.keeper import controller_paths as nodes
from barnabas.keeper.keeper import Keeper
from barnabas.keeper.memory import MemoryKeeper
from barnabas.model.errors import Code, KafkaError
from barnabas.model.ids import NO_TOPIC_ID
from barnabas.testing.locked_session import locked_session
from barnabas.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from barnabas.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from barnabas.wire.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from barnabas.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)
from barnabas.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from barnabas.wire.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from tests.broker.clustered import Clustered, cluster_of
from tests.waiting import WAIT_S, eventually


async def place(clustered: Clustered, name: str, *placed: list[int]) -> None:
    """A topic where we want it, asked for at any broker."""
    topic = CreatableTopic(
        name=name,
        num_partitions=-1,
        replication_factor=-1,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=ids)
            for index, ids in enumerate(placed)
        ],
        configs=[],
    )
    at = max(clustered.brokers)
    answer = await clustered.ask(at, CreateTopicsRequest(topics=[topic]), CreateTopicsResponse)
    assert not answer.topics[0].error_code, answer.topics[0].error_message


def keeper_of(clustered: Clustered) -> Keeper:
    return locked_session(MemoryKeeper(clustered.store), clustered.lock)


def isr(clustered: Clustered, topic: str, index: int = 0) -> list[int]:
    leader = clustered.leader(topic, index)
    return sorted(clustered.partition(leader, topic, index).in_sync)


async def test_leaders_and_the_controller_die_and_others_take_over(tmp_path: Path) -> None:
    async with cluster_of(tmp_path) as clustered:
        await place(clustered, "t", [1, 2, 3], [2, 3, 1], [3, 1, 2])
        assert [clustered.leader("t", index) for index in range(3)] == [1, 2, 3]
        controller = clustered.controller()
        assert controller is not None
        await clustered.kill(controller)
        await eventually(lambda: clustered.controller() not in (None, controller))
        await eventually(
            lambda: all(clustered.leader("t", index) in clustered.brokers for index in range(3))
        )
        await clustered.start(controller)
        await eventually(lambda: all(isr(clustered, "t", index) == [1, 2, 3] for index in range(3)))
        at = next(iter(clustered.brokers))
        request = ElectLeadersRequest(topic_partitions=None)
        elected = await clustered.ask(at, request, ElectLeadersResponse)
        assert not elected.error_code
        assert [clustered.leader("t", index) for index in range(3)] == [1, 2, 3]
        wrong = ElectLeadersRequest(
            topic_partitions=[TopicPartitions(topic="t", partitions=[0, 9])]
        )
        answer = await clustered.ask(at, wrong, ElectLeadersResponse)
        results = answer.replica_election_results[0].partition_result
        codes = [each.error_code for each in results]
        assert codes == [Code.ELECTION_NOT_NEEDED, Code.UNKNOWN_TOPIC_OR_PARTITION]


@pytest.mark.parametrize("allowed", ["true", "false"])
async def test_a_broker_option_says_whether_a_replica_that_is_not_in_sync_may_lead(
    tmp_path: Path, allowed: str
) -> None:
    options = {"unclean.leader.election.enable": allowed}
    async with cluster_of(tmp_path, settings=options) as clustered:
        controller = clustered.controller()
        assert controller is not None
        leader, follower = (id_ for id_ in clustered.brokers if id_ != controller)
        await place(clustered, "t", [leader, follower])
        await clustered.kill(follower)
        await eventually(lambda: clustered.partition(leader, "t").in_sync == [leader])
        await clustered.kill(leader)
        await clustered.start(follower)
        expected = follower if allowed == "true" else -1
        await eventually(lambda: clustered.partition(follower, "t").leader == expected)
        cluster = clustered.brokers[controller].cluster
        assert cluster is not None
        assert cluster.controlling.unclean_elections == (allowed == "true")


async def test_a_broker_that_stops_in_good_order_leaves_nobody_without_a_leader(
    tmp_path: Path,
) -> None:
    async with cluster_of(tmp_path) as clustered:
        await place(clustered, "t", [2, 3], [3, 2])
        await clustered.stop(2)
        assert clustered.leader("t", 0) == 3
        logged = clustered.logs[2].getvalue()
        assert "needs this broker" not in logged


async def test_a_controller_whose_node_is_deleted_is_elected_again(tmp_path: Path) -> None:
    async with cluster_of(tmp_path, 2) as clustered:
        by_hand = keeper_of(clustered)
        before = nodes.read_epoch("", by_hand.get(nodes.CONTROLLER_EPOCH).data)
        by_hand.delete(nodes.CONTROLLER)
        await eventually(
            lambda: nodes.read_epoch("", by_hand.get(nodes.CONTROLLER_EPOCH).data) > before
        )
        await eventually(lambda: clustered.controller() is not None)
        await clustered.create("t", 2, 2)
        clusters = [broker.cluster for broker in clustered.brokers.values()]
        assert sum(each is not None and each.controlling.active for each in clusters) == 1


async def test_requests_to_a_controller_that_is_elected_again_are_answered(tmp_path: Path) -> None:
    """The one of the earlier epoch is closed: nobody waits for it."""

    def checked() -> Steps[None]:
        yield Write([])

    async with cluster_of(tmp_path, 1) as clustered:
        cluster = clustered.brokers[1].cluster
        assert cluster is not None
        epoch = cluster.controlling.epoch
        keeper_of(clustered).delete(nodes.CONTROLLER)
        asked = []
        while cluster.controlling.epoch == epoch:
            task = asyncio.ensure_future(cluster.controlling.ask(lambda machine, now: checked()))
            asked.append(task)
            await asyncio.sleep(0)
        done, waiting = await asyncio.wait(asked, timeout=WAIT_S)
        assert not waiting
        assert all(isinstance(each.exception(), KafkaError | None) for each in done)


async def test_one_whose_epoch_is_over_writes_nothing_and_stands_again(tmp_path: Path) -> None:
    async with cluster_of(tmp_path, 2) as clustered:
        by_hand = keeper_of(clustered)
        by_hand.set(nodes.CONTROLLER_EPOCH, b"50")
        await clustered.create("t", 2, 2)
        assert nodes.read_epoch("", by_hand.get(nodes.CONTROLLER_EPOCH).data) == 51
        assert nodes.read_state("", by_hand.get(nodes.state("t", 0)).data).controller_epoch == 51


@pytest.mark.parametrize("done", [True, False])
async def test_a_write_with_unknown_outcome_makes_the_controller_reload_its_state(
    tmp_path: Path, done: bool
) -> None:
    async with cluster_of(tmp_path, 2) as clustered:
        controller = clustered.controller()
        assert controller is not None
        with clustered.lock:
            session = clustered.sessions[controller].session
            clustered.store.fail_next_write(session, done=done)
        topic = CreatableTopic(
            name="t", num_partitions=2, replication_factor=2, assignments=[], configs=[]
        )
        request = CreateTopicsRequest(topics=[topic])
        asked = asyncio.ensure_future(clustered.ask(controller, request, CreateTopicsResponse))
        await eventually(lambda: clustered.controller() is None)
        clustered.reconnect(controller)
        answer = await asked
        assert answer.topics[0].error_code in (0, Code.TOPIC_ALREADY_EXISTS)
        await eventually(lambda: all(b.topics.get("t") for b in clustered.brokers.values()))
        await eventually(lambda: clustered.leader("t", 1) in (1, 2))
        clusters = [broker.cluster for broker in clustered.brokers.values()]
        assert sum(each is not None and each.controlling.active for each in clusters) == 1


async def test_a_topic_is_deleted_and_made_again_at_once(tmp_path: Path) -> None:
    async with cluster_of(tmp_path) as clustered:
        for _ in range(3):
            await clustered.create("t", 4, 3)
            request = DeleteTopicsRequest(
                topics=[DeleteTopicState(name="t", topic_id=NO_TOPIC_ID)], timeout_ms=5000
            )
            answer = await clustered.ask(2, request, DeleteTopicsResponse)
            assert not answer.responses[0].error_code
            assert all(b.topics.get("t") is None for b in clustered.brokers.values())
            assert all(
                name.topic != "t" for b in clustered.brokers.values() for name in b.logs.logs
            )
        by_hand = keeper_of(clustered)
        await eventually(lambda: by_hand.children("/admin/delete_topics") == [])


async def test_a_topic_grows_on_the_requested_brokers(tmp_path: Path) -> None:
    async with cluster_of(tmp_path) as clustered:
        await place(clustered, "t", [1, 2])
        wanted = CreatePartitionsTopic(
            name="t", count=2, assignments=[CreatePartitionsAssignment(broker_ids=[3, 1])]
        )
        request = CreatePartitionsRequest(topics=[wanted], timeout_ms=5000, validate_only=False)
        answer = await clustered.ask(1, request, CreatePartitionsResponse)
        assert not answer.results[0].error_code
        assert clustered.leader("t", 1) == 3


async def test_replicas_are_moved_and_the_broker_without_any_is_forgotten(tmp_path: Path) -> None:
    async with cluster_of(tmp_path, 4) as clustered:
        await place(clustered, "t", [4, 1], [4, 2])

        async def move(*to: list[int]) -> list[int]:
            request = AlterPartitionReassignmentsRequest(
                topics=[
                    ReassignableTopic(
                        name="t",
                        partitions=[
                            ReassignablePartition(partition_index=index, replicas=ids)
                            for index, ids in enumerate(to)
                        ],
                    )
                ]
            )
            answer = await clustered.ask(2, request, AlterPartitionReassignmentsResponse)
            assert not answer.error_code
            return [each.error_code for each in answer.responses[0].partitions]

        assert await move([1, 2], [2, 9]) == [0, Code.INVALID_REPLICA_ASSIGNMENT]
        assert await move([1, 2], [2, 3]) == [0, 0]
        await eventually(
            lambda: [isr(clustered, "t", index) for index in (0, 1)] == [[1, 2], [2, 3]]
        )
        await eventually(lambda: not clustered.brokers[4].logs.logs)
        listing = ListPartitionReassignmentsRequest()
        under_way = await clustered.ask(3, listing, ListPartitionReassignmentsResponse)
        assert under_way.topics == []
        forget = UnregisterBrokerRequest(broker_id=4)
        alive = await clustered.ask(1, forget, UnregisterBrokerResponse)
        assert alive.error_code == Code.INVALID_REQUEST
        await clustered.stop(4)
        stopped = await clustered.ask(1, forget, UnregisterBrokerResponse)
        assert stopped.error_code == Code.NONE
        gone = await clustered.ask(1, forget, UnregisterBrokerResponse)
        assert gone.error_code == Code.BROKER_ID_NOT_REGISTERED


async def test_every_election_has_a_cause_that_can_be_read(tmp_path: Path) -> None:
    async with cluster_of(tmp_path) as clustered:
        controller = clustered.controller()
        assert controller is not None
        victim = next(id_ for id_ in clustered.brokers if id_ != controller)
        await place(clustered, "t", [victim, controller])
        await clustered.kill(victim)
        await eventually(lambda: clustered.partition(controller, "t").leader == controller)
        cluster = clustered.brokers[controller].cluster
        assert cluster is not None
        election = next(each for each in cluster.controlling.history() if each.what == "election")
        assert election.cause == f"broker {victim} is no longer registered"
        assert (election.leader_before, election.leader) == (victim, controller)
        assert cluster.controlling.elections >= 2
        # The in-sync set shrinks to the new leader when that has answered.
        await eventually(lambda: cluster.controlling.under_replicated == 1)
        assert cluster.controlling.preferred_imbalance == 1
        assert cluster.controlling.offline_partitions == 0
