"""Moves replicas to other brokers, step by step (KIP-455).

In: the target replicas, or the request to cancel. Out: first the old and the new replicas
together; then, when all new ones are in sync, the new ones alone.
Always: a reassignment that has begun is in the topic's node, so any later controller completes it.
No replica is removed before all that stay are in sync; a leader is removed only after another
replica leads.
Not here: how fast records are copied (the followers have the throttles).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from barnabas.controller.leader_election import led_by, may_lead, with_isr
from barnabas.controller.proof import members
from barnabas.controller.state import (
    NO_LEADER,
    Assignment,
    PartitionLeadership,
    PartitionView,
    TopicView,
)
from barnabas.controller.steps import LogLine, SetAssignments, Steps
from barnabas.controller.tenure import ControllerTenure, NextState
from barnabas.model.errors import Code, InvalidRequest, KafkaError, Retriable
from barnabas.model.ids import BrokerId, TopicPartition


class ReassignmentRequest(NamedTuple):
    """The target replicas of a partition; None: cancel, back to the original replicas."""

    name: TopicPartition
    replicas: Sequence[BrokerId] | None


def begin(
    tenure: ControllerTenure,
    requested_moves: Iterable[ReassignmentRequest],
    *,
    factor_may_change: bool = True,
) -> Steps[dict[TopicPartition, KafkaError | None]]:
    """The result per partition; a partition that cannot be reassigned does not stop the others."""
    answers: dict[TopicPartition, KafkaError | None] = {}
    by_topic: dict[TopicView, list[NextState]] = {}
    for requested in requested_moves:
        try:
            if requested.name in answers:
                raise InvalidRequest(
                    Code.INVALID_REQUEST, f"{requested.name} is in the request more than once"
                )
            partition, assignment = _check(tenure, requested, factor_may_change)
            answers[requested.name] = None
            if assignment != partition.assignment:
                cause = (
                    "the reassignment was cancelled"
                    if requested.replicas is None
                    else "a reassignment was requested"
                )
                state = _within(tenure, partition, assignment.replicas)
                by_topic.setdefault(partition.topic, []).append(
                    NextState(partition, state, cause, assignment)
                )
        except KafkaError as error:
            answers[requested.name] = error
    begun = []
    for topic, nexts in by_topic.items():
        dropped = [(each.partition, _dropped(each)) for each in nexts]
        yield from _write(tenure, topic, nexts)
        for partition, brokers in dropped:
            _stop(tenure, partition, brokers)
            if partition.assignment.adding:
                tenure.replicas_added(partition)
            begun.append(partition)
            yield LogLine(
                "reassignment started",
                {
                    "partition": str(partition.name),
                    "replicas": partition.assignment.target,
                    "adding": partition.assignment.adding,
                    "removing": partition.assignment.removing,
                },
            )
    yield from finish(tenure, begun)
    yield from tenure.flush()
    return answers


def finish(tenure: ControllerTenure, partitions: Sequence[PartitionView]) -> Steps[None]:
    """Complete reassignments whose new replicas are all in sync."""
    by_topic: dict[TopicView, list[NextState]] = {}
    for partition in partitions:
        state = _finished(tenure, partition)
        if state is not None:
            target = Assignment(partition.assignment.target)
            by_topic.setdefault(partition.topic, []).append(
                NextState(partition, state, "all new replicas are in sync", target)
            )
    for topic, nexts in by_topic.items():
        removed = [(each.partition, each.partition.assignment.removing) for each in nexts]
        yield from _write(tenure, topic, nexts)
        for partition, brokers in removed:
            _stop(tenure, partition, brokers)
            yield LogLine(
                "reassignment completed",
                {"partition": str(partition.name), "replicas": partition.assignment.replicas},
            )


def _finished(tenure: ControllerTenure, partition: PartitionView) -> PartitionLeadership | None:
    assignment, state = partition.assignment, partition.state
    if not assignment.moving or state is None:
        return None
    target = assignment.target
    if any(each not in state.isr or not tenure.cluster.is_current(each, state) for each in target):
        return None
    isr = tuple(each for each in state.isr if each in target)
    if state.leader in target:
        return with_isr(tenure.cluster, partition, isr, tenure.epoch)._replace(elr=())
    for candidate in target:
        if may_lead(tenure.cluster, partition, candidate):
            state = led_by(tenure.cluster, partition, candidate, isr, tenure.epoch)
            return state._replace(elr=())
    return None


def _write(tenure: ControllerTenure, topic: TopicView, nexts: Sequence[NextState]) -> Steps[None]:
    """The topic's node has all partitions: write it once, before the states, which are in
    batches."""
    assignments = topic.assignments()
    for each in nexts:
        assert each.assignment is not None
        assignments[each.partition.name.partition] = each.assignment
    yield from tenure.write(nexts, SetAssignments(topic.name, topic.id, assignments))


def _check(
    tenure: ControllerTenure, requested: ReassignmentRequest, factor_may_change: bool
) -> tuple[PartitionView, Assignment]:
    partition = tenure.cluster.find(requested.name)
    if partition is None:
        raise Retriable(Code.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {requested.name}")
    if partition.state is None:
        raise Retriable(Code.UNKNOWN_TOPIC_OR_PARTITION, f"{requested.name} has never had a leader")
    current = partition.assignment
    before = tuple(each for each in current.replicas if each not in current.adding)
    if requested.replicas is None:
        if not current.moving:
            raise InvalidRequest(
                Code.NO_REASSIGNMENT_IN_PROGRESS, f"{requested.name} is not being reassigned"
            )
        target = before
    else:
        target = tuple(requested.replicas)
        _check_target(tenure, requested.name, target, before)
    if not factor_may_change and len(target) != len(before):
        raise InvalidRequest(
            Code.INVALID_REPLICATION_FACTOR,
            f"{requested.name} has {len(before)} replicas, the request names {len(target)}:"
            " the request does not allow the replication factor to change",
        )
    adding = tuple(each for each in target if each not in before)
    removing = tuple(each for each in before if each not in target)
    return partition, Assignment(target + removing, adding, removing)


def _check_target(
    tenure: ControllerTenure,
    name: TopicPartition,
    target: Sequence[BrokerId],
    before: Sequence[BrokerId],
) -> None:
    problem = ""
    if not target:
        problem = "there is no replica"
    elif len(set(target)) < len(target):
        problem = "a broker is listed twice"
    else:
        for broker in target:
            if broker not in before and broker not in tenure.cluster.brokers:
                problem = f"there is no broker {broker}"
    if problem:
        raise InvalidRequest(Code.INVALID_REPLICA_ASSIGNMENT, f"replicas of {name}: {problem}")


def _within(
    tenure: ControllerTenure, partition: PartitionView, replicas: Sequence[BrokerId]
) -> PartitionLeadership:
    """Its state without the replicas that an earlier move had added and this one does not need."""
    state = partition.state
    assert state is not None
    isr = tuple(each for each in state.isr if each in replicas)
    if state.leader == NO_LEADER and any(each not in replicas for each in members(state)):
        raise InvalidRequest(
            Code.INVALID_REPLICA_ASSIGNMENT,
            f"{partition.name} has no leader: a replica that this would delete may have records"
            " that the others have lost; wait until it has a leader",
        )
    if isr and (state.leader in replicas or state.leader == NO_LEADER):
        return _eligible_within(
            tenure, partition, with_isr(tenure.cluster, partition, isr, tenure.epoch), replicas
        )
    for candidate in replicas:
        if candidate in isr and may_lead(tenure.cluster, partition, candidate):
            return _eligible_within(
                tenure,
                partition,
                led_by(tenure.cluster, partition, candidate, isr, tenure.epoch),
                replicas,
            )
    raise InvalidRequest(
        Code.INVALID_REPLICA_ASSIGNMENT,
        f"{partition.name}: none of the remaining replicas is in sync; wait, or include one of"
        f" {list(state.isr)} in the replicas",
    )


def _dropped(each: NextState) -> list[BrokerId]:
    assert each.assignment is not None
    replicas = each.assignment.replicas
    return [broker for broker in each.partition.assignment.replicas if broker not in replicas]


def _stop(tenure: ControllerTenure, partition: PartitionView, brokers: Iterable[BrokerId]) -> None:
    assert partition.state is not None
    for broker in brokers:
        tenure.stop_replica(broker, partition.name, partition.state.leader_epoch)


def in_progress(
    tenure: ControllerTenure, asked: Mapping[str, Sequence[int]] | None
) -> dict[TopicPartition, Assignment]:
    """Reassignments in progress, of some partitions or of all."""
    if asked is None:
        return {each.name: each.assignment for each in tenure.cluster.moving}
    names = [TopicPartition(topic, index) for topic, some in asked.items() for index in some]
    found = {name: tenure.cluster.find(name) for name in names}
    return {
        name: each.assignment
        for name, each in found.items()
        if each is not None and each.assignment.moving
    }


def _eligible_within(
    tenure: ControllerTenure,
    partition: PartitionView,
    state: PartitionLeadership,
    replicas: Sequence[BrokerId],
) -> PartitionLeadership:
    """Fewer replicas may need fewer in sync: then others are not eligible any more."""
    if len(replicas) < tenure.cluster.min_isr(partition):
        return state._replace(elr=())
    return state._replace(elr=tuple(each for each in state.elr if each in replicas))
