"""Each race of brokers, controllers and in-sync sets in a few lines."""

from uuid import UUID

import pytest

from barnabas.controller.in_sync import ProposalResult
from barnabas.controller.messages import ALL
from barnabas.controller.state import NO_LEADER
from barnabas.controller.takeover import ADOPTED_EPOCH
from barnabas.keeper import paths
from barnabas.keeper.keeper import Disconnected
from barnabas.model.errors import Code, KafkaError
from barnabas.model.ids import BrokerId, TopicPartition
from barnabas.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from barnabas.wire.messages.update_metadata import UpdateMetadataRequest
from tests.controller.world import ControllerAtWork, Deposed, Work, World, propose

T0 = TopicPartition("t", 0)
B = BrokerId


def verdict(answer: Code | ProposalResult) -> Code:
    assert isinstance(answer, ProposalResult)
    return answer.code


# Brokers go and come


def test_the_first_replica_in_sync_leads_when_the_leader_dies(
    world: World, active_controller: ControllerAtWork
) -> None:
    world.down(1)
    other = world.elect(2)
    state = world.state("t")
    assert (state.leader, state.leader_epoch, state.isr) == (2, 1, (2, 3))
    assert [entry.what for entry in other.machine.history] == ["controller elected", "election"]


def test_a_dead_follower_leaves_the_isr_and_the_leader_epoch_stays(
    world: World, active_controller: ControllerAtWork
) -> None:
    """A new leader epoch would fence every client for nothing."""
    world.down(3)
    active_controller.brokers_changed()
    state = world.state("t")
    assert (state.leader, state.leader_epoch, state.isr, state.version) == (1, 0, (1, 2), 1)
    told = active_controller.told()
    assert [type(each) for each in told[1]] == [LeaderAndIsrRequest, UpdateMetadataRequest]
    assert [type(each) for each in told[2]] == [UpdateMetadataRequest]


def test_a_broker_that_was_away_for_a_moment_is_in_sync_no_longer(
    world: World, active_controller: ControllerAtWork
) -> None:
    """It may have lost its disk (KIP-903)."""
    world.bounce(2)
    active_controller.brokers_changed()
    assert world.state("t").isr == (1, 3)


def test_one_that_was_away_while_nobody_was_controller_is_not_either(
    world: World, active_controller: ControllerAtWork
) -> None:
    world.bounce(2)
    world.elect(3)
    assert world.state("t").isr == (1, 3)


def test_the_isr_stays_as_it_is_when_all_of_it_dies_at_once(
    world: World, active_controller: ControllerAtWork
) -> None:
    """The first member that comes back has everything that was committed."""
    world.up(4)
    other = world.elect(4)
    world.down(1, 2, 3)
    other.brokers_changed()
    assert world.state("t")[:3] == (NO_LEADER, 1, (1, 2, 3))
    assert len(other.machine.cluster.leaderless) == 1
    world.up(3)
    other.brokers_changed()
    assert world.state("t")[:3] == (3, 2, (3,))
    assert not other.machine.cluster.leaderless


def test_who_fell_out_of_sync_does_not_lead(
    world: World, active_controller: ControllerAtWork
) -> None:
    world.up(4)
    other = world.elect(4)
    propose(other, [1])
    world.down(1)
    other.brokers_changed()
    assert world.state("t")[:3] == (NO_LEADER, 1, (1,))


def test_an_unclean_election_is_held_only_where_it_is_allowed_and_is_said_loudly(
    world: World, active_controller: ControllerAtWork
) -> None:
    world.up(4)
    other = world.elect(4)
    propose(other, [1])
    world.down(1)
    other.brokers_changed()
    allow = {"unclean.leader.election.enable": "true"}
    other.do(lambda m, now: m.configure("topics", "t", lambda before: allow, now))
    state = world.state("t")
    assert (state.leader, state.leader_epoch, state.isr, state.recovering) == (2, 2, (2,), True)
    assert other.machine.unclean_elections == 1
    assert any(say.warn and "unclean" in say.event for say in world.said)
    assert [entry.what for entry in other.machine.history][-1] == "unclean election"


def test_thousands_of_partitions_take_a_few_writes_and_a_few_messages_to_each_broker(
    world: World, active_controller: ControllerAtWork
) -> None:
    """First those that are led no more, then those whose in-sync set is smaller."""
    active_controller.create("big", 1500, 3)
    active_controller.told()
    world.writes = 0
    world.down(3)
    active_controller.brokers_changed()
    assert world.writes == 3
    told = active_controller.told()
    assert sorted(told) == [1, 2]
    for messages in told.values():
        kinds = [type(each) for each in messages]
        assert kinds == [LeaderAndIsrRequest, UpdateMetadataRequest] * 2
        assert isinstance(messages[0], LeaderAndIsrRequest)
        states = messages[0].topic_states[0].partition_states
        assert len(states) == 500
        assert all(state.leader_epoch == 1 for state in states)


def test_a_newcomer_gets_everything_and_leadership_first(
    world: World, active_controller: ControllerAtWork
) -> None:
    world.down(3)
    active_controller.brokers_changed()
    active_controller.told()
    world.up(3)
    active_controller.brokers_changed()
    lead, metadata = active_controller.told()[3]
    assert isinstance(lead, LeaderAndIsrRequest)
    assert lead.type == ALL
    assert isinstance(metadata, UpdateMetadataRequest)
    assert metadata.type == ALL
    assert lead.broker_epoch == metadata.broker_epoch == world.epoch(3)
    assert [each.id for each in metadata.live_brokers] == [1, 2, 3]


def test_rubbish_among_the_registrations_stops_nobody(
    world: World, active_controller: ControllerAtWork
) -> None:
    world.keeper.create("/brokers/ids/x", b"{}")
    world.keeper.create("/brokers/ids/7", b"rubbish")
    active_controller.brokers_changed()
    assert sorted(active_controller.machine.cluster.brokers) == [1, 2, 3]
    world.elect(2)


def test_replicas_on_a_failed_disk_are_led_by_others(
    world: World, active_controller: ControllerAtWork
) -> None:
    """The broker is there: it says so in its answer to LeaderAndIsr."""
    partition = active_controller.partition("t")
    request = LeaderAndIsrRequest(
        controller_id=1,
        controller_epoch=1,
        broker_epoch=world.epoch(1),
        topic_states=[],
        live_leaders=[],
    )
    failed = LeaderAndIsrPartitionError(partition_index=0, error_code=Code.KAFKA_STORAGE_ERROR)
    answer = LeaderAndIsrResponse(
        error_code=0,
        topics=[LeaderAndIsrTopicError(topic_id=partition.topic.id, partition_errors=[failed])],
    )
    active_controller.do(lambda m, now: m.answered(B(1), request, answer, now))
    assert world.state("t")[:3] == (2, 1, (2, 3))
    assert verdict(propose(active_controller, [2, 3, 1])) is Code.INELIGIBLE_REPLICA


# Controllers


def test_a_controller_that_was_followed_by_another_writes_nothing(
    world: World, active_controller: ControllerAtWork
) -> None:
    """Stopped beyond its session, and then going on in the middle of its work."""
    world.down(3)
    work = Work(active_controller, active_controller.machine.brokers_changed(0))
    work.step()
    world.elect(2)
    after = world.state("t")
    with pytest.raises(Deposed):
        work.finish()
    assert world.state("t") == after


def test_memory_changes_only_after_the_write(
    world: World, active_controller: ControllerAtWork
) -> None:
    world.down(2)
    world.store.disconnect(world.sessions[1].session)
    with pytest.raises(Disconnected):
        active_controller.brokers_changed()
    world.sessions[1].reconnect()
    state = active_controller.partition("t").state
    assert state is not None
    assert state.isr == (1, 2, 3)
    assert world.state("t").isr == (1, 2, 3)


def test_a_topic_whose_creation_was_cut_off_is_made_whole(
    world: World, active_controller: ControllerAtWork
) -> None:
    work = Work(
        active_controller, active_controller.machine.create_topic("big", 2500, 3, {}, None, 0)
    )
    while "big" not in world.topics():
        work.step()
    assert len(world.keeper.children("/brokers/topics/big/partitions")) == 1000
    other = world.elect(2)
    assert len(world.keeper.children("/brokers/topics/big/partitions")) == 2500
    assert not other.machine.cluster.leaderless


def test_topics_of_a_broker_that_stood_alone_are_taken_over(
    world: World, active_controller: ControllerAtWork
) -> None:
    """Its logs have leader epochs of their own: the next one is larger."""
    alone = {0: [2], 1: [7]}
    world.keeper.create(paths.topic("old"), paths.topic_data(UUID(int=7), alone))
    world.elect(1)
    assert world.state("old", 0)[:3] == (2, ADOPTED_EPOCH, (2,))
    assert world.state("old", 1)[:3] == (NO_LEADER, ADOPTED_EPOCH, (7,))


# In-sync sets


def test_a_leader_shrinks_and_expands_the_isr(
    world: World, active_controller: ControllerAtWork
) -> None:
    assert verdict(propose(active_controller, [1, 2])) is Code.NONE
    assert world.state("t").isr == (1, 2)
    assert {type(each) for all_ in active_controller.told().values() for each in all_} == {
        UpdateMetadataRequest
    }, "the leader knows by the answer"
    assert verdict(propose(active_controller, [1, 2, 3])) is Code.NONE
    last = list(active_controller.machine.history)[-2:]
    assert [(entry.what, entry.cause) for entry in last] == [
        ("isr shrunk", "leader 1 reports that broker 3 fell behind"),
        ("isr expanded", "leader 1 reports that broker 3 caught up"),
    ]


def test_a_proposal_that_comes_twice_is_answered_twice_alike(
    active_controller: ControllerAtWork,
) -> None:
    first = propose(active_controller, [1, 2])
    assert propose(active_controller, [1, 2], partition_epoch=0) == first


@pytest.mark.parametrize(
    ("isr", "others", "code"),
    [
        ([1, 2], {"leader_epoch": -1}, Code.FENCED_LEADER_EPOCH),
        ([1, 2], {"leader_epoch": 1}, Code.NOT_CONTROLLER),
        ([1, 2], {"partition_epoch": 9}, Code.NOT_CONTROLLER),
        ([2, 3], {}, Code.INVALID_REQUEST),
        ([1, 1], {}, Code.INVALID_REQUEST),
        ([1, 9], {}, Code.INVALID_REQUEST),
        ([2, 1], {"leader": 2}, Code.INVALID_REQUEST),
        ([1, 2], {"epoch2": 1}, Code.INELIGIBLE_REPLICA),
    ],
)
def test_a_proposal_that_does_not_count(
    world: World,
    active_controller: ControllerAtWork,
    isr: list[int],
    others: dict[str, int],
    code: Code,
) -> None:
    assert verdict(propose(active_controller, isr, **others)) is code
    assert world.state("t").isr == (1, 2, 3)


def test_a_proposal_on_an_older_state_does_not_count(active_controller: ControllerAtWork) -> None:
    propose(active_controller, [1, 2])
    assert (
        verdict(propose(active_controller, [1], partition_epoch=0)) is Code.INVALID_UPDATE_VERSION
    )


def test_a_leader_that_has_registered_again_gets_its_state_first(
    active_controller: ControllerAtWork,
) -> None:
    assert propose(active_controller, [1], broker_epoch=3) is Code.STALE_BROKER_EPOCH


def test_nobody_who_is_about_to_stop_gets_into_the_isr(
    world: World, active_controller: ControllerAtWork
) -> None:
    propose(active_controller, [1, 2])
    active_controller.do(lambda m, now: m.shut_down(B(3), world.epoch(3), now))
    assert verdict(propose(active_controller, [1, 2, 3])) is Code.INELIGIBLE_REPLICA


# Stopping


def test_who_stops_in_good_order_hands_over_what_it_leads(
    world: World, active_controller: ControllerAtWork
) -> None:
    epoch = world.epoch(1)
    assert active_controller.do(lambda m, now: m.shut_down(B(1), epoch, now)) == []
    assert world.state("t")[:3] == (2, 1, (2, 3))


def test_what_nobody_else_can_lead_is_led_until_the_end(
    world: World, active_controller: ControllerAtWork
) -> None:
    propose(active_controller, [1])
    epoch = world.epoch(1)
    assert active_controller.do(lambda m, now: m.shut_down(B(1), epoch, now)) == [T0]
    assert world.state("t")[:3] == (1, 0, (1,))
    with pytest.raises(KafkaError, match="STALE_BROKER_EPOCH"):
        active_controller.do(lambda m, now: m.shut_down(B(1), 3, now))
