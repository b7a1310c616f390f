"""Exactly once: results, offsets, retries and dead letters are written in one transaction.

In: records that were handled or given up, ends of transactions, time. Out: `WriteTransaction`.
Always: one transaction is open at a time; a record is in a committed transaction together with the
commit that names it as finished: by the offset, or, behind an unfinished record, in the metadata;
after an abort the same results are written again, and no handler is called again; the results of
one lane are written in the order of its records; a record of a partition that was dropped is not in
any later transaction.
Not here: requests (transaction_writer.py), fencing (the group coordinator: the generation, and the
transaction coordinator: the transactional id).

A transaction is short: it begins when its records are handled. It begins at the latest
`commit_interval_ms` after the first of them, at once when half of a window waits, and at once when
a partition is revoked.
"""

from bisect import bisect_left
from enum import Enum
from heapq import merge
from typing import NamedTuple

from barnabas.client.errors import error_of
from barnabas.client.producer.record import ProducerRecord
from barnabas.client.producer.transaction_errors import GROUP_MOVED_ON
from barnabas.client.workers.dead_letter_headers import clean_cause, headers_of
from barnabas.client.workers.window.effects import Effect, WriteTransaction
from barnabas.client.workers.window.outbox import GONE_SIZE_MAX, runs_of
from barnabas.client.workers.window.window_partition import (
    CommitContent,
    RecordState,
    WindowPartition,
    WindowRecord,
)
from barnabas.client.workers.window.window_state import ASK_AGAIN_MS, IntentSender, WindowState
from barnabas.model.errors import Code, Failed, KafkaError, Retriable

RECORDS_MAX = 10_000  # handled records in one transaction: it must end within its timeout
_WRITTEN = (RecordState.FINISHED, RecordState.WRITING)


class AbortCause(Enum):
    """Why a transaction was aborted, and what follows."""

    PASSING = "the same again, soon: no answer in time, or the group has moved partitions"
    REFUSED = "a topic does not accept a record: find it, and give it up"
    LASTING = "no transaction can be committed: the worker stops"


_PASSING = GROUP_MOVED_ON | {
    Code.REBALANCE_IN_PROGRESS,
    Code.TRANSACTION_ABORTABLE,
    Code.INVALID_TXN_STATE,
    Code.INVALID_PRODUCER_EPOCH,
    Code.OUT_OF_ORDER_SEQUENCE_NUMBER,
    Code.UNKNOWN_PRODUCER_ID,
    Code.DUPLICATE_SEQUENCE_NUMBER,
}
_LASTING = frozenset(
    {Code.GROUP_AUTHORIZATION_FAILED, Code.INVALID_GROUP_ID, Code.OFFSET_METADATA_TOO_LARGE}
)


def cause_of_abort(problem: KafkaError) -> AbortCause:
    """Judged by the code: every problem of a transaction is an Abortable."""
    if problem.code in _PASSING:
        return AbortCause.PASSING
    usual = error_of(problem.code)
    if isinstance(usual, Retriable):
        return AbortCause.PASSING
    if problem.code in _LASTING or isinstance(usual, Failed):
        return AbortCause.LASTING
    return AbortCause.REFUSED


class _Finished(NamedTuple):
    """Of one partition in a transaction: its records, and what is committed with them."""

    offsets: list[int]
    content: CommitContent


class _Transaction(NamedTuple):
    number: int
    entries: list[WindowRecord]
    finished: dict[WindowPartition, _Finished]


class ExactlyOnce:
    """The transactions of one worker."""

    acts = True

    def __init__(self, state: WindowState) -> None:
        self._state = state
        self._handled: dict[WindowPartition, list[WindowRecord]] = {}  # in no transaction yet
        self._open: _Transaction | None = None
        self._number = 0
        self._due_at: int | None = None
        self._not_before = 0
        self._suspects: list[WindowRecord] = []  # one of them is refused by a topic
        self._has_ended = False
        self.letters = IntentSender(state)

    # Called by the window

    def handled(self, share: WindowPartition, entry: WindowRecord, now: int) -> None:
        entry.state = RecordState.HANDLED
        waiting = self._handled.setdefault(share, [])
        waiting.append(entry)
        self._state.pass_lane(share, entry, now)
        pressing = len(waiting) * 2 >= self._state.policy.window
        self._soon(now if pressing else now + self._state.policy.commit_interval_ms)

    def gave_up(self, share: WindowPartition, entry: WindowRecord, now: int) -> None:
        """Its letter is its result."""
        state, record = self._state, entry.record
        way = state.policy.way_out(entry.trail.round, now, reject=entry.reject)
        if way is None:
            state.fail_without_dlq(entry)
            return
        trail = entry.trail._replace(round=way.round, not_before=way.not_before)
        letter = ProducerRecord(
            way.topic,
            record.value,
            record.key,
            trail.headers(headers_of(record)),
            share.at.partition % state.partitions[way.topic],
            record.timestamp,
        )
        entry.results = (letter,)
        entry.is_letter = True
        self.handled(share, entry, now)

    def changed(self, share: WindowPartition, now: int) -> None:
        self._soon(now + self._state.policy.commit_interval_ms)

    def step(self, share: WindowPartition, now: int) -> None:
        """Only the intent of an earlier worker, which was not exactly once, waits here."""
        if share.leaving is not None and not share.sending and share.outbox.intent is not None:
            self.letters.send(share)

    def is_settled(self, share: WindowPartition, now: int, *, late: bool) -> bool:
        if self._has_ended:
            return True
        if share.sending or (share.leaving is not None and not late):
            return False
        if self._open is not None and share in self._open.finished:
            return False
        if not self._handled.get(share) and not share.changed:
            return True
        self._soon(now)
        return False

    def tick(self, now: int) -> None:
        """`act` follows."""

    def next_deadline(self) -> int | None:
        if self._due_at is None or self._open is not None or self._has_ended:
            return None
        return max(self._due_at, self._not_before)

    def act(self, now: int) -> None:
        due = self.next_deadline()
        if due is not None and due <= now:
            self._due_at = None
            self._begin(now)

    # Ends of transactions

    def committed(self, number: int, now: int) -> list[Effect]:
        open_ = self._take(number)
        if open_ is not None:
            for entry in open_.entries:
                if entry.state is RecordState.WRITING:
                    entry.results = ()
                    entry.share.finish(entry)
            for share, finished in open_.finished.items():
                if self._state.is_current(share):
                    share.saved = finished.content
                    share.outbox.gone = list(merge(share.outbox.gone, finished.offsets))
                    share.changed = share.to_save() is not None
                    self._state.resume(share)
            self._continue(open_, now)
        return self._state.act(now)

    def aborted(
        self,
        number: int,
        cause: AbortCause,
        detail: str,
        now: int,
        *,
        culprit: WindowRecord | None = None,
    ) -> list[Effect]:
        """PASSING or REFUSED. `culprit`: the record whose results were refused, if it is known."""
        open_ = self._take(number)
        if open_ is None:
            return self._state.act(now)
        entries = [entry for entry in open_.entries if entry.state is RecordState.WRITING]
        for entry in entries:
            entry.state = RecordState.HANDLED
            self._handled.setdefault(entry.share, []).append(entry)
        for share in open_.finished:
            share.changed = True
        if cause is AbortCause.PASSING:
            self._not_before = now + ASK_AGAIN_MS
        else:
            self._search(open_, entries, culprit, detail, now)
        self._continue(open_, now)
        return self._state.act(now)

    def ended(self, number: int, now: int) -> list[Effect]:
        """The producer cannot go on: nothing more is written."""
        open_ = self._take(number)
        self._has_ended = self._state.failed = True
        if open_ is not None:
            self._continue(open_, now)
        return self._state.act(now)

    # Inside

    def _soon(self, at: int) -> None:
        if self._due_at is None or at < self._due_at:
            self._due_at = at

    def _take(self, number: int) -> _Transaction | None:
        if self._open is None or self._open.number != number:
            return None
        open_, self._open = self._open, None
        return open_

    def _continue(self, open_: _Transaction, now: int) -> None:
        """After a transaction: drained partitions may be released, and the next one may be due."""
        self._forget_dropped()
        if any(self._handled.values()) or any(s.changed for s in self._state.shares.values()):
            pressing = bool(self._suspects) or self._is_pressing()
            self._soon(now if pressing else now + self._state.policy.commit_interval_ms)
        for share in list(self._state.shares.values()):
            if share.draining:
                self._state.advance(share, now)

    def _is_pressing(self) -> bool:
        half = self._state.policy.window / 2
        return any(len(waiting) >= half for waiting in self._handled.values())

    def _forget_dropped(self) -> None:
        for share in [one for one in self._handled if not self._state.is_current(one)]:
            del self._handled[share]

    def _search(
        self,
        open_: _Transaction,
        entries: list[WindowRecord],
        culprit: WindowRecord | None,
        detail: str,
        now: int,
    ) -> None:
        """The next transaction has half of the records, until the refused one is alone."""
        if culprit is None and len(open_.entries) == 1:
            culprit = open_.entries[0]
        self._suspects = entries if culprit is None else []
        if culprit is not None:
            self._refused(culprit, detail, now)
        elif not open_.entries:
            share, finished = next(iter(open_.finished.items()))
            self._state.fail(share.at, finished.content.offset, detail)

    def _refused(self, entry: WindowRecord, detail: str, now: int) -> None:
        """A topic does not accept a result of this record, or its letter."""
        if entry.state is not RecordState.HANDLED:
            return
        share = entry.share
        self._handled[share].remove(entry)
        entry.state = RecordState.LEAVING
        if entry.is_letter:
            self._state.fail(share.at, entry.record.offset, detail)
            return
        entry.trail = entry.trail._replace(
            cause=clean_cause(detail), attempts=entry.trail.attempts + 1, failed_at=now
        )
        entry.reject = True
        self.gave_up(share, entry, now)

    def _begin(self, now: int) -> None:
        self._forget_dropped()
        self._suspects = [one for one in self._suspects if one.state is RecordState.HANDLED]
        only = set(self._suspects[: max(1, len(self._suspects) // 2)]) or None
        open_ = self._chosen(only)
        if only and not open_.entries:
            self._suspects = []
            open_ = self._chosen(None)
        if not open_.finished:
            return
        self._open = open_
        offsets = {
            share.at: (finished.content.offset, -1, finished.content.metadata)
            for share, finished in open_.finished.items()
        }
        self._state.effects.append(WriteTransaction(open_.number, open_.entries, offsets))

    def _chosen(self, only: set[WindowRecord] | None) -> _Transaction:
        """The next transaction: these records only, or as many handled ones as may be in one."""
        self._number += 1
        open_ = _Transaction(self._number, [], {})
        room = RECORDS_MAX
        for share in self._state.shares.values():
            waiting = self._handled.get(share, [])
            if not waiting and not share.changed:
                continue
            waiting.sort(key=_offset)
            wanted = waiting if only is None else [one for one in waiting if one in only]
            taken, finished = _fitting(share, wanted[:room])
            if finished is None:
                continue
            room -= len(taken)
            open_.entries.extend(taken)
            open_.finished[share] = finished
            share.changed = False
            if taken:
                left = [one for one in waiting if one.state is RecordState.HANDLED]
                self._handled[share] = left
        return open_


def _fitting(
    share: WindowPartition, entries: list[WindowRecord]
) -> tuple[list[WindowRecord], _Finished | None]:
    """The first of these records whose commit has room for what it must name; and that commit.
    None: there is nothing to commit.
    """
    while True:
        for entry in entries:
            entry.state = RecordState.WRITING
        finished, fits = _finished(share, entries)
        if fits or not entries:
            return entries, finished
        for entry in entries:
            entry.state = RecordState.HANDLED
        entries = entries[: len(entries) // 2]


def _finished(share: WindowPartition, entries: list[WindowRecord]) -> tuple[_Finished | None, bool]:
    """The commit for these records; and whether it has room for what it must name."""
    prefix = share.position
    for entry in share.entries:
        if entry.state not in _WRITTEN:
            prefix = entry.record.offset
            break
    if prefix < 0:
        return None, True
    outbox = share.outbox
    offsets = [entry.record.offset for entry in entries]
    gone = list(merge(outbox.gone, offsets))
    gone = gone[bisect_left(gone, prefix) :]
    content = CommitContent(prefix, outbox.text(gone, prefix), outbox.intent)
    if content == share.saved:
        return None, True
    return _Finished(offsets, content), len(str(runs_of(gone, prefix))) < GONE_SIZE_MAX


def _offset(entry: WindowRecord) -> int:
    return entry.record.offset
