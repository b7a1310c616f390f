"""Faults to plant in the transaction coordinator and in the parts of a leader: each one is a real
kind of mistake, and histories must find it.
"""

from typing import Any

import pytest
from msgspec.structs import replace

from barnabas.coordinators.runtime import Outcome, ShardReply
from barnabas.coordinators.transactions import (
    adding,
    ending,
    initialising,
    replies,
    shard,
    transaction,
)
from barnabas.coordinators.transactions.decision import Decision
from barnabas.coordinators.transactions.group_records import LoggedRecord, encode_logged
from barnabas.coordinators.transactions.markers import MarkerQueue
from barnabas.coordinators.transactions.records import TransactionRecord
from barnabas.coordinators.transactions.shard import TransactionShard
from barnabas.coordinators.transactions.states import TransactionState
from barnabas.coordinators.transactions.table import TransactionTable
from barnabas.coordinators.transactions.transaction import NO_EPOCH, Transaction
from barnabas.log.transactions.open_transactions import OpenTransactions
from barnabas.log.transactions.verification import VerificationGuards
from barnabas.model.errors import Code
from tests.coordinators.transactions.partitions import PartitionModel

Patch = pytest.MonkeyPatch


def markers_leave_before_their_decision_is_committed(patch: Patch) -> None:
    committed = TransactionTable.committed
    patch.setattr(TransactionTable, "committed", lambda self, end: committed(self, 1 << 62))


def a_new_coordinator_forgets_to_send_markers(patch: Patch) -> None:
    def loaded(self: TransactionShard, now: Any) -> None:
        self.table.uncommitted.clear()

    patch.setattr(TransactionShard, "loaded", loaded)


def a_decision_read_back_counts_at_once(patch: Patch) -> None:
    """Without waiting until it is committed."""

    def loaded(self: TransactionShard, now: Any) -> None:
        for id_ in self.table.uncommitted:
            self.table.uncommitted[id_] = -1
        self._watch(now)

    patch.setattr(TransactionShard, "loaded", loaded)


def fencing_keeps_the_epoch(patch: Patch) -> None:
    patch.setattr(ending, "fenced", lambda before: before)


def nobody_is_fenced_while_a_transaction_is_open(patch: Patch) -> None:
    def initialise(found: Transaction | None, *rest: Any) -> Decision:
        if found is not None and found.state is TransactionState.ONGOING:
            return Decision(Code.NONE, replace(found, state=TransactionState.EMPTY, partitions={}))
        return initialising.initialise(found, *rest)

    patch.setattr(shard, "initialise", initialise)


def a_new_producer_keeps_the_epoch_of_the_one_before(patch: Patch) -> None:
    made = transaction.initialised

    def initialised(before: Transaction, id_: int, epoch: int, *rest: Any) -> Transaction:
        return made(before, id_, max(epoch - 1, 0), *rest)

    patch.setattr(initialising, "initialised", initialised)


def leaders_are_told_yes_whatever_they_ask(patch: Patch) -> None:
    def verify(_: Any, id_: str, __: Any, partitions: Any, caller: Any) -> Outcome[Any]:
        response = replies.added(id_, partitions, Code.NONE, caller.version)
        return Outcome(answers=(ShardReply(caller.token, response),))

    patch.setattr(TransactionShard, "verify_partitions", verify)


def any_epoch_may_add(patch: Patch) -> None:
    check = adding.check_producer

    def check_producer(found: Transaction | None, producer: Any) -> Code:
        code = check(found, producer)
        return Code.NONE if code is Code.PRODUCER_FENCED and found is not None else code

    patch.setattr(adding, "check_producer", check_producer)


def version_2_keeps_the_epoch_at_the_end(patch: Patch) -> None:
    patch.setattr(transaction, "BUMPS_EPOCH_SINCE", 99)


def any_epoch_may_end(patch: Patch) -> None:
    end = ending.end

    def lenient(found: Any, producer: Any, *rest: Any) -> Decision:
        if found is not None and found.producer_id == producer.producer_id:
            producer = producer._replace(epoch=found.producer_epoch)
        return end(found, producer, *rest)

    patch.setattr(shard, "end", lenient)


def one_marker_completes_the_transaction(patch: Patch) -> None:
    marked = TransactionTable.marked

    def hasty(self: TransactionTable, id_: str, partitions: Any) -> bool:
        marked(self, id_, partitions)
        return True

    patch.setattr(TransactionTable, "marked", hasty)


def completion_is_not_tried_again(patch: Patch) -> None:
    def refused(self: TransactionShard, outcome: Any, code: Code, now: Any) -> tuple[Any, ...]:
        self._marked.clear()
        return ()

    patch.setattr(TransactionShard, "refused", refused)


def markers_are_not_sent_again(patch: Patch) -> None:
    patch.setattr(MarkerQueue, "_retry", lambda *_: None)


def transactions_never_time_out(patch: Patch) -> None:
    patch.setattr(TransactionShard, "_watch", lambda *_: None)


def a_timeout_does_not_fence_the_producer(patch: Patch) -> None:
    def fence(found: Transaction, ids: Any, version: int, wall_ms: int) -> Decision:
        then = transaction.prepared(
            found, commit=False, version=0, next_producer_id=-1, wall_ms=wall_ms
        )
        return Decision(Code.NONE, then)

    patch.setattr(shard, "fence", fence)


def a_timeout_commits(patch: Patch) -> None:
    prepared = transaction.prepared

    def wrong(before: Transaction, **options: Any) -> Transaction:
        return prepared(before, **{**options, "commit": True})

    def fence(found: Transaction, ids: Any, version: int, wall_ms: int) -> Decision:
        then = wrong(
            transaction.fenced(found), commit=False, version=0, next_producer_id=-1, wall_ms=wall_ms
        )
        return Decision(Code.NONE, then)

    patch.setattr(shard, "fence", fence)


def a_guard_outlives_the_marker(patch: Patch) -> None:
    patch.setattr(VerificationGuards, "ended", lambda *_: None)


def any_guard_is_good(patch: Patch) -> None:
    patch.setattr(VerificationGuards, "is_good", lambda self, id_, guard: guard is not None)


def the_stable_offset_forgets_other_open_transactions(patch: Patch) -> None:
    def last_stable_offset(self: OpenTransactions, high_watermark: int, start: int) -> int:
        return high_watermark

    patch.setattr(OpenTransactions, "last_stable_offset", last_stable_offset)


def a_late_marker_of_version_2_ends_the_next_transaction(patch: Patch) -> None:
    end = PartitionModel.end

    def lenient(self: PartitionModel, *args: Any) -> Code:
        id_, epoch, coordinator, commit, _ = args
        return end(self, id_, epoch, coordinator, commit, 0)

    patch.setattr(PartitionModel, "end", lenient)


def a_repeated_marker_of_version_2_is_refused_for_ever(patch: Patch) -> None:
    end = PartitionModel.end

    def strict(self: PartitionModel, id_: int, epoch: int, *rest: Any) -> Code:
        known = self.producers.get(id_)
        if rest[-1] >= 2 and known is not None and epoch <= known.epoch:
            return Code.NOT_LEADER_OR_FOLLOWER
        return end(self, id_, epoch, *rest)

    patch.setattr(PartitionModel, "end", strict)


def markers_of_an_older_coordinator_are_written(patch: Patch) -> None:
    end = PartitionModel.end

    def lenient(self: PartitionModel, id_: int, epoch: int, coordinator: int, *rest: Any) -> Code:
        return end(self, id_, epoch, 1 << 30, *rest)

    patch.setattr(PartitionModel, "end", lenient)


def an_overflow_keeps_the_producer_id(patch: Patch) -> None:
    completed = transaction.completed

    def wrong(before: Transaction, wall_ms: int) -> Transaction:
        then = completed(before, wall_ms)
        return replace(then, producer_id=before.producer_id)

    patch.setattr(shard, "completed", wrong)


def the_partitions_of_the_log_are_lost(patch: Patch) -> None:
    """Only the last addition is kept."""
    patch.setattr(transaction, "merged", lambda partitions, added: added)


def a_repeated_init_is_taken_for_another_producers(patch: Patch) -> None:
    """After a failover any epoch below the current passes for a repetition."""

    def initialise(found: Transaction | None, producer: Any, *rest: Any) -> Decision:
        if found is not None and producer.is_given and found.last_epoch == NO_EPOCH:
            found = replace(found, last_epoch=min(producer.epoch, found.producer_epoch))
        return initialising.initialise(found, producer, *rest)

    patch.setattr(shard, "initialise", initialise)


def the_log_and_memory_differ(patch: Patch) -> None:
    encode = encode_logged

    def forgetful(record: LoggedRecord, version: int) -> Any:
        if isinstance(record, TransactionRecord):
            found = record.transaction
            if found is not None and found.state is TransactionState.PREPARE_COMMIT:
                record = record._replace(transaction=replace(found, partitions={}))
        return encode(record, version)

    patch.setattr(shard, "encode_logged", forgetful)


BUGS = {
    name: plant
    for name, plant in tuple(globals().items())
    if callable(plant) and getattr(plant, "__module__", "") == __name__
}
