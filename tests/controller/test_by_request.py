"""What a controller is asked for: topics that go and grow, elections, moves, brokers forgotten."""

import pytest

from barnabas.controller.in_sync import InSyncProposal
from barnabas.controller.messages import EPOCH_DELETED
from barnabas.controller.reassignment import ReassignmentRequest
from barnabas.controller.requested_elections import ElectionKind
from barnabas.controller.state import Assignment
from barnabas.keeper import paths
from barnabas.model.errors import Code, KafkaError
from barnabas.model.ids import BrokerId, TopicPartition
from barnabas.wire.messages.leader_and_isr import LeaderAndIsrRequest
from barnabas.wire.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from tests.controller.world import ControllerAtWork, Work, World, propose

T0 = TopicPartition("t", 0)
B = BrokerId


def assigned(*replicas: tuple[int, ...]) -> Assignment:
    """Replicas; those being added; those being removed."""
    return Assignment(*(tuple(map(B, each)) for each in replicas))


# Deleting


def test_a_deletion_ends_when_all_who_are_there_have_answered(
    world: World, active_controller: ControllerAtWork
) -> None:
    topic = active_controller.partition("t").topic
    active_controller.do(lambda m, now: m.delete_topic("t", topic.id, now))
    assert world.topics() == []
    assert world.marks() == ["t"]
    stops = {
        broker: each
        for broker, messages in active_controller.told().items()
        for each in messages
        if isinstance(each, StopReplicaRequest)
    }
    assert sorted(stops) == [1, 2, 3]
    answer = StopReplicaResponse(error_code=0, partition_errors=[])
    for broker in (1, 2):
        assert stops[broker].topic_states[0].partition_states[0].leader_epoch == EPOCH_DELETED
        active_controller.do(lambda m, now: m.answered(B(broker), stops[broker], answer, now))  # noqa: B023
    assert world.marks() == ["t"]
    world.down(3)
    active_controller.brokers_changed()
    assert world.marks() == []


def test_a_deletion_that_was_cut_off_goes_on_under_the_next(
    world: World, active_controller: ControllerAtWork
) -> None:
    active_controller.create("big", 2500, 3)
    topic = active_controller.partition("big").topic
    work = Work(active_controller, active_controller.machine.delete_topic("big", topic.id, 0))
    while not world.marks():
        work.step()
    assert "big" in world.topics()
    other = world.elect(2)
    assert world.topics() == ["t"]
    assert (
        sum(isinstance(m, StopReplicaRequest) for all_ in other.told().values() for m in all_) == 3
    )


def test_a_deleted_name_can_be_used_again_at_once(
    world: World, active_controller: ControllerAtWork
) -> None:
    old = active_controller.partition("t").topic.id
    active_controller.do(lambda m, now: m.delete_topic("t", old, now))
    active_controller.create("t", placed=[[1, 2, 3]])
    kinds = [type(each) for each in active_controller.told()[2]]
    assert kinds.index(StopReplicaRequest) < kinds.index(LeaderAndIsrRequest)
    other = world.elect(2)
    assert world.marks() == [], "the next controller does not stop the new one"
    assert not any(
        isinstance(each, StopReplicaRequest) for all_ in other.told().values() for each in all_
    )


# Growing


def test_a_topic_grows_as_kafka_would_have_placed_it(
    world: World, active_controller: ControllerAtWork
) -> None:
    active_controller.create("g", 3, 2)
    before = world.topic("g").replicas
    active_controller.do(lambda m, now: m.add_partitions("g", 6, None, now))
    after = world.topic("g").replicas
    assert {index: after[index] for index in before} == before
    leaders = [replicas[0] for _, replicas in sorted(after.items())]
    assert leaders == leaders[:3] * 2


def test_more_than_there_is_room_for_is_refused(active_controller: ControllerAtWork) -> None:
    wrongs: list[list[list[int]]] = [[[1, 1]], [[1, 9]], [[]], [[1, 2]] * 2]
    for wrong in wrongs:
        at = [[B(id_) for id_ in each] for each in wrong]
        with pytest.raises(KafkaError, match="INVALID_REPLICA_ASSIGNMENT"):
            active_controller.do(lambda m, now: m.add_partitions("t", 2, at, now))  # noqa: B023
    with pytest.raises(KafkaError, match="INVALID_PARTITIONS"):
        active_controller.do(lambda m, now: m.add_partitions("t", 1, None, now))


# Elections by request


def test_the_preferred_leader_takes_over_when_asked(
    world: World, active_controller: ControllerAtWork
) -> None:
    world.bounce(1)
    other = world.elect(2)
    assert world.state("t").leader == 2
    refused = other.do(lambda m, now: m.elect(ElectionKind.PREFERRED, [T0], now))[T0]
    assert refused is not None
    assert refused.code is Code.PREFERRED_LEADER_NOT_AVAILABLE
    propose(other, [2, 3, 1])
    assert other.do(lambda m, now: m.elect(ElectionKind.PREFERRED, None, now)) == {T0: None}
    assert world.state("t")[:3] == (1, 2, (2, 3, 1))
    again = other.do(lambda m, now: m.elect(ElectionKind.PREFERRED, [T0], now))[T0]
    assert again is not None
    assert again.code is Code.ELECTION_NOT_NEEDED


def test_an_election_that_is_asked_for_twice_is_held_once(
    world: World, active_controller: ControllerAtWork
) -> None:
    world.bounce(1)
    other = world.elect(2)
    propose(other, [2, 3, 1])
    assert other.do(lambda m, now: m.elect(ElectionKind.PREFERRED, [T0, T0], now)) == {T0: None}
    assert world.state("t").leader_epoch == 2


def test_leadership_goes_back_by_itself_when_too_much_of_it_is_elsewhere(world: World) -> None:
    world.up(4)
    active_controller = world.elect(4, imbalance_percent=10)
    active_controller.create("t", placed=[[1, 2]])
    world.bounce(1)
    active_controller.brokers_changed()
    assert world.state("t").leader == 2
    active_controller.now += 300_000
    active_controller.do(lambda m, now: m.tick(now))
    assert world.state("t").leader == 2, "it is not in sync yet"
    propose(active_controller, [2, 1])
    assert active_controller.machine.cluster.imbalanced == 1
    active_controller.now += 300_000
    active_controller.do(lambda m, now: m.tick(now))
    assert world.state("t").leader == 1
    assert active_controller.machine.cluster.imbalanced == 0


# Moves


def move(active_controller: ControllerAtWork, *replicas: int) -> KafkaError | None:
    requested = ReassignmentRequest(T0, [B(id_) for id_ in replicas] or None)
    return active_controller.do(lambda m, now: m.reassign([requested], True, now))[T0]


def test_a_reassignment_removes_no_replica_before_the_new_ones_are_in_sync(
    world: World, active_controller: ControllerAtWork
) -> None:
    world.up(4, 5)
    active_controller.brokers_changed()
    active_controller.told()
    assert move(active_controller, 4, 5) is None
    assert active_controller.assignment("t") == assigned((4, 5, 1, 2, 3), (4, 5), (1, 2, 3))
    assert world.state("t")[:3] == (1, 0, (1, 2, 3))
    assert active_controller.machine.moving(None) == {T0: active_controller.assignment("t")}
    propose(active_controller, [1, 2, 3, 4])
    assert active_controller.machine.moving({"t": [0]})
    active_controller.told()
    propose(active_controller, [1, 2, 3, 4, 5])
    assert active_controller.assignment("t") == assigned((4, 5))
    assert world.state("t")[:3] == (4, 1, (4, 5))
    told = active_controller.told()
    for broker in (1, 2, 3):
        assert any(isinstance(each, StopReplicaRequest) for each in told[broker])
    assert active_controller.machine.moving(None) == {}


def test_a_reassignment_continues_under_the_next_controller(
    world: World, active_controller: ControllerAtWork
) -> None:
    world.up(4)
    active_controller.brokers_changed()
    move(active_controller, 1, 2, 4)
    other = world.elect(2)
    assert other.assignment("t") == assigned((1, 2, 4, 3), (4,), (3,))
    propose(other, [1, 2, 3, 4])
    assert other.assignment("t") == assigned((1, 2, 4))
    assert world.state("t").isr == (1, 2, 4)


def test_a_reassignment_whose_end_was_interrupted_is_completed_by_the_next_controller(
    world: World, active_controller: ControllerAtWork
) -> None:
    """The last replica is in sync, and then the controller dies: nobody will propose it again."""
    world.up(4)
    active_controller.brokers_changed()
    move(active_controller, 1, 2, 4)
    partition = active_controller.partition("t")
    isr = [(B(id_), world.epoch(id_)) for id_ in (1, 2, 3, 4)]
    last = InSyncProposal(partition.topic.id, 0, 0, world.state("t").version, isr)
    work = Work(
        active_controller,
        active_controller.machine.alter_partitions(B(1), world.epoch(1), [last], 0),
    )
    while len(world.state("t").isr) < 4:
        work.step()
    assert world.elect(2).assignment("t") == assigned((1, 2, 4))


def test_a_cancelled_reassignment_leaves_everything_as_it_was(
    world: World, active_controller: ControllerAtWork
) -> None:
    world.up(4)
    active_controller.brokers_changed()
    move(active_controller, 4, 1)
    propose(active_controller, [1, 2, 3, 4])
    assert active_controller.assignment("t") == assigned((4, 1))
    nothing = move(active_controller)
    assert nothing is not None
    assert nothing.code is Code.NO_REASSIGNMENT_IN_PROGRESS
    move(active_controller, 2, 3)
    active_controller.told()
    assert move(active_controller) is None
    assert active_controller.assignment("t") == assigned((4, 1))
    assert any(isinstance(each, StopReplicaRequest) for each in active_controller.told()[2])


def test_a_second_reassignment_replaces_the_target_of_the_first(
    world: World, active_controller: ControllerAtWork
) -> None:
    world.up(4, 5)
    active_controller.brokers_changed()
    move(active_controller, 1, 2, 4)
    active_controller.told()
    move(active_controller, 1, 2, 5)
    assert active_controller.assignment("t") == assigned((1, 2, 5, 3), (5,), (3,))
    assert any(isinstance(each, StopReplicaRequest) for each in active_controller.told()[4])


def test_a_reassignment_may_change_only_the_order(
    world: World, active_controller: ControllerAtWork
) -> None:
    assert move(active_controller, 3, 2, 1) is None
    assert active_controller.assignment("t") == assigned((3, 2, 1))
    assert world.state("t").leader == 1, "until it is elected"


@pytest.mark.parametrize("replicas", [(1, 1), (1, 9)])
def test_an_invalid_reassignment_is_refused(
    active_controller: ControllerAtWork, replicas: tuple[int, ...]
) -> None:
    refused = move(active_controller, *replicas)
    assert refused is not None
    assert refused.code is Code.INVALID_REPLICA_ASSIGNMENT


# Forgetting


def test_only_a_broker_that_is_gone_and_has_nothing_is_forgotten(
    world: World, active_controller: ControllerAtWork
) -> None:
    def unregister(broker: int) -> None:
        active_controller.do(lambda m, now: m.unregister(B(broker), now))

    with pytest.raises(KafkaError, match="alive"):
        unregister(3)
    world.down(3)
    active_controller.brokers_changed()
    with pytest.raises(KafkaError, match="replicas"):
        unregister(3)
    move(active_controller, 1, 2)
    unregister(3)
    with pytest.raises(KafkaError, match="BROKER_ID_NOT_REGISTERED"):
        unregister(3)
    active_controller.do(lambda m, now: m.configure("brokers", "3", lambda before: {"a": "b"}, now))
    unregister(3)
    assert "3" not in world.keeper.children(paths.BROKER_CONFIGS)
