"""A partition that is led: who is told of what, and who is looked after later."""

from barnabas.broker.partition import Partition
from barnabas.broker.replicas.leading import LeaderReplica
from barnabas.model.ids import BrokerId, TopicPartition
from barnabas.replication.leader import IsrProposal
from barnabas.replication.state import PartitionState
from tests.log.batches import NOW, batch, new_log
from tests.simulator.disk import SimulatedDisk

ALONE, FIRST, SECOND = BrokerId(1), BrokerId(2), BrokerId(3)


class Court:
    """All partitions of a broker: what they propose, and which of them want a tick."""

    lag_ms_max = 10_000

    def __init__(self) -> None:
        self.now = 0
        self.proposed: list[IsrProposal] = []
        self.ticking: dict[LeaderReplica, None] = {}

    def now_ms(self) -> int:
        return self.now

    def propose(self, leading: LeaderReplica, proposal: IsrProposal) -> None:
        self.proposed.append(proposal)

    def needs_ticks(self, leading: LeaderReplica) -> None:
        self.ticking[leading] = None

    def is_registered(self, broker: BrokerId) -> bool:
        return True

    def may_have_successors(self) -> bool:
        return False

    def tick(self) -> None:
        self.now += 500
        for leading in list(self.ticking):
            if not leading.tick():
                del self.ticking[leading]


def led_alone(leader_context: Court) -> LeaderReplica:
    """By one of three, the others out of sync; nothing is appended any more."""
    log = new_log(SimulatedDisk())[1]
    log.append(batch(3), 0, NOW)
    partition = Partition(TopicPartition("t", 0), log, None, ALONE)
    state = PartitionState(ALONE, 5, (ALONE,), 0, (ALONE, FIRST, SECOND))
    leading = LeaderReplica(partition, ALONE, state, leader_context)
    partition.lead(state, leading)
    leader_context.tick()
    assert not leader_context.ticking
    return leading


def test_who_waited_for_the_answer_to_another_proposal_comes_in_without_a_fetch() -> None:
    """It has all there is, and so it does not fetch as long as nothing is appended."""
    leader_context = Court()
    leading = led_alone(leader_context)
    leading.fetched(FIRST, 3, 0, 10)
    leading.fetched(SECOND, 3, 0, 11)
    [first] = leader_context.proposed
    assert first.isr == (ALONE, FIRST)
    leading.rejected(first)
    leader_context.tick()
    assert [each.isr for each in leader_context.proposed[1:]] == [(ALONE, SECOND)]


def test_who_was_rejected_is_proposed_again_without_a_fetch() -> None:
    leader_context = Court()
    leading = led_alone(leader_context)
    leading.fetched(FIRST, 3, 0, 10)
    leading.rejected(leader_context.proposed[0])
    for _ in range(3):
        leader_context.tick()
    assert [each.isr for each in leader_context.proposed] == [(ALONE, FIRST)] * 2


class Follower:
    """Where a follower is, as its session keeps it."""

    def __init__(self) -> None:
        self.doubts = 0

    def records_available(self) -> None: ...

    def marks(self) -> None: ...

    def position_invalid(self) -> None:
        self.doubts += 1


def test_a_follower_whose_position_is_invalid_must_send_it_again() -> None:
    """It restarted, fetched, and then the controller took the broker it had been out of sync: it
    has nothing to fetch as long as nothing is appended, and would stay out."""
    leader_context = Court()
    leading = led_alone(leader_context)
    leading.update(PartitionState(ALONE, 5, (ALONE, FIRST), 1, (ALONE, FIRST, SECOND)))
    follower = Follower()
    leading.listeners[FIRST] = follower
    leading.fetched(FIRST, 3, 0, 10)
    leading.update(PartitionState(ALONE, 5, (ALONE,), 2, (ALONE, FIRST, SECOND)))
    assert follower.doubts == 1
    leading.fetched(FIRST, 3, 0, 10)
    assert leader_context.proposed[-1].isr == (ALONE, FIRST)
