"""Groups of transactions, over the wire."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.broker.transactions.coordination import transaction_coordination
from barnabas.coordinators.transactions.decision import Identity
from barnabas.model.errors import Code
from barnabas.pipeline.spark.group_committer import task_id
from barnabas.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from barnabas.wire.messages.commit_transaction_group import (
    CommitTransactionGroupRequest,
    CommitTransactionGroupResponse,
    GroupedTransaction,
)
from barnabas.wire.messages.describe_transaction_group import (
    DescribeTransactionGroupRequest,
    DescribeTransactionGroupResponse,
)
from tests.broker.handlers.test_transactions import described, initialised
from tests.broker.running import Running, running_broker

GROUP = "spark-query"
PARTITIONS = 7
TASKS = [task_id(GROUP, number, 0, PARTITIONS) for number in range(3)]
Named = list[tuple[str, Identity]]


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    options = {"transaction.state.log.num.partitions": str(PARTITIONS)}
    async with running_broker(tmp_path, options) as running:
        await running.create("t", partitions=1)
        yield running
        assert running.broker.counts.failures == 0, running.log.getvalue()


async def opened(running: Running, ids: list[str]) -> Named:
    found = []
    for id_ in ids:
        producer = await initialised(running, id_)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=id_,
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=[0])],
        )
        await running.ask(request, AddPartitionsToTxnResponse, 3)
        found.append((id_, producer))
    return found


async def commit(running: Running, named: Named, batch: int = 0, identity: str = "a") -> Any:
    request = CommitTransactionGroupRequest(
        group=GROUP,
        committed=True,
        batch=batch,
        identity=identity,
        note="note",
        transactions=[
            GroupedTransaction(
                transactional_id=id_, producer_id=each.producer_id, producer_epoch=each.epoch
            )
            for id_, each in named
        ],
    )
    return await running.ask(request, CommitTransactionGroupResponse)


async def test_a_group_is_committed_and_its_markers_are_written(running: Running) -> None:
    named = await opened(running, TASKS)
    said = await commit(running, named)
    assert (said.error_code, said.already_committed) == (0, False)
    assert (await commit(running, named)).already_committed
    states = [each.transaction_state for each in await described(running, *TASKS)]
    assert states == ["CompleteCommit"] * 3
    asked = DescribeTransactionGroupRequest(group=GROUP)
    last = await running.ask(asked, DescribeTransactionGroupResponse)
    found = (last.error_code, last.partitions, last.batch, last.identity, last.note)
    assert found == (0, PARTITIONS, 0, "a", "note")


async def test_ids_of_another_partition_and_ids_named_twice_are_refused(running: Running) -> None:
    (one,) = await opened(running, TASKS[:1])
    assert (await commit(running, [one, one])).error_code == Code.INVALID_REQUEST
    elsewhere = next(
        f"{GROUP}/{number}" for number in range(100) if not _together(running, f"{GROUP}/{number}")
    )
    refused = await commit(running, [one, (elsewhere, Identity(1, 0))])
    assert refused.error_code == Code.INVALID_REQUEST
    assert "is not in partition" in refused.error_message
    assert (await described(running, TASKS[0]))[0].transaction_state == "Ongoing"


def _together(running: Running, id_: str) -> bool:
    transactions = transaction_coordination(running.broker)
    return transactions.shard_of(id_) is transactions.shard_of(GROUP)


async def test_before_anyone_has_looked_for_the_coordinator_there_is_none(running: Running) -> None:
    asked = DescribeTransactionGroupRequest(group=GROUP)
    said = await running.ask(asked, DescribeTransactionGroupResponse)
    assert said.error_code == Code.NOT_COORDINATOR
    assert (await commit(running, [])).error_code == Code.NOT_COORDINATOR
