"""Chooses leaders.

In: a partition and who is there. Out: its next state, or None if it should stay as it is.
Always: a leader comes from the in-sync set, unless the caller allows one that may have lost
records; each new leadership has a new leader epoch; the in-sync set never becomes empty. Where
nobody of it is there, it stays as it is: whoever of it comes back first has all that was committed.
Not here: writing the state, telling brokers (term.py).
"""

from collections.abc import Container

from barnabas.controller.state import NO_LEADER, Cluster, PartitionView, State
from barnabas.model.ids import BrokerId


def first_state(cluster: Cluster, partition: PartitionView, epoch: int) -> State | None:
    """Of a new partition: all replicas that are there are in sync, because there is nothing yet."""
    isr = tuple(each for each in partition.assignment.replicas if cluster.usable(each, partition))
    if not isr:
        return None
    return State(isr[0], 0, isr, epoch, isr_epochs=tuple(map(cluster.epoch, isr)))


def after_loss(
    cluster: Cluster,
    partition: PartitionView,
    epoch: int,
    *,
    gone: Container[BrokerId] = (),
    unclean: bool = False,
) -> State | None:
    """Replicas are not there any more, or are there again. None: nothing changes by that.

    `gone`: not there, or not the same as before; they are in sync no longer.
    """
    state = partition.state
    assert state is not None

    def stays(broker: BrokerId) -> bool:
        return broker not in gone and cluster.usable(broker, partition)

    level = tuple(each for each in state.isr if stays(each))
    if state.leader != NO_LEADER and stays(state.leader):
        return None if level == state.isr else with_isr(cluster, state, level, epoch)
    if state.leader in cluster.leaving and state.leader not in gone and not level:
        return None  # it leads on until it is gone: nobody else can
    # Who was away is second choice, but what it has is all that is left of what was committed.
    returned = tuple(each for each in state.isr if cluster.usable(each, partition))
    isr = level or returned
    for candidate in partition.assignment.replicas:
        if candidate in isr:
            return led_by(cluster, state, candidate, isr if level else (candidate,), epoch)
    if unclean:
        for candidate in partition.assignment.replicas:
            if cluster.usable(candidate, partition):
                lossy = led_by(cluster, state, candidate, (candidate,), epoch)
                return lossy._replace(recovering=True)
    if state.leader == NO_LEADER:
        return None
    return state._replace(
        leader=NO_LEADER, leader_epoch=state.leader_epoch + 1, controller_epoch=epoch
    )


def preferred(cluster: Cluster, partition: PartitionView, epoch: int) -> State | None:
    """None: the preferred leader leads already, or cannot."""
    state, leader = partition.state, partition.preferred
    if state is None or leader == state.leader or leader not in state.isr:
        return None
    if not cluster.usable(leader, partition):
        return None
    return led_by(cluster, state, leader, state.isr, epoch)


def led_by(
    cluster: Cluster, state: State, leader: BrokerId, isr: tuple[BrokerId, ...], epoch: int
) -> State:
    """A new leadership."""
    return with_isr(cluster, state, isr, epoch)._replace(
        leader=leader, leader_epoch=state.leader_epoch + 1
    )


def with_isr(cluster: Cluster, state: State, isr: tuple[BrokerId, ...], epoch: int) -> State:
    """The same leadership with another in-sync set."""
    before = dict(zip(state.isr, state.isr_epochs, strict=False))
    epochs = tuple(
        cluster.epoch(each) if each in cluster.brokers else before.get(each, -1) for each in isr
    )
    return state._replace(isr=isr, controller_epoch=epoch, isr_epochs=epochs)
