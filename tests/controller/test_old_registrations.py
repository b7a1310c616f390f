"""Members of the in-sync set that have registered again: nothing but their own proof makes them
lead, and nothing but a leader that has answered removes them."""

from barnabas.controller.in_sync import RAISE_MS
from barnabas.controller.proof import WAIT_MS, ReplicaCompleteness, ReplicaReport
from barnabas.controller.reassignment import ReassignmentRequest
from barnabas.controller.state import NO_LEADER
from barnabas.keeper import controller_paths as nodes
from barnabas.model.errors import Code, KafkaError
from barnabas.model.ids import BrokerId, TopicPartition
from barnabas.wire.messages.leader_and_isr import LeaderAndIsrRequest
from tests.controller.world import ControllerAtWork, World, propose

T0 = TopicPartition("t", 0)
ABSENT = ReplicaReport(
    ReplicaCompleteness.ABSENT, False, -1, 0, "has no log of it: its disk was replaced"
)


def killed(end: int) -> ReplicaReport:
    return ReplicaReport(ReplicaCompleteness.COMPLETE, False, 0, end)


def stopped(end: int) -> ReplicaReport:
    return ReplicaReport(ReplicaCompleteness.COMPLETE, True, 0, end)


def reassign(
    active_controller: ControllerAtWork, replicas: list[int] | None
) -> dict[TopicPartition, KafkaError | None]:
    target = None if replicas is None else [BrokerId(each) for each in replicas]
    requested = ReassignmentRequest(T0, target)
    return active_controller.do(lambda m, now: m.reassign([requested], True, now))


def told_new(active_controller: ControllerAtWork) -> dict[int, bool]:
    """Brokers that got the partition's state, and whether their replica is called new."""
    return {
        broker: state.is_new
        for broker, messages in active_controller.told().items()
        for message in messages
        if isinstance(message, LeaderAndIsrRequest)
        for topic in message.topic_states
        for state in topic.partition_states
    }


def without_epochs(world: World) -> None:
    """As Apache Kafka writes a state: without the registrations of the members."""
    node = world.keeper.get(nodes.state("t", 0))
    state = nodes.read_state("", node.data)._replace(isr_epochs=())
    world.keeper.set(nodes.state("t", 0), nodes.state_data(state), node.version)


# Moves


def test_a_move_does_not_call_the_replicas_of_old_registrations_new(
    world: World, active_controller: ControllerAtWork
) -> None:
    """A replica that is new has all records, because there are none: broker 1 would create an
    empty log, call it complete, and lead."""
    world.down(1, 2, 3)
    world.reports = {1: ABSENT}
    world.up(4)
    world.up(1, disk="new")
    other = world.elect(4)
    other.told()
    assert reassign(other, [1, 2, 3, 4]) == {T0: None}
    assert told_new(other) == {1: False, 4: True}


def test_a_move_calls_only_replicas_new_that_it_adds(
    world: World, active_controller: ControllerAtWork
) -> None:
    """The log of broker 3 may be on a directory that is offline: no other log takes its place."""
    world.up(4)
    active_controller.brokers_changed()
    propose(active_controller, [1, 2])
    active_controller.told()
    assert reassign(active_controller, [1, 2, 3, 4]) == {T0: None}
    assert told_new(active_controller) == {1: True, 2: True, 3: False, 4: True}


def test_a_move_is_not_cancelled_while_members_are_compared(
    world: World, active_controller: ControllerAtWork
) -> None:
    """Broker 4 may have more records than all others, and would delete them."""
    world.up(4, 5)
    active_controller.brokers_changed()
    assert reassign(active_controller, [1, 2, 3, 4, 5]) == {T0: None}
    propose(active_controller, [1, 2, 3, 4])
    world.down(1, 2, 3, 4)
    world.reports = {1: killed(50), 4: killed(100)}
    world.up(1, 4)
    other = world.elect(5)
    assert world.state("t").leader == NO_LEADER
    error = reassign(other, None)[T0]
    assert error is not None
    assert error.code is Code.INVALID_REPLICA_ASSIGNMENT
    other.now += WAIT_MS
    other.do(lambda m, now: m.tick(now))
    assert world.state("t").leader == 4


# States without epochs


def test_members_without_an_epoch_have_none_after_an_election_by_proof(
    world: World, active_controller: ControllerAtWork
) -> None:
    """They have reported that their logs are complete, not that they have all records."""
    without_epochs(world)
    world.up(4)
    world.reports = {1: killed(90), 2: killed(100), 3: killed(80)}
    world.silent_then = [2]
    other = world.elect(4)
    state = world.state("t")
    assert (state.leader, state.isr) == (2, (2, 1, 3))
    assert state.isr_epochs == (world.epoch(2), -1, -1)
    propose(other, [2, 1], epoch1=-1)  # broker 1 has not fetched yet
    assert world.state("t").isr_epochs == (world.epoch(2), -1)
    world.down(2)
    other.brokers_changed()
    assert world.state("t").leader == NO_LEADER, "broker 1 may have fewer records"


def test_a_move_does_not_give_an_epoch_to_members_without_one(
    world: World, active_controller: ControllerAtWork
) -> None:
    """Broker 1 would be in sync in its present registration, and lead without a log."""
    without_epochs(world)
    world.down(1, 2, 3)
    world.reports = {1: ABSENT}
    world.up(4)
    world.up(1, disk="new")
    other = world.elect(4)
    assert reassign(other, [1, 2, 3, 4]) == {T0: None}
    world.reports = {1: ABSENT, 2: killed(100), 3: killed(100)}
    world.up(2, 3)
    other.brokers_changed()
    assert world.state("t").leader == 2


# Waiting for missing members


def test_a_wait_ends_with_the_member_that_it_began_with(
    world: World, active_controller: ControllerAtWork
) -> None:
    """Broker 1 is back much later than broker 2, which has gone again: the others get their time
    to come back once more."""
    world.down(1, 2, 3)
    world.up(4)
    other = world.elect(4)
    world.reports = {1: killed(90), 2: killed(100), 3: killed(100)}
    world.up(2)
    other.brokers_changed()
    world.down(2)
    other.brokers_changed()
    other.now += 3 * WAIT_MS
    other.do(lambda m, now: m.tick(now))
    deadline = other.machine.next_deadline()
    assert deadline is not None
    assert deadline > other.now, "it would tick without a pause"
    world.up(1)
    other.brokers_changed()
    assert world.state("t").leader == NO_LEADER
    world.up(2)
    other.brokers_changed()
    other.now += WAIT_MS
    other.do(lambda m, now: m.tick(now))
    assert world.state("t").leader == 2


# Members that have not reported


def test_a_leader_by_proof_keeps_members_that_have_not_reported_until_it_answers(
    world: World, active_controller: ControllerAtWork
) -> None:
    """Broker 1 stopped cleanly and is back first; it loses its disk before the others are back."""
    world.down(1, 2, 3)
    world.up(4)
    other = world.elect(4)
    world.reports = {1: stopped(100)}
    world.silent_then = [1]
    world.up(1)
    other.brokers_changed()
    assert (world.state("t").leader, world.state("t").isr) == (1, (1, 2, 3))
    world.down(1)
    world.reports = {1: ABSENT, 2: stopped(100), 3: stopped(100)}
    world.silent_then = []
    world.up(1, disk="new")
    other.brokers_changed()
    world.up(2, 3)
    other.brokers_changed()
    assert (world.state("t").leader, world.state("t").isr) == (2, (2,))


def test_members_that_have_not_reported_stay_eligible(
    world: World, active_controller: ControllerAtWork
) -> None:
    """KIP-966: a leader alone commits nothing, so they have all committed records."""
    active_controller.create("safe", placed=[[1, 2, 3]], min_insync_replicas="2")
    world.down(1, 2, 3)
    world.reports = {1: stopped(100)}
    world.up(1)
    world.elect(1)
    state = world.state("safe")
    assert (state.leader, state.isr, state.elr) == (1, (1,), (2, 3))
    world.down(1)
    world.reports = {1: ABSENT, 2: stopped(100), 3: ABSENT}
    world.up(1, disk="new")
    world.up(2)
    other = world.elect(1)
    assert world.state("safe").leader == 2
    world.up(3, disk="new")
    other.brokers_changed()
    assert world.state("safe").elr == (3,), "it is asked only if nobody leads"


def test_a_default_does_not_hide_what_one_broker_needs_in_sync() -> None:
    """Broker 1 commits alone: broker 2 does not have the records that it commits then."""
    world = World()
    world.min_insync = 2
    world.up(1, 2, 3)
    active_controller = world.elect(1)
    active_controller.create("t", placed=[[1, 2, 3]])
    settle(active_controller, "1", "1")
    settle(active_controller, "", "2")
    world.down(2, 3)
    active_controller.brokers_changed()
    assert (world.state("t").isr, world.state("t").elr) == ((1,), ())


def settle(active_controller: ControllerAtWork, broker: str, least: str) -> None:
    """min.insync.replicas of one broker, or of all."""
    settings = {"min.insync.replicas": least}
    active_controller.do(lambda m, now: m.configure("brokers", broker, lambda _: settings, now))


def test_more_replicas_that_are_needed_in_sync_make_others_eligible_later(
    world: World, active_controller: ControllerAtWork
) -> None:
    """Broker 1 leads, has not read the setting yet, and commits records alone."""
    active_controller.create("safe", placed=[[1, 2]])
    settings = {"min.insync.replicas": "2"}
    active_controller.do(lambda m, now: m.configure("topics", "safe", lambda _: settings, now))
    world.down(2)
    active_controller.brokers_changed()
    assert (world.state("safe").isr, world.state("safe").elr) == ((1,), ())
    world.up(2)
    active_controller.brokers_changed()
    active_controller.now += RAISE_MS
    active_controller.do(lambda m, now: m.tick(now))
    propose(active_controller, [1, 2], "safe")
    world.down(2)
    active_controller.brokers_changed()
    assert (world.state("safe").isr, world.state("safe").elr) == ((1,), (2,))
