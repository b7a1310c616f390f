"""The transactional ids of one partition of __transaction_state, as its log has them.

In: records, live or read back, each with its offset; how far the log is committed.
Out: transactions whose decision is committed, and so can be carried out.
Always: `transactions` is exactly what the log says, changed by `replay` alone. What is remembered
beside it (why, by whom, which markers are missing) may be lost without harm.
"""

from collections.abc import Iterable

from barnabas.coordinators.transactions.causes import AbortedBy, Client, TransactionCause
from barnabas.coordinators.transactions.group_commit import CommittedBatch, TransactionGroupRecord
from barnabas.coordinators.transactions.limits import IdRoom, weight_of
from barnabas.coordinators.transactions.records import TransactionRecord
from barnabas.coordinators.transactions.states import TransactionState
from barnabas.coordinators.transactions.transaction import Partitions, Transaction, without


class TransactionTable:
    """Transactions by transactional id."""

    def __init__(self, room: IdRoom) -> None:
        self._room = room
        self.transactions: dict[str, Transaction] = {}
        self.ongoing: dict[str, None] = {}  # those that can time out; ordered, unlike a set
        self.unmarked: dict[str, Partitions] = {}  # of decided ones: partitions without marker
        self.uncommitted: dict[str, int] = {}  # the offset of an id's last record, oldest first
        self.causes: dict[str, TransactionCause] = {}  # of each id's last abort
        self.owners: dict[str, Client] = {}  # who initialised it last
        self.groups: dict[str, CommittedBatch] = {}  # the last batch of each group of transactions

    def replay(self, record: TransactionRecord, offset: int) -> None:
        id_, found = record.transactional_id, record.transaction
        self.uncommitted.pop(id_, None)
        self.uncommitted[id_] = offset
        self.ongoing.pop(id_, None)
        self.unmarked.pop(id_, None)
        if found is None:
            if self.transactions.pop(id_, None) is not None:
                self._room.used -= weight_of(id_)
            self.causes.pop(id_, None)
            self.owners.pop(id_, None)
            return
        if id_ not in self.transactions:
            self._room.used += weight_of(id_)
        self.transactions[id_] = found
        if record.owner is not None:
            self.owners[id_] = record.owner
        if found.state is TransactionState.ONGOING:
            self.ongoing[id_] = None
        elif found.state is TransactionState.PREPARE_ABORT:
            unknown = TransactionCause(AbortedBy.UNKNOWN, found.updated_ms)
            self.causes[id_] = record.cause or unknown
        if found.state.is_prepared:
            self.unmarked[id_] = found.partitions

    def replay_group(self, record: TransactionGroupRecord) -> None:
        before = self.groups.pop(record.group, None)
        if before is not None:
            self._room.used -= _group_weight(record.group, before)
        if record.batch is not None:
            self.groups[record.group] = record.batch
            self._room.used += _group_weight(record.group, record.batch)

    def unused_groups(self, since_ms: int) -> list[TransactionGroupRecord]:
        """Records that delete them."""
        found = self.groups.items()
        return [
            TransactionGroupRecord(group, None)
            for group, last in found
            if last.updated_ms <= since_ms
        ]

    def committed(self, end: int) -> list[str]:
        """All below `end` is committed: ids that are decided by what was not committed before."""
        decided = []
        while self.uncommitted:
            id_, offset = next(iter(self.uncommitted.items()))
            if offset >= end:
                break
            del self.uncommitted[id_]
            if id_ in self.unmarked:
                decided.append(id_)
        return decided

    def marked(self, id_: str, partitions: Iterable[tuple[str, int]]) -> bool:
        """These have their marker, or need none. True when no partition is left without."""
        self.unmarked[id_] = left = without(self.unmarked[id_], partitions)
        return not left

    def release(self) -> None:
        """Another broker goes on with these ids."""
        self._room.used -= sum(map(weight_of, self.transactions))
        self._room.used -= sum(_group_weight(*each) for each in self.groups.items())


def _group_weight(group: str, last: CommittedBatch) -> int:
    return weight_of(group) + len(last.identity) + len(last.note)
