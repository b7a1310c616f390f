"""CommitTransactionGroup: one decision for the transactions of several producers.

In: what a driver asks for (a batch and the transactions of its tasks), the last batch of the group,
the transactions as the log has them. Out: a code, and the records of the decision, which are
written in one record batch: all of them or none.
Always: a batch of a group is committed once. A batch is known by its number and its identity: the
same number with another identity is another batch, and is refused, not taken for a repetition.
All transactions are open, each at the producer id and epoch that its task reported, or nothing is
committed. Transactions of the group that the driver does not name are aborted with the decision: no
task that lost, and no task of an older driver, is committed later.
Not here: the log (shard.py), which transactional ids are in one shard (broker/), the driver
(pipeline/spark/group_committer.py).
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from msgspec import Struct

from barnabas.coordinators.transactions.causes import AbortedBy, TransactionCause
from barnabas.coordinators.transactions.decision import Identity, ProducerIds
from barnabas.coordinators.transactions.ending import end, fence
from barnabas.coordinators.transactions.records import TransactionRecord
from barnabas.coordinators.transactions.states import TransactionState
from barnabas.coordinators.transactions.transaction import EPOCH_MAX, Transaction
from barnabas.model.errors import Code

NO_BATCH = -1
VERSION = 2
"""The transaction version of every group: each decision moves the epochs of its producers."""
SEPARATOR = "/"
"""Between the name of a group and the rest of its transactional ids."""
TRANSACTIONS_MAX = 10_000
GROUP_LENGTH_MAX = 1_000
IDENTITY_LENGTH_MAX = 200
NOTE_LENGTH_MAX = 16_000
LEFT_OVER_MAX = 100  # aborted with one decision; others wait for the next one, or time out


class CommittedBatch(Struct, frozen=True):
    """The last batch of a group. `note`: for people who must begin again from there."""

    number: int
    identity: str
    note: str
    updated_ms: int


class TransactionGroupRecord(NamedTuple):
    """What the log says of a group; without a batch, a group that has expired."""

    group: str
    batch: CommittedBatch | None


GroupRecords = tuple[TransactionRecord | TransactionGroupRecord, ...]


class AskedGroup(NamedTuple):
    """What a driver asks for."""

    group: str
    commit: bool
    batch: int
    identity: str
    note: str
    transactions: Mapping[str, Identity]


class GroupDecision(NamedTuple):
    """`already`: the batch was committed before; the records only abort its repetition."""

    code: Code
    records: GroupRecords = ()
    detail: str = ""
    already: bool = False


def _problem_of(asked: AskedGroup) -> str:
    """What is wrong with a request in itself; empty if nothing is."""
    if not 0 < len(asked.group) <= GROUP_LENGTH_MAX:
        return f"the name of a group has 1 to {GROUP_LENGTH_MAX} characters"
    if asked.batch < NO_BATCH:
        return f"batch {asked.batch} is below {NO_BATCH}"
    if len(asked.identity) > IDENTITY_LENGTH_MAX or len(asked.note) > NOTE_LENGTH_MAX:
        return f"an identity has at most {IDENTITY_LENGTH_MAX} characters, a note {NOTE_LENGTH_MAX}"
    if len(asked.transactions) > TRANSACTIONS_MAX:
        return f"{len(asked.transactions)} transactions are more than {TRANSACTIONS_MAX}"
    prefix = asked.group + SEPARATOR
    for id_ in asked.transactions:
        if not id_.startswith(prefix):
            return f"transactional id {id_[:200]!r} does not begin with {prefix[:200]!r}"
    return ""


def decide(
    asked: AskedGroup,
    last: CommittedBatch | None,
    transactions: Mapping[str, Transaction],
    ongoing: Iterable[str],
    ids: ProducerIds,
    wall_ms: int,
) -> GroupDecision:
    """`ongoing`: the ids with an open transaction, of all groups and producers of the shard."""
    if problem := _problem_of(asked):
        return GroupDecision(Code.INVALID_REQUEST, detail=problem)
    if not asked.commit:
        return GroupDecision(Code.NONE, _aborted(asked, transactions, ids, wall_ms))
    if asked.batch != NO_BATCH and last is not None and asked.batch <= last.number:
        if (asked.batch, asked.identity) == (last.number, last.identity):
            records = _aborted(asked, transactions, ids, wall_ms)
            return GroupDecision(Code.NONE, records, already=True)
        return GroupDecision(
            Code.OUT_OF_ORDER_SEQUENCE_NUMBER,
            detail=f"group {asked.group[:200]!r} has committed batch {last.number}; this batch"
            f" {asked.batch} stands for other records",
        )
    if asked.batch == NO_BATCH and _is_committed(asked, transactions):
        return GroupDecision(Code.NONE, already=True)
    return _commit(asked, transactions, ongoing, ids, wall_ms)


def _commit(
    asked: AskedGroup,
    transactions: Mapping[str, Transaction],
    ongoing: Iterable[str],
    ids: ProducerIds,
    wall_ms: int,
) -> GroupDecision:
    records: list[TransactionRecord | TransactionGroupRecord] = []
    for id_, producer in asked.transactions.items():
        found = transactions.get(id_)
        if not _is_open(found, producer):
            state = "unknown" if found is None else found.state.title
            return GroupDecision(
                Code.INVALID_TXN_STATE,
                detail=f"transactional id {id_[:200]!r} has no open transaction of producer id"
                f" {producer.producer_id} and epoch {producer.epoch} (it is {state}): it timed"
                " out, or another task has taken it over",
            )
        decision = end(found, producer, True, VERSION, ids, wall_ms)
        if decision.code or decision.then is None:
            return GroupDecision(decision.code)
        records.append(TransactionRecord(id_, decision.then))
    if asked.batch != NO_BATCH:
        batch = CommittedBatch(asked.batch, asked.identity, asked.note, wall_ms)
        records.append(TransactionGroupRecord(asked.group, batch))
    prefix = asked.group + SEPARATOR
    left_over = [
        id_ for id_ in ongoing if id_.startswith(prefix) and id_ not in asked.transactions
    ][:LEFT_OVER_MAX]
    records += _aborts(left_over, transactions, ids, wall_ms)
    return GroupDecision(Code.NONE, tuple(records))


def _aborted(
    asked: AskedGroup, transactions: Mapping[str, Transaction], ids: ProducerIds, wall_ms: int
) -> GroupRecords:
    """Aborts what is still open of the named transactions."""
    still_open = [
        id_
        for id_, producer in asked.transactions.items()
        if _is_open(transactions.get(id_), producer)
    ]
    return tuple(_aborts(still_open, transactions, ids, wall_ms))


def _aborts(
    open_ids: Iterable[str],
    transactions: Mapping[str, Transaction],
    ids: ProducerIds,
    wall_ms: int,
) -> list[TransactionRecord]:
    cause = TransactionCause(AbortedBy.GROUP, wall_ms)
    decided = (
        (id_, fence(transactions[id_], ids, VERSION, wall_ms).then) for id_ in open_ids
    )  # without producer ids at hand a transaction stays open, until it times out
    return [TransactionRecord(id_, then, cause) for id_, then in decided if then is not None]


def _is_open(found: Transaction | None, producer: Identity) -> bool:
    return (
        found is not None
        and found.state is TransactionState.ONGOING
        and (found.producer_id, found.producer_epoch) == producer
    )


def _is_committed(asked: AskedGroup, transactions: Mapping[str, Transaction]) -> bool:
    """Whether an earlier request, whose answer was lost, has committed all of them."""
    found = [(transactions.get(id_), producer) for id_, producer in asked.transactions.items()]
    return bool(found) and all(
        transaction is not None and _has_committed(transaction, producer)
        for transaction, producer in found
    )


def _has_committed(found: Transaction, producer: Identity) -> bool:
    """The decision moved the epoch by one; an exhausted one goes on as epoch 0 of another id."""
    if found.state not in (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT):
        return False
    moved = (found.producer_id, found.producer_epoch) == (producer.producer_id, producer.epoch + 1)
    rotated = (
        found.previous_producer_id == producer.producer_id
        and producer.epoch == EPOCH_MAX - 1
        and found.producer_epoch == 0
    )
    return found.has_version_2 and (moved or rotated)
