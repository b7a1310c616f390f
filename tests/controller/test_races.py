"""Each race of the controller in a few lines."""

from uuid import UUID

import pytest

from barnabas.controller.elections import Kind
from barnabas.controller.in_sync import Proposal, Verdict
from barnabas.controller.messages import ALL, EPOCH_DELETED
from barnabas.controller.moves import Wish
from barnabas.controller.state import NO_LEADER, Assignment
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
from barnabas.wire.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from barnabas.wire.messages.update_metadata import UpdateMetadataRequest
from tests.controller.world import Deposed, Office, Work, World

T0 = TopicPartition("t", 0)
B = BrokerId


@pytest.fixture
def world() -> World:
    world = World()
    world.up(1, 2, 3)
    return world


@pytest.fixture
def office(world: World) -> Office:
    office = world.elect(1)
    office.create("t", placed=[[1, 2, 3]])
    office.told()
    return office


def propose(office: Office, isr: list[int], **others: int) -> Code | Verdict:
    """By the leader, on the last state, unless told otherwise."""
    partition = office.partition("t")
    state = partition.state
    assert state is not None
    leader = B(others.get("leader", state.leader))
    proposal = Proposal(
        partition.topic.id,
        0,
        others.get("leader_epoch", state.leader_epoch),
        others.get("partition_epoch", state.version),
        [(B(id_), others.get(f"epoch{id_}", office.machine.cluster.epoch(B(id_)))) for id_ in isr],
    )
    epoch = others.get("broker_epoch", office.machine.cluster.epoch(leader))
    answer = office.do(lambda m, now: m.alter_partitions(leader, epoch, [proposal], now))
    return answer if isinstance(answer, Code) else answer[0]


def assigned(*replicas: tuple[int, ...]) -> Assignment:
    """Replicas; those being added; those being removed."""
    return Assignment(*(tuple(map(B, each)) for each in replicas))


def verdict(answer: Code | Verdict) -> Code:
    assert isinstance(answer, Verdict)
    return answer.code


# Brokers go and come


def test_the_first_replica_in_sync_leads_when_the_leader_dies(world: World, office: Office) -> None:
    world.down(1)
    other = world.elect(2)
    state = world.state("t")
    assert (state.leader, state.leader_epoch, state.isr) == (2, 1, (2, 3))
    assert [entry.what for entry in other.machine.story] == ["controller elected", "election"]


def test_a_dead_follower_leaves_the_isr_and_the_leader_epoch_stays(
    world: World, office: Office
) -> None:
    """A new leader epoch would fence every client for nothing."""
    world.down(3)
    office.brokers_changed()
    state = world.state("t")
    assert (state.leader, state.leader_epoch, state.isr, state.version) == (1, 0, (1, 2), 1)
    told = office.told()
    assert [type(each) for each in told[1]] == [LeaderAndIsrRequest, UpdateMetadataRequest]
    assert [type(each) for each in told[2]] == [UpdateMetadataRequest]


def test_a_broker_that_was_away_for_a_moment_is_in_sync_no_longer(
    world: World, office: Office
) -> None:
    """It may have lost its disk (KIP-903)."""
    world.bounce(2)
    office.brokers_changed()
    assert world.state("t").isr == (1, 3)


def test_one_that_was_away_while_nobody_was_controller_is_not_either(
    world: World, office: Office
) -> None:
    world.bounce(2)
    world.elect(3)
    assert world.state("t").isr == (1, 3)


def test_the_isr_stays_as_it_is_when_all_of_it_dies_at_once(world: World, office: Office) -> None:
    """Whoever of it comes back first has everything that was committed."""
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


def test_who_fell_out_of_sync_does_not_lead(world: World, office: Office) -> None:
    world.up(4)
    other = world.elect(4)
    propose(other, [1])
    world.down(1)
    other.brokers_changed()
    assert world.state("t")[:3] == (NO_LEADER, 1, (1,))


def test_an_unclean_election_is_held_only_where_it_is_allowed_and_is_said_loudly(
    world: World, office: Office
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
    assert any(say.loud and "unclean" in say.event for say in world.said)
    assert [entry.what for entry in other.machine.story][-1] == "unclean election"


def test_thousands_of_partitions_take_a_few_writes_and_a_few_messages_to_each_broker(
    world: World, office: Office
) -> None:
    """First those that are led no more, then those whose in-sync set is smaller."""
    office.create("big", 1500, 3)
    office.told()
    world.writes = 0
    world.down(3)
    office.brokers_changed()
    assert world.writes == 3
    told = office.told()
    assert sorted(told) == [1, 2]
    for messages in told.values():
        kinds = [type(each) for each in messages]
        assert kinds == [LeaderAndIsrRequest, UpdateMetadataRequest] * 2
        assert isinstance(messages[0], LeaderAndIsrRequest)
        states = messages[0].topic_states[0].partition_states
        assert len(states) == 500
        assert all(state.leader_epoch == 1 for state in states)


def test_a_newcomer_is_told_everything_and_leadership_first(world: World, office: Office) -> None:
    world.down(3)
    office.brokers_changed()
    office.told()
    world.up(3)
    office.brokers_changed()
    lead, metadata = office.told()[3]
    assert isinstance(lead, LeaderAndIsrRequest)
    assert lead.type == ALL
    assert isinstance(metadata, UpdateMetadataRequest)
    assert metadata.type == ALL
    assert lead.broker_epoch == metadata.broker_epoch == world.epoch(3)
    assert [each.id for each in metadata.live_brokers] == [1, 2, 3]


def test_rubbish_among_the_registrations_stops_nobody(world: World, office: Office) -> None:
    world.looker.create("/brokers/ids/x", b"{}")
    world.looker.create("/brokers/ids/7", b"rubbish")
    office.brokers_changed()
    assert sorted(office.machine.cluster.brokers) == [1, 2, 3]
    world.elect(2)


def test_replicas_on_a_failed_disk_are_led_by_others(world: World, office: Office) -> None:
    """The broker is there: it says so in its answer to LeaderAndIsr."""
    partition = office.partition("t")
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
    office.do(lambda m, now: m.answered(B(1), request, answer, now))
    assert world.state("t")[:3] == (2, 1, (2, 3))
    assert verdict(propose(office, [2, 3, 1])) is Code.INELIGIBLE_REPLICA


# Controllers


def test_a_controller_that_was_followed_by_another_writes_nothing(
    world: World, office: Office
) -> None:
    """Stopped beyond its session, and then going on in the middle of its work."""
    world.down(3)
    work = Work(office, office.machine.brokers_changed(0))
    work.step()
    world.elect(2)
    after = world.state("t")
    with pytest.raises(Deposed):
        work.finish()
    assert world.state("t") == after


def test_memory_changes_only_after_the_write(world: World, office: Office) -> None:
    world.down(2)
    world.store.disconnect(world.sessions[1].session)
    with pytest.raises(Disconnected):
        office.brokers_changed()
    world.sessions[1].reconnect()
    state = office.partition("t").state
    assert state is not None
    assert state.isr == (1, 2, 3)
    assert world.state("t").isr == (1, 2, 3)


def test_a_topic_whose_creation_was_cut_off_is_made_whole(world: World, office: Office) -> None:
    work = Work(office, office.machine.create_topic("big", 2500, 3, {}, None, 0))
    while "big" not in world.topics():
        work.step()
    assert len(world.looker.children("/brokers/topics/big/partitions")) == 1000
    other = world.elect(2)
    assert len(world.looker.children("/brokers/topics/big/partitions")) == 2500
    assert not other.machine.cluster.leaderless


def test_topics_of_a_broker_that_stood_alone_are_taken_over(world: World, office: Office) -> None:
    """Its logs have leader epochs of their own: the next one is larger."""
    alone = {0: [2], 1: [7]}
    world.looker.create(paths.topic("old"), paths.topic_data(UUID(int=7), alone))
    world.elect(1)
    assert world.state("old", 0)[:3] == (2, ADOPTED_EPOCH, (2,))
    assert world.state("old", 1)[:3] == (NO_LEADER, ADOPTED_EPOCH, (7,))


# In-sync sets


def test_a_leader_shrinks_and_expands_the_isr(world: World, office: Office) -> None:
    assert verdict(propose(office, [1, 2])) is Code.NONE
    assert world.state("t").isr == (1, 2)
    assert {type(each) for all_ in office.told().values() for each in all_} == {
        UpdateMetadataRequest
    }, "the leader knows by the answer"
    assert verdict(propose(office, [1, 2, 3])) is Code.NONE
    story = list(office.machine.story)[-2:]
    assert [(entry.what, entry.cause) for entry in story] == [
        ("isr shrunk", "leader 1 says that broker 3 fell behind"),
        ("isr expanded", "leader 1 says that broker 3 caught up"),
    ]


def test_a_proposal_that_comes_twice_is_answered_twice_alike(office: Office) -> None:
    first = propose(office, [1, 2])
    assert propose(office, [1, 2], partition_epoch=0) == first


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
    world: World, office: Office, isr: list[int], others: dict[str, int], code: Code
) -> None:
    assert verdict(propose(office, isr, **others)) is code
    assert world.state("t").isr == (1, 2, 3)


def test_a_proposal_on_an_older_state_does_not_count(office: Office) -> None:
    propose(office, [1, 2])
    assert verdict(propose(office, [1], partition_epoch=0)) is Code.INVALID_UPDATE_VERSION


def test_a_leader_that_has_registered_anew_must_hear_of_it_first(office: Office) -> None:
    assert propose(office, [1], broker_epoch=3) is Code.STALE_BROKER_EPOCH


def test_nobody_who_is_about_to_stop_gets_into_the_isr(world: World, office: Office) -> None:
    propose(office, [1, 2])
    office.do(lambda m, now: m.shut_down(B(3), world.epoch(3), now))
    assert verdict(propose(office, [1, 2, 3])) is Code.INELIGIBLE_REPLICA


# Stopping


def test_who_stops_in_good_order_hands_over_what_it_leads(world: World, office: Office) -> None:
    epoch = world.epoch(1)
    assert office.do(lambda m, now: m.shut_down(B(1), epoch, now)) == []
    assert world.state("t")[:3] == (2, 1, (2, 3))


def test_what_nobody_else_can_lead_is_led_until_the_end(world: World, office: Office) -> None:
    propose(office, [1])
    epoch = world.epoch(1)
    assert office.do(lambda m, now: m.shut_down(B(1), epoch, now)) == [T0]
    assert world.state("t")[:3] == (1, 0, (1,))
    with pytest.raises(KafkaError, match="STALE_BROKER_EPOCH"):
        office.do(lambda m, now: m.shut_down(B(1), 3, now))


# Deleting


def test_a_deletion_ends_when_all_who_are_there_have_answered(world: World, office: Office) -> None:
    topic = office.partition("t").topic
    office.do(lambda m, now: m.delete_topic("t", topic.id, now))
    assert world.topics() == []
    assert world.marks() == ["t"]
    stops = {
        broker: each
        for broker, messages in office.told().items()
        for each in messages
        if isinstance(each, StopReplicaRequest)
    }
    assert sorted(stops) == [1, 2, 3]
    answer = StopReplicaResponse(error_code=0, partition_errors=[])
    for broker in (1, 2):
        assert stops[broker].topic_states[0].partition_states[0].leader_epoch == EPOCH_DELETED
        office.do(lambda m, now: m.answered(B(broker), stops[broker], answer, now))  # noqa: B023
    assert world.marks() == ["t"]
    world.down(3)
    office.brokers_changed()
    assert world.marks() == []


def test_a_deletion_that_was_cut_off_goes_on_under_the_next(world: World, office: Office) -> None:
    office.create("big", 2500, 3)
    topic = office.partition("big").topic
    work = Work(office, office.machine.delete_topic("big", topic.id, 0))
    while not world.marks():
        work.step()
    assert "big" in world.topics()
    other = world.elect(2)
    assert world.topics() == ["t"]
    assert (
        sum(isinstance(m, StopReplicaRequest) for all_ in other.told().values() for m in all_) == 3
    )


def test_a_deleted_name_can_be_used_again_at_once(world: World, office: Office) -> None:
    old = office.partition("t").topic.id
    office.do(lambda m, now: m.delete_topic("t", old, now))
    office.create("t", placed=[[1, 2, 3]])
    kinds = [type(each) for each in office.told()[2]]
    assert kinds.index(StopReplicaRequest) < kinds.index(LeaderAndIsrRequest)
    other = world.elect(2)
    assert world.marks() == [], "the next controller does not stop the new one"
    assert not any(
        isinstance(each, StopReplicaRequest) for all_ in other.told().values() for each in all_
    )


# Growing


def test_a_topic_grows_as_kafka_would_have_placed_it(world: World, office: Office) -> None:
    office.create("g", 3, 2)
    before = world.topic("g").replicas
    office.do(lambda m, now: m.add_partitions("g", 6, None, now))
    after = world.topic("g").replicas
    assert {index: after[index] for index in before} == before
    leaders = [replicas[0] for _, replicas in sorted(after.items())]
    assert leaders == leaders[:3] * 2


def test_more_than_there_is_room_for_is_refused(office: Office) -> None:
    wrongs: list[list[list[int]]] = [[[1, 1]], [[1, 9]], [[]], [[1, 2]] * 2]
    for wrong in wrongs:
        at = [[B(id_) for id_ in each] for each in wrong]
        with pytest.raises(KafkaError, match="INVALID_REPLICA_ASSIGNMENT"):
            office.do(lambda m, now: m.add_partitions("t", 2, at, now))  # noqa: B023
    with pytest.raises(KafkaError, match="INVALID_PARTITIONS"):
        office.do(lambda m, now: m.add_partitions("t", 1, None, now))


# Elections by request


def test_the_preferred_leader_takes_over_when_asked(world: World, office: Office) -> None:
    world.bounce(1)
    other = world.elect(2)
    assert world.state("t").leader == 2
    refused = other.do(lambda m, now: m.elect(Kind.PREFERRED, [T0], now))[T0]
    assert refused is not None
    assert refused.code is Code.PREFERRED_LEADER_NOT_AVAILABLE
    propose(other, [2, 3, 1])
    assert other.do(lambda m, now: m.elect(Kind.PREFERRED, None, now)) == {T0: None}
    assert world.state("t")[:3] == (1, 2, (2, 3, 1))
    again = other.do(lambda m, now: m.elect(Kind.PREFERRED, [T0], now))[T0]
    assert again is not None
    assert again.code is Code.ELECTION_NOT_NEEDED


def test_an_election_that_is_asked_for_twice_is_held_once(world: World, office: Office) -> None:
    world.bounce(1)
    other = world.elect(2)
    propose(other, [2, 3, 1])
    assert other.do(lambda m, now: m.elect(Kind.PREFERRED, [T0, T0], now)) == {T0: None}
    assert world.state("t").leader_epoch == 2


def test_leadership_goes_back_by_itself_when_too_much_of_it_is_elsewhere(world: World) -> None:
    world.up(4)
    office = world.elect(4, imbalance_percent=10)
    office.create("t", placed=[[1, 2]])
    world.bounce(1)
    office.brokers_changed()
    assert world.state("t").leader == 2
    office.do(lambda m, now: m.tick(now))
    assert world.state("t").leader == 2, "it is not in sync yet"
    propose(office, [2, 1])
    assert office.machine.cluster.imbalanced == 1
    office.do(lambda m, now: m.tick(now))
    assert world.state("t").leader == 1
    assert office.machine.cluster.imbalanced == 0


# Moves


def move(office: Office, *replicas: int) -> KafkaError | None:
    wish = Wish(T0, [B(id_) for id_ in replicas] or None)
    return office.do(lambda m, now: m.reassign([wish], True, now))[T0]


def test_a_move_goes_in_steps_and_nobody_leaves_before_all_are_in_sync(
    world: World, office: Office
) -> None:
    world.up(4, 5)
    office.brokers_changed()
    office.told()
    assert move(office, 4, 5) is None
    assert office.assignment("t") == assigned((4, 5, 1, 2, 3), (4, 5), (1, 2, 3))
    assert world.state("t")[:3] == (1, 0, (1, 2, 3))
    assert office.machine.moving(None) == {T0: office.assignment("t")}
    propose(office, [1, 2, 3, 4])
    assert office.machine.moving({"t": [0]})
    office.told()
    propose(office, [1, 2, 3, 4, 5])
    assert office.assignment("t") == assigned((4, 5))
    assert world.state("t")[:3] == (4, 1, (4, 5))
    told = office.told()
    for broker in (1, 2, 3):
        assert any(isinstance(each, StopReplicaRequest) for each in told[broker])
    assert office.machine.moving(None) == {}


def test_a_move_goes_on_under_the_next_controller(world: World, office: Office) -> None:
    world.up(4)
    office.brokers_changed()
    move(office, 1, 2, 4)
    other = world.elect(2)
    assert other.assignment("t") == assigned((1, 2, 4, 3), (4,), (3,))
    propose(other, [1, 2, 3, 4])
    assert other.assignment("t") == assigned((1, 2, 4))
    assert world.state("t").isr == (1, 2, 4)


def test_a_move_whose_end_was_cut_off_is_ended_by_the_next_controller(
    world: World, office: Office
) -> None:
    """The last replica is in sync, and then the controller dies: nobody will propose it again."""
    world.up(4)
    office.brokers_changed()
    move(office, 1, 2, 4)
    partition = office.partition("t")
    isr = [(B(id_), world.epoch(id_)) for id_ in (1, 2, 3, 4)]
    last = Proposal(partition.topic.id, 0, 0, world.state("t").version, isr)
    work = Work(office, office.machine.alter_partitions(B(1), world.epoch(1), [last], 0))
    while len(world.state("t").isr) < 4:
        work.step()
    assert world.elect(2).assignment("t") == assigned((1, 2, 4))


def test_a_move_that_is_given_up_leaves_everything_as_it_was(world: World, office: Office) -> None:
    world.up(4)
    office.brokers_changed()
    move(office, 4, 1)
    propose(office, [1, 2, 3, 4])
    assert office.assignment("t") == assigned((4, 1))
    nothing = move(office)
    assert nothing is not None
    assert nothing.code is Code.NO_REASSIGNMENT_IN_PROGRESS
    move(office, 2, 3)
    office.told()
    assert move(office) is None
    assert office.assignment("t") == assigned((4, 1))
    assert any(isinstance(each, StopReplicaRequest) for each in office.told()[2])


def test_another_target_takes_the_place_of_the_first(world: World, office: Office) -> None:
    world.up(4, 5)
    office.brokers_changed()
    move(office, 1, 2, 4)
    office.told()
    move(office, 1, 2, 5)
    assert office.assignment("t") == assigned((1, 2, 5, 3), (5,), (3,))
    assert any(isinstance(each, StopReplicaRequest) for each in office.told()[4])


def test_only_the_order_may_change_too(world: World, office: Office) -> None:
    assert move(office, 3, 2, 1) is None
    assert office.assignment("t") == assigned((3, 2, 1))
    assert world.state("t").leader == 1, "until it is elected"


@pytest.mark.parametrize("replicas", [(1, 1), (1, 9)])
def test_a_target_that_cannot_be_is_refused(office: Office, replicas: tuple[int, ...]) -> None:
    refused = move(office, *replicas)
    assert refused is not None
    assert refused.code is Code.INVALID_REPLICA_ASSIGNMENT


# Forgetting


def test_only_a_broker_that_is_gone_and_has_nothing_is_forgotten(
    world: World, office: Office
) -> None:
    def unregister(broker: int) -> None:
        office.do(lambda m, now: m.unregister(B(broker), now))

    with pytest.raises(KafkaError, match="alive"):
        unregister(3)
    world.down(3)
    office.brokers_changed()
    with pytest.raises(KafkaError, match="replicas"):
        unregister(3)
    move(office, 1, 2)
    with pytest.raises(KafkaError, match="BROKER_ID_NOT_REGISTERED"):
        unregister(3)
    office.do(lambda m, now: m.configure("brokers", "3", lambda before: {"a": "b"}, now))
    unregister(3)
    assert "3" not in world.looker.children(paths.BROKER_CONFIGS)
