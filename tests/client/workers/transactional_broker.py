"""Transactions for the broker of the histories: logs, a transaction coordinator, pending offsets.

As version 2 of the protocol (KIP-890): every end of a transaction has a new epoch, so that late
requests of an ended transaction are refused. The end is answered before it is complete: until then
its records are not readable, and offsets that it committed are pending.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from random import Random

from barnabas.client.producer.record import ProducerRecord
from barnabas.model.ids import TopicPartition
from tests.client.workers.broker import Answer, Broker, Record

TIMEOUT_MS = 8_000
REFUSED = b"refused"
METADATA_SIZE_MAX = 4_096


class TxnState(Enum):
    OPEN = "open"
    PREPARED = "decided, not complete"
    COMMITTED = "committed"
    ABORTED = "aborted"
    MARKER = "no transaction, but the end of one in a log"


class TxnAnswer(Enum):
    """To a request of a transactional producer."""

    DONE = "done"
    AGAIN = "the last transaction is not complete yet"
    ABORT = "the transaction must be aborted"
    REFUSED = "a record is too large"
    MOVED = "another member may have the partitions"
    FENCED = "another producer has the transactional id"


@dataclass(eq=False)
class Txn:
    began: int
    state: TxnState = TxnState.OPEN
    sequences: set[int] = field(default_factory=set)
    written: list[Record] = field(default_factory=list)
    offsets: dict[TopicPartition, tuple[int, str]] = field(default_factory=dict)


_MARKER = Txn(0, TxnState.MARKER)


@dataclass
class TxnProducer:
    epoch: int = -1
    txn: Txn | None = None
    last: bool | None = None  # whether the last end was a commit; None: there was none
    completing: Txn | None = None


class TransactionalBroker(Broker):
    """`on_commit` sees each transaction as soon as it is decided to be committed."""

    def __init__(
        self,
        topics: dict[str, int],
        read: Iterable[str],
        random: Random,
        after: Callable[[int, Callable[[], None]], None],
        on_commit: Callable[[Txn], None],
    ) -> None:
        super().__init__(topics, read, random)
        self._after = after
        self._on_commit = on_commit
        self._owners: dict[tuple[TopicPartition, int], Txn] = {}
        self._producers_by_id: dict[str, TxnProducer] = {}

    # Reading

    def fetch(self, at: TopicPartition, position: int, count: int) -> tuple[list[Record], int]:
        """Committed records, and the offset after what was read."""
        found: list[Record] = []
        log = self.logs[at]
        while position < len(log) and len(found) < count:
            owner = self._owners.get((at, position))
            state = TxnState.COMMITTED if owner is None else owner.state
            if state in (TxnState.OPEN, TxnState.PREPARED):
                break
            if state is TxnState.COMMITTED:
                found.append(log[position])
            position += 1
        return found, position

    def is_pending(self, at: TopicPartition) -> bool:
        """Whether the committed offset may still change by a transaction."""
        open_ = [txn for each in self._producers_by_id.values() for txn in _unfinished(each)]
        return any(at in txn.offsets for txn in open_)

    # Producers

    def init(self, name: str) -> int | None:
        """A new epoch; None: ask again."""
        known = self._producers_by_id.setdefault(name, TxnProducer())
        if known.completing is not None:
            return None
        if known.txn is not None:
            self._end(known, commit=False)
            return None
        known.epoch += 1
        known.last = None
        return known.epoch

    def write(
        self,
        name: str,
        epoch: int,
        sequence: int,
        to: TopicPartition,
        records: list[ProducerRecord],
        now: int,
    ) -> TxnAnswer:
        txn, refusal = self._joined(name, epoch, now)
        if txn is None:
            return refusal
        if sequence in txn.sequences:
            return TxnAnswer.DONE
        if any(record.value == REFUSED for record in records):
            return TxnAnswer.REFUSED
        txn.sequences.add(sequence)
        for one in records:
            record = self.append(to, one.key, one.value, now, one.headers)
            self._owners[to, record.offset] = txn
            txn.written.append(record)
        return TxnAnswer.DONE

    def commit_offsets(
        self,
        name: str,
        epoch: int,
        member: int,
        generation: int,
        offsets: dict[TopicPartition, tuple[int, str]],
        now: int,
    ) -> TxnAnswer:
        known = self.members.get(member)
        if known is None or known.epoch != generation:
            return TxnAnswer.MOVED
        txn, refusal = self._joined(name, epoch, now)
        if txn is None:
            return refusal
        assert all(len(metadata) <= METADATA_SIZE_MAX for _, metadata in offsets.values())
        txn.offsets.update(offsets)
        return TxnAnswer.DONE

    def _joined(self, name: str, epoch: int, now: int) -> tuple[Txn | None, TxnAnswer]:
        known = self._producers_by_id[name]
        if epoch != known.epoch:
            return None, TxnAnswer.ABORT  # of a batch: it may only be too late
        if known.completing is not None:
            return None, TxnAnswer.AGAIN
        if known.txn is None:
            known.txn = Txn(now)
        return known.txn, TxnAnswer.DONE

    def end(self, name: str, epoch: int, *, commit: bool) -> tuple[TxnAnswer, int]:
        known = self._producers_by_id[name]
        again = epoch + 1 == known.epoch and known.last is not None
        if epoch != known.epoch and not again:
            return TxnAnswer.FENCED, -1
        if again:
            if known.completing is not None:
                return TxnAnswer.AGAIN, -1
            done = known.last is commit
            return (TxnAnswer.DONE, known.epoch) if done else (TxnAnswer.ABORT, -1)
        if known.completing is not None:
            return TxnAnswer.AGAIN, -1
        if known.txn is None:
            if commit:
                return TxnAnswer.ABORT, -1
            known.epoch += 1
            known.last = False
            return TxnAnswer.DONE, known.epoch
        self._end(known, commit=commit)
        return TxnAnswer.DONE, known.epoch

    def time_out(self, now: int) -> None:
        for known in self._producers_by_id.values():
            if known.txn is not None and now > known.txn.began + TIMEOUT_MS:
                self._end(known, commit=False)

    def _end(self, known: TxnProducer, *, commit: bool) -> None:
        txn = known.txn
        assert txn is not None
        known.txn, known.completing = None, txn
        known.epoch += 1
        known.last = commit
        txn.state = TxnState.PREPARED

        def complete() -> None:
            known.completing = None
            txn.state = TxnState.COMMITTED if commit else TxnState.ABORTED
            for at in {TopicPartition(one.topic, one.partition): None for one in txn.written}:
                marker = self.append(at, None, b"marker", 0, ())
                self._owners[at, marker.offset] = _MARKER
            if commit:
                self.offsets.update(txn.offsets)

        if commit:
            self._on_commit(txn)
        self._after(self.random.choice((0, 5, 60)), complete)

    def commit(
        self, member: int, epoch: int, offsets: dict[TopicPartition, tuple[int, str]]
    ) -> Answer:
        """A plain commit hides what an older transaction commits later."""
        answer = super().commit(member, epoch, offsets)
        if answer is Answer.DONE:
            for known in self._producers_by_id.values():
                for txn in _unfinished(known):
                    for at in offsets:
                        txn.offsets.pop(at, None)
        return answer


def _unfinished(known: TxnProducer) -> list[Txn]:
    return [txn for txn in (known.txn, known.completing) if txn is not None]
