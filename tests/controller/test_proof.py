"""Who leads after all in-sync replicas were away: proof before speed, and never an emptied disk."""

import pytest

from barnabas.controller.messages import ALL
from barnabas.controller.proof import WAIT_MS, ReplicaCompleteness, ReplicaReport
from barnabas.controller.reassignment import ReassignmentRequest
from barnabas.controller.requested_elections import ElectionKind
from barnabas.controller.state import NO_LEADER
from barnabas.controller.steps import WriteTooLarge
from barnabas.model.errors import InvalidRequest
from barnabas.model.ids import BrokerId, TopicPartition
from barnabas.wire.messages.describe_replicas import DescribeReplicasRequest
from barnabas.wire.messages.leader_and_isr import LeaderAndIsrRequest
from tests.controller.world import ControllerAtWork, Work, World

T0 = TopicPartition("t", 0)
LOST = ReplicaReport(ReplicaCompleteness.LOST, False, -1, 0, "has lost its log")
ABSENT = ReplicaReport(
    ReplicaCompleteness.ABSENT, False, -1, 0, "has no log of it: its disk was replaced"
)


def killed(end: int, epoch: int = 0) -> ReplicaReport:
    """As a process leaves it that was killed."""
    return ReplicaReport(ReplicaCompleteness.COMPLETE, False, epoch, end)


def stopped(end: int) -> ReplicaReport:
    return ReplicaReport(ReplicaCompleteness.COMPLETE, True, 0, end)


def all_away(world: World) -> None:
    world.down(1, 2, 3)


def test_an_emptied_broker_that_is_back_first_does_not_lead(
    world: World, active_controller: ControllerAtWork
) -> None:
    all_away(world)
    world.reports = {1: LOST, 2: killed(100), 3: killed(100)}
    world.up(1, disk="new")
    other = world.elect(1)
    assert world.state("t")[:3] == (NO_LEADER, 1, (1, 2, 3))
    world.up(2, 3)
    other.brokers_changed()
    state = world.state("t")
    assert (state.leader, state.isr) == (2, (2,))
    assert 1 not in state.elr


def test_the_longest_log_leads_when_all_were_killed(
    world: World, active_controller: ControllerAtWork
) -> None:
    all_away(world)
    world.reports = {1: killed(90), 2: killed(80, epoch=1), 3: killed(100)}
    world.up(1, 2, 3)
    world.elect(3)
    assert world.state("t").leader == 2, "a later epoch wins over more records of an older one"


def test_a_killed_broker_waits_for_the_others_a_bounded_time(
    world: World, active_controller: ControllerAtWork
) -> None:
    all_away(world)
    world.reports = {2: killed(100)}
    world.up(2)
    other = world.elect(2)
    assert world.state("t").leader == NO_LEADER
    assert other.machine.next_deadline() == other.now + WAIT_MS
    other.now += WAIT_MS
    other.do(lambda m, now: m.tick(now))
    state = world.state("t")
    assert (state.leader, state.isr) == (2, (2,))
    assert other.machine.next_deadline() != WAIT_MS


def test_a_member_that_never_had_a_log_leads_when_the_others_lost_their_disks(
    world: World, active_controller: ControllerAtWork
) -> None:
    """Nothing was committed without it: the partition was empty, or nothing of it was synced."""
    all_away(world)
    world.reports = {1: ABSENT, 2: ABSENT, 3: LOST}
    world.up(1)
    world.up(2, 3, disk="new")
    world.elect(1)
    assert world.state("t").leader == 1, "its disk is the one it had"


def test_a_broker_that_stopped_cleanly_leads_at_once(
    world: World, active_controller: ControllerAtWork
) -> None:
    all_away(world)
    world.reports = {3: stopped(100)}
    world.up(3)
    world.elect(3)
    assert world.state("t").leader == 3


def test_a_short_log_waits_for_all_others_however_long(
    world: World, active_controller: ControllerAtWork
) -> None:
    """Its broker had written down a higher watermark than the log has now."""
    all_away(world)
    world.reports = {
        1: ReplicaReport(ReplicaCompleteness.SHORT, False, 0, 50, "is short"),
        2: LOST,
        3: LOST,
    }
    world.up(1)
    other = world.elect(1)
    other.now += 10 * WAIT_MS
    other.do(lambda m, now: m.tick(now))
    assert world.state("t").leader == NO_LEADER
    world.up(2, 3)
    other.brokers_changed()
    assert world.state("t").leader == 1, "nobody has more"


def test_an_in_sync_set_does_not_shrink_to_a_leader_that_does_not_answer(
    world: World, active_controller: ControllerAtWork
) -> None:
    """Broker 1 was killed and lost its disk; its session has not ended when the others are back."""
    world.up(4)
    other = world.elect(4)
    world.reports = {1: None}
    world.down(2, 3)
    other.brokers_changed()
    assert world.state("t")[:3] == (1, 0, (1, 2, 3))
    world.up(2, 3)
    world.down(1)
    world.reports = {1: ABSENT, 2: killed(100), 3: killed(90)}
    world.up(1, disk="new")
    other.brokers_changed()
    assert world.state("t").leader == 2, "it has everything"


def test_a_leader_that_is_elected_alone_keeps_the_in_sync_set_until_it_answers(
    world: World, active_controller: ControllerAtWork
) -> None:
    world.up(4)
    other = world.elect(4)
    world.reports = {3: None}
    world.down(1, 2)
    other.brokers_changed()
    assert world.state("t")[:3] == (3, 1, (1, 2, 3)), "broker 3 may be dead as well"
    world.up(1, 2)
    world.down(3)
    world.reports = {1: killed(90), 2: killed(100), 3: ABSENT}
    world.up(3, disk="new")
    other.brokers_changed()
    assert world.state("t").leader == 2


def test_a_leader_by_proof_keeps_the_other_complete_members_until_it_answers(
    world: World, active_controller: ControllerAtWork
) -> None:
    """Broker 2 reported its log, was then killed and lost its disk; its session has not ended."""
    all_away(world)
    world.up(4)
    other = world.elect(4)
    world.reports = {2: killed(100)}
    world.up(2)
    other.brokers_changed()
    assert world.state("t").leader == NO_LEADER, "the others may have more"
    world.reports = {1: killed(90), 2: None, 3: killed(80)}
    world.up(1, 3)
    other.brokers_changed()
    assert (world.state("t").leader, world.state("t").isr) == (2, (2, 1, 3))
    world.down(2)
    world.reports = {1: killed(90), 2: ABSENT, 3: killed(80)}
    world.up(2, disk="new")
    other.brokers_changed()
    assert (world.state("t").leader, world.state("t").isr) == (1, (1,)), "it has answered"


def test_a_requested_election_by_proof_leaves_no_member_of_an_old_registration(
    world: World, active_controller: ControllerAtWork
) -> None:
    """Broker 3 is registered and does not answer: nothing else would shrink the set."""
    all_away(world)
    world.up(4)
    other = world.elect(4)
    world.reports = {1: killed(90), 2: killed(100), 3: None}
    world.up(1, 2, 3)
    other.brokers_changed()
    assert world.state("t").leader == NO_LEADER
    assert other.do(lambda m, now: m.elect(ElectionKind.UNCLEAN, [T0], now)) == {T0: None}
    assert (world.state("t").leader, world.state("t").isr) == (2, (2,))


def test_an_in_sync_set_shrinks_to_a_leader_that_answers(
    world: World, active_controller: ControllerAtWork
) -> None:
    world.down(2, 3)
    active_controller.brokers_changed()
    assert world.state("t")[:3] == (1, 0, (1,))


def test_a_leader_that_gets_everything_again_is_asked_again(
    world: World, active_controller: ControllerAtWork
) -> None:
    """The first question was dropped with all other messages to it."""
    world.reports = {1: None}
    world.down(2, 3)
    active_controller.brokers_changed()
    world.reports = {}
    active_controller.do(lambda machine, now: machine.send_everything(BrokerId(1), now))
    assert world.state("t").isr == (1,)


def test_a_move_does_not_end_with_a_member_that_has_registered_again(
    world: World, active_controller: ControllerAtWork
) -> None:
    """Its place in the in-sync set is from before it was away: its disk may be empty."""
    active_controller.create("m", placed=[[1, 2]])
    world.reports = {1: None}
    world.bounce(2)
    active_controller.brokers_changed()
    assert world.state("m").isr == (1, 2)
    requested = ReassignmentRequest(TopicPartition("m", 0), [BrokerId(2)])
    active_controller.do(lambda machine, now: machine.reassign([requested], True, now))
    assert active_controller.assignment("m").moving


def test_the_last_in_sync_replica_refuses_without_its_disk(
    world: World, active_controller: ControllerAtWork
) -> None:
    """The others have the older records; only an operator may give up the newer ones."""
    world.down(2)
    active_controller.brokers_changed()
    world.down(3)
    active_controller.brokers_changed()
    assert world.state("t").isr == (1,)
    world.down(1)
    world.reports = {1: LOST, 2: stopped(100), 3: stopped(90)}
    world.up(1, disk="new")
    world.up(2, 3)
    other = world.elect(2)
    assert world.state("t")[:3] == (NO_LEADER, 1, (1,))
    why = other.machine.why_offline(T0)
    assert "broker 1 has lost its log" in why
    assert "barnabas cluster elect --unclean t:0" in why
    world.unclean_allowed = True
    assert other.do(lambda m, now: m.elect(ElectionKind.UNCLEAN, [T0], now)) == {T0: None}
    state = world.state("t")
    assert (state.leader, state.isr, state.recovering) == (2, (2,), True), "the longest of them"
    assert other.machine.why_offline(T0) == ""
    assert [entry.what for entry in other.machine.history][-1] == "unclean election"


def test_replicas_that_left_below_min_insync_stay_eligible(
    world: World, active_controller: ControllerAtWork
) -> None:
    """KIP-966: nothing was committed since, so the emptied last one is not the only one."""
    active_controller.create("safe", placed=[[1, 2, 3]], min_insync_replicas="2")
    for broker in (3, 2):
        world.down(broker)
        active_controller.brokers_changed()
    state = world.state("safe")
    assert (state.isr, state.elr) == ((1,), (2,)), "3 left while two could still commit"
    world.down(1)
    world.reports = {1: LOST, 2: killed(100), 3: killed(80)}
    world.up(1, disk="new")
    other = world.elect(1)
    assert world.state("safe").leader == NO_LEADER
    world.up(2, 3)
    other.brokers_changed()
    state = world.state("safe")
    assert (state.leader, state.isr, state.elr) == (2, (2,), ())


def test_a_move_within_the_same_replicas_leaves_them_eligible(
    world: World, active_controller: ControllerAtWork
) -> None:
    """Otherwise the last one could lose its disk after the move, and nobody could lead."""
    active_controller.create("safe", placed=[[1, 2, 3]], min_insync_replicas="2")
    for broker in (3, 2):
        world.down(broker)
        active_controller.brokers_changed()
    name = TopicPartition("safe", 0)
    wanted = ReassignmentRequest(name, tuple(map(BrokerId, (3, 2, 1))))
    said = active_controller.do(lambda m, now: m.reassign([wanted], True, now))
    assert said == {name: None}
    assert (world.state("safe").isr, world.state("safe").elr) == ((1,), (2,))


def test_fewer_needed_in_sync_end_eligibility_before_they_hold(
    world: World, active_controller: ControllerAtWork
) -> None:
    active_controller.create("safe", placed=[[1, 2]], min_insync_replicas="2")
    world.down(2)
    active_controller.brokers_changed()
    assert world.state("safe").elr == (2,)
    active_controller.do(lambda m, now: m.configure("topics", "safe", lambda before: {}, now))
    assert world.state("safe").elr == ()


def test_a_live_in_sync_replica_leads_without_a_question(
    world: World, active_controller: ControllerAtWork
) -> None:
    world.down(1)
    world.sent.clear()
    world.elect(2)
    assert world.state("t").leader == 2
    assert not [m for _, m in world.sent if isinstance(m, DescribeReplicasRequest)]


def test_a_report_is_asked_for_before_a_log_can_be_made(
    world: World, active_controller: ControllerAtWork
) -> None:
    all_away(world)
    world.reports = {1: None}
    world.up(1)
    other = world.elected(1)
    other.told()
    Work(other, other.machine.take_over(0)).finish()
    kinds = [type(message) for message in other.told()[1]]
    assert kinds.index(DescribeReplicasRequest) < kinds.index(LeaderAndIsrRequest)


@pytest.mark.parametrize(("disk", "leader"), [("disk1", 1), ("new", NO_LEADER)])
def test_a_creation_that_was_cut_off_goes_on_unless_a_disk_is_new(disk: str, leader: int) -> None:
    """No broker had heard of the topic: none has a log, and none has lost one."""
    world = World()
    world.up(1)
    active_controller = world.elect(1)
    active_controller.create("t", factor=1)
    world.down(1)
    world.reports = {1: ABSENT}
    world.up(1, disk=disk)
    world.elect(1)
    assert world.state("t").leader == leader


def test_a_broker_in_sync_since_it_registered_may_make_its_log(
    world: World, active_controller: ControllerAtWork
) -> None:
    """The controller that created the partition was cut off before it could tell."""
    active_controller.told()
    other = world.elect(2)
    message = next(m for m in other.told()[1] if isinstance(m, LeaderAndIsrRequest))
    assert message.type == ALL
    assert all(state.is_new for topic in message.topic_states for state in topic.partition_states)


# Brokers that are down


def test_replicas_are_placed_on_registered_brokers_that_are_down(
    world: World, active_controller: ControllerAtWork
) -> None:
    world.down(3)
    active_controller.brokers_changed()
    other = world.elect(2)  # which has never seen broker 3
    other.create("new", partitions=2, factor=3)
    for index in range(2):
        assert sorted(other.assignment("new", index).replicas) == [1, 2, 3]
        assert sorted(world.state("new", index).isr) == [1, 2]
    other.do(lambda m, now: m.add_partitions("new", 4, None, now))
    assert sorted(other.assignment("new", 3).replicas) == [1, 2, 3]
    other.create("few", partitions=6, factor=2)
    assert all(3 not in other.assignment("few", index).replicas for index in range(6))
    with pytest.raises(InvalidRequest, match="3 brokers are registered, 2 of them are up"):
        other.create("many", factor=4)
    world.up(3)
    other.brokers_changed()
    told = [m for m in other.told()[3] if isinstance(m, LeaderAndIsrRequest)]
    assert "new" in [topic.topic_name for topic in told[0].topic_states]


def test_a_partition_whose_brokers_are_all_down_is_led_when_one_is_back(
    world: World, active_controller: ControllerAtWork
) -> None:
    world.down(3)
    active_controller.brokers_changed()
    active_controller.create("there", placed=[[3]])
    assert active_controller.partition("there").state is None
    world.up(3)
    active_controller.brokers_changed()
    assert world.state("there").leader == 3


def test_no_replica_is_placed_on_an_unregistered_broker(
    world: World, active_controller: ControllerAtWork
) -> None:
    world.up(4)
    active_controller.brokers_changed()
    world.down(4)
    active_controller.brokers_changed()
    active_controller.do(lambda m, now: m.unregister(BrokerId(4), now))
    with pytest.raises(InvalidRequest, match="3 brokers are registered"):
        active_controller.create("many", factor=4)


# Writes that are too large


def test_a_topic_that_the_keeper_cannot_store_is_refused_and_the_controller_goes_on(
    world: World, active_controller: ControllerAtWork
) -> None:
    world.write_bytes_max = 20_000
    with pytest.raises(WriteTooLarge, match="topic 'huge' with 3000 partitions cannot be stored"):
        active_controller.create("huge", partitions=3000)
    assert "huge" not in world.topics()
    assert "huge" not in active_controller.machine.cluster.topics
    active_controller.create("small")
    assert world.state("small").leader > 0


def test_a_topic_with_a_long_name_is_written_in_pieces(
    world: World, active_controller: ControllerAtWork
) -> None:
    """A thousand states with the path of the topic, twice each, are more than a million bytes."""
    name = "x" * 249
    active_controller.create(name, partitions=1500)
    assert len(active_controller.machine.cluster.topics[name].partitions) == 1500
    assert not active_controller.machine.cluster.leaderless
