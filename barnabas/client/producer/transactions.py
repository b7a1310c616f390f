"""Decides the states of a producer's transactions. Waits for nothing, sends nothing.

In: calls of the user, answers of coordinators, batches that leave or fail. Out: requests for
coordinators, whether records are accepted, and whether batches may leave.
Always: a state changes only along the arrows; one transaction is open at a time; under protocol 1
no batch leaves before its partition is added; an EndTxn without an answer is repeated as it was;
after an abort the epoch has moved, so that nothing of the aborted transaction can be written.
Not here: the states themselves (transaction_states.py), meanings of errors
(transaction_errors.py), asking (transacting.py), batches (outbox.py).

| | protocol 1 | protocol 2 (transaction.version=2, KIP-890) |
|---|---|---|
| a partition joins by | AddPartitionsToTxn v3, before its first batch | Produce v12 or later |
| offsets join by | AddOffsetsToTxn, TxnOffsetCommit v4 or less | TxnOffsetCommit v5 |
| the epoch moves by | InitProducerId, after an abort or a request without an answer | EndTxn v5 |
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from barnabas.client.errors import error_of
from barnabas.client.group_metadata import GroupMetadata
from barnabas.client.producer.batches import fresh
from barnabas.client.producer.transaction_errors import (
    ADD_OFFSETS,
    ADD_PARTITIONS,
    END_TXN,
    INIT_PRODUCER_ID,
    MOVED,
    PRODUCE,
    TXN_OFFSET_COMMIT,
    Meaning,
    abortable,
    fatal,
    meaning_of,
    timed_out,
)
from barnabas.client.producer.transaction_requests import (
    Producing,
    add_partitions,
    codes_of_offsets,
    codes_of_partitions,
    commit_offsets,
)
from barnabas.client.producer.transaction_states import REMEDIES, SENDING, TRANSITIONS, State
from barnabas.model.errors import Code, InvalidRequest, KafkaError, Retriable
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from barnabas.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from barnabas.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from barnabas.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)

_VERSIONS_OF_PROTOCOL_1 = {PRODUCE: 11, END_TXN: 4, TXN_OFFSET_COMMIT: 4}


class Again(NamedTuple):
    """Ask again. `soon`: the last transaction is still being completed, which takes a moment."""

    problem: KafkaError
    moved: bool = False
    soon: bool = False


class Transactions:
    """Of one producer. `on_change` is called after each change of `state`."""

    def __init__(
        self,
        transactional_id: str,
        timeout_ms: int,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self.transactional_id = transactional_id
        self._timeout_ms = timeout_ms
        self._on_change = on_change
        self.state = State.UNINITIALIZED
        self.error: KafkaError | None = None
        self.producer_id = -1
        self.epoch = -1
        self.protocol = 1
        self.offered = 1  # the protocol that the coordinator speaks by now
        self.needs_epoch = False  # InitProducerId comes before the next transaction
        self._joined = False  # the coordinator has the transaction, or may have it
        self._added: set[TopicPartition] = set()
        self._to_add: dict[TopicPartition, None] = {}
        self._groups: set[str] = set()
        self._ending = False  # EndTxn was sent: no batch may follow it
        self._timed_out = False  # the coordinator has ended the transaction by itself

    # --- what the user calls ---

    def initialize(self) -> None:
        """Before InitProducerId. To be repeated until an answer came."""
        if self.state is State.INITIALIZING:
            return
        if self.state is State.READY and not self.needs_epoch:
            raise InvalidRequest(
                Code.INVALID_REQUEST,
                "init_transactions() was called already: once is enough for a producer",
            )
        self._check("init_transactions()", State.UNINITIALIZED, State.READY)
        self._to(State.INITIALIZING)

    def begin(self) -> None:
        self._check("begin_transaction()", State.READY)
        self._to(State.IN_TRANSACTION)

    def check_open(self, call: str) -> None:
        self._check(call, State.IN_TRANSACTION)

    def commit(self) -> None:
        """From now on no records are accepted; those that wait still leave."""
        self._check("commit_transaction()", State.IN_TRANSACTION, State.COMMITTING)
        if self.state is State.IN_TRANSACTION:
            self._to(State.COMMITTING)

    def abort(self) -> None:
        """From now on no records are accepted, and none leave."""
        if self.state is not State.ABORTABLE_ERROR:
            self._check("abort_transaction()", State.IN_TRANSACTION, State.ABORTING)
        if self.state is State.ABORTING:
            return
        if self.protocol == 1 and self._joined:
            self.needs_epoch = True
        self._to(State.ABORTING)

    def finish(self) -> None:
        """Everything that belongs to the end of the transaction is answered."""
        self._joined = self._ending = self._timed_out = False
        self._added.clear()
        self._to_add.clear()
        self._groups.clear()
        self.error = None
        if self.offered != self.protocol:
            self.needs_epoch = True
        self._to(State.READY)

    def refusal(self) -> KafkaError:
        """Why a record is not accepted in this state."""
        if self.error is not None:
            return fresh(self.error)
        return InvalidRequest(
            Code.INVALID_REQUEST,
            "a producer with a transactional.id sends records only in a transaction:"
            f" {REMEDIES[self.state]}",
        )

    def _check(self, call: str, *allowed: State) -> None:
        if self.state in allowed:
            return
        if self.error is not None:
            raise fresh(self.error)
        raise InvalidRequest(
            Code.INVALID_REQUEST, f"{call} is not possible now: {REMEDIES[self.state]}"
        )

    def raise_error(self) -> None:
        if self.error is not None:
            raise fresh(self.error)

    def raise_fatal(self) -> None:
        """Answers that came while the transaction was being aborted may have ended the producer."""
        if self.state is State.FATAL_ERROR:
            self.raise_error()

    def _to(self, state: State) -> None:
        assert state in TRANSITIONS[self.state], (self.state, state)
        self.state = state
        self._on_change()

    # --- batches ---

    @property
    def accepting(self) -> bool:
        """Whether records may be added to the transaction."""
        return self.state is State.IN_TRANSACTION

    @property
    def sending(self) -> bool:
        """Whether batches of the transaction may leave."""
        return self.state in SENDING and not self._ending

    def may_leave(self, at: TopicPartition) -> bool:
        """False: the partition must be added first, which `adding` asks for."""
        if self.protocol == 2 or at in self._added:
            return True
        self._to_add[at] = None
        return False

    def leaves(self) -> None:
        """A batch leaves. With protocol 2 that makes its partition a part of the transaction."""
        self._joined = True

    def batch_failed(self, problem: KafkaError) -> KafkaError:
        """The error of its records: a transaction without all of its records is aborted."""
        if self.error is not None or self.state not in SENDING:
            return self.error or abortable(problem)
        if meaning_of(PRODUCE, problem.code) is Meaning.FATAL:
            return self.fail(fatal(self.transactional_id, problem.code, problem.detail))
        self._timed_out = problem.code is Code.INVALID_PRODUCER_EPOCH
        return self.must_abort(problem)

    def must_abort(self, problem: KafkaError) -> KafkaError:
        """The transaction cannot be committed."""
        if self.state in SENDING:
            self._ending = False
            self.error = abortable(problem)
            self._to(State.ABORTABLE_ERROR)
        return self.error or abortable(problem)

    def fail(self, problem: KafkaError) -> KafkaError:
        """The producer cannot go on."""
        if self.state is not State.FATAL_ERROR:
            self.error = problem
            self._to(State.FATAL_ERROR)
        assert self.error is not None
        return self.error

    # --- requests, and their answers ---

    @property
    def ends_at_coordinator(self) -> bool:
        """Whether an EndTxn is needed: the coordinator has the transaction, or may have it.

        With protocol 1, the coordinator refuses an EndTxn after it has ended the transaction by
        itself; the InitProducerId that follows an abort is enough.
        """
        return self._joined and not (self._timed_out and self.protocol == 1)

    @property
    def adding(self) -> bool:
        """Whether partitions must be added for batches to leave."""
        return bool(self._to_add) and self.sending

    def version_max(self, api_key: int) -> int | None:
        """The highest version that speaks the protocol in use."""
        if api_key == ADD_PARTITIONS:
            return 3  # later ones are for brokers
        return _VERSIONS_OF_PROTOCOL_1.get(api_key) if self.protocol == 1 else None

    def unanswered(self, api_key: int) -> None:
        """A request may arrive late, perhaps in the next transaction: only a new epoch is safe.

        With protocol 2 each transaction has an epoch of its own.
        """
        if self.protocol == 1 and api_key != INIT_PRODUCER_ID:
            self.needs_epoch = True

    def init_request(self) -> InitProducerIdRequest:
        return InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self._timeout_ms,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
        )

    def initialized(self, response: InitProducerIdResponse) -> Again | None:
        if again := self._judged(INIT_PRODUCER_ID, response.error_code):
            return again
        self.producer_id, self.epoch = response.producer_id, response.producer_epoch
        self.protocol = self.offered
        self.needs_epoch = False
        if self.state is State.INITIALIZING:
            self._to(State.READY)
        return None

    def add_request(self) -> AddPartitionsToTxnRequest:
        return add_partitions(self._who(), self._to_add)

    def partitions_added(self, response: AddPartitionsToTxnResponse) -> Again | None:
        """All or none are added; of those that hinder it, the worst counts."""
        codes = codes_of_partitions(response)
        worst: Again | None = None
        for at, code in codes.items():
            if code == Code.OPERATION_NOT_ATTEMPTED:
                continue
            if again := self._judged(ADD_PARTITIONS, code, str(at)):
                worst = again
        for at, code in codes.items():
            if code == Code.NONE:
                self._joined = True
                self._added.add(at)
                self._to_add.pop(at, None)
        return worst

    def has_group(self, group_id: str) -> bool:
        """Whether offsets of this group may be committed in the transaction."""
        return self.protocol == 2 or group_id in self._groups

    def add_offsets_request(self, group_id: str) -> AddOffsetsToTxnRequest:
        return AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            group_id=group_id,
        )

    def offsets_added(self, group_id: str, response: AddOffsetsToTxnResponse) -> Again | None:
        again = self._judged(ADD_OFFSETS, response.error_code, f"group {group_id!r}")
        if again is None:
            self._joined = True
            self._groups.add(group_id)
        return again

    def offsets_request(
        self, group: GroupMetadata, offsets: Mapping[TopicPartition, tuple[int, int, str]]
    ) -> TxnOffsetCommitRequest:
        self._joined = True
        return commit_offsets(self._who(), group, offsets)

    def offsets_committed(self, group_id: str, response: TxnOffsetCommitResponse) -> Again | None:
        worst: Again | None = None
        for at, code in codes_of_offsets(response).items():
            if again := self._judged(TXN_OFFSET_COMMIT, code, f"group {group_id!r}, {at}"):
                worst = again
        return worst

    def end_request(self) -> EndTxnRequest:
        """The same until it is answered."""
        self._ending = True
        return EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=self.state is State.COMMITTING,
        )

    def ended(self, response: EndTxnResponse) -> Again | None:
        refused = response.error_code == Code.INVALID_TXN_STATE
        if refused and self.protocol == 2 and self.state is State.COMMITTING:
            # A commit that had happened would be confirmed again; an abort is answered, too.
            raise fresh(self.must_abort(timed_out()))
        if again := self._judged(END_TXN, response.error_code):
            return again
        self._joined = False  # what follows may have to be repeated without it
        if self.protocol == 2:
            self.producer_id, self.epoch = response.producer_id, response.producer_epoch
        return None

    def _who(self) -> Producing:
        return Producing(self.transactional_id, self.producer_id, self.epoch)

    def _judged(self, api_key: int, code: int, about: str = "") -> Again | None:
        """None: it is done. Raises the error that the state has changed for."""
        meaning = meaning_of(api_key, code)
        if meaning is Meaning.DONE:
            return None
        about = about or f"transactional.id {self.transactional_id!r}"
        if meaning is Meaning.RETRY:
            problem = error_of(code, about=about)
            again = Retriable(problem.code, problem.detail)
            return Again(again, code in MOVED, code == Code.CONCURRENT_TRANSACTIONS)
        if meaning is Meaning.ABORT and self.state is not State.ABORTING:
            raise fresh(self.must_abort(error_of(code, about=about)))
        raise fresh(self.fail(fatal(self.transactional_id, code)))
