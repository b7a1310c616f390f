"""Reports to the controller which replicas were on a failed disk, until it has replied.

Not here: what happens to the partitions on this broker (broker/storage/log_directory.py,
broker/partition.py).
"""

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING

from barnabas.broker.context import BrokerContext
from barnabas.model.errors import Code, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.replicas_failed import (
    FailedTopic,
    ReplicasFailedRequest,
    ReplicasFailedResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.replicas.replica_cluster import ReplicaCluster

TIMEOUT_MS = 10_000
AGAIN_S = 0.5


async def report(
    broker: BrokerContext, cluster: "ReplicaCluster", names: Iterable[TopicPartition]
) -> None:
    topics: dict[str, list[int]] = {}
    for name in names:
        topics.setdefault(name.topic, []).append(name.partition)
    while True:
        request = ReplicasFailedRequest(
            broker_id=broker.id,
            broker_epoch=cluster.broker_epoch,
            topics=[FailedTopic(name=name, partitions=each) for name, each in topics.items()],
        )
        try:
            answer = await cluster.ask_controller(request, TIMEOUT_MS)
            assert isinstance(answer, ReplicasFailedResponse)
            if not answer.error_code:
                return
            reason = Code.of(answer.error_code).name
        except KafkaError as error:
            reason = error.detail
        broker.log.warning("failed disk not reported to the controller yet", reason=reason)
        await asyncio.sleep(AGAIN_S)
