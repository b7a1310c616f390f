"""AlterPartition: a leader proposes in-sync sets to the controller."""

from typing import TYPE_CHECKING
from uuid import UUID

from barnabas.broker.net.dispatch import Call
from barnabas.controller.in_sync import InSyncProposal, ProposalResult
from barnabas.controller.state import NO_LEADER
from barnabas.model.errors import Code, KafkaError
from barnabas.model.ids import BrokerId
from barnabas.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    PartitionData,
    PartitionDataResponse,
    TopicDataResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.context import ClusterContext

EPOCHS_SINCE = 3


async def handle(
    broker: "ClusterContext", request: AlterPartitionRequest, call: Call
) -> AlterPartitionResponse:
    assert broker.cluster is not None
    leader = BrokerId(request.broker_id)
    proposals = [
        _proposal(topic.topic_id, each, call.version)
        for topic in request.topics
        for each in topic.partitions
    ]
    try:
        answer = await broker.cluster.controlling.ask(
            lambda machine, now: machine.alter_partitions(
                leader, request.broker_epoch, proposals, now
            )
        )
    except KafkaError as error:
        return AlterPartitionResponse(error_code=error.code, topics=[])
    if isinstance(answer, Code):
        return AlterPartitionResponse(error_code=answer, topics=[])
    topics: dict[UUID, list[PartitionDataResponse]] = {}
    for proposal, verdict in zip(proposals, answer, strict=True):
        topics.setdefault(proposal.topic, []).append(_answer(proposal.partition, verdict))
    return AlterPartitionResponse(
        error_code=0,
        topics=[
            TopicDataResponse(topic_id=id_, partitions=answers) for id_, answers in topics.items()
        ],
    )


def _proposal(topic: UUID, asked: PartitionData, version: int) -> InSyncProposal:
    if version >= EPOCHS_SINCE:
        isr = [(BrokerId(e.broker_id), e.broker_epoch) for e in asked.new_isr_with_epochs]
    else:
        isr = [(BrokerId(each), -1) for each in asked.new_isr]
    return InSyncProposal(
        topic,
        asked.partition_index,
        asked.leader_epoch,
        asked.partition_epoch,
        isr,
        recovering=bool(asked.leader_recovery_state),
    )


def _answer(partition: int, verdict: ProposalResult) -> PartitionDataResponse:
    code, state = verdict
    if state is None:
        return PartitionDataResponse(
            partition_index=partition,
            error_code=code,
            leader_id=NO_LEADER,
            leader_epoch=-1,
            isr=[],
            partition_epoch=-1,
        )
    return PartitionDataResponse(
        partition_index=partition,
        error_code=code,
        leader_id=state.leader,
        leader_epoch=state.leader_epoch,
        isr=list(state.isr),
        leader_recovery_state=int(state.recovering),
        partition_epoch=state.version,
    )
