"""Asks coordinators for a producer's transactions: finds them, sends requests, repeats them.

Written once over `Net`. In: requests of the machine (transactions.py). Out: its answers, to it.
Always: the machine is touched under `guard`; a request without an answer is repeated, after a look
for the coordinator, until the deadline.
Not here: which requests (transacting.py), what answers mean (transactions.py).
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TypeVar

from barnabas.client.cluster import GROUP, TRANSACTION, ClusterClient
from barnabas.client.net import BrokerConnection
from barnabas.client.producer.transaction_errors import END_TXN, INIT_PRODUCER_ID
from barnabas.client.producer.transactions import Again, Transactions
from barnabas.model.errors import Code, Corrupt, InvalidRequest, KafkaError, Retriable
from barnabas.wire.codec import ProtocolMessage

M = TypeVar("M", bound=ProtocolMessage)

_APART = "transaction"  # a JoinGroup of the same client may wait for long
_FEATURE = "transaction.version"
_END_TXN_OF_PROTOCOL_2 = 5
_INIT_WITH_EPOCH = 3
_SOON_MS = 20  # until a transaction that is still being completed is asked about again


class CoordinatorRequests:
    """Of one producer."""

    protocol_max = 2  # tests speak the older one to a newer broker

    def __init__(
        self, cluster: ClusterClient, machine: Transactions, guard: AbstractContextManager[object]
    ) -> None:
        self._cluster = cluster
        self._machine = machine
        self._guard = guard

    async def ask(
        self,
        request: Callable[[], ProtocolMessage],
        answer: type[M],
        take: Callable[[M], Again | None],
        deadline: int,
        group_id: str | None = None,
    ) -> KafkaError | None:
        """None: it is answered. Else the last problem, when the time is up.

        `group_id`: to the coordinator of this group.
        """
        net = self._cluster.net
        for tries, usual_ms in enumerate(self._cluster.waits_ms(), 1):
            again = await self._once(request, answer, take, group_id)
            if again is None:
                return None
            wait_ms = _wait_ms(again, tries, usual_ms)
            if net.now_ms() + wait_ms > deadline:
                return again.problem
            await net.sleep(wait_ms)
        raise AssertionError("the waits never end")

    async def ask_while(
        self,
        wanted: Callable[[], bool],
        request: Callable[[], ProtocolMessage],
        answer: type[M],
        take: Callable[[M], Again | None],
    ) -> None:
        """Until nothing is wanted any more."""
        waits = iter(self._cluster.waits_ms())
        tries = 0
        while wanted():
            again = await self._once(request, answer, take)
            if again is None:
                tries = 0
                continue
            tries += 1
            await self._cluster.net.sleep(_wait_ms(again, tries, next(waits)))

    async def _once(
        self,
        make: Callable[[], ProtocolMessage],
        answer: type[M],
        take: Callable[[M], Again | None],
        group_id: str | None = None,
    ) -> Again | None:
        """One request. Raises what ends the transaction, or the producer."""
        machine, cluster = self._machine, self._cluster
        key, kind = (
            (machine.transactional_id, TRANSACTION) if group_id is None else (group_id, GROUP)
        )
        try:
            connection = await cluster.coordinator(key, kind=kind, apart=_APART)
            if kind == TRANSACTION:
                machine.offered = self._protocol_of(connection)
            with self._guard:
                request = make()
            response = await self._answer(connection, request, answer)
        except (Retriable, Corrupt) as problem:
            if not cluster.reached:
                raise
            again: Again | None = Again(Retriable(problem.code, problem.detail), moved=True)
        except KafkaError as problem:
            with self._guard:
                ends = machine.fail if group_id is None else machine.must_abort
                raise ends(problem) from None
        else:
            with self._guard:
                again = take(response)
        if again is not None and again.moved:
            await self._look_again(key, kind)
        return again

    async def _answer(
        self, connection: BrokerConnection, request: ProtocolMessage, answer: type[M]
    ) -> M:
        version_max = self._machine.version_max(request.api_key)
        version = connection.version_of(request.api_key, version_max)
        old = request.api_key == INIT_PRODUCER_ID and version < _INIT_WITH_EPOCH
        if old and self._machine.producer_id >= 0:
            raise InvalidRequest(
                Code.UNSUPPORTED_VERSION,
                f"{connection.address}: brokers older than Apache Kafka 2.5 do not give a producer"
                " another epoch after an abort: make a new producer",
            )
        try:
            return await connection.call(
                request, answer, timeout_ms=self._cluster.timeout_ms, version_max=version_max
            )
        except BaseException:  # also of a task that was cancelled
            with self._guard:
                self._machine.unanswered(request.api_key)
            raise

    async def _look_again(self, key: str, kind: int) -> None:
        self._cluster.forget_coordinator(key, kind=kind)
        self._cluster.drop_closed()
        try:
            await self._cluster.refresh()
        except Retriable:
            self._cluster.drop_closed()

    def _protocol_of(self, connection: BrokerConnection) -> int:
        finalized = connection.feature(_FEATURE) >= 2 and self.protocol_max >= 2
        return 2 if finalized and connection.version_of(END_TXN) >= _END_TXN_OF_PROTOCOL_2 else 1


def _wait_ms(again: Again, tries: int, usual_ms: int) -> int:
    return min(_SOON_MS << min(tries - 1, 8), usual_ms) if again.soon else usual_ms
