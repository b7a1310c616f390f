"""Decides which replica may lead a partition that has no registered in-sync replica.

In: the reports of replicas about their logs (DescribeReplicas), each of its present registration.
Out: the broker that leads, or None, and the reason in words.
Always: a replica that lost its log, or whose log started empty again and has not caught up since,
is not elected. A log that is shorter than its broker had recorded is elected only after every
member has reported and none of them is complete.
Always: a member is a broker of the in-sync set or of the eligible replicas: each had all committed
records. A member that stopped cleanly still has them. After other stops the members are compared:
the controller waits WAIT_MS for missing members.
Why: docs/adr/0038.
"""

from collections.abc import Iterable
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from barnabas.model.ids import BrokerId

if TYPE_CHECKING:
    from barnabas.controller.state import ClusterState, PartitionLeadership, PartitionView

WAIT_MS = 10_000


class ReplicaCompleteness(IntEnum):
    """How much a replica has, as far as its broker knows. The numbers are those of the protocol."""

    LOST = 0  # it had a log that is lost, or that started empty again and has not caught up since
    ABSENT = 1  # there is no log, and no trace of one
    SHORT = 2  # the log ends before the offset that the broker had recorded
    COMPLETE = 3


class ReplicaReport(NamedTuple):
    """A broker's report about one replica."""

    copy: ReplicaCompleteness
    clean: bool
    """The log is as a clean stop left it, or had all committed records while this process wrote
    it."""
    last_epoch: int
    end_offset: int
    reason: str = ""

    @property
    def length(self) -> tuple[int, int]:
        return self.last_epoch, self.end_offset


def members(state: "PartitionLeadership") -> tuple[BrokerId, ...]:
    """The brokers that had all committed records."""
    return (*state.isr, *state.elr)


def leader(
    cluster: "ClusterState", partition: "PartitionView", *, waited: bool = False
) -> BrokerId | None:
    """`waited`: the wait for missing members is over."""
    state = partition.state
    assert state is not None
    wanted = members(state)
    reports = _reports(cluster, partition, wanted)
    complete = {
        each: said for each, said in reports.items() if said.copy is ReplicaCompleteness.COMPLETE
    }
    if len(reports) == len(wanted):
        new = {each: said for each, said in reports.items() if _is_new(cluster, state, each, said)}
        short = {
            each: said for each, said in reports.items() if said.copy is ReplicaCompleteness.SHORT
        }
        return _longest(partition, complete or short or new)
    if waited:
        return _longest(partition, complete)
    return _longest(partition, {each: said for each, said in complete.items() if said.clean})


def may_have_all(cluster: "ClusterState", partition: "PartitionView", broker: BrokerId) -> bool:
    """A member that has not reported may be complete: it is down, or its reply is on the way."""
    report = cluster.report(broker, partition)
    return report is None or report.copy is ReplicaCompleteness.COMPLETE


def any_leader(cluster: "ClusterState", partition: "PartitionView") -> BrokerId | None:
    """The available replica with the most records: committed records may be lost."""
    replicas = [each for each in partition.assignment.replicas if cluster.usable(each, partition)]
    reports = _reports(cluster, partition, replicas)
    for copies in (
        (ReplicaCompleteness.COMPLETE, ReplicaCompleteness.SHORT),
        (ReplicaCompleteness.LOST, ReplicaCompleteness.ABSENT),
    ):
        found = {each: said for each, said in reports.items() if said.copy in copies}
        if found:
            return _longest(partition, found)
    return replicas[0] if replicas else None


def is_awaited(cluster: "ClusterState", partition: "PartitionView") -> bool:
    """A complete member is available; another may have more records, and WAIT_MS is not over."""
    assert partition.state is not None
    reports = _reports(cluster, partition, members(partition.state))
    return any(said.copy is ReplicaCompleteness.COMPLETE for said in reports.values())


def unreported(cluster: "ClusterState", partition: "PartitionView") -> list[BrokerId]:
    """Replicas on registered brokers that have not reported yet."""
    return [
        each
        for each in partition.assignment.replicas
        if cluster.usable(each, partition) and cluster.report(each, partition) is None
    ]


def why_offline(cluster: "ClusterState", partition: "PartitionView") -> str:
    """In words, with the remedy."""
    state = partition.state
    if state is None:
        return "no broker that has a replica has ever been available: start one of its brokers"
    parts, name = [], partition.name
    for broker in members(state):
        report = cluster.report(broker, partition)
        if not cluster.online(broker, partition):
            parts.append(f"broker {broker} is down or its log directory is offline")
        elif report is None:
            parts.append(f"broker {broker} has not reported its log yet")
        elif report.copy is ReplicaCompleteness.COMPLETE:
            parts.append(f"broker {broker} has a log that ends at offset {report.end_offset}")
        else:
            parts.append(f"broker {broker} {report.reason}")
    return (
        f"no replica that is known to be complete is available: {'; '.join(parts)}."
        " Start the brokers that are down, with their disks, or elect another replica and lose"
        f" records: barnabas cluster elect --unclean {name.topic}:{name.partition}"
    )


def _is_new(
    cluster: "ClusterState", state: "PartitionLeadership", broker: BrokerId, said: ReplicaReport
) -> bool:
    """No log, although no log directory was replaced since it became a member of the in-sync set.
    Its creation was interrupted, or a power loss took a log of which nothing was synced. Nothing is
    committed without a member, so no synced record is lost if it leads."""
    if said.copy is not ReplicaCompleteness.ABSENT:
        return False
    known = cluster.known_brokers.get(broker)
    return known is None or known.lost_epoch <= state.epoch_of(broker)


def _reports(
    cluster: "ClusterState", partition: "PartitionView", brokers: Iterable[BrokerId]
) -> dict[BrokerId, ReplicaReport]:
    found = {
        each: cluster.report(each, partition) for each in brokers if cluster.usable(each, partition)
    }
    return {each: said for each, said in found.items() if said is not None}


def _longest(partition: "PartitionView", reports: dict[BrokerId, ReplicaReport]) -> BrokerId | None:
    """The first in the order of the replicas, if several are equal."""
    best: BrokerId | None = None
    for broker in partition.assignment.replicas:
        if broker in reports and (best is None or reports[broker].length > reports[best].length):
            best = broker
    return best
