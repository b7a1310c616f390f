"""The transactions of one partition of __transaction_state: every operation on them.

In: requests about transactional ids, markers that were written, records read back, deadlines.
Out: outcomes for the runtime, and markers to send once the decision behind them is committed.
Always: what the log says (table.py) changes by `replay_at` alone; no marker leaves before its
decision is committed; a decided transaction is completed when all of its markers are written.
A request may build on a record that is not committed yet: the runtime holds its answer back until
that is. InitProducerId may not, or each repetition of one would use up another epoch.
Not here: what a request comes to (initialising.py, adding.py, ending.py), who leads a partition
and gets its marker (markers.py), which shard an id belongs to (broker/).
"""

from collections.abc import Iterable, Sequence

from barnabas.coordinators.caller import Caller
from barnabas.coordinators.runtime import Encoded, Now, Outcome, ShardReply
from barnabas.coordinators.timers import Timer, Timers
from barnabas.coordinators.transactions import replies
from barnabas.coordinators.transactions.adding import PartitionCodes, add, verified
from barnabas.coordinators.transactions.ages import TransactionAges
from barnabas.coordinators.transactions.causes import AbortedBy, Client, TransactionCause, client_of
from barnabas.coordinators.transactions.decision import Decision, Identity, ProducerIds
from barnabas.coordinators.transactions.ending import end, fence
from barnabas.coordinators.transactions.group_commit import (
    AskedGroup,
    GroupDecision,
    TransactionGroupRecord,
    decide,
)
from barnabas.coordinators.transactions.group_records import (
    LoggedRecord,
    decode_logged,
    encode_logged,
)
from barnabas.coordinators.transactions.initialising import initialise
from barnabas.coordinators.transactions.limits import TransactionLimits
from barnabas.coordinators.transactions.markers import MarkersDue, MarkersWritten
from barnabas.coordinators.transactions.records import ID_BYTES_MAX, TransactionRecord
from barnabas.coordinators.transactions.states import TransactionState
from barnabas.coordinators.transactions.statistics import TransactionStatistics
from barnabas.coordinators.transactions.table import TransactionTable
from barnabas.coordinators.transactions.transaction import (
    NO_EPOCH,
    NO_ID,
    Partitions,
    completed,
)
from barnabas.model.errors import Code
from barnabas.wire.codec import ProtocolMessage
from barnabas.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from barnabas.wire.messages.end_txn import EndTxnRequest
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest

VERSION_2_SINCE_END_TXN = 5
VERSION_2_SINCE_ADD_PARTITIONS = 4
TWO_PHASE_TIMEOUT_MS = 0x7FFF_FFFF
"""A transaction with this timeout waits for another system's decision: it never times out."""
COMPLETE_AGAIN_MS = 100
SLICE_IDS = 500
SLICE_PAUSE_MS = 10

GROUP_EXPIRATION_MS = 365 * 24 * 3_600_000
"""A checkpoint may come back after a long time: its last batch must still be known then."""

_TIMEOUTS, _EXPIRY, _COMPLETE = "timeouts", "expiry", "complete"


class TransactionShard:
    """Operations take what is asked, who asks, and the time."""

    def __init__(
        self,
        limits: TransactionLimits,
        ids: ProducerIds,
        coordinator_epoch: int,
        statistics: TransactionStatistics | None = None,
    ) -> None:
        """`statistics`: those of the broker, which outlive its shards."""
        self.limits = limits
        self.coordinator_epoch = coordinator_epoch
        self._statistics = statistics or TransactionStatistics()
        self._is_loaded = False
        self.table = TransactionTable(limits.room)
        self._ids = ids
        self._ages = TransactionAges()
        self._marked: dict[str, None] = {}  # all markers are written; to be completed
        self._timers: Timers[str] = Timers()
        self._timeouts = Timer(_TIMEOUTS)
        self._expiry = Timer(_EXPIRY)
        self._complete = Timer(_COMPLETE)
        self._to_check: list[str] = []

    # What the runtime asks

    def encode(self, records: Sequence[LoggedRecord]) -> list[Encoded]:
        return [encode_logged(record, self.limits.version) for record in records]

    def decode(self, key: bytes, value: bytes | None) -> LoggedRecord | None:
        return decode_logged(key, value)

    def replay_at(self, record: LoggedRecord, offset: int) -> None:
        if isinstance(record, TransactionGroupRecord):
            self.table.replay_group(record)
            return
        self._marked.pop(record.transactional_id, None)
        self.table.replay(record, offset)
        if self._is_loaded and record.transaction is not None:
            self._statistics.changed(record.transactional_id, record.transaction, record.cause)

    def loaded(self, now: Now) -> None:
        """Decided transactions are carried out when `committed` says so."""
        self._is_loaded = True
        for id_ in self.table.ongoing:
            self._ages.age_ms(id_, self.table.transactions[id_], now)
        self._watch(now)

    def committed(self, end: int) -> list[MarkersDue]:
        """All below `end` is committed: the markers that may leave now."""
        due = []
        for id_ in self.table.committed(end):
            if self.table.unmarked[id_]:
                due.append(self._markers_of(id_))
            else:
                self._marked[id_] = None
                self._timers.set(self._complete, 0)
        return due

    def unloaded(self, parked: tuple[ShardReply, ...]) -> tuple[ShardReply, ...]:
        self.table.release()
        return tuple(
            ShardReply(token, replies.not_written(response, Code.NOT_COORDINATOR))
            for token, response in parked
        )

    def refused(
        self, outcome: Outcome[LoggedRecord], code: Code, now: Now
    ) -> tuple[ShardReply, ...]:
        """Nothing has changed. What no client will ask for again is tried again here."""
        if self._marked:
            self._timers.set(self._complete, now.ms + COMPLETE_AGAIN_MS)
        elif not outcome.answers:  # not again and again at the pace of slices
            self._timers.set(self._timeouts, now.ms + self.limits.timeout_check_ms)
            self._timers.set(self._expiry, now.ms + self.limits.expiration_check_ms)
        return tuple(
            ShardReply(token, replies.not_written(response, code))
            for token, response in outcome.answers
        )

    def due(self, now: Now) -> Outcome[LoggedRecord] | None:
        timer = self._timers.pop_due(now.ms)
        if timer is None:
            return None
        match timer.key:
            case "timeouts":
                return self._abort_overdue(now)
            case "expiry":
                return self._expire(now)
            case _:
                return self._complete_marked(now)

    def next_deadline(self) -> int | None:
        return self._timers.next_deadline()

    # What producers ask

    def init_producer_id(
        self, request: InitProducerIdRequest, caller: Caller, now: Now
    ) -> Outcome[LoggedRecord]:
        id_ = request.transactional_id or ""
        producer = Identity(request.producer_id, request.producer_epoch)
        decision = Decision(self._check_init(request, id_))
        if not decision.code:
            found = self.table.transactions.get(id_)
            decision = initialise(
                found,
                producer,
                request.transaction_timeout_ms,
                self._ids,
                self.limits.version,
                now.wall_ms,
            )
        code, then = decision
        if code or then is None:
            response = replies.initialised(code, caller.version)
        else:
            response = replies.initialised(
                code, caller.version, then.producer_id, then.producer_epoch
            )
        client = client_of(caller.client_id, caller.client_host)
        cause = TransactionCause(AbortedBy.FENCED, now.wall_ms, client)
        return self._outcome(id_, decision, caller, response, now, cause, client)

    def _check_init(self, request: InitProducerIdRequest, id_: str) -> Code:
        if not id_ or len(id_.encode(errors="surrogatepass")) > ID_BYTES_MAX:
            return Code.INVALID_REQUEST
        if (request.producer_id == NO_ID) != (request.producer_epoch == NO_EPOCH):
            return Code.INVALID_REQUEST
        if not 0 < request.transaction_timeout_ms <= self.limits.timeout_ms_max:
            return Code.INVALID_TRANSACTION_TIMEOUT
        if id_ in self.table.uncommitted:
            return Code.CONCURRENT_TRANSACTIONS
        if id_ not in self.table.transactions and self.limits.room.lacks(id_):
            return Code.COORDINATOR_NOT_AVAILABLE
        return Code.NONE

    def add_partitions(
        self, id_: str, producer: Identity, partitions: Partitions, caller: Caller, now: Now
    ) -> Outcome[LoggedRecord]:
        """One transaction of an AddPartitionsToTxn request."""
        version = 2 if caller.version >= VERSION_2_SINCE_ADD_PARTITIONS else 0
        decision = self._add(id_, producer, partitions, version, now)
        response = replies.added(id_, partitions, decision.code, caller.version)
        return self._outcome(id_, decision, caller, response, now)

    def join_partitions(
        self, id_: str, producer: Identity, partitions: Partitions, caller: Caller, now: Now
    ) -> Outcome[LoggedRecord]:
        """The same for a leader on this broker, in version 2: one code for all partitions."""
        decision = self._add(id_, producer, partitions, 2, now)
        response = replies.joined(decision.code)
        return self._outcome(id_, decision, caller, response, now)

    def verify_partitions(
        self, id_: str, producer: Identity, partitions: Partitions, caller: Caller
    ) -> Outcome[LoggedRecord]:
        """Are they in the transaction? Asked by leaders before they append."""
        codes = self.verified(id_, producer, partitions)
        response = replies.added(
            id_, partitions, lambda topic, index: codes[topic, index], caller.version
        )
        return Outcome(answers=(ShardReply(caller.token, response),))

    def verified(self, id_: str, producer: Identity, partitions: Partitions) -> PartitionCodes:
        """The same for a leader on this broker. Valid only while all of the log is committed."""
        return verified(id_, self.table.transactions.get(id_), producer, partitions)

    def add_offsets(
        self, request: AddOffsetsToTxnRequest, partitions: Partitions, caller: Caller, now: Now
    ) -> Outcome[LoggedRecord]:
        """`partitions`: the partition of __consumer_offsets that keeps the group."""
        producer = Identity(request.producer_id, request.producer_epoch)
        decision = self._add(request.transactional_id, producer, partitions, 0, now)
        response = replies.offsets_added(decision.code, caller.version)
        return self._outcome(request.transactional_id, decision, caller, response, now)

    def _add(
        self, id_: str, producer: Identity, partitions: Partitions, version: int, now: Now
    ) -> Decision:
        if not id_:
            return Decision(Code.INVALID_REQUEST)
        found = self.table.transactions.get(id_)
        return add(found, producer, partitions, version, now.wall_ms)

    def end_txn(self, request: EndTxnRequest, caller: Caller, now: Now) -> Outcome[LoggedRecord]:
        id_ = request.transactional_id
        producer = Identity(request.producer_id, request.producer_epoch)
        version = 2 if caller.version >= VERSION_2_SINCE_END_TXN else 0
        found = self.table.transactions.get(id_)
        decision = Decision(Code.INVALID_REQUEST)
        if id_:
            decision = end(found, producer, request.committed, version, self._ids, now.wall_ms)
        code, then = decision
        if code or found is None or not version:
            response = replies.ended(code, caller.version)
        else:
            after = found if then is None else completed(then, now.wall_ms)
            response = replies.ended(code, caller.version, after.producer_id, after.producer_epoch)
        cause = None
        if not request.committed:
            client = client_of(caller.client_id, caller.client_host)
            cause = TransactionCause(AbortedBy.CLIENT, now.wall_ms, client)
        return self._outcome(id_, decision, caller, response, now, cause)

    def end_group(self, asked: AskedGroup, caller: Caller, now: Now) -> Outcome[LoggedRecord]:
        """Decide on the transactions of several producers at once (group_commit.py)."""
        last = self.table.groups.get(asked.group)
        if last is None and self.limits.room.lacks(asked.group):
            decision = GroupDecision(Code.COORDINATOR_NOT_AVAILABLE)
        else:
            decision = decide(
                asked, last, self.table.transactions, self.table.ongoing, self._ids, now.wall_ms
            )
        if decision.records:
            self._watch(now)
        response = replies.group_ended(decision, last)
        return Outcome(decision.records, (ShardReply(caller.token, response),), asked.group)

    def describe_group(self, group: str, partitions: int, caller: Caller) -> Outcome[LoggedRecord]:
        """Answered when the group's last batch is committed, as every answer."""
        response = replies.group_described(self.table.groups.get(group), partitions)
        return Outcome(answers=(ShardReply(caller.token, response),))

    def _outcome(
        self,
        id_: str,
        decision: Decision,
        caller: Caller,
        response: ProtocolMessage,
        now: Now,
        cause: TransactionCause | None = None,
        owner: Client | None = None,
    ) -> Outcome[LoggedRecord]:
        answers = (ShardReply(caller.token, response),)
        if decision.then is None:
            return Outcome(answers=answers)
        self._watch(now)
        if decision.then.state is TransactionState.ONGOING:
            self._ages.age_ms(id_, decision.then, now)
        record = TransactionRecord(id_, decision.then, cause, None if decision.code else owner)
        return Outcome((record,), answers, id_)

    # Carrying out what was decided

    def markers_written(self, written: Iterable[MarkersWritten], now: Now) -> Outcome[LoggedRecord]:
        """What the leaders of partitions say, also late and twice."""
        for each in written:
            id_ = each.transactional_id
            found = self.table.transactions.get(id_)
            if found is None or id_ not in self.table.unmarked:
                continue
            if (each.producer_id, each.producer_epoch) != (
                found.producer_id,
                found.producer_epoch,
            ):
                continue
            if self.table.marked(id_, each.partitions):
                self._marked[id_] = None
        return self._complete_marked(now)

    def _complete_marked(self, now: Now) -> Outcome[LoggedRecord]:
        records = tuple(
            TransactionRecord(id_, completed(self.table.transactions[id_], now.wall_ms))
            for id_ in self._marked
        )
        return Outcome(records, divisible=True)

    def _markers_of(self, id_: str) -> MarkersDue:
        found = self.table.transactions[id_]
        return MarkersDue(
            transactional_id=id_,
            producer_id=found.producer_id,
            producer_epoch=found.producer_epoch,
            commit=found.state is TransactionState.PREPARE_COMMIT,
            coordinator_epoch=self.coordinator_epoch,
            transaction_version=found.client_version,
            partitions=self.table.unmarked[id_],
        )

    # Time

    def _watch(self, now: Now) -> None:
        """Ids may time out or expire from now on."""
        if self._timeouts.at is None:
            self._timers.set(self._timeouts, now.ms + self.limits.timeout_check_ms)
        if self._expiry.at is None:
            self._timers.set(self._expiry, now.ms + self.limits.expiration_check_ms)

    def _abort_overdue(self, now: Now) -> Outcome[LoggedRecord]:
        """A slice of those open for longer than they may be; the others soon."""
        records: list[TransactionRecord] = []
        cause = TransactionCause(AbortedBy.TIMEOUT, now.wall_ms)
        self._ages.forget_others(self.table.ongoing)
        pause_ms = self.limits.timeout_check_ms
        for id_ in self.table.ongoing:
            if len(records) == SLICE_IDS:
                pause_ms = SLICE_PAUSE_MS
                break
            found = self.table.transactions[id_]
            if (
                id_ in self.table.uncommitted
                or found.timeout_ms == TWO_PHASE_TIMEOUT_MS
                or self._ages.age_ms(id_, found, now) <= found.timeout_ms
            ):
                continue
            decision = fence(found, self._ids, self.limits.version, now.wall_ms)
            if decision.then is not None:
                records.append(TransactionRecord(id_, decision.then, cause))
        if self.table.ongoing:
            self._timers.set(self._timeouts, now.ms + pause_ms)
        return Outcome(tuple(records), divisible=True)

    def _expire(self, now: Now) -> Outcome[LoggedRecord]:
        """A slice of the ids that nobody has used for long; the others soon."""
        records: list[LoggedRecord] = []
        if not self._to_check:
            self._to_check = list(self.table.transactions)
            records += self.table.unused_groups(now.wall_ms - GROUP_EXPIRATION_MS)
        oldest_ms = now.wall_ms - self.limits.id_expiration_ms
        for _ in range(min(len(self._to_check), SLICE_IDS)):
            id_ = self._to_check.pop()
            found = self.table.transactions.get(id_)
            if found is None or id_ in self.table.uncommitted:
                continue
            if found.state.is_idle and found.updated_ms <= oldest_ms:
                records.append(TransactionRecord(id_, None))
        if self.table.transactions or self.table.groups:
            pause_ms = SLICE_PAUSE_MS if self._to_check else self.limits.expiration_check_ms
            self._timers.set(self._expiry, now.ms + pause_ms)
        return Outcome(tuple(records), divisible=True)
