"""The sliding window: many records in flight per partition, and the offset that may be committed.

In: partitions given and taken away, records, ends of handlers, answers to commits and sends, time.
Out: effects (effects.py) for a driver to carry out.
Always: a record is finished when its handler succeeded or another topic has it; what is committed
is the end of the finished prefix; records of one lane never overlap; a partition that was taken
away is released within the drain time, and nothing unfinished of it is committed; no more than a
window of records is under way per partition, whatever was fetched.
Not here: one partition's records (share.py), when a handler runs (turns.py), how a record leaves
(outbox.py), what starts threads and speaks to brokers (parallel.py).
Why a dead letter is there once: docs/adr/0011.
"""

from collections.abc import Iterable, Mapping

from barnabas.client.workers.effects import (
    Cancel,
    Commit,
    Effect,
    Fail,
    Identify,
    Pause,
    Release,
    Resume,
)
from barnabas.client.workers.letters import Incoming, clean_cause, trail_of
from barnabas.client.workers.outbox import LetterProducer
from barnabas.client.workers.policy import Policy
from barnabas.client.workers.share import RecordState, WindowPartition, WindowRecord
from barnabas.client.workers.turns import Turns
from barnabas.model.ids import TopicPartition

ASK_AGAIN_MS = 500  # after a commit, a send or a producer id came to nothing
LAST_COMMIT_MS = 5_000  # for the commit after a drain
_STAYS = (
    RecordState.RUNNING,
    RecordState.LEAVING,
    RecordState.FINISHED,
)  # when a partition is to go


class Window:
    """All partitions of one worker. `partitions`: how many the retry and dead-letter topic have."""

    def __init__(self, policy: Policy, partitions: Mapping[str, int]) -> None:
        self._policy = policy
        self._partitions = dict(partitions)
        self._shares: dict[TopicPartition, WindowPartition] = {}
        self._term = 0
        self._turns = Turns(policy)
        self._commit_at: int | None = None
        self._failed = False
        self._effects: list[Effect] = []

    # Partitions come and go

    def given(self, at: TopicPartition, committed: int, metadata: str, now: int) -> list[Effect]:
        """The partition is ours; `committed` and `metadata` as the group has them (-1 and "")."""
        if at in self._shares:
            self._drop(self._shares[at])
        self._term += 1
        self._shares[at] = WindowPartition(at, self._term, committed, metadata)
        return self._act(now)

    def revoke(
        self, partitions: Iterable[TopicPartition], now: int, drain_ms: int | None = None
    ) -> list[Effect]:
        """They go to another worker. What runs may end, what leaves may go; then `Release`.

        `drain_ms`: how long that may take, if not as long as the policy says.
        """
        drain_ms = self._policy.drain_ms if drain_ms is None else drain_ms
        for at in partitions:
            share = self._shares.get(at)
            if share is None:
                self._effects.append(Release(at))
                continue
            if share.draining:
                continue
            share.drain_until = now + drain_ms
            for entry in share.entries:
                if entry.state not in _STAYS:
                    entry.state = RecordState.DROPPED
            self._turns.look_at(share, share.drain_until)
            self._advance(share, now)
        return self._act(now)

    def lost(self, partitions: Iterable[TopicPartition], now: int) -> list[Effect]:
        """They are another worker's already: whatever is committed now would be wrong."""
        for at in partitions:
            if at in self._shares:
                self._drop(self._shares[at])
        return self._act(now)

    # Records

    def fetched(self, at: TopicPartition, records: Iterable[Incoming], now: int) -> list[Effect]:
        """Records of one partition in the order of their offsets; `wanted_from` says how many of
        them were taken."""
        share = self._shares.get(at)
        if share is None or share.draining:
            return []
        for record in records:
            if record.offset < share.position:
                continue
            if share.is_full(self._policy.window):
                break
            self._admit(share, record, now)
        if not share.paused and share.is_full(self._policy.window):
            share.paused = True
            self._effects.append(Pause(at))
        return self._act(now)

    def wanted_from(self, at: TopicPartition) -> int | None:
        """The offset from which records have yet to be fetched; None: no more are wanted."""
        share = self._shares.get(at)
        return None if share is None or share.draining else share.position

    def succeeded(self, entry: WindowRecord, now: int) -> list[Effect]:
        """Also when the call was cancelled too late: what is done is done."""
        share = self._turns.ended(entry)
        if entry.state is RecordState.RUNNING:
            self._finish(share, entry, now)
        if share.draining or share.outbox.has_waiting():
            self._advance(share, now)
        return self._act(now)

    def failed(
        self, entry: WindowRecord, cause: str, now: int, *, reject: bool = False
    ) -> list[Effect]:
        """The handler raised. `reject`: no retry can mend it."""
        share = self._turns.ended(entry)
        if entry.state is RecordState.RUNNING:
            trail = entry.trail
            entry.trail = trail._replace(
                cause=clean_cause(cause), attempts=trail.attempts + 1, failed_at=now
            )
            entry.failures += 1
            entry.reject = reject
            if not reject and entry.failures <= self._policy.retry.times:
                if share.draining:
                    entry.state = RecordState.DROPPED
                else:
                    self._turns.delay(entry, now + self._policy.retry.backoff_ms(entry.failures))
            else:
                entry.state = RecordState.LEAVING
                share.outbox.wait(entry)
        self._advance(share, now)
        return self._act(now)

    def cancelled(self, entry: WindowRecord, now: int) -> list[Effect]:
        """The call ended early because we asked for it: its time was up, or its partition left."""
        limit_ms = self._policy.timeout_ms
        cause = "CancelledError: the call was cancelled"
        if limit_ms is not None:
            cause = f"TimeoutError: no end after {limit_ms / 1000:g} s"
        return self.failed(entry, cause, now)

    # Answers

    def committed(self, at: TopicPartition, term: int, now: int) -> list[Effect]:
        share = self._of_term(at, term)
        if share is not None and share.saving is not None:
            share.saved, share.saving = share.saving, None
            self._advance(share, now)
        return self._act(now)

    def commit_failed(self, at: TopicPartition, term: int, now: int) -> list[Effect]:
        """No answer, or one that says to try again."""
        share = self._of_term(at, term)
        if share is not None and share.saving is not None:
            share.saving = None
            share.changed = True
            self._turns.look_at(share, now + ASK_AGAIN_MS)
        return self._act(now)

    def identified(
        self, at: TopicPartition, term: int, identity: LetterProducer, now: int
    ) -> list[Effect]:
        share = self._of_term(at, term)
        if share is not None and share.identifying:
            share.identifying = False
            share.outbox.identity = identity
            self._advance(share, now)
        return self._act(now)

    def identify_failed(self, at: TopicPartition, term: int, now: int) -> list[Effect]:
        share = self._of_term(at, term)
        if share is not None and share.identifying:
            share.identifying = False
            self._turns.look_at(share, now + ASK_AGAIN_MS)
        return self._act(now)

    def sent(self, at: TopicPartition, term: int, now: int) -> list[Effect]:
        """The target has the record, written now or before."""
        share = self._of_term(at, term)
        if share is not None and share.sending:
            share.sending = False
            share.outbox.sent()
            entry, share.leaving = share.leaving, None
            assert entry is not None
            self._finish(share, entry, now)
            self._advance(share, now)
        return self._act(now)

    def send_failed(self, at: TopicPartition, term: int, now: int) -> list[Effect]:
        """No answer, or one that says to try again: the target may have the record or not."""
        share = self._of_term(at, term)
        if share is not None and share.sending:
            share.sending = False
            self._turns.look_at(share, now + ASK_AGAIN_MS)
        return self._act(now)

    def send_out_of_order(self, at: TopicPartition, term: int, now: int) -> list[Effect]:
        """The target does not know our sequence numbers any more, and has not got the record."""
        share = self._of_term(at, term)
        if share is not None and share.sending:
            share.sending = False
            share.outbox.forget()
            entry, share.leaving = share.leaving, None
            assert entry is not None
            share.outbox.wait(entry)
            share.changed = True
            self._advance(share, now)
        return self._act(now)

    def send_refused(self, at: TopicPartition, term: int, detail: str, now: int) -> list[Effect]:
        """The target will never take it: too large, not allowed."""
        share = self._of_term(at, term)
        if share is not None and share.sending:
            share.sending = False
            assert share.leaving is not None
            self._fail(share.leaving, detail)
        return self._act(now)

    # Time

    def tick(self, now: int) -> list[Effect]:
        for due in self._turns.due(now):
            if isinstance(due, Cancel):
                self._effects.append(due)
            elif self._shares.get(due.at) is due:
                self._advance(due, now)
        if self._commit_at is not None and self._commit_at <= now:
            self._commit_at = None
            for share in list(self._shares.values()):
                if share.changed and share.saving is None:
                    self._commit(share)
        return self._act(now)

    def next_deadline(self) -> int | None:
        """When `tick` has something to do."""
        deadlines = (self._turns.next_deadline(), self._commit_at)
        return min((at for at in deadlines if at is not None), default=None)

    # What a driver may look at

    @property
    def running(self) -> int:
        """Handlers that have not ended, those of partitions that left too."""
        return self._turns.running

    @property
    def partitions(self) -> list[TopicPartition]:
        return list(self._shares)

    def unfinished(self) -> int:
        """Records that came and are not finished, and those finished behind them."""
        return sum(len(share.entries) for share in self._shares.values())

    # Inside

    def _act(self, now: int) -> list[Effect]:
        """Fill free hands, see to commits; all effects since the last time."""
        if not self._failed:
            self._turns.start(now, self._effects)
        effects, self._effects = self._effects, []
        return effects

    def _admit(self, share: WindowPartition, record: Incoming, now: int) -> None:
        policy = self._policy
        trail = trail_of(record, policy.group, policy.retry_topic)
        intent = share.outbox.intent
        if intent is not None and share.leaving is None:
            if record.offset == intent.offset:
                share.admit_intended(record, trail, intent)
                self._advance(share, now)
                return
            if record.offset > intent.offset:  # the one it was for is deleted since
                share.outbox.forget()
                share.changed = True
        # Gone before we came; or another group's, in a retry topic that they share.
        if share.outbox.is_gone(record.offset) or trail.group != policy.group:
            share.skip(record.offset)
            self._commit_soon(now)
            return
        entry = WindowRecord(record, trail, share)
        if share.admit(entry, policy.order):
            self._turns.take(entry, now)

    def _finish(self, share: WindowPartition, entry: WindowRecord, now: int) -> None:
        following = share.finish(entry)
        self._commit_soon(now)
        if following is not None and following.state is RecordState.BEHIND:
            self._turns.take(following, now)
        if share.paused and not share.draining and len(share.entries) <= self._policy.window // 2:
            share.paused = False
            self._effects.append(Resume(share.at))

    def _advance(self, share: WindowPartition, now: int) -> None:
        """Take the outbox, a commit that is due and the drain one step on."""
        if self._shares.get(share.at) is not share:
            return
        if share.drain_until is not None and now >= share.drain_until:
            share.outbox.drop_waiting()
        if share.saving is None and not share.sending:
            outbox = share.outbox
            waiting = outbox.next_waiting(share.finished_prefix())
            if outbox.intent is None and waiting is not None:
                self._intend(share, waiting, now)
            elif outbox.intent is not None and share.leaving is not None:
                if outbox.intent == share.saved.intent:
                    self._send(share)
                else:
                    self._commit(share)
            elif share.changed:
                self._commit_soon(now)
        if share.draining:
            self._drain(share, now)

    def _intend(self, share: WindowPartition, entry: WindowRecord, now: int) -> None:
        """The next record that waits to leave: where it goes, and under which number."""
        trail, outbox = entry.trail, share.outbox
        way = self._policy.way_out(trail.round, now, reject=entry.reject)
        if way is None:
            outbox.take_waiting()
            self._fail(entry, f"{trail.cause} (attempt {trail.attempts}; name a dlq to go on)")
            return
        if outbox.identity is None:
            if not share.identifying:
                share.identifying = True
                self._effects.append(Identify(share.at, share.term))
            return
        share.intend(entry, way, self._partitions[way.topic])
        self._commit(share)

    def _send(self, share: WindowPartition) -> None:
        share.sending = True
        self._effects.append(share.letter())

    def _commit(self, share: WindowPartition) -> None:
        share.changed = False
        saving = share.to_save()
        if saving is not None:
            share.saving = saving
            self._effects.append(Commit(share.at, share.term, saving.offset, saving.metadata))

    def _commit_soon(self, now: int) -> None:
        if self._commit_at is None:
            self._commit_at = now + self._policy.commit_interval_ms

    def _drain(self, share: WindowPartition, now: int) -> None:
        """Let go of the partition when all that can be finished is, or when its time is up."""
        assert share.drain_until is not None
        late = now >= share.drain_until
        if late and share.running:
            for entry in share.entries:
                if entry.state is RecordState.RUNNING:
                    entry.state = RecordState.DROPPED
                    self._effects.append(Cancel(entry))
        if now >= share.drain_until + LAST_COMMIT_MS:
            self._release(share)
            return
        leaving = share.leaving is not None or share.outbox.has_waiting()
        busy = share.saving is not None or share.sending
        if busy or (not late and (share.running or leaving)):
            if late:
                self._turns.look_at(share, share.drain_until + LAST_COMMIT_MS)
            return
        if share.changed:
            self._commit(share)
        if share.saving is None:
            self._release(share)
        else:
            self._turns.look_at(share, share.drain_until + LAST_COMMIT_MS)

    def _release(self, share: WindowPartition) -> None:
        self._drop(share)
        self._effects.append(Release(share.at))

    def _drop(self, share: WindowPartition) -> None:
        for entry in share.entries:
            if entry.state is RecordState.RUNNING:
                self._effects.append(Cancel(entry))
            entry.state = RecordState.DROPPED
        share.outbox.drop_waiting()
        del self._shares[share.at]

    def _fail(self, entry: WindowRecord, detail: str) -> None:
        self._failed = True
        self._effects.append(Fail(entry.share.at, entry.record.offset, detail))

    def _of_term(self, at: TopicPartition, term: int) -> WindowPartition | None:
        share = self._shares.get(at)
        return share if share is not None and share.term == term else None
