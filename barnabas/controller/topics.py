"""Creates topics, adds partitions, and deletes topics.

In: names, counts, assignments, all checked against the protocol. Out: their nodes and states, and
requests to brokers.
Always: an operation that a crash interrupts continues under the next controller: a partition
without a state gets one, a topic with a deletion mark is deleted completely. A deleted name can be
used again at once: its next topic has another id, and each broker first receives the deletion of
the old topic.
Not here: which names and settings a topic may have (broker/handlers/).
"""

from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from barnabas.controller.in_sync import min_insync
from barnabas.controller.leader_election import first_state
from barnabas.controller.messages import EPOCH_DELETED
from barnabas.controller.placement import place_on_all
from barnabas.controller.state import Assignment, PartitionView, TopicView
from barnabas.controller.steps import (
    Conflict,
    DeletionMark,
    LogLine,
    MarkDeleted,
    NewTopic,
    RemoveStates,
    RemoveTopic,
    SetAssignments,
    Steps,
    Unmark,
    Write,
)
from barnabas.controller.tenure import CHANGES_MAX, ControllerTenure, NextState
from barnabas.model.errors import Code, InvalidRequest, KafkaError, Retriable
from barnabas.model.ids import BrokerId, TopicPartition

Placed = Sequence[Sequence[BrokerId]]
"""Per partition the brokers of its replicas, the preferred leader first."""


def create(
    tenure: ControllerTenure,
    name: str,
    partitions: int,
    factor: int,
    settings: Mapping[str, str],
    placed: Placed | None = None,
) -> Steps[TopicView]:
    """By counts, or with the given assignments. One write, unless it is very large."""
    cluster = tenure.cluster
    if name in cluster.topics:
        raise _exists(name)
    if placed is None:
        placed = place_on_all(
            tenure.racks(),
            tenure.racks_down(),
            partitions,
            factor,
            start=tenure.chance(len(cluster.brokers) or 1),
            shift=tenure.chance(len(cluster.brokers) or 1),
        )
    else:
        _check(tenure, 0, placed)
    topic = TopicView(name, tenure.new_id(), [Assignment(tuple(each)) for each in placed])
    topic.min_insync = min_insync(settings)
    new = NewTopic(name, topic.id, topic.assignments(), settings)
    nexts = _first_states(tenure, topic.partitions, "the topic was created")
    try:
        yield from tenure.write(nexts, new, then=lambda: cluster.add_topic(topic))
    except Conflict:
        if name in cluster.topics:
            raise
        raise _exists(name) from None
    tenure.history.add(
        tenure.now, "topic created", f"{len(placed)} partitions, by a request", topic=name
    )
    yield LogLine("topic created", {"topic": name, "id": topic.id, "partitions": len(placed)})
    yield from tenure.flush()
    return topic


def add_partitions(
    tenure: ControllerTenure, name: str, total: int, placed: Placed | None = None
) -> Steps[None]:
    """Add partitions up to this total."""
    topic = existing(tenure, name)
    have = len(topic.partitions)
    if total <= have:
        raise InvalidRequest(
            Code.INVALID_PARTITIONS,
            f"topic {name!r} has {have} partitions; {total} is not more",
        )
    if any(each.assignment.moving for each in topic.partitions):
        raise Retriable(
            Code.REASSIGNMENT_IN_PROGRESS,
            f"topic {name!r} is being reassigned: wait until that has completed",
        )
    if placed is None:
        placed = _placed_after(tenure, topic, total)
    elif len(placed) != total - have:
        raise InvalidRequest(
            Code.INVALID_REPLICA_ASSIGNMENT,
            f"{total - have} partitions to add, but {len(placed)} assignments",
        )
    else:
        _check(tenure, have, placed)
    new = [
        PartitionView(topic, index, Assignment(tuple(each)))
        for index, each in enumerate(placed, have)
    ]
    assignments = topic.assignments()
    assignments.update((each.name.partition, each.assignment) for each in new)
    yield from tenure.write(
        _first_states(tenure, new, "partitions were added"),
        SetAssignments(name, topic.id, assignments),
        then=lambda: tenure.cluster.add_partitions(topic, new),
    )
    tenure.history.add(
        tenure.now, "partitions added", f"from {have} to {total}, by a request", topic=name
    )
    yield LogLine("partitions added", {"topic": name, "had": have, "has": total})
    yield from tenure.flush()


def _placed_after(tenure: ControllerTenure, topic: TopicView, total: int) -> Placed:
    """As in Kafka: starting with the first broker of partition 0."""
    racks = tenure.racks()
    first = topic.partitions[0].assignment.replicas
    brokers = sorted(racks)
    start = next((at for at, broker in enumerate(brokers) if broker >= first[0]), 0)
    have = len(topic.partitions)
    down = tenure.racks_down()
    return place_on_all(racks, down, total - have, len(first), start=start, shift=start, first=have)


def _first_states(
    tenure: ControllerTenure, partitions: Iterable[PartitionView], cause: str
) -> list[NextState]:
    states = ((each, first_state(tenure.cluster, each, tenure.epoch)) for each in partitions)
    return [NextState(each, state, cause) for each, state in states if state is not None]


def _check(tenure: ControllerTenure, first: int, placed: Placed) -> None:
    """A requested assignment. As in Kafka, all partitions have the same number of replicas."""
    known = {**tenure.racks(), **tenure.racks_down()}
    for index, replicas in enumerate(placed, first):
        problem = ""
        if not replicas:
            problem = "there is no replica"
        elif len(set(replicas)) < len(replicas):
            problem = "a broker is listed twice"
        elif unknown := [each for each in replicas if each not in known]:
            problem = f"there is no broker {unknown[0]}"
        elif len(replicas) != len(placed[0]):
            problem = f"{len(replicas)} replicas, others have {len(placed[0])}"
        if problem:
            raise InvalidRequest(
                Code.INVALID_REPLICA_ASSIGNMENT, f"assignment of partition {index}: {problem}"
            )


def existing(tenure: ControllerTenure, name: str, id_: UUID | None = None) -> TopicView:
    topic = tenure.cluster.topics.get(name)
    if topic is None or id_ not in (None, topic.id):
        raise Retriable(Code.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name[:300]!r}")
    return topic


def _exists(name: str) -> KafkaError:
    return InvalidRequest(Code.TOPIC_ALREADY_EXISTS, f"topic {name!r} already exists")


# Deleting


def delete(tenure: ControllerTenure, name: str, id_: UUID) -> Steps[None]:
    """The topic does not exist when this returns. Registered brokers delete its logs afterwards."""
    topic = existing(tenure, name, id_)
    hosts = {broker: None for each in topic.partitions for broker in each.assignment.replicas}
    mark = MarkDeleted(name, id_, len(topic.partitions), sorted(hosts))
    yield from _remove(tenure, topic, mark)
    _stop(tenure, name, len(topic.partitions), hosts)
    yield from forget_marks(tenure)
    yield from tenure.flush()


def resume(tenure: ControllerTenure, deletion: DeletionMark) -> Steps[None]:
    """Continue a deletion that an earlier controller began."""
    topic = tenure.cluster.topics.get(deletion.topic)
    if topic is not None and topic.id == deletion.id:
        yield from _remove(tenure, topic, None)
    # The name was used again, so all brokers know of the deletion of the old topic.
    elif topic is not None:
        yield Write([Unmark(deletion.topic)])
        return
    _stop(tenure, deletion.topic, deletion.partitions, deletion.brokers)
    yield from forget_marks(tenure)


def _remove(tenure: ControllerTenure, topic: TopicView, mark: MarkDeleted | None) -> Steps[None]:
    """From the keeper, in the reverse order of creation, and from memory."""
    total = len(topic.partitions)
    begun = () if mark is None else (mark,)
    for start in range(0, max(total - CHANGES_MAX, 0), CHANGES_MAX):
        some = range(start, start + CHANGES_MAX)
        yield Write([*begun, RemoveStates(topic.name, some)])
        begun = ()
    last = max(0, (total - 1) // CHANGES_MAX * CHANGES_MAX)
    yield Write([*begun, RemoveStates(topic.name, range(last, total)), RemoveTopic(topic.name)])
    tenure.cluster.remove_topic(topic)
    tenure.topic_deleted(topic)
    tenure.history.add(tenure.now, "topic deleted", "by a request", topic=topic.name)
    yield LogLine("topic deleted", {"topic": topic.name, "id": topic.id})


def _stop(tenure: ControllerTenure, name: str, partitions: int, hosts: Iterable[BrokerId]) -> None:
    waiting = tenure.deletions[name] = {}
    for broker in hosts:
        if broker in tenure.cluster.brokers:
            waiting[broker] = None
            for index in range(partitions):
                tenure.stop_replica(broker, TopicPartition(name, index), EPOCH_DELETED)


def stopped(tenure: ControllerTenure, broker: BrokerId, names: Iterable[str]) -> Steps[None]:
    """A broker has replied that it deleted logs of deleted topics, or it is no longer
    registered."""
    for name in names:
        tenure.deletions.get(name, {}).pop(broker, None)
    yield from forget_marks(tenure)


def forget_marks(tenure: ControllerTenure) -> Steps[None]:
    """Remove the marks of deletions that no registered broker has to execute any more."""
    for name, waiting in list(tenure.deletions.items()):
        if not waiting:
            yield Write([Unmark(name)])
            del tenure.deletions[name]
