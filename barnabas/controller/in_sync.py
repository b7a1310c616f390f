"""In-sync sets that leaders propose (AlterPartition).

In: per partition a set, with the epochs it was computed from. Out: the partition's new state, or
why the proposal is rejected.
Always: only the leader of the latest epoch may propose, and only for the latest state. A broker
is added only if it is alive in the same registration and is not shutting down. All accepted
proposals of a request are one write. A repeated proposal gets the same reply.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from barnabas.controller import reassignment as moves
from barnabas.controller.leader_election import with_isr
from barnabas.controller.state import PartitionLeadership, PartitionView, TopicView
from barnabas.controller.steps import Steps
from barnabas.controller.tenure import ControllerTenure, NextState
from barnabas.model.errors import Code
from barnabas.model.ids import BrokerId

UNKNOWN_EPOCH = -1
MIN_INSYNC = "min.insync.replicas"
RAISE_MS = 60_000  # a leader that has not read a setting by then has lost its session


class InSyncProposal(NamedTuple):
    """`isr`: brokers and their epochs, -1 where the leader does not know the epoch."""

    topic: UUID
    partition: int
    leader_epoch: int
    partition_epoch: int
    isr: Sequence[tuple[BrokerId, int]]
    recovering: bool = False


class ProposalResult(NamedTuple):
    code: Code
    state: PartitionLeadership | None = None


def min_insync(settings: Mapping[str, str]) -> int | None:
    """From the settings of a topic, or of all brokers; None: not set."""
    said = settings.get(MIN_INSYNC, "")
    return int(said) if said.isdecimal() else None


def change_min_insync(tenure: ControllerTenure, topic: TopicView, wanted: int | None) -> None:
    """A larger value later: a leader that has not read it yet commits records with fewer replicas,
    and a replica that leaves does not have them."""
    cluster = tenure.cluster
    now = cluster.or_default(topic.min_insync)
    if cluster.or_default(wanted) > now:
        topic.min_insync = now
        tenure.raised[topic] = (wanted, tenure.now + RAISE_MS)
    else:
        topic.min_insync = wanted
        tenure.raised.pop(topic, None)


def raise_due(tenure: ControllerTenure) -> None:
    for topic, (wanted, at) in list(tenure.raised.items()):
        if at <= tenure.now:
            topic.min_insync = wanted
            del tenure.raised[topic]


def forget_eligible(tenure: ControllerTenure, topic: str | None) -> Steps[None]:
    """For a topic, or for all: fewer in-sync replicas can commit records from now on, and the
    eligible replicas do not have those records."""
    cause = f"{MIN_INSYNC} was changed"
    concerned = [
        NextState(each, each.state._replace(elr=(), controller_epoch=tenure.epoch), cause)
        for each in tenure.cluster.all()
        if topic in (None, each.name.topic) and each.state is not None and each.state.elr
    ]
    yield from tenure.write(concerned)
    yield from tenure.flush()


def alter(
    tenure: ControllerTenure,
    leader: BrokerId,
    broker_epoch: int,
    proposals: Sequence[InSyncProposal],
) -> Steps[Code | list[ProposalResult]]:
    """One result per proposal, or one error code for all."""
    cluster = tenure.cluster
    if cluster.epoch(leader) != broker_epoch:
        return Code.STALE_BROKER_EPOCH
    verdicts: list[ProposalResult] = []
    nexts: dict[int, NextState] = {}
    taken: dict[PartitionView, None] = {}
    for number, proposal in enumerate(proposals):
        topic = cluster.by_id.get(proposal.topic)
        if topic is None:
            verdicts.append(ProposalResult(Code.UNKNOWN_TOPIC_ID))
            continue
        if not 0 <= proposal.partition < len(topic.partitions):
            verdicts.append(ProposalResult(Code.UNKNOWN_TOPIC_OR_PARTITION))
            continue
        partition = topic.partitions[proposal.partition]
        code = _judge(tenure, leader, partition, proposal)
        state = partition.state
        if code is Code.NONE and state is not None:
            isr = tuple(broker for broker, _ in proposal.isr)
            same = sorted(isr) == sorted(state.isr) and proposal.recovering == state.recovering
            if partition in taken:
                code = Code.INVALID_REQUEST
            elif not same:
                wanted = with_isr(cluster, partition, isr, tenure.epoch)
                wanted = wanted._replace(recovering=proposal.recovering)
                nexts[number] = NextState(partition, wanted, _cause(leader, state, isr))
            taken[partition] = None
        verdicts.append(ProposalResult(code, state if code is Code.NONE else None))
    yield from tenure.write(nexts.values())
    for number, each in nexts.items():
        verdicts[number] = ProposalResult(Code.NONE, each.partition.state)
        tenure.sent_in_reply(each.partition)
    yield from moves.finish(tenure, [each.partition for each in nexts.values()])
    yield from tenure.flush()
    return verdicts


def _judge(
    tenure: ControllerTenure, leader: BrokerId, partition: PartitionView, proposal: InSyncProposal
) -> Code:
    state, cluster = partition.state, tenure.cluster
    if state is None:
        return Code.UNKNOWN_TOPIC_OR_PARTITION
    isr = [broker for broker, _ in proposal.isr]
    if proposal.leader_epoch > state.leader_epoch or proposal.partition_epoch > state.version:
        return Code.NOT_CONTROLLER  # it knows a later controller than this one
    if proposal.leader_epoch < state.leader_epoch:
        return Code.FENCED_LEADER_EPOCH
    if state.leader != leader:
        return Code.INVALID_REQUEST
    if proposal.partition_epoch < state.version:
        same = sorted(isr) == sorted(state.isr) and proposal.recovering == state.recovering
        return Code.NONE if same else Code.INVALID_UPDATE_VERSION
    if leader not in isr or len(set(isr)) < len(isr):
        return Code.INVALID_REQUEST
    if any(broker not in partition.assignment.replicas for broker in isr):
        return Code.INVALID_REQUEST
    if proposal.recovering and (len(isr) > 1 or not state.recovering):
        return Code.INVALID_REQUEST
    for broker, epoch in proposal.isr:
        known = cluster.epoch(broker)
        if broker in state.isr and epoch in (UNKNOWN_EPOCH, known):
            continue
        if not cluster.usable(broker, partition) or epoch not in (UNKNOWN_EPOCH, known):
            return Code.INELIGIBLE_REPLICA
    return Code.NONE


def _cause(leader: BrokerId, state: PartitionLeadership, isr: Sequence[BrokerId]) -> str:
    out = [str(each) for each in state.isr if each not in isr]
    new = [str(each) for each in isr if each not in state.isr]
    words = []
    if out:
        words.append(f"{_brokers(out)} fell behind")
    if new:
        words.append(f"{_brokers(new)} caught up")
    return f"leader {leader} reports that {' and '.join(words) or 'it has recovered'}"


def _brokers(ids: Sequence[str]) -> str:
    return f"broker {ids[0]}" if len(ids) == 1 else f"brokers {', '.join(ids)}"
