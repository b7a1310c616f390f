"""Elections that are requested although no broker has failed.

In: a request (ElectLeaders), the time, settings that now allow unclean elections. Out: leaders.
Always: a preferred leader takes over only if it is in sync; no in-sync replica is passed over.
"""

from collections.abc import Iterable
from enum import IntEnum

from barnabas.controller import brokers
from barnabas.controller.leader_election import after_loss, preferred
from barnabas.controller.state import NO_LEADER, PartitionView
from barnabas.controller.steps import LogLine, Steps
from barnabas.controller.tenure import ControllerTenure, NextState
from barnabas.model.errors import Code, InvalidRequest, KafkaError, Retriable
from barnabas.model.ids import TopicPartition


class ElectionKind(IntEnum):
    """The protocol's numbers."""

    PREFERRED = 0
    UNCLEAN = 1


def elect(
    tenure: ControllerTenure, kind: ElectionKind, names: Iterable[TopicPartition] | None
) -> Steps[dict[TopicPartition, KafkaError | None]]:
    """The result per partition. None: all; partitions that need no election are then left out."""
    answers: dict[TopicPartition, KafkaError | None] = {}
    nexts = []
    every = names is None
    asked = (each.name for each in tenure.cluster.all()) if names is None else names
    for name in dict.fromkeys(asked):
        try:
            nexts.append(_next(tenure, kind, name))
            answers[name] = None
        except KafkaError as error:
            if not (every and error.code is Code.ELECTION_NOT_NEEDED):
                answers[name] = error
    yield from tenure.write(nexts)
    brokers.ask_leaders(tenure, {each.partition: each.cause for each in nexts})
    yield from tenure.flush()
    return answers


def _next(tenure: ControllerTenure, kind: ElectionKind, name: TopicPartition) -> NextState:
    partition = tenure.cluster.find(name)
    if partition is None:
        raise Retriable(Code.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {name}")
    if partition.state is None:
        raise _no(
            Code.ELIGIBLE_LEADERS_NOT_AVAILABLE, f"no replica of {name} has ever been available"
        )
    if kind is ElectionKind.PREFERRED:
        if partition.leader == partition.preferred:
            raise _no(Code.ELECTION_NOT_NEEDED, f"{name} is led by its preferred leader")
        state = preferred(tenure.cluster, partition, tenure.epoch)
        if state is None:
            raise _no(
                Code.PREFERRED_LEADER_NOT_AVAILABLE,
                f"broker {partition.preferred}, the preferred leader of {name}, is not in sync or"
                f" not available; the in-sync replicas are {list(partition.state.isr)}",
            )
        return NextState(partition, state, "an election of the preferred leader was requested")
    if partition.leader != NO_LEADER:
        raise _no(Code.ELECTION_NOT_NEEDED, f"{name} is led by broker {partition.leader}")
    state = after_loss(tenure.cluster, partition, tenure.epoch, unclean=True)
    if state is None or state.leader == NO_LEADER:
        raise _no(Code.ELIGIBLE_LEADERS_NOT_AVAILABLE, f"no replica of {name} is available")
    return NextState(partition, state, "an unclean election was requested")


def _no(code: Code, detail: str) -> KafkaError:
    return InvalidRequest(code, detail)


def unclean_allowed(tenure: ControllerTenure, topic: str | None) -> Steps[None]:
    """The settings of a topic or of all have changed: leaderless partitions may elect a leader
    now."""
    cause = "unclean elections are allowed now"
    concerned = {
        each: cause for each in tenure.cluster.leaderless if topic in (None, each.name.topic)
    }
    yield from brokers.repair(tenure, concerned)
    yield from tenure.flush()


def rebalance(tenure: ControllerTenure) -> Steps[None]:
    """Move leadership back to preferred leaders where too many partitions are led by others."""
    options, cluster = tenure.options, tenure.cluster
    if tenure.rebalance_at is None or tenure.now < tenure.rebalance_at:
        return
    tenure.rebalance_at = tenure.now + options.rebalance_interval_ms
    if not options.rebalance or not cluster.imbalanced:
        return
    nexts = []
    for broker in cluster.brokers:
        own = [each for each in cluster.hosted(broker) if each.preferred == broker]
        elsewhere = [each for each in own if each.leader not in (broker, NO_LEADER)]
        if len(elsewhere) * 100 <= len(own) * options.imbalance_percent:
            continue
        share = f"{len(elsewhere)} of the {len(own)} partitions that broker {broker} should lead"
        nexts += _to_preferred(tenure, elsewhere, f"{share} were led by others")
    if nexts:
        yield LogLine("preferred leaders elected", {"partitions": len(nexts)})
    yield from tenure.write(nexts)
    yield from tenure.flush()


def _to_preferred(
    tenure: ControllerTenure, partitions: Iterable[PartitionView], cause: str
) -> list[NextState]:
    states = ((each, preferred(tenure.cluster, each, tenure.epoch)) for each in partitions)
    return [NextState(each, state, cause) for each, state in states if state is not None]
