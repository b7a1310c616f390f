"""Chooses leaders.

In: a partition and the registered brokers. Out: its next state, or None if nothing changes.
Always: a leader comes from the in-sync set, unless the caller allows one that may have lost
records; each new leadership has a new leader epoch; the in-sync set never becomes empty. If no
member is registered, the set does not change: a member that comes back and can prove that it
still has all committed records leads (proof.py). So does an eligible replica (KIP-966).
Always: the in-sync set shrinks to its leader alone only after that leader has replied. A killed
broker stays registered until its session ends. If its disk is lost as well, a set that had shrunk
to it would name no replica that has the records, although all others have them.
Not here: writing the state, sending it to brokers (tenure.py).
"""

from barnabas.controller import proof
from barnabas.controller.state import NO_LEADER, ClusterState, PartitionLeadership, PartitionView
from barnabas.model.ids import BrokerId


def first_state(
    cluster: ClusterState, partition: PartitionView, epoch: int
) -> PartitionLeadership | None:
    """Of a new partition: all replicas on registered brokers are in sync, because it is empty."""
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
    """Replicas became unavailable, or available again. None: the state does not change.

    Members that have registered again lead only by proof, and only if no member is left that has
    not registered again. `waited`: do not wait for members that are still missing (proof.py).
    `answered`: the leader has reported a complete log since the others became unavailable.
    """
    state = partition.state
    assert state is not None
    level = _current_members(cluster, partition, state)
    alone = len(level) == 1 and len(state.isr) > 1 and not answered
    if state.leader in level:
        unchanged = level == state.isr or alone
        return None if unchanged else with_isr(cluster, partition, level, epoch)
    if state.leader in cluster.leaving and cluster.is_current(state.leader, state) and not level:
        return None  # it leads until it stops: no other replica can
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
    """Whether the in-sync set shrinks to the leader, once the leader has replied."""
    state = partition.state
    return (
        state is not None
        and len(state.isr) > 1
        and _current_members(cluster, partition, state) == (state.leader,)
    )


def _current_members(
    cluster: ClusterState, partition: PartitionView, state: PartitionLeadership
) -> tuple[BrokerId, ...]:
    """The available in-sync members that have not registered again since they became members."""
    return tuple(
        each
        for each in state.isr
        if cluster.is_current(each, state) and cluster.usable(each, partition)
    )


def preferred(
    cluster: ClusterState, partition: PartitionView, epoch: int
) -> PartitionLeadership | None:
    """None: the preferred leader leads already, or cannot lead."""
    state, leader = partition.state, partition.preferred
    if state is None or leader == state.leader or not may_lead(cluster, partition, leader):
        return None
    return led_by(cluster, partition, leader, state.isr, epoch)


def may_lead(cluster: ClusterState, partition: PartitionView, broker: BrokerId) -> bool:
    """Whether it is in sync, and has been since it registered."""
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
    """Others stay members until the leader has replied, unless they have reported that they are not
    complete. They cannot lead without a proof, because they have registered again."""
    before = partition.state
    assert before is not None
    kept = [each for each in proof.members(before) if proof.may_have_all(cluster, partition, each)]
    level = tuple(each for each in kept if each in before.isr and each != leader)
    isr = (leader, *level) if leader in kept else (leader,)
    state = led_by(cluster, partition, leader, isr, epoch)
    return state._replace(
        elr=tuple(each for each in state.elr if each in kept),
        isr_epochs=tuple(
            cluster.epoch(each) if each == leader else before.epoch_of(each) for each in isr
        ),
    )


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

    Members that stay keep their broker epoch, also an unknown one: they may have registered again
    since. New members, and `proven`, get their present one.
    """
    state = partition.state
    assert state is not None
    epochs = tuple(
        cluster.epoch(each) if each == proven or each not in state.isr else state.epoch_of(each)
        for each in isr
    )
    elr: tuple[BrokerId, ...] = ()
    if len(isr) < cluster.min_isr(partition):
        elr = tuple(each for each in proof.members(state) if each not in isr)
    return state._replace(isr=isr, controller_epoch=epoch, isr_epochs=epochs, elr=elr)
