"""What a controller does first: it reads everything, and completes what others have begun.

In: all data of the keeper. Out: leaders for partitions that have none, deletions and reassignments
that continue, the complete metadata for all brokers.
Always: nothing is adopted from the previous controller except what it wrote.
"""

from collections.abc import Mapping

from barnabas.controller import brokers, topics
from barnabas.controller import reassignment as moves
from barnabas.controller.in_sync import min_insync
from barnabas.controller.leader_election import first_state
from barnabas.controller.state import NO_LEADER, PartitionLeadership, PartitionView, TopicView
from barnabas.controller.steps import (
    KeeperSnapshot,
    LogLine,
    ReadAll,
    SetAssignments,
    Steps,
    TopicFound,
)
from barnabas.controller.tenure import ControllerTenure, NextState

ADOPTED_EPOCH = 1 << 16
"""A broker that ran alone counted its crashes in its log (ADR 5): none crashes that often."""


def take_over(tenure: ControllerTenure) -> Steps[None]:
    found: KeeperSnapshot = yield ReadAll()
    tenure.cluster.known_brokers = {each.id: each for each in found.known_brokers}
    said = [least for each in found.settings if (least := min_insync(each)) is not None]
    tenure.cluster.min_insync = min(said, default=None)
    for broker in found.brokers:
        tenure.cluster.join(broker)
        tenure.send_everything(broker.id)
    for topic in found.topics:
        tenure.cluster.add_topic(_view(topic))
    tenure.rebalance_at = tenure.now + tenure.options.rebalance_interval_ms
    tenure.history.add(
        tenure.now,
        "controller elected",
        f"broker {tenure.controller} is controller in epoch {tenure.epoch}",
    )
    yield LogLine(
        "controller elected",
        {
            "controller": tenure.controller,
            "epoch": tenure.epoch,
            "brokers": len(found.brokers),
            "topics": len(found.topics),
            "partitions": tenure.cluster.partitions,
        },
    )
    yield from brokers.remember(tenure, found.brokers)
    for deletion in found.deletions:
        yield from topics.resume(tenure, deletion)
    yield from _first(tenure, {topic.name: topic for topic in found.topics if _is_adopted(topic)})
    yield from _after_absence(tenure)
    yield from moves.finish(tenure, list(tenure.cluster.moving))
    yield from tenure.flush()


def _view(found: TopicFound) -> TopicView:
    assignments = [found.assignments[index] for index in sorted(found.assignments)]
    topic = TopicView(found.name, found.id, assignments)
    topic.min_insync = min_insync(found.settings)
    for index, state in found.states.items():
        if 0 <= index < len(topic.partitions):
            topic.partitions[index].state = state
    return topic


def _is_adopted(found: TopicFound) -> bool:
    """Or its adoption was interrupted."""
    return found.adopted or any(
        state.leader_epoch >= ADOPTED_EPOCH for state in found.states.values()
    )


def _first(tenure: ControllerTenure, adopted: Mapping[str, TopicFound]) -> Steps[None]:
    """First states, for partitions whose creation was interrupted or that no controller has
    seen."""
    nexts = []
    for partition in tenure.cluster.leaderless:
        if partition.state is not None:
            continue
        if partition.name.topic in adopted:
            state = _adopted(tenure, partition)
            nexts.append(NextState(partition, state, "its broker ran alone before"))
        elif first := first_state(tenure.cluster, partition, tenure.epoch):
            nexts.append(NextState(partition, first, "its creation was interrupted"))
    own = [
        SetAssignments(each.name, each.id, each.assignments)
        for each in adopted.values()
        if each.adopted and each.name in tenure.cluster.topics
    ]
    yield from tenure.write(nexts, *own)


def _adopted(tenure: ControllerTenure, partition: PartitionView) -> PartitionLeadership:
    broker = partition.preferred
    leader = broker if tenure.cluster.usable(broker, partition) else NO_LEADER
    epochs = (tenure.cluster.epoch(broker),)
    return PartitionLeadership(leader, ADOPTED_EPOCH, (broker,), tenure.epoch, isr_epochs=epochs)


def _after_absence(tenure: ControllerTenure) -> Steps[None]:
    """Brokers may have failed, or restarted, while there was no controller."""
    known = (each for each in tenure.cluster.all() if each.state is not None)
    yield from brokers.repair(
        tenure, dict.fromkeys(known, "brokers failed while there was no controller")
    )
