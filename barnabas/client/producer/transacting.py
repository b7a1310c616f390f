"""Carries a producer's transactions out: what the user calls, step by step.

Written once over `Net`: the asyncio producer awaits these flows, the blocking one runs them.
Always: the machine (transactions.py) is touched under `guard`; a call that ran out of time may be
repeated, and goes on where it was; only one call of the user's is under way at a time.
Not here: deciding (transactions.py), asking coordinators (coordinator_requests.py), sending
batches (outbox.py and the producers).
"""

import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TypeVar

from barnabas.client.cluster import ClusterClient
from barnabas.client.group_metadata import GroupMetadata
from barnabas.client.producer.coordinator_requests import CoordinatorRequests
from barnabas.client.producer.outbox import Outbox
from barnabas.client.producer.transaction_requests import Offsets, places_of
from barnabas.client.producer.transaction_states import State
from barnabas.client.producer.transactions import Again, Transactions
from barnabas.config.client import ClientConfig
from barnabas.config.option import invalid
from barnabas.model.errors import Abortable, Code, InvalidRequest, KafkaError, Retriable
from barnabas.wire.codec import ProtocolMessage
from barnabas.wire.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from barnabas.wire.messages.add_partitions_to_txn import AddPartitionsToTxnResponse
from barnabas.wire.messages.end_txn import EndTxnResponse
from barnabas.wire.messages.init_producer_id import InitProducerIdResponse
from barnabas.wire.messages.txn_offset_commit import TxnOffsetCommitResponse

_log = logging.getLogger("barnabas.client")
M = TypeVar("M", bound=ProtocolMessage)
Settle = Callable[[int], Awaitable[bool]]
"""Wait until no batch and no addition of partitions is under way; False: not in so many ms."""


def transactions_of(config: ClientConfig, on_change: Callable[[], None]) -> Transactions | None:
    """None: the producer has no transactional.id."""
    if not config.transactional_id:
        return None
    return Transactions(config.transactional_id, config.transaction_timeout_ms, on_change)


def transacting_of(
    cluster: ClusterClient,
    outbox: Outbox,
    guard: AbstractContextManager[object],
    settle: Settle,
) -> "Transacting | None":
    machine = outbox.transactions
    return None if machine is None else Transacting(cluster, machine, outbox, guard, settle)


class Transacting:
    """The transactions of one producer."""

    def __init__(
        self,
        cluster: ClusterClient,
        machine: Transactions,
        outbox: Outbox,
        guard: AbstractContextManager[object],
        settle: Settle,
    ) -> None:
        self._cluster = cluster
        self._machine = machine
        self._outbox = outbox
        self._guard = guard
        self._settle = settle
        self.requests = CoordinatorRequests(cluster, machine, guard)
        self._call = ""  # of the user's, under way

    # --- what the user calls ---

    async def initialize(self, *, timeout_s: float | None = None) -> None:
        """Take the transactional.id over, once, before the first transaction.

        Older producers with this id are fenced, and the transaction that one of them left open is
        aborted. Retriable: call it again.
        """
        deadline = self._deadline(timeout_s)
        with self._alone("init_transactions()"):
            with self._guard:
                self._machine.initialize()
            await self._initialize(deadline)

    async def begin(self, *, timeout_s: float | None = None) -> None:
        """From now on records are sent in a transaction."""
        deadline = self._deadline(timeout_s)
        with self._alone("begin_transaction()"):
            if self._machine.needs_epoch and self._machine.state in _BETWEEN:
                with self._guard:
                    self._machine.initialize()
                await self._initialize(deadline)
            with self._guard:
                self._machine.begin()

    async def send_offsets(
        self, offsets: Offsets, group: GroupMetadata, *, timeout_s: float | None = None
    ) -> None:
        """Commit offsets (of the next records to read) with the transaction.

        `group` is `consumer.group_metadata()` of the consumer that read the records.
        """
        machine = self._machine
        places = places_of(offsets)
        if not isinstance(group, GroupMetadata):
            raise invalid(
                f"send_offsets_to_transaction() needs consumer.group_metadata(), not {group!r:.100}"
            )
        deadline = self._deadline(timeout_s)
        with self._alone("send_offsets_to_transaction()"):
            with self._guard:
                machine.check_open("send_offsets_to_transaction()")
            if not places:
                return
            name = group.group_id
            try:
                if not machine.has_group(name):
                    await self._ask(
                        lambda: machine.add_offsets_request(name),
                        AddOffsetsToTxnResponse,
                        lambda answer: machine.offsets_added(name, answer),
                        deadline,
                    )
                await self._ask(
                    lambda: machine.offsets_request(group, places),
                    TxnOffsetCommitResponse,
                    lambda answer: machine.offsets_committed(name, answer),
                    deadline,
                    group_id=name,
                )
            except Retriable as problem:
                # Whether the offsets are a part of it is not known: it must not be committed.
                with self._guard:
                    raise machine.must_abort(problem) from None

    async def commit(self, *, timeout_s: float | None = None) -> None:
        """Wait for all records, then commit. Retriable: call it again. Abortable: abort."""
        deadline = self._deadline(timeout_s)
        with self._alone("commit_transaction()"):
            with self._guard:
                self._machine.commit()
            await self._settled(deadline)
            with self._guard:
                self._machine.raise_error()
            await self._end(deadline)
            self._finish()

    async def abort(self, *, timeout_s: float | None = None) -> None:
        """Give up records that have not left, then abort. Retriable: call it again."""
        deadline = self._deadline(timeout_s)
        with self._alone("abort_transaction()"):
            with self._guard:
                self._machine.abort()
                self._outbox.results.drop(_aborted())
            await self._settled(deadline)
            with self._guard:
                self._outbox.accumulator.take_failed()  # the caller knows that they failed
            self._machine.raise_fatal()
            await self._end(deadline)
            if self._machine.needs_epoch:
                await self._initialize(deadline)
            self._finish()

    def _finish(self) -> None:
        with self._guard:
            self._machine.finish()
            if self._outbox.accumulator.used:
                self._outbox.results.drop(_too_late())

    # --- what a `with` block does ---

    async def enter(self) -> None:
        state, first = self._machine.state, not self._machine.needs_epoch
        if first and state in (State.UNINITIALIZED, State.INITIALIZING):
            await self.initialize()
        await self.begin()

    async def leave(self, problem: BaseException | None) -> None:
        """Commit; after an exception, and if it cannot be committed, abort."""
        if problem is None:
            try:
                await self.commit()
            except Abortable as why:
                await self._abort_beside(why)
                raise
            return
        await self._abort_beside(problem)

    async def _abort_beside(self, problem: BaseException) -> None:
        """What went wrong first is what the user should see; but not "abort" when that fails."""
        if self._machine.state not in _OPEN:
            return  # the block ended it by itself, or nothing can end it
        try:
            await self.abort()
        except KafkaError as why:
            if isinstance(problem, Abortable):
                raise why from problem
            problem.add_note(f"the transaction was not aborted: {why.detail}")

    async def last(self, timeout_s: float | None) -> None:
        """At the close of the producer: abort what is open."""
        if self._machine.state not in _OPEN or self._call:
            return
        try:
            await self.abort(timeout_s=timeout_s)
        except KafkaError as why:
            name = self._machine.transactional_id
            _log.warning("transactional.id %s: a transaction is left open: %s", name, why)

    # --- what the producer calls while batches wait ---

    @property
    def adding(self) -> bool:
        return self._machine.adding

    async def add_partitions(self) -> None:
        """Until no batch waits for its partition to be added."""
        machine = self._machine
        await self.requests.ask_while(
            lambda: machine.adding,
            machine.add_request,
            AddPartitionsToTxnResponse,
            machine.partitions_added,
        )

    # --- asking ---

    async def _initialize(self, deadline: int) -> None:
        machine = self._machine
        await self._ask(machine.init_request, InitProducerIdResponse, machine.initialized, deadline)

    async def _end(self, deadline: int) -> None:
        machine = self._machine
        if machine.ends_at_coordinator:
            await self._ask(machine.end_request, EndTxnResponse, machine.ended, deadline)

    async def _settled(self, deadline: int) -> None:
        if not await self._settle(max(0, deadline - self._cluster.net.now_ms())):
            raise self._late(Retriable(Code.REQUEST_TIMED_OUT, "records are still under way"))

    async def _ask(
        self,
        request: Callable[[], ProtocolMessage],
        answer: type[M],
        take: Callable[[M], Again | None],
        deadline: int,
        group_id: str | None = None,
    ) -> None:
        problem = await self.requests.ask(request, answer, take, deadline, group_id)
        if problem is not None:
            raise self._late(problem)

    # --- words ---

    def _deadline(self, timeout_s: float | None) -> int:
        self._cluster.net.check_owner()
        limit_ms = (
            self._outbox.settings.block_ms_max if timeout_s is None else int(timeout_s * 1000)
        )
        return self._cluster.net.now_ms() + limit_ms

    @contextmanager
    def _alone(self, call: str) -> Iterator[None]:
        with self._guard:
            if self._call:
                raise InvalidRequest(
                    Code.INVALID_REQUEST,
                    f"{call} is not possible now: {self._call} of the same producer is still under"
                    " way in another task or thread",
                )
            self._call = call
        try:
            yield
        finally:
            self._call = ""

    def _late(self, problem: KafkaError) -> Retriable:
        call, name = self._call, self._machine.transactional_id
        unknown = "; it is not known whether the transaction is committed"
        said = unknown if self._machine.state is State.COMMITTING else ""
        return Retriable(
            problem.code,
            f"transactional.id {name!r}: {call} was not finished in time{said}. Call it again. The"
            f" last problem: {problem.detail}",
        )


_BETWEEN = (State.READY, State.INITIALIZING)
_OPEN = (State.IN_TRANSACTION, State.ABORTABLE_ERROR, State.ABORTING)


def no_transactions() -> InvalidRequest:
    return invalid("this producer has no transactions: give it a transactional_id")


def _too_late() -> InvalidRequest:
    return InvalidRequest(
        Code.INVALID_REQUEST,
        "not written: another thread ended the transaction while the record was sent",
    )


def _aborted() -> Abortable:
    return Abortable(Code.TRANSACTION_ABORTABLE, "not written: its transaction was aborted")
