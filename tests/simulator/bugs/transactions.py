"""Bugs with transactions, at the seams between coordinators, leaders, groups and clients.

The hazards are those of the list that transactions were built against: T1 and so on.
"""

from typing import Any

from barnabas.broker.transactions.coordination import TransactionCoordination
from barnabas.client.consumer.decoding import Aborted
from barnabas.client.producer.transactions import Transactions
from barnabas.coordinators.groups.offsets.pending import PendingOffsets
from barnabas.coordinators.groups.state import ShardState
from barnabas.coordinators.runtime import Runtime
from barnabas.coordinators.transactions import initialising
from barnabas.coordinators.transactions import shard as shard_module
from barnabas.coordinators.transactions.ages import TransactionAges
from barnabas.coordinators.transactions.decision import Decision
from barnabas.coordinators.transactions.markers import MarkerQueue
from barnabas.coordinators.transactions.shard import TransactionShard
from barnabas.coordinators.transactions.states import TransactionState
from barnabas.coordinators.transactions.table import TransactionTable
from barnabas.log import replica_append
from barnabas.log.producers.replay import replay_marker
from barnabas.log.producers.state import ProducerStates
from barnabas.log.transactions.aborted_index import AbortedIndex
from barnabas.log.transactions.open_transactions import OpenTransactions
from barnabas.model.errors import Code
from barnabas.wire.batch import read_header
from tests.simulator.bugs.planting import Change, bug


@bug(transactions=True)
def markers_leave_before_the_decision_is_committed() -> list[Change]:
    """T1: another coordinator decides otherwise, and the transaction is torn."""
    real = TransactionTable.committed

    def committed(self: Any, end: int) -> Any:
        return real(self, 1 << 62)

    return [(TransactionTable, "committed", committed)]


@bug(transactions=True)
def is_stable_before_markers_are_committed() -> list[Change]:
    """T13: a marker that only the leader has lets readers on."""

    def end(self: Any, producer_id: int, marker_offset: int) -> Any:
        return self._open.pop(producer_id, None)

    return [(OpenTransactions, "end", end)]


@bug(transactions=True, brokers=None)
def is_stable_one_offset_too_far() -> list[Change]:
    """T13: readers get the first record of an open transaction."""
    real = OpenTransactions.last_stable_offset

    def last_stable_offset(self: Any, high_watermark: int, start_offset: int) -> int:
        return min(real(self, high_watermark, start_offset) + 1, high_watermark)

    return [(OpenTransactions, "last_stable_offset", last_stable_offset)]


@bug(transactions=True, brokers=None)
def finds_aborted_ones_in_one_segment_only() -> list[Change]:
    """T14: the list of aborted transactions ends with the segment that a fetch begins in."""
    real = AbortedIndex.find

    def find(self: Any, start: int, end: int) -> Any:
        return real(self, start, end)[0], True

    return [(AbortedIndex, "find", find)]


@bug(transactions=True)
def followers_index_no_aborts() -> list[Change]:
    """T14: the next leader takes aborted records for committed ones."""

    def end_transaction(log: Any, header: Any, batch: Any) -> None:
        replay_marker(log.producers, header, batch)

    return [(replica_append, "_end_transaction", end_transaction)]


@bug(transactions=True)
def snapshots_have_no_open_transactions() -> list[Change]:
    """T13: after a restart, or a truncation, the last stable offset is past open transactions."""
    return [(ProducerStates, "find_open", lambda self: None)]


@bug(transactions=True, brokers=None)
def applies_pending_offsets_at_once() -> list[Change]:
    """T16: offsets of a transaction count before its marker."""

    def replay_pending(self: Any, record: Any, producer_id: int) -> None:
        self.replay(record)

    return [(ShardState, "replay_pending", replay_pending)]


@bug(transactions=True, brokers=None)
def drops_pending_offsets_at_a_commit() -> list[Change]:
    """T16: the marker is written, and the offsets take no effect."""
    return [(PendingOffsets, "end", lambda self, producer_id, commit: iter(()))]


@bug(transactions=True)
def answers_for_transactions_while_it_loads() -> list[Change]:
    """A coordinator decides without having read all of its log."""

    def load(self: Any, index: int, partition: Any) -> Any:
        self.led.finish_loading(index, 0)
        return real(self, index, partition)

    real = TransactionCoordination.load
    return [(TransactionCoordination, "load", load)]


@bug(transactions=True)
def a_new_coordinator_sends_no_markers() -> list[Change]:
    """T4: a decision that was read back is not carried out."""

    def loaded(self: Any, now: Any) -> None:
        self.table.uncommitted.clear()
        self._watch(now)

    return [(TransactionShard, "loaded", loaded)]


@bug(transactions=True)
def sends_markers_once() -> list[Change]:
    """T4: a marker without an answer is not sent again."""
    return [(MarkerQueue, "_retry", lambda self, key, entry, now_ms: None)]


@bug(transactions=True, brokers=None)
def nothing_times_out() -> list[Change]:
    """The transaction of a client that died holds readers back for ever."""
    return [(TransactionShard, "_abort_overdue", lambda self, now: None)]


@bug(transactions=True, brokers=None)
def times_out_by_the_wall_clock() -> list[Change]:
    """A transaction that began while the clock was ahead is open until the clock is there again."""

    def age_ms(self: Any, id_: str, found: Any, now: Any) -> int:
        age: int = now.wall_ms - found.started_ms
        return age

    return [(TransactionAges, "age_ms", age_ms)]


@bug(transactions=True, brokers=None)
def initialising_leaves_the_transaction_open() -> list[Change]:
    """A client that starts again goes on in the transaction of its predecessor."""
    real = initialising.initialise

    def initialise(found: Any, *rest: Any) -> Any:
        if found is not None and found.state is TransactionState.ONGOING:
            return Decision(Code.NONE, found)
        return real(found, *rest)

    return [(shard_module, "initialise", initialise)]


@bug(transactions=True)
def loads_half_of_the_transactions() -> list[Change]:
    """After a failover the coordinator knows every other record."""
    real = Runtime.load

    def load(self: Any, partition: int, batch: Any, header: Any = None) -> None:
        context = self._contexts[partition]
        if (
            not isinstance(context.shard, TransactionShard)
            or read_header(batch).base_offset % 2 == 0
        ):
            real(self, partition, batch, header)

    return [(Runtime, "load", load)]


@bug(transactions=True, brokers=None)
def clients_commit_without_a_record_that_failed() -> list[Change]:
    """A batch that was given up does not hinder the commit."""
    return [(Transactions, "batch_failed", lambda self, problem: problem)]


@bug(transactions=True, brokers=None)
def readers_ignore_the_aborted_list() -> list[Change]:
    """Records of aborted transactions are handed out."""
    return [(Aborted, "covers", lambda self, header, batch: False)]
