"""The requests of transactions, over the wire."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.broker.metrics import page
from barnabas.broker.transactions.coordination import transaction_coordination
from barnabas.coordinators.transactions.decision import Identity
from barnabas.log.transactions.append import require_guard
from barnabas.model.errors import Code
from barnabas.wire.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from barnabas.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from barnabas.wire.messages.describe_transaction_history import (
    AskedTopic,
    DescribeTransactionHistoryRequest,
    DescribeTransactionHistoryResponse,
    TransactionHistory,
)
from barnabas.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from barnabas.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from barnabas.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from barnabas.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from barnabas.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from barnabas.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tests.broker.running import Running, running_broker
from tests.log.batches import batch
from tests.waiting import eventually

ID = "tx"


@pytest.fixture
async def offered(tmp_path: Path) -> AsyncIterator[tuple[Running, Identity]]:
    """A broker, and a producer that has initialised its transactional id."""
    options = {"transaction.state.log.num.partitions": "3", "offsets.topic.num.partitions": "2"}
    async with running_broker(tmp_path, options) as running:
        await running.create("t", partitions=2)
        yield running, await initialised(running)


async def initialised(running: Running, id_: str = ID, timeout_ms: int = 60_000) -> Identity:
    find = FindCoordinatorRequest(key_type=1, coordinator_keys=[id_])
    (found,) = (await running.ask(find, FindCoordinatorResponse)).coordinators
    assert (found.error_code, found.node_id) == (0, running.broker.id)
    request = InitProducerIdRequest(transactional_id=id_, transaction_timeout_ms=timeout_ms)
    said = await running.ask(request, InitProducerIdResponse)
    assert said.error_code == 0
    return Identity(said.producer_id, said.producer_epoch)


async def add(
    running: Running, producer: Identity, topics: dict[str, list[int]], version: int = 3
) -> dict[tuple[str, int], Code]:
    named = [
        AddPartitionsToTxnTopic(name=name, partitions=indexes) for name, indexes in topics.items()
    ]
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=ID,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=named,
    )
    said = await running.ask(request, AddPartitionsToTxnResponse, version)
    return codes(said.results_by_topic_v3_and_below)


def codes(topics: list[Any]) -> dict[tuple[str, int], Code]:
    return {
        (topic.name, each.partition_index): Code.of(each.partition_error_code)
        for topic in topics
        for each in topic.results_by_partition
    }


async def end(running: Running, producer: Identity, *, commit: bool, version: int = 3) -> Any:
    request = EndTxnRequest(
        transactional_id=ID,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        committed=commit,
    )
    return await running.ask(request, EndTxnResponse, version)


async def described(running: Running, *ids: str) -> list[Any]:
    request = DescribeTransactionsRequest(transactional_ids=list(ids))
    return (await running.ask(request, DescribeTransactionsResponse)).transaction_states


async def test_a_transaction_from_the_first_partition_to_the_end(
    offered: tuple[Running, Identity],
) -> None:
    running, producer = offered
    assert await add(running, producer, {"t": [0, 1]}) == {
        ("t", 0): Code.NONE,
        ("t", 1): Code.NONE,
    }
    (open_,) = await described(running, ID)
    assert open_.transaction_state == "Ongoing"
    assert [(each.topic, each.partitions) for each in open_.topics] == [("t", [0, 1])]
    assert (await end(running, producer, commit=True)).error_code == 0
    table = transaction_coordination(running.broker).shard_of(ID).table
    await eventually(lambda: table.transactions[ID].state.title == "CompleteCommit")
    assert running.broker.topics.existing("t").partition(0).log.end_offset == 1


async def test_all_partitions_join_or_none(offered: tuple[Running, Identity]) -> None:
    running, producer = offered
    assert await add(running, producer, {"t": [0, 9], "gone": [0]}) == {
        ("t", 0): Code.OPERATION_NOT_ATTEMPTED,
        ("t", 9): Code.UNKNOWN_TOPIC_OR_PARTITION,
        ("gone", 0): Code.UNKNOWN_TOPIC_OR_PARTITION,
    }
    (found,) = await described(running, ID)
    assert found.transaction_state == "Empty"


async def test_brokers_ask_for_several_transactions_at_once(
    offered: tuple[Running, Identity],
) -> None:
    running, producer = offered
    topics = [AddPartitionsToTxnTopic(name="t", partitions=[0])]

    def transaction(id_: str, *, verify: bool) -> AddPartitionsToTxnTransaction:
        return AddPartitionsToTxnTransaction(
            transactional_id=id_,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            verify_only=verify,
            topics=topics,
        )

    request = AddPartitionsToTxnRequest(
        transactions=[transaction(ID, verify=True), transaction("other", verify=False)]
    )
    said = await running.ask(request, AddPartitionsToTxnResponse, 5)
    assert [
        (result.transactional_id, codes(result.topic_results)["t", 0])
        for result in said.results_by_transaction
    ] == [(ID, Code.TRANSACTION_ABORTABLE), ("other", Code.INVALID_PRODUCER_ID_MAPPING)]


async def test_a_group_joins_once_its_topic_is_there(offered: tuple[Running, Identity]) -> None:
    running, producer = offered
    request = AddOffsetsToTxnRequest(
        transactional_id=ID,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        group_id="g",
    )
    said = await running.ask(request, AddOffsetsToTxnResponse)
    assert said.error_code == Code.COORDINATOR_NOT_AVAILABLE
    find = FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
    await running.ask(find, FindCoordinatorResponse)
    assert (await running.ask(request, AddOffsetsToTxnResponse)).error_code == 0
    (found,) = await described(running, ID)
    assert [each.topic for each in found.topics] == ["__consumer_offsets"]


async def test_what_cannot_be_ended_is_refused(offered: tuple[Running, Identity]) -> None:
    running, producer = offered
    assert (await end(running, producer, commit=True)).error_code == Code.INVALID_TXN_STATE
    stale = Identity(producer.producer_id, 9)
    assert (await end(running, stale, commit=True)).error_code == Code.PRODUCER_FENCED
    assert (
        await end(running, stale, commit=True, version=1)
    ).error_code == Code.INVALID_PRODUCER_EPOCH


async def test_transactions_are_listed_and_described(offered: tuple[Running, Identity]) -> None:
    running, producer = offered

    async def listed(pattern: str | None, *states: str) -> Any:
        request = ListTransactionsRequest(
            state_filters=list(states),
            producer_id_filters=[],
            transactional_id_pattern=pattern,
        )
        return await running.ask(request, ListTransactionsResponse)

    said = await listed("t.*", "Empty", "Nonsense")
    assert said.unknown_state_filters == ["Nonsense"]
    assert [each.transactional_id for each in said.transaction_states] == [ID]
    assert (await listed("x")).transaction_states == []
    assert (await listed("(")).error_code == Code.INVALID_REGULAR_EXPRESSION
    states = [each.error_code for each in await described(running, ID, "nobody", "", ID)]
    assert states == [0, Code.TRANSACTIONAL_ID_NOT_FOUND, Code.INVALID_REQUEST]
    assert producer.epoch == 0


async def test_an_administrator_ends_what_hangs_in_a_partition(
    offered: tuple[Running, Identity],
) -> None:
    running, _ = offered
    partition = running.broker.topics.existing("t").partition(0)
    guard = require_guard(partition.log, 77, 3, 0, has_version_2=False)
    wall_ms = running.broker.clock.wall_ms()
    data = batch(1, time=wall_ms, producer=77, epoch=3, sequence=0, transactional=True)
    partition.append(data, -1, wall_ms, guard=guard)
    assert partition.log.last_stable_offset == 0

    async def abort(epoch: int) -> list[Code]:
        marker = WritableTxnMarker(
            producer_id=77,
            producer_epoch=epoch,
            transaction_result=False,
            topics=[
                WritableTxnMarkerTopic(name="t", partition_indexes=[0, 9]),
                WritableTxnMarkerTopic(name="gone", partition_indexes=[0]),
            ],
            coordinator_epoch=0,
        )
        request = WriteTxnMarkersRequest(markers=[marker])
        (result,) = (await running.ask(request, WriteTxnMarkersResponse)).markers
        return [Code.of(each.error_code) for t in result.topics for each in t.partitions]

    unknown = [Code.UNKNOWN_TOPIC_OR_PARTITION] * 2
    assert await abort(2) == [Code.INVALID_PRODUCER_EPOCH, *unknown]
    assert await abort(3) == [Code.NONE, *unknown]
    assert partition.log.last_stable_offset == 2


async def test_no_marker_reaches_the_log_of_a_coordinator(
    offered: tuple[Running, Identity],
) -> None:
    """Its coordinator could not load it after a restart."""
    running, producer = offered
    state = "__transaction_state"
    assert await add(running, producer, {state: [0], "t": [0]}) == {
        (state, 0): Code.TOPIC_AUTHORIZATION_FAILED,
        ("t", 0): Code.OPERATION_NOT_ATTEMPTED,
    }
    assert await add(running, producer, {"__consumer_offsets": [0]}) == {
        ("__consumer_offsets", 0): Code.TOPIC_AUTHORIZATION_FAILED
    }
    log = running.broker.topics.existing(state).partition(0).log
    before = log.end_offset
    marker = WritableTxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name=state, partition_indexes=[0])],
        coordinator_epoch=0,
    )
    request = WriteTxnMarkersRequest(markers=[marker])
    (result,) = (await running.ask(request, WriteTxnMarkersResponse)).markers
    assert result.topics[0].partitions[0].error_code == Code.UNSUPPORTED_FOR_MESSAGE_FORMAT
    assert log.end_offset == before


async def test_the_history_of_an_id_has_its_client_and_the_causes_of_its_aborts(
    offered: tuple[Running, Identity],
) -> None:
    running, producer = offered

    async def told(*ids: str) -> list[TransactionHistory]:
        request = DescribeTransactionHistoryRequest(transactional_ids=list(ids), topics=[])
        said = await running.ask(request, DescribeTransactionHistoryResponse)
        assert said.since_ms <= said.now_ms
        return said.transactions

    await add(running, producer, {"t": [0, 1]})
    await end(running, producer, commit=False)
    history, unknown = await told(ID, "other")
    assert (history.client_id, history.client_host) == ("test", "/203.0.113.7")
    (abort,) = history.aborts
    assert (abort.kind, abort.partitions) == ("CLIENT", 2)
    assert abort.text == "the producer aborted it (client 'test' at 203.0.113.7)"
    assert unknown.error_code == Code.TRANSACTIONAL_ID_NOT_FOUND
    many = await told(*map(str, range(1_000)))
    assert (len(many), many[-1].error_code) == (101, Code.INVALID_REQUEST)


async def test_readers_that_wait_for_an_open_transaction_are_listed(
    offered: tuple[Running, Identity],
) -> None:
    running, _ = offered
    partition = running.broker.topics.existing("t").partition(0)
    wall_ms = running.broker.clock.wall_ms()
    guard = require_guard(partition.log, 77, 3, 0, has_version_2=False)
    data = batch(1, time=wall_ms, producer=77, epoch=3, sequence=0, transactional=True)
    partition.append(data, -1, wall_ms, guard=guard)

    async def readers() -> list[tuple[str, str, int]]:
        asked = [AskedTopic(name="t", partitions=[0, 9])]
        request = DescribeTransactionHistoryRequest(transactional_ids=[], topics=asked)
        told, unknown = (await running.ask(request, DescribeTransactionHistoryResponse)).partitions
        assert unknown.error_code == Code.UNKNOWN_TOPIC_OR_PARTITION
        return [(each.client_id, each.client_host, told.partition) for each in told.readers]

    assert await readers() == []
    for isolation_level in (0, 1, 1):
        part = FetchPartition(partition=0, fetch_offset=isolation_level ^ 1, partition_max_bytes=1)
        request = FetchRequest(
            max_wait_ms=60_000,
            min_bytes=1,
            max_bytes=1,
            isolation_level=isolation_level,
            topics=[FetchTopic(topic="t", partitions=[part])],
        )
        running.send(request, 12, running.connect())
    expected = [("test", "/203.0.113.7", 0)]  # once, however many of its fetches wait
    await eventually(lambda: len(partition.waiters) == 3)
    assert await readers() == expected


async def test_an_abort_that_the_producer_did_not_ask_for_is_logged(
    offered: tuple[Running, Identity],
) -> None:
    running, producer = offered
    await add(running, producer, {"t": [0]})
    request = InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=60_000)
    said = await running.ask(request, InitProducerIdResponse)
    assert said.error_code == Code.CONCURRENT_TRANSACTIONS
    (line,) = [line for line in running.log.getvalue().splitlines() if "aborted" in line]
    assert '"event": "transaction aborted", "transactional_id": "tx"' in line
    assert "another producer initialised the same transactional id (client 'test' at" in line


async def test_transactions_are_counted_for_prometheus(
    offered: tuple[Running, Identity],
) -> None:
    running, producer = offered
    await add(running, producer, {"t": [0, 1]})
    partition = running.broker.topics.existing("t").partition(0)
    wall_ms = running.broker.clock.wall_ms()
    data = batch(
        1,
        time=wall_ms,
        producer=producer.producer_id,
        epoch=producer.epoch,
        sequence=0,
        transactional=True,
    )
    guard = require_guard(
        partition.log, producer.producer_id, producer.epoch, 0, has_version_2=False
    )
    partition.append(data, -1, wall_ms, guard=guard)
    text = (await page(running.broker)).decode()
    assert "barnabas_transactional_ids 1.0" in text
    assert "barnabas_transactions_open 1.0" in text
    assert "barnabas_partitions_held_back 1.0" in text
    assert "barnabas_held_back_offsets_max 1.0" in text
    assert 'barnabas_partition_held_back_offsets{partition="0",topic="t"} 1.0' in text
    await end(running, producer, commit=False)
    table = transaction_coordination(running.broker).shard_of(ID).table
    await eventually(lambda: table.transactions[ID].state.title == "CompleteAbort")
    text = (await page(running.broker)).decode()
    assert "barnabas_transactions_open 0.0" in text
    assert "barnabas_transaction_oldest_open_seconds 0.0" in text
    assert "barnabas_transaction_markers_pending 0.0" in text
    assert "barnabas_transactions_committed_total 0.0" in text
    assert 'barnabas_transactions_aborted_total{cause="client"} 1.0' in text
    assert "barnabas_partitions_held_back 0.0" in text
    assert "barnabas_partition_held_back_offsets{" not in text


async def test_a_broker_without_transactions_has_no_metrics_of_them(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as running:
        await running.create("t")
        await running.produce("t", 1)
        assert b"transaction" not in await page(running.broker)
        assert running.broker.transactions is None


async def commit_offset(
    running: Running, producer: Identity, offset: int, topic: str = "t", version: int = 4
) -> Code:
    request = TxnOffsetCommitRequest(
        transactional_id=ID,
        group_id="g",
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        topics=[
            TxnOffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    TxnOffsetCommitRequestPartition(
                        partition_index=0, committed_offset=offset, committed_metadata=None
                    )
                ],
            )
        ],
    )
    said = await running.ask(request, TxnOffsetCommitResponse, version)
    return Code.of(said.topics[0].partitions[0].error_code)


async def fetched(running: Running, *, stable: bool) -> tuple[int, Code]:
    topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    group = OffsetFetchRequestGroup(group_id="g", topics=topics)
    request = OffsetFetchRequest(groups=[group], require_stable=stable)
    said = (await running.ask(request, OffsetFetchResponse, 9)).groups[0].topics[0].partitions[0]
    return said.committed_offset, Code.of(said.error_code)


async def test_offsets_are_committed_with_the_transaction(
    offered: tuple[Running, Identity],
) -> None:
    running, producer = offered
    assert await commit_offset(running, producer, 5) is Code.NOT_COORDINATOR
    find = FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
    await running.ask(find, FindCoordinatorResponse)
    assert await commit_offset(running, producer, 5) is Code.TRANSACTION_ABORTABLE
    joins = AddOffsetsToTxnRequest(
        transactional_id=ID,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        group_id="g",
    )
    assert (await running.ask(joins, AddOffsetsToTxnResponse)).error_code == 0
    assert await commit_offset(running, producer, 5) is Code.NONE
    assert await commit_offset(running, producer, 5, "gone") is Code.UNKNOWN_TOPIC_OR_PARTITION
    assert await fetched(running, stable=True) == (-1, Code.UNSTABLE_OFFSET_COMMIT)
    assert await fetched(running, stable=False) == (-1, Code.NONE)
    await end(running, producer, commit=True)
    table = transaction_coordination(running.broker).shard_of(ID).table
    await eventually(lambda: table.transactions[ID].state.title == "CompleteCommit")
    assert await fetched(running, stable=True) == (5, Code.NONE)
    assert await commit_offset(running, producer, 6) is Code.TRANSACTION_ABORTABLE


async def test_in_version_2_the_commit_of_offsets_joins_by_itself(
    offered: tuple[Running, Identity],
) -> None:
    running, producer = offered
    find = FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
    await running.ask(find, FindCoordinatorResponse)
    assert await commit_offset(running, producer, 5, version=5) is Code.NONE
    said = await end(running, producer, commit=False, version=5)
    following = Identity(said.producer_id, said.producer_epoch)
    assert following == Identity(producer.producer_id, producer.epoch + 1)
    table = transaction_coordination(running.broker).shard_of(ID).table
    await eventually(lambda: table.transactions[ID].state.title == "CompleteAbort")
    assert await fetched(running, stable=True) == (-1, Code.NONE)
    assert await commit_offset(running, producer, 6, version=5) is Code.INVALID_PRODUCER_EPOCH
    assert await commit_offset(running, following, 7, version=5) is Code.NONE
