"""The sliding window: many records in flight per partition, and the offset that may be committed.

In: partitions assigned and revoked, records, ends of handlers, time. Out: effects (effects.py) for
a driver to execute. The driver gives responses of brokers to the guarantee.
Always: a record is finished when its handler succeeded or another topic has it; the committed
offset is the end of the finished prefix; records of one lane never overlap; at most a window of
records is in flight per partition, however many were fetched.
Not here: one partition's records (window_partition.py), when a handler runs (handler_calls.py),
what follows its end (at_least_once.py, exactly_once.py), drains (window_state.py), threads and
requests to brokers (runner.py).
"""

from collections.abc import Iterable
from typing import Generic, TypeVar

from barnabas.client.producer.record import ProducerRecord
from barnabas.client.workers.dead_letter_headers import Incoming, clean_cause, trail_of
from barnabas.client.workers.window.effects import Cancel, Effect, Pause, Release
from barnabas.client.workers.window.window_partition import (
    RecordState,
    WindowPartition,
    WindowRecord,
)
from barnabas.client.workers.window.window_state import Guarantee, WindowState
from barnabas.client.workers.window.window_view import WindowView, view_of
from barnabas.model.ids import TopicPartition

G = TypeVar("G", bound=Guarantee)
_STAYS = (
    RecordState.RUNNING,
    RecordState.LEAVING,
    RecordState.HANDLED,
    RecordState.WRITING,
    RecordState.FINISHED,
)  # when a partition is revoked


class Window(Generic[G]):
    """All partitions of one worker. `guarantee` takes the responses of brokers."""

    def __init__(self, state: WindowState, guarantee: G) -> None:
        state.guarantee = guarantee
        self._state = state
        self.guarantee = guarantee
        self._policy = state.policy
        self._shares = state.shares
        self._calls = state.calls
        self._term = 0

    # Partitions: assigned, revoked, lost

    def given(self, at: TopicPartition, committed: int, metadata: str, now: int) -> list[Effect]:
        """A partition was assigned; `committed` and `metadata`: the group's, or -1 and ""."""
        if at in self._shares:
            self._state.drop(self._shares[at])
        self._term += 1
        self._shares[at] = WindowPartition(at, self._term, committed, metadata)
        return self._state.act(now)

    def revoke(
        self, partitions: Iterable[TopicPartition], now: int, drain_ms: int | None = None
    ) -> list[Effect]:
        """Partitions were revoked. Handlers and moves of records may finish; then `Release`.

        `drain_ms`: how long that may take; by default as long as the policy says.
        """
        drain_ms = self._policy.drain_ms if drain_ms is None else drain_ms
        for at in partitions:
            share = self._shares.get(at)
            if share is None:
                self._state.effects.append(Release(at))
                continue
            if share.draining:
                continue
            share.drain_until = now + drain_ms
            for entry in share.entries:
                if entry.state not in _STAYS:
                    entry.state = RecordState.DROPPED
            self._calls.look_at(share, share.drain_until)
            self._state.advance(share, now)
        return self._state.act(now)

    def lost(self, partitions: Iterable[TopicPartition], now: int) -> list[Effect]:
        """The partitions belong to another worker already: a commit now would be wrong."""
        for at in partitions:
            if at in self._shares:
                self._state.drop(self._shares[at])
        return self._state.act(now)

    # Records

    def fetched(self, at: TopicPartition, records: Iterable[Incoming], now: int) -> list[Effect]:
        """Add records of one partition, in order; `wanted_from` says how many were taken."""
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
            self._state.effects.append(Pause(at))
        return self._state.act(now)

    def reached(self, at: TopicPartition, offset: int, now: int) -> list[Effect]:
        """All records before this offset were given to `fetched`. The last offsets may belong to
        markers of transactions, or to aborted records: without them the group would seem to lag.
        """
        share = self._shares.get(at)
        if share is not None and not share.draining and offset > share.position:
            share.skip(offset - 1)
            self.guarantee.changed(share, now)
        return self._state.act(now)

    def wanted_from(self, at: TopicPartition) -> int | None:
        """The offset to fetch from; None if no more records are wanted."""
        share = self._shares.get(at)
        return None if share is None or share.draining else share.position

    def succeeded(
        self, entry: WindowRecord, now: int, results: tuple[ProducerRecord, ...] = ()
    ) -> list[Effect]:
        """The handler succeeded, possibly after it was cancelled too late.

        `results`: the records that must be written exactly once.
        """
        share = self._calls.ended(entry)
        if entry.state is RecordState.RUNNING:
            entry.results = results
            self.guarantee.handled(share, entry, now)
        if share.draining or share.outbox.has_waiting():
            self._state.advance(share, now)
        return self._state.act(now)

    def failed(
        self, entry: WindowRecord, cause: str, now: int, *, reject: bool = False
    ) -> list[Effect]:
        """The handler raised. `reject`: a retry cannot help."""
        share = self._calls.ended(entry)
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
                    self._calls.delay(entry, now + self._policy.retry.backoff_ms(entry.failures))
            else:
                entry.state = RecordState.LEAVING
                self.guarantee.gave_up(share, entry, now)
        self._state.advance(share, now)
        return self._state.act(now)

    def cancelled(self, entry: WindowRecord, now: int) -> list[Effect]:
        """The call was cancelled by us: it timed out, or its partition was revoked."""
        limit_ms = self._policy.timeout_ms
        cause = "CancelledError: the call was cancelled"
        if limit_ms is not None:
            cause = f"TimeoutError: no end after {limit_ms / 1000:g} s"
        return self.failed(entry, cause, now)

    def _admit(self, share: WindowPartition, record: Incoming, now: int) -> None:
        policy, outbox = self._policy, share.outbox
        trail = trail_of(record, policy.group, policy.retry_topic)
        intent = outbox.intent
        if intent is not None and share.leaving is None:
            if record.offset == intent.offset:
                share.admit_intended(record, trail, intent)
                self._state.advance(share, now)
                return
            if record.offset > intent.offset:  # the record of the intent was deleted since
                outbox.forget()
                share.changed = True
        # Moved by an earlier worker; or of another group, in a retry topic that groups share.
        if outbox.is_gone(record.offset) or trail.group != policy.group:
            share.skip(record.offset)
            self.guarantee.changed(share, now)
            return
        entry = WindowRecord(record, trail, share)
        if share.admit(entry, policy.order):
            self._calls.take(entry, now)

    # Time

    def tick(self, now: int) -> list[Effect]:
        for due in self._calls.due(now):
            if isinstance(due, Cancel):
                self._state.effects.append(due)
            else:
                self._state.advance(due, now)
        self.guarantee.tick(now)
        return self._state.act(now)

    def next_deadline(self) -> int | None:
        """When `tick` has something to do."""
        deadlines = (self._calls.next_deadline(), self.guarantee.next_deadline())
        return min((at for at in deadlines if at is not None), default=None)

    # What a driver may read

    def views(self) -> list[WindowView]:
        """For people: where each window begins and ends, and what holds it up."""
        return [view_of(share) for share in self._state.shares.values()]

    @property
    def partitions(self) -> list[TopicPartition]:
        return list(self._shares)
