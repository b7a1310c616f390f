"""Topics are made, grow, and are deleted.

In: names, counts, assignments, all checked against the protocol. Out: their nodes and states, and
what brokers are told.
Always: what a crash cuts off goes on under the next controller: a partition without a state gets
one, a topic with a mark is deleted to the end. A deleted name can be used again at once: its next
topic has another id, and each broker hears of the end of the old one first.
Not here: what a topic may be called and set to (broker/handlers/).
"""

from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from barnabas.controller.election import first_state
from barnabas.controller.in_sync import min_insync
from barnabas.controller.messages import EPOCH_DELETED
from barnabas.controller.placement import place_on_all
from barnabas.controller.state import Assignment, PartitionView, TopicView
from barnabas.controller.steps import (
    Conflict,
    Deletion,
    MarkDeleted,
    NewTopic,
    RemoveStates,
    RemoveTopic,
    Say,
    SetAssignments,
    Steps,
    Unmark,
    Write,
)
from barnabas.controller.term import CHANGES_MAX, Next, Term
from barnabas.model.errors import Code, InvalidRequest, KafkaError, Retriable
from barnabas.model.ids import BrokerId, TopicPartition

Placed = Sequence[Sequence[BrokerId]]
"""Per partition the brokers of its replicas, the preferred leader first."""


def create(
    term: Term,
    name: str,
    partitions: int,
    factor: int,
    settings: Mapping[str, str],
    placed: Placed | None = None,
) -> Steps[TopicView]:
    """By counts, or placed as told. All in one write, unless it is very large."""
    cluster = term.cluster
    if name in cluster.topics:
        raise _exists(name)
    if placed is None:
        placed = place_on_all(
            term.racks(),
            term.racks_down(),
            partitions,
            factor,
            start=term.chance(len(cluster.brokers) or 1),
            shift=term.chance(len(cluster.brokers) or 1),
        )
    else:
        _check(term, 0, placed)
    topic = TopicView(name, term.new_id(), [Assignment(tuple(each)) for each in placed])
    topic.min_insync = min_insync(settings)
    new = NewTopic(name, topic.id, topic.assignments(), settings)
    nexts = _first_states(term, topic.partitions, "the topic was created")
    try:
        yield from term.write(nexts, new, then=lambda: cluster.add_topic(topic))
    except Conflict:
        if name in cluster.topics:
            raise
        raise _exists(name) from None
    term.story.add(term.now, "topic created", f"{len(placed)} partitions, by request", topic=name)
    yield Say("topic created", {"topic": name, "id": topic.id, "partitions": len(placed)})
    yield from term.flush()
    return topic


def grow(term: Term, name: str, total: int, placed: Placed | None = None) -> Steps[None]:
    """To this many partitions."""
    topic = existing(term, name)
    have = len(topic.partitions)
    if total <= have:
        raise InvalidRequest(
            Code.INVALID_PARTITIONS,
            f"topic {name!r} has {have} partitions; {total} would not be more",
        )
    if any(each.assignment.moving for each in topic.partitions):
        raise Retriable(
            Code.REASSIGNMENT_IN_PROGRESS, f"topic {name!r} is being moved: wait until that is over"
        )
    if placed is None:
        placed = _placed_after(term, topic, total)
    elif len(placed) != total - have:
        raise InvalidRequest(
            Code.INVALID_REPLICA_ASSIGNMENT,
            f"{total - have} partitions to add, {len(placed)} assignments",
        )
    else:
        _check(term, have, placed)
    new = [
        PartitionView(topic, index, Assignment(tuple(each)))
        for index, each in enumerate(placed, have)
    ]
    assignments = topic.assignments()
    assignments.update((each.name.partition, each.assignment) for each in new)
    yield from term.write(
        _first_states(term, new, "the topic grew"),
        SetAssignments(name, topic.id, assignments),
        then=lambda: term.cluster.add_partitions(topic, new),
    )
    term.story.add(term.now, "topic grew", f"from {have} to {total}, by request", topic=name)
    yield Say("partitions added", {"topic": name, "had": have, "has": total})
    yield from term.flush()


def _placed_after(term: Term, topic: TopicView, total: int) -> Placed:
    """As Kafka goes on: beginning with the broker that comes first in partition 0."""
    racks = term.racks()
    first = topic.partitions[0].assignment.replicas
    brokers = sorted(racks)
    start = next((at for at, broker in enumerate(brokers) if broker >= first[0]), 0)
    have = len(topic.partitions)
    down = term.racks_down()
    return place_on_all(racks, down, total - have, len(first), start=start, shift=start, first=have)


def _first_states(term: Term, partitions: Iterable[PartitionView], cause: str) -> list[Next]:
    states = ((each, first_state(term.cluster, each, term.epoch)) for each in partitions)
    return [Next(each, state, cause) for each, state in states if state is not None]


def _check(term: Term, first: int, placed: Placed) -> None:
    """An assignment by request. As in Kafka, all partitions have the same number of replicas."""
    known = {**term.racks(), **term.racks_down()}
    for index, replicas in enumerate(placed, first):
        problem = ""
        if not replicas:
            problem = "no replica is given"
        elif len(set(replicas)) < len(replicas):
            problem = "a broker is there more than once"
        elif unknown := [each for each in replicas if each not in known]:
            problem = f"there is no broker {unknown[0]}"
        elif len(replicas) != len(placed[0]):
            problem = f"{len(replicas)} replicas, others have {len(placed[0])}"
        if problem:
            raise InvalidRequest(
                Code.INVALID_REPLICA_ASSIGNMENT, f"assignment of partition {index}: {problem}"
            )


def existing(term: Term, name: str, id_: UUID | None = None) -> TopicView:
    topic = term.cluster.topics.get(name)
    if topic is None or id_ not in (None, topic.id):
        raise Retriable(Code.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name[:300]!r}")
    return topic


def _exists(name: str) -> KafkaError:
    return InvalidRequest(Code.TOPIC_ALREADY_EXISTS, f"topic {name!r} already exists")


# Deleting


def delete(term: Term, name: str, id_: UUID) -> Steps[None]:
    """The topic is gone when this is done; its logs go from the brokers that are there."""
    topic = existing(term, name, id_)
    hosts = {broker: None for each in topic.partitions for broker in each.assignment.replicas}
    mark = MarkDeleted(name, id_, len(topic.partitions), sorted(hosts))
    yield from _remove(term, topic, mark)
    _stop(term, name, len(topic.partitions), hosts)
    yield from forget_marks(term)
    yield from term.flush()


def resume(term: Term, deletion: Deletion) -> Steps[None]:
    """A deletion that an earlier controller began."""
    topic = term.cluster.topics.get(deletion.topic)
    if topic is not None and topic.id == deletion.id:
        yield from _remove(term, topic, None)
    elif topic is not None:  # the name was used again, so everybody knows of the end of the old
        yield Write([Unmark(deletion.topic)])
        return
    _stop(term, deletion.topic, deletion.partitions, deletion.brokers)
    yield from forget_marks(term)


def _remove(term: Term, topic: TopicView, mark: MarkDeleted | None) -> Steps[None]:
    """From the keeper, the last part first of what was made last, and from memory."""
    total = len(topic.partitions)
    begun = () if mark is None else (mark,)
    for start in range(0, max(total - CHANGES_MAX, 0), CHANGES_MAX):
        some = range(start, start + CHANGES_MAX)
        yield Write([*begun, RemoveStates(topic.name, some)])
        begun = ()
    last = max(0, (total - 1) // CHANGES_MAX * CHANGES_MAX)
    yield Write([*begun, RemoveStates(topic.name, range(last, total)), RemoveTopic(topic.name)])
    term.cluster.remove_topic(topic)
    term.topic_deleted(topic)
    term.story.add(term.now, "topic deleted", "by request", topic=topic.name)
    yield Say("topic deleted", {"topic": topic.name, "id": topic.id})


def _stop(term: Term, name: str, partitions: int, hosts: Iterable[BrokerId]) -> None:
    waiting = term.deletions[name] = {}
    for broker in hosts:
        if broker in term.cluster.brokers:
            waiting[broker] = None
            for index in range(partitions):
                term.stop_replica(broker, TopicPartition(name, index), EPOCH_DELETED)


def stopped(term: Term, broker: BrokerId, names: Iterable[str]) -> Steps[None]:
    """A broker has answered that logs of deleted topics are gone, or cannot be reached any more."""
    for name in names:
        term.deletions.get(name, {}).pop(broker, None)
    yield from forget_marks(term)


def forget_marks(term: Term) -> Steps[None]:
    """Of deletions that nobody alive has still to carry out."""
    for name, waiting in list(term.deletions.items()):
        if not waiting:
            yield Write([Unmark(name)])
            del term.deletions[name]
