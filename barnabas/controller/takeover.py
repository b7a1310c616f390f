"""The first thing a controller does: know everything, and end what others have begun.

In: all that the keeper has. Out: leaders where there are none, deletions and moves that go on,
everything told to everybody.
Always: nothing is taken over from the last controller but what it wrote.
"""

from collections.abc import Mapping

from barnabas.controller import brokers, moves, topics
from barnabas.controller.election import first_state
from barnabas.controller.in_sync import min_insync
from barnabas.controller.state import NO_LEADER, PartitionView, State, TopicView
from barnabas.controller.steps import (
    Everything,
    ReadAll,
    Say,
    SetAssignments,
    Steps,
    TopicFound,
)
from barnabas.controller.term import Next, Term

ADOPTED_EPOCH = 1 << 16
"""A broker that stood alone counted its crashes in its log (ADR 5): nobody crashes that often."""


def take_over(term: Term) -> Steps[None]:
    found: Everything = yield ReadAll()
    term.cluster.known_brokers = {each.id: each for each in found.known_brokers}
    said = [least for each in found.settings if (least := min_insync(each)) is not None]
    term.cluster.min_insync = min(said, default=None)
    for broker in found.brokers:
        term.cluster.join(broker)
        term.welcome(broker.id)
    for topic in found.topics:
        term.cluster.add_topic(_view(topic))
    term.rebalance_at = term.now + term.options.rebalance_interval_ms
    term.story.add(
        term.now,
        "controller elected",
        f"broker {term.controller} is controller in epoch {term.epoch}",
    )
    yield Say(
        "controller elected",
        {
            "controller": term.controller,
            "epoch": term.epoch,
            "brokers": len(found.brokers),
            "topics": len(found.topics),
            "partitions": term.cluster.partitions,
        },
    )
    yield from brokers.remember(term, found.brokers)
    for deletion in found.deletions:
        yield from topics.resume(term, deletion)
    yield from _first(term, {topic.name: topic for topic in found.topics if _is_adopted(topic)})
    yield from _after_absence(term)
    yield from moves.finish(term, list(term.cluster.moving))
    yield from term.flush()


def _view(found: TopicFound) -> TopicView:
    assignments = [found.assignments[index] for index in sorted(found.assignments)]
    topic = TopicView(found.name, found.id, assignments)
    topic.min_insync = min_insync(found.settings)
    for index, state in found.states.items():
        if 0 <= index < len(topic.partitions):
            topic.partitions[index].state = state
    return topic


def _is_adopted(found: TopicFound) -> bool:
    """Or was on the way to it when that was cut off."""
    return found.adopted or any(
        state.leader_epoch >= ADOPTED_EPOCH for state in found.states.values()
    )


def _first(term: Term, adopted: Mapping[str, TopicFound]) -> Steps[None]:
    """Of partitions whose creation was cut off, and of those that no controller has seen."""
    nexts = []
    for partition in term.cluster.leaderless:
        if partition.state is not None:
            continue
        if partition.name.topic in adopted:
            state = _adopted(term, partition)
            nexts.append(Next(partition, state, "its broker stood alone before"))
        elif first := first_state(term.cluster, partition, term.epoch):
            nexts.append(Next(partition, first, "its creation was cut off"))
    own = [
        SetAssignments(each.name, each.id, each.assignments)
        for each in adopted.values()
        if each.adopted and each.name in term.cluster.topics
    ]
    yield from term.write(nexts, *own)


def _adopted(term: Term, partition: PartitionView) -> State:
    broker = partition.preferred
    leader = broker if term.cluster.usable(broker, partition) else NO_LEADER
    epochs = (term.cluster.epoch(broker),)
    return State(leader, ADOPTED_EPOCH, (broker,), term.epoch, isr_epochs=epochs)


def _after_absence(term: Term) -> Steps[None]:
    """Brokers may have gone, or gone and come back, while nobody was controller."""
    known = (each for each in term.cluster.all() if each.state is not None)
    yield from brokers.repair(
        term, dict.fromkeys(known, "brokers went while there was no controller")
    )
