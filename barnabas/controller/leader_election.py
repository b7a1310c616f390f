"""Chooses leaders.

In: a partition and who is there. Out: its next state, or None if it should stay as it is.
Always: a leader comes from the in-sync set, unless the caller allows one that may have lost
records; each new leadership has a new leader epoch; the in-sync set never becomes empty. Where
nobody of it is there, it stays as it is: whoever of it comes back, and can prove that it still has
all that was committed, leads (proof.py). So does an eligible replica (KIP-966).
Always: the in-sync set shrinks to its leader alone only after that leader has answered. A killed
broker stays registered until its session ends; if its disk is lost as well, a set that had shrunk
to it would name no replica that has the records, though all others have them.
Not here: writing the state, telling brokers (tenure.py).
"""

from barnabas.controller import proof
from barnabas.controller.state import NO_LEADER, ClusterState, PartitionLeadership, PartitionView
from barnabas.model.ids import BrokerId


def first_state(
    cluster: ClusterState, partition: PartitionView, epoch: int
) -> PartitionLeadership | None:
    """Of a new partition: all replicas that are there are in sync, because there is nothing yet."""
    isr = tuple(each for each in partition.assignment.replicas if cluster.usable(each, partition))
    if not isr:
        return None
    return PartitionLeadership(isr[0], 0, isr, epoch, isr_epochs=tuple(map(cluster.epoch, isr)))


def after_loss(
    cluster: ClusterState,
    partition: PartitionView,
    epoch: int,
    *,
    unclean: bool = False,
    waited: bool = False,
    answered: bool = False,
) -> PartitionLeadership | None:
    """Replicas are not there any more, or are there again. None: nothing changes by that.

    Members that have registered again lead only by proof, and only where no member is left that has
    not; `waited`: without those that are still missing (proof.py). `answered`: the leader has
    reported a complete log since the others were lost.
    """
    state = partition.state
    assert state is not None
    level = _level(cluster, partition, state)
    alone = len(level) == 1 and len(state.isr) > 1 and not answered
    if state.leader in level:
        unchanged = level == state.isr or alone
        return None if unchanged else with_isr(cluster, partition, level, epoch)
    if state.leader in cluster.leaving and cluster.is_current(state.leader, state) and not level:
        return None  # it leads on until it is gone: nobody else can
    for candidate in partition.assignment.replicas:
        if candidate in level and alone:
            return state._replace(
                leader=candidate, leader_epoch=state.leader_epoch + 1, controller_epoch=epoch
            )
        if candidate in level:
            return led_by(cluster, partition, candidate, level, epoch)
    proven = proof.leader(cluster, partition, waited=waited or unclean)
    if proven is not None:
        return _led_by_proof(cluster, partition, proven, epoch)
    if unclean:
        candidate_or_none = proof.any_leader(cluster, partition)
        if candidate_or_none is not None:
            isr = (candidate_or_none,)
            lossy = led_by(cluster, partition, candidate_or_none, isr, epoch)
            return lossy._replace(recovering=True, elr=())
    if state.leader == NO_LEADER:
        return None
    return state._replace(
        leader=NO_LEADER, leader_epoch=state.leader_epoch + 1, controller_epoch=epoch
    )


def is_alone(cluster: ClusterState, partition: PartitionView) -> bool:
    """Has the in-sync set to shrink to the leader, once the leader has answered?"""
    state = partition.state
    return (
        state is not None
        and len(state.isr) > 1
        and _level(cluster, partition, state) == (state.leader,)
    )


def _level(
    cluster: ClusterState, partition: PartitionView, state: PartitionLeadership
) -> tuple[BrokerId, ...]:
    """The in-sync members that are there, in the registration in which they became members."""
    return tuple(
        each
        for each in state.isr
        if cluster.is_current(each, state) and cluster.usable(each, partition)
    )


def preferred(
    cluster: ClusterState, partition: PartitionView, epoch: int
) -> PartitionLeadership | None:
    """None: the preferred leader leads already, or cannot."""
    state, leader = partition.state, partition.preferred
    if state is None or leader == state.leader or not may_lead(cluster, partition, leader):
        return None
    return led_by(cluster, partition, leader, state.isr, epoch)


def may_lead(cluster: ClusterState, partition: PartitionView, broker: BrokerId) -> bool:
    """Is it in sync, and has been since it registered?"""
    state = partition.state
    return (
        state is not None
        and broker in state.isr
        and cluster.is_current(broker, state)
        and cluster.usable(broker, partition)
    )


def _led_by_proof(
    cluster: ClusterState, partition: PartitionView, leader: BrokerId, epoch: int
) -> PartitionLeadership:
    """Alone in sync. Others that are proven to be complete stay eligible."""
    state = led_by(cluster, partition, leader, (leader,), epoch)
    reports = {each: cluster.report(each, partition) for each in state.elr}
    eligible = tuple(
        each
        for each, said in reports.items()
        if said is not None and said.copy is proof.ReplicaCompleteness.COMPLETE
    )
    return state._replace(elr=eligible)


def led_by(
    cluster: ClusterState,
    partition: PartitionView,
    leader: BrokerId,
    isr: tuple[BrokerId, ...],
    epoch: int,
) -> PartitionLeadership:
    """A new leadership."""
    state = with_isr(cluster, partition, isr, epoch, proven=leader)
    return state._replace(leader=leader, leader_epoch=state.leader_epoch + 1)


def with_isr(
    cluster: ClusterState,
    partition: PartitionView,
    isr: tuple[BrokerId, ...],
    epoch: int,
    *,
    proven: BrokerId = NO_LEADER,
) -> PartitionLeadership:
    """The same leadership with another in-sync set.

    Who stays in it stays as what it was; who gets into it, and `proven`, is there as it is now.
    """
    state = partition.state
    assert state is not None
    epochs = tuple(
        cluster.epoch(each)
        if each == proven or (state.epoch_of(each) < 0 and each in cluster.brokers)
        else state.epoch_of(each)
        for each in isr
    )
    elr: tuple[BrokerId, ...] = ()
    if len(isr) < cluster.isr_min(partition):
        elr = tuple(each for each in proof.members(state) if each not in isr)
    return state._replace(isr=isr, controller_epoch=epoch, isr_epochs=epochs, elr=elr)
