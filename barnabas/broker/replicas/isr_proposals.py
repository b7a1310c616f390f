"""Sends proposals of in-sync sets to the controller, and applies its replies.

In: proposals of the partitions led here. Out: AlterPartition, and the result of each proposal.
Always: one request at a time; a proposal whose outcome is unknown is sent again unchanged, until
there is a reply or the partition has a newer state.
Not here: when to propose (replication/leader.py), deciding (controller/).
"""

import asyncio
from typing import TYPE_CHECKING
from uuid import UUID

from barnabas.broker.context import BrokerContext
from barnabas.broker.replicas.leading import LeaderReplica
from barnabas.broker.replicas.limited_log import LimitedLog
from barnabas.model.errors import Code, KafkaError
from barnabas.model.ids import BrokerId
from barnabas.replication.leader import IsrProposal
from barnabas.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionData,
    PartitionDataResponse,
    TopicData,
)

if TYPE_CHECKING:
    from barnabas.broker.replicas.replica_cluster import ReplicaCluster

TIMEOUT_MS = 15_000  # the controller may be busy with thousands of partitions
BACKOFF_S_MIN, BACKOFF_S_MAX = 0.05, 1.0
PARTITIONS_MAX = 1_000  # per request
# Not applied, and not to be retried unchanged: followers continue fetching, and are proposed again.
_REJECTED = (Code.INELIGIBLE_REPLICA, Code.OPERATION_NOT_ATTEMPTED)
# The controller knows more than this leader, and will send LeaderAndIsr: until then the larger
# set decides, because this broker does not know which of the two is valid.
_OUTDATED = (
    Code.FENCED_LEADER_EPOCH,
    Code.INVALID_REQUEST,
    Code.INVALID_UPDATE_VERSION,
    Code.NEW_LEADER_ELECTED,
    Code.UNKNOWN_TOPIC_ID,
    Code.UNKNOWN_TOPIC_OR_PARTITION,
)

Key = tuple[UUID, int]


class Proposals:
    """All proposals of a broker."""

    def __init__(self, broker: BrokerContext, cluster: "ReplicaCluster") -> None:
        self._broker = broker
        self._cluster = cluster
        self._open: dict[Key, tuple[LeaderReplica, IsrProposal]] = {}
        self._sender: asyncio.Task[None] | None = None
        self._isr_log = LimitedLog(broker.log)
        self.shrinks = 0  # confirmed
        self.expands = 0

    def add(self, topic_id: UUID, leading: LeaderReplica, proposal: IsrProposal) -> None:
        """Sent after the other work of this loop iteration."""
        self._open[topic_id, leading.partition.name.partition] = (leading, proposal)
        if self._sender is None or self._sender.done():
            self._sender = self._broker.loop.create_task(self._send_all())

    async def close(self) -> None:
        if self._sender is not None:
            self._sender.cancel()
            await asyncio.gather(self._sender, return_exceptions=True)

    async def _send_all(self) -> None:
        backoff_s = BACKOFF_S_MIN
        while self._open:
            self._drop_outdated()
            batch = dict(list(self._open.items())[:PARTITIONS_MAX])
            if not batch:
                return
            try:
                response = await self._cluster.ask_controller(self._request(batch), TIMEOUT_MS)
                assert isinstance(response, AlterPartitionResponse)
                if response.error_code:
                    raise KafkaError(Code.of(response.error_code))
            except KafkaError as error:
                self._broker.log.debug("in-sync set proposal not answered", reason=str(error))
            else:
                if self._take(batch, response):
                    backoff_s = BACKOFF_S_MIN
                    continue
            await asyncio.sleep(backoff_s)
            backoff_s = min(BACKOFF_S_MAX, 2 * backoff_s)

    def _drop_outdated(self) -> None:
        """Drop those whose leader has received a newer state."""
        for key, (leading, proposal) in list(self._open.items()):
            if leading.machine.pending is not proposal or leading.partition.leading is not leading:
                del self._open[key]

    def _request(
        self, batch: dict[Key, tuple[LeaderReplica, IsrProposal]]
    ) -> AlterPartitionRequest:
        own, own_epoch = self._broker.id, self._cluster.broker_epoch
        topics: dict[UUID, list[PartitionData]] = {}
        for (topic_id, index), (_, proposal) in batch.items():
            pairs = zip(proposal.isr, proposal.broker_epochs, strict=True)
            topics.setdefault(topic_id, []).append(
                PartitionData(
                    partition_index=index,
                    leader_epoch=proposal.leader_epoch,
                    new_isr_with_epochs=[
                        BrokerState(broker_id=b, broker_epoch=own_epoch if b == own else epoch)
                        for b, epoch in pairs
                    ],
                    partition_epoch=proposal.partition_epoch,
                )
            )
        return AlterPartitionRequest(
            broker_id=own,
            broker_epoch=own_epoch,
            topics=[TopicData(topic_id=id_, partitions=each) for id_, each in topics.items()],
        )

    def _take(
        self, batch: dict[Key, tuple[LeaderReplica, IsrProposal]], response: AlterPartitionResponse
    ) -> bool:
        """False if a proposal must be sent again."""
        done = True
        results = {
            (topic.topic_id, answer.partition_index): answer
            for topic in response.topics
            for answer in topic.partitions
        }
        for key, (leading, proposal) in batch.items():
            answer = results.get(key)
            if self._open.get(key) != (leading, proposal):
                continue  # replaced by a newer one
            if answer is None or not self._apply_result(leading, proposal, answer):
                done = False
                continue
            del self._open[key]
        self._isr_log.finish("in-sync sets")
        return done

    def _apply_result(
        self, leading: LeaderReplica, proposal: IsrProposal, answer: PartitionDataResponse
    ) -> bool:
        code = Code.of(answer.error_code)
        if code is Code.NONE:
            before = leading.machine.isr
            isr = tuple(BrokerId(each) for each in answer.isr)
            if leading.answered(proposal, answer.leader_epoch, answer.partition_epoch, isr):
                self._log_change(leading, before, isr, proposal)
            return True
        if code in _REJECTED:
            leading.rejected(proposal)
        elif code not in _OUTDATED:
            return False
        self._isr_log.write(
            self._broker.log.info,
            "in-sync set not changed",
            partition=leading.partition.name,
            proposed=list(proposal.isr),
            why=proposal.cause,
            code=code.name,
        )
        return True

    def _log_change(
        self,
        leading: LeaderReplica,
        before: tuple[BrokerId, ...],
        isr: tuple[BrokerId, ...],
        proposal: IsrProposal,
    ) -> None:
        if len(isr) < len(before):
            self.shrinks += 1
            log, event = self._broker.log.warning, "in-sync set shrunk"
        else:
            self.expands += 1
            log, event = self._broker.log.info, "in-sync set expanded"
        self._isr_log.write(
            log,
            event,
            partition=leading.partition.name,
            had=list(before),
            has=list(isr),
            why=proposal.cause,
        )
