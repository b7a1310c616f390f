"""What brokers report about transactions: each response, and a report of one moment.

Not here: the judgement (transaction_rules.py), the requests (client/admin/transactions.py).
"""

from dataclasses import dataclass
from typing import NamedTuple

from barnabas.model.ids import TopicPartition


class TransactionListing(NamedTuple):
    """A transactional id in a list. `coordinator`: the broker that listed it."""

    transactional_id: str
    producer_id: int
    state: str
    coordinator: int


class TransactionDescription(NamedTuple):
    """A transactional id as its coordinator describes it.

    `started_ms`: since 1970; None if it is in no transaction. `partitions`: those in the
    transaction, sorted; once its end is decided, those that have no marker yet.
    """

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    started_ms: int | None
    partitions: tuple[TopicPartition, ...]
    coordinator: int


class ActiveProducer(NamedTuple):
    """A producer as the leader of a partition knows it.

    `coordinator_epoch`: of the last marker, -1 if there was none. `start_offset`: the first offset
    of its open transaction in this partition, None if none is open. `last_ms`: the time of its last
    batch or marker.
    """

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    last_sequence: int
    last_ms: int
    start_offset: int | None


class ReadingGroup(NamedTuple):
    """The committed offset of a group in a partition where readers are held back.

    `at_stable`: between it and the last stable offset is nothing to read but markers and aborted
    records. Groups have no isolation level, and so the group may not wait at all; where it does for
    certain, one of the partition's readers is its member.
    """

    group: str
    committed: int
    at_stable: bool


class WaitingReader(NamedTuple):
    """A consumer whose fetch of committed records waits now, as a Barnabas broker reports it.

    `group`: the group that has a member of this client id and host, with this partition.
    """

    client: str
    host: str
    group: str | None = None


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction that is open in one partition, as the leader of the partition sees it.

    `described`: the transactional id that has the producer id, as its coordinator describes it;
    None if no coordinator has one. `began_ms`: since 1970; None if it is not known.
    """

    at: TopicPartition
    producer: ActiveProducer
    start_offset: int
    described: TransactionDescription | None = None
    began_ms: int | None = None

    @property
    def transactional_id(self) -> str | None:
        return None if self.described is None else self.described.transactional_id


@dataclass(frozen=True, slots=True)
class UnstablePartition:
    """A partition whose last stable offset is below its high watermark.

    `transactions`: by their first offset; the first holds the readers. None at all: no transaction
    is open any more, or the broker does not report it (`producers_known`).
    """

    at: TopicPartition
    stable: int
    end: int
    leader: int = -1
    transactions: tuple[OpenTransaction, ...] = ()
    producers_known: bool = True
    groups: tuple[ReadingGroup, ...] = ()
    readers: tuple[WaitingReader, ...] = ()

    @property
    def hidden(self) -> int:
        """Offsets that readers of committed records cannot read yet."""
        return self.end - self.stable


@dataclass(frozen=True, slots=True)
class TransactionsReport:
    """`looked_at`: number of partitions. `without_leader`: partitions of __transaction_state whose
    transactional ids could not be listed, since no broker coordinates them.
    """

    held: tuple[UnstablePartition, ...] = ()
    looked_at: int = 0
    without_leader: tuple[int, ...] = ()
    now_ms: int = 0
