"""Administration of transactions: list, describe, and end them.

Always: errors raise, and name the transactional id or the partition they are about; no call here
creates __transaction_state in a cluster that has never had transactions.
Not here: which transaction holds readers back, and what to do about it (client/transactions/).
"""

from collections.abc import Iterable, Mapping

from barnabas.client.cluster import TRANSACTION, ClusterClient
from barnabas.client.errors import check, check_partition
from barnabas.client.groups.offered import offers
from barnabas.client.transactions.report import (
    ActiveProducer,
    TransactionDescription,
    TransactionListing,
)
from barnabas.model.errors import Code, InvalidRequest
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages import (
    describe_producers,
    describe_transaction_history,
    describe_transactions,
    init_producer_id,
    list_transactions,
    write_txn_markers,
)

STATE_TOPIC = "__transaction_state"
AT_ONCE = 500  # transactional ids or partitions in one request
HISTORIES_AT_ONCE = 100
NO_TIME = -1
NO_OFFSET = -1
_NO_ID, _NO_EPOCH = -1, -1
_DURATION_SINCE, _PATTERN_SINCE = 1, 2  # versions of ListTransactions
_TIMEOUT_MS_MAX = 900_000  # the default of transaction.max.timeout.ms: more may be refused


class TransactionsAdmin:
    """Mixed into Admin."""

    _cluster: ClusterClient

    async def list_transactions(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        longer_than_ms: int | None = None,
        pattern: str | None = None,
    ) -> list[TransactionListing]:
        """The transactional ids of all coordinators, by name.

        `pattern`: a regular expression that the whole id must match.
        """
        request = list_transactions.ListTransactionsRequest(
            state_filters=list(states),
            producer_id_filters=list(producer_ids),
            duration_filter=-1 if longer_than_ms is None else longer_than_ms,
            transactional_id_pattern=pattern,
        )
        needs = 0 if longer_than_ms is None else _DURATION_SINCE
        needs = needs if pattern is None else _PATTERN_SINCE

        async def attempt() -> list[TransactionListing]:
            found: list[TransactionListing] = []
            for broker in (await self._cluster.view()).brokers:
                connection = await self._cluster.broker(broker)
                version = connection.version_of(request.api_key)
                if version < needs:
                    raise InvalidRequest(
                        Code.UNSUPPORTED_VERSION,
                        f"broker {broker} cannot list transactions by duration or pattern:"
                        f" ListTransactions needs version {needs}, the broker has {version}",
                    )
                response = await connection.call(
                    request,
                    list_transactions.ListTransactionsResponse,
                    timeout_ms=self._cluster.timeout_ms,
                )
                if response.error_code == Code.INVALID_REGULAR_EXPRESSION:
                    raise InvalidRequest(
                        Code.INVALID_REGULAR_EXPRESSION,
                        f"pattern {pattern!r} is not a regular expression in RE2's syntax",
                    )
                check(response.error_code, about=f"transactions of broker {broker}")
                if response.unknown_state_filters:
                    names = ", ".join(map(repr, response.unknown_state_filters))
                    raise InvalidRequest(
                        Code.INVALID_REQUEST, f"broker {broker} does not know the state {names}"
                    )
                found += [
                    TransactionListing(
                        each.transactional_id, each.producer_id, each.transaction_state, broker
                    )
                    for each in response.transaction_states
                ]
            return sorted(found)

        return await self._cluster.retrying(attempt)

    async def describe_transactions(
        self, transactional_ids: Iterable[str], *, coordinators: Mapping[str, int] | None = None
    ) -> dict[str, TransactionDescription]:
        """Describes the ids that exist. `coordinators`: those that are known already."""
        wanted = list(dict.fromkeys(transactional_ids))
        hints = dict(coordinators or {})

        async def attempt() -> dict[str, TransactionDescription]:
            found: dict[str, TransactionDescription] = {}
            for broker, ids in (await self._by_transaction_coordinator(wanted, hints)).items():
                connection = await self._cluster.broker(broker)
                for first in range(0, len(ids), AT_ONCE):
                    response = await connection.call(
                        describe_transactions.DescribeTransactionsRequest(
                            transactional_ids=ids[first : first + AT_ONCE]
                        ),
                        describe_transactions.DescribeTransactionsResponse,
                        timeout_ms=self._cluster.timeout_ms,
                    )
                    for each in response.transaction_states:
                        if each.error_code != Code.TRANSACTIONAL_ID_NOT_FOUND:
                            described = _description(each, broker)
                            found[described.transactional_id] = described
            return found

        return await self._cluster.retrying(attempt)

    async def describe_transaction(self, transactional_id: str) -> TransactionDescription:
        """One transactional id; TRANSACTIONAL_ID_NOT_FOUND if there is none."""
        found = (await self.describe_transactions([transactional_id])).get(transactional_id)
        if found is None:
            raise no_transactional_id(transactional_id)
        return found

    async def transaction_histories(
        self, transactional_ids: Iterable[str]
    ) -> dict[str, describe_transaction_history.TransactionHistory]:
        """Who uses each id, and why its transactions were aborted; none if the broker is not
        Barnabas.
        """
        wanted = list(dict.fromkeys(transactional_ids))

        async def attempt() -> dict[str, describe_transaction_history.TransactionHistory]:
            found: dict[str, describe_transaction_history.TransactionHistory] = {}
            for broker, ids in (await self._by_transaction_coordinator(wanted, {})).items():
                connection = await self._cluster.broker(broker)
                if not offers(
                    connection,
                    describe_transaction_history.DescribeTransactionHistoryRequest.api_key,
                ):
                    continue
                for first in range(0, len(ids), HISTORIES_AT_ONCE):
                    response = await connection.call(
                        describe_transaction_history.DescribeTransactionHistoryRequest(
                            transactional_ids=ids[first : first + HISTORIES_AT_ONCE], topics=[]
                        ),
                        describe_transaction_history.DescribeTransactionHistoryResponse,
                        timeout_ms=self._cluster.timeout_ms,
                    )
                    for history in response.transactions:
                        if history.error_code != Code.TRANSACTIONAL_ID_NOT_FOUND:
                            about = f"transactional id {history.transactional_id!r}"
                            check(history.error_code, about=about)
                            found[history.transactional_id] = history
            return found

        return await self._cluster.retrying(attempt)

    async def waiting_readers(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, list[tuple[str, str]]]:
        """The client ids and hosts of read_committed consumers that wait for an open transaction
        now; nothing of partitions whose leader is not Barnabas.
        """
        wanted = list(dict.fromkeys(partitions))

        async def attempt() -> dict[TopicPartition, list[tuple[str, str]]]:
            found: dict[TopicPartition, list[tuple[str, str]]] = {}
            for broker, led in (await self._cluster.by_leader(wanted)).items():
                connection = await self._cluster.broker(broker)
                if not offers(
                    connection,
                    describe_transaction_history.DescribeTransactionHistoryRequest.api_key,
                ):
                    continue
                for first in range(0, len(led), AT_ONCE):
                    topics = _numbers_by_topic(led[first : first + AT_ONCE])
                    response = await connection.call(
                        describe_transaction_history.DescribeTransactionHistoryRequest(
                            transactional_ids=[],
                            topics=[
                                describe_transaction_history.AskedTopic(
                                    name=name, partitions=numbers
                                )
                                for name, numbers in topics.items()
                            ],
                        ),
                        describe_transaction_history.DescribeTransactionHistoryResponse,
                        timeout_ms=self._cluster.timeout_ms,
                    )
                    for each in response.partitions:
                        at = TopicPartition(each.topic, each.partition)
                        check_partition(each.error_code, about=str(at))
                        found[at] = [
                            (one.client_id, one.client_host.removeprefix("/"))
                            for one in each.readers
                        ]
            return found

        return await self._cluster.retrying(attempt)

    async def describe_producers(
        self, partitions: Iterable[TopicPartition], *, broker: int | None = None
    ) -> dict[TopicPartition, list[ActiveProducer]]:
        """The producers that the leaders of these partitions know, or the replicas on `broker`."""
        wanted = list(dict.fromkeys(partitions))

        async def attempt() -> dict[TopicPartition, list[ActiveProducer]]:
            found: dict[TopicPartition, list[ActiveProducer]] = {}
            by_broker = (
                await self._cluster.by_leader(wanted) if broker is None else {broker: wanted}
            )
            for id_, led in by_broker.items():
                connection = await self._cluster.broker(id_)
                for first in range(0, len(led), AT_ONCE):
                    response = await connection.call(
                        _producers_request(led[first : first + AT_ONCE]),
                        describe_producers.DescribeProducersResponse,
                        timeout_ms=self._cluster.timeout_ms,
                    )
                    for topic in response.topics:
                        for each in topic.partitions:
                            at = TopicPartition(topic.name, each.partition_index)
                            check_partition(each.error_code, each.error_message, about=str(at))
                            found[at] = [_producer(one) for one in each.active_producers]
            return found

        return await self._cluster.retrying(attempt)

    async def abort_transaction(self, at: TopicPartition, producer: ActiveProducer) -> None:
        """End a hanging transaction in one partition: its leader writes an abort marker.

        No coordinator is asked. If one knows the transaction, end it with
        `force_terminate_transaction`: it may have decided to commit.
        """
        request = write_txn_markers.WriteTxnMarkersRequest(
            markers=[
                write_txn_markers.WritableTxnMarker(
                    producer_id=producer.producer_id,
                    producer_epoch=producer.producer_epoch,
                    transaction_result=False,
                    topics=[
                        write_txn_markers.WritableTxnMarkerTopic(
                            name=at.topic, partition_indexes=[at.partition]
                        )
                    ],
                    # Never above the epoch of a coordinator, which would be fenced by it.
                    coordinator_epoch=max(0, producer.coordinator_epoch),
                )
            ]
        )
        about = f"{at}, producer id {producer.producer_id}, epoch {producer.producer_epoch}"

        async def attempt() -> None:
            leader = await self._cluster.leader(at)
            response = await leader.call(
                request,
                write_txn_markers.WriteTxnMarkersResponse,
                timeout_ms=self._cluster.timeout_ms,
            )
            codes = [
                each.error_code
                for marker in response.markers
                for topic in marker.topics
                for each in topic.partitions
            ]
            check_partition(codes[0] if codes else Code.UNKNOWN_SERVER_ERROR, about=about)

        await self._cluster.retrying(attempt)

    async def force_terminate_transaction(self, transactional_id: str) -> None:
        """Fence the producer of this id; its coordinator aborts the transaction that it is in.

        Returns when the markers are written. A transaction whose commit is decided is committed.
        """
        described = await self.describe_transaction(transactional_id)
        request = init_producer_id.InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=min(described.timeout_ms, _TIMEOUT_MS_MAX),
            producer_id=_NO_ID,
            producer_epoch=_NO_EPOCH,
        )

        async def attempt() -> None:
            coordinator = await self._cluster.coordinator(transactional_id, kind=TRANSACTION)
            response = await coordinator.call(
                request,
                init_producer_id.InitProducerIdResponse,
                timeout_ms=self._cluster.timeout_ms,
            )
            # CONCURRENT_TRANSACTIONS until the transaction has ended: asked again.
            check(response.error_code, about=f"transactional id {transactional_id!r}")

        await self._cluster.retrying(attempt)

    async def _by_transaction_coordinator(
        self, ids: list[str], hints: dict[str, int]
    ) -> dict[int, list[str]]:
        """`hints` are used once: a retry looks the coordinators up again."""
        known = dict(hints)
        hints.clear()
        by_broker: dict[int, list[str]] = {}
        unknown = [id_ for id_ in ids if id_ not in known]
        if unknown and STATE_TOPIC in (await self._cluster.view_of([STATE_TOPIC])).topics:
            for id_ in unknown:
                known[id_] = await self._cluster.coordinator_id(id_, kind=TRANSACTION)
        for id_ in ids:
            if id_ in known:
                by_broker.setdefault(known[id_], []).append(id_)
        return by_broker


def no_transactional_id(transactional_id: str) -> InvalidRequest:
    return InvalidRequest(
        Code.TRANSACTIONAL_ID_NOT_FOUND, f"there is no transactional id {transactional_id!r}"
    )


def _description(
    each: describe_transactions.DescribedTransaction, broker: int
) -> TransactionDescription:
    check(each.error_code, about=f"transactional id {each.transactional_id!r}")
    return TransactionDescription(
        each.transactional_id,
        each.transaction_state,
        each.producer_id,
        each.producer_epoch,
        each.transaction_timeout_ms,
        None if each.transaction_start_time_ms <= NO_TIME else each.transaction_start_time_ms,
        tuple(
            sorted(TopicPartition(topic.topic, index) for topic in each.topics
                   for index in topic.partitions)
        ),
        broker,
    )  # fmt: skip


def _numbers_by_topic(partitions: list[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for at in partitions:
        topics.setdefault(at.topic, []).append(at.partition)
    return topics


def _producers_request(
    partitions: list[TopicPartition],
) -> describe_producers.DescribeProducersRequest:
    return describe_producers.DescribeProducersRequest(
        topics=[
            describe_producers.TopicRequest(name=name, partition_indexes=indexes)
            for name, indexes in _numbers_by_topic(partitions).items()
        ]
    )


def _producer(each: describe_producers.ProducerState) -> ActiveProducer:
    start = each.current_txn_start_offset
    return ActiveProducer(
        each.producer_id,
        each.producer_epoch,
        each.coordinator_epoch,
        each.last_sequence,
        each.last_timestamp,
        None if start <= NO_OFFSET else start,
    )
