"""Many open transactions on one broker: nobody else is disturbed, and all of them end."""

import asyncio
from pathlib import Path

import pytest

from barnabas.broker.net.deferred_reply import DeferredReply, settled
from barnabas.broker.transactions.coordination import CallOrigin, transaction_coordination
from barnabas.coordinators.transactions.decision import Identity
from barnabas.log.transactions.append import require_guard
from barnabas.wire.codec import ProtocolMessage
from barnabas.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from barnabas.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from tests.broker.running import Running, running_broker
from tests.log.batches import batch
from tests.waiting import eventually

OPEN = 10_000
ORIGIN = CallOrigin(3, "c", "/h")

pytestmark = pytest.mark.slow


class ManyProducers:
    """Requests without a connection."""

    def __init__(self, running: Running) -> None:
        self.broker = running.broker
        self.driver = transaction_coordination(running.broker)

    async def begin(self, id_: str, partition: int) -> Identity:
        init = InitProducerIdRequest(transactional_id=id_, transaction_timeout_ms=60_000)
        said = await self._init(id_, init)
        while said.error_code:  # the pool of producer ids is being filled
            await asyncio.sleep(0)
            said = await self._init(id_, init)
        producer = Identity(said.producer_id, said.producer_epoch)
        named = {"t": frozenset((partition,))}
        added = self.driver.run(
            id_, lambda shard, *rest: shard.add_partitions(id_, producer, named, *rest), ORIGIN
        )
        assert not isinstance(added, DeferredReply)
        found = self.broker.topics.existing("t").partition(partition)
        guard = require_guard(found.log, *producer, 0, has_version_2=False)
        wall_ms = self.broker.clock.wall_ms()
        data = batch(
            1,
            time=wall_ms,
            producer=producer.producer_id,
            epoch=producer.epoch,
            sequence=0,
            transactional=True,
        )
        found.append(data, -1, wall_ms, guard=guard)
        return producer

    async def _init(self, id_: str, request: InitProducerIdRequest) -> InitProducerIdResponse:
        said: ProtocolMessage = await settled(
            self.driver.run(
                id_, lambda shard, *rest: shard.init_producer_id(request, *rest), ORIGIN
            )
        )
        assert isinstance(said, InitProducerIdResponse)
        return said

    async def end(self, id_: str, producer: Identity, *, commit: bool) -> None:
        request = EndTxnRequest(
            transactional_id=id_,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            committed=commit,
        )
        said: ProtocolMessage = await settled(
            self.driver.run(id_, lambda shard, *rest: shard.end_txn(request, *rest), ORIGIN)
        )
        assert isinstance(said, EndTxnResponse)
        assert said.error_code == 0


async def test_ten_thousand_open_transactions_hold_back_their_own_partition_only(
    tmp_path: Path,
) -> None:
    options = {"transaction.state.log.num.partitions": "3", "offsets.topic.num.partitions": "2"}
    async with running_broker(tmp_path, options) as running:
        await running.create("t", partitions=2)
        producers = ManyProducers(running)
        await producers.driver.ready()
        held, free = running.broker.topics.existing("t").partitions
        opened = {f"open-{n}": await producers.begin(f"open-{n}", 0) for n in range(OPEN)}
        listing = await running.ask(
            ListTransactionsRequest(state_filters=["Ongoing"], producer_id_filters=[]),
            ListTransactionsResponse,
        )
        assert len(listing.transaction_states) == OPEN
        assert (held.log.last_stable_offset, held.log.end_offset) == (0, OPEN)

        other = await producers.begin("other", 1)
        await producers.end("other", other, commit=True)
        await eventually(lambda: free.log.last_stable_offset == 2)

        for id_, producer in opened.items():
            await producers.end(id_, producer, commit=False)
        await eventually(lambda: held.log.last_stable_offset == 2 * OPEN)
        assert len(held.log.aborted_in(0, OPEN)) == OPEN
