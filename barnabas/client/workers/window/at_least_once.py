"""At least once: commits the end of the finished prefix, and moves failed records by intents.

In: records that were handled or given up, responses to commits. Out: effects.
Always: one commit of a partition is in flight at a time; a failed record leaves only after its
intent is committed, so that it is written exactly once (docs/adr/0011).
Not here: the intents themselves (outbox.py), sending them (window_state.py).
"""

from barnabas.client.workers.window.effects import Commit, Effect, Identify
from barnabas.client.workers.window.outbox import LetterProducer
from barnabas.client.workers.window.window_partition import WindowPartition, WindowRecord
from barnabas.client.workers.window.window_state import ASK_AGAIN_MS, IntentSender, WindowState
from barnabas.model.ids import TopicPartition


class AtLeastOnce:
    """Commits for all partitions of one worker."""

    acts = False

    def __init__(self, state: WindowState) -> None:
        self._state = state
        self._commit_at: int | None = None
        self.letters = IntentSender(state)

    # Called by the window

    def handled(self, share: WindowPartition, entry: WindowRecord, now: int) -> None:
        self._state.finish(share, entry, now)
        if self._commit_at is None:
            self._commit_at = now + self._state.policy.commit_interval_ms

    def gave_up(self, share: WindowPartition, entry: WindowRecord, now: int) -> None:
        share.outbox.wait(entry)

    def changed(self, share: WindowPartition, now: int) -> None:
        if self._commit_at is None:
            self._commit_at = now + self._state.policy.commit_interval_ms

    def step(self, share: WindowPartition, now: int) -> None:
        outbox = share.outbox
        if share.drain_until is not None and now >= share.drain_until:
            outbox.drop_waiting()
        if share.saving is not None or share.sending:
            return
        waiting = outbox.next_waiting(share.finished_prefix())
        if outbox.intent is None and waiting is not None:
            self._intend(share, waiting, now)
        elif outbox.intent is not None and share.leaving is not None:
            if outbox.intent == share.saved.intent:
                self.letters.send(share)
            else:
                self._commit(share)
        elif share.changed:
            self.changed(share, now)

    def is_settled(self, share: WindowPartition, now: int, *, late: bool) -> bool:
        leaving = share.leaving is not None or share.outbox.has_waiting()
        if share.saving is not None or share.sending or (leaving and not late):
            return False
        if share.changed:
            self._commit(share)
        return share.saving is None

    def tick(self, now: int) -> None:
        if self._commit_at is not None and self._commit_at <= now:
            self._commit_at = None
            for share in list(self._state.shares.values()):
                if share.changed and share.saving is None:
                    self._commit(share)

    def next_deadline(self) -> int | None:
        return self._commit_at

    def act(self, now: int) -> None:
        """Nothing waits for the end of an event."""

    # Responses

    def committed(self, at: TopicPartition, term: int, now: int) -> list[Effect]:
        share = self._state.of_term(at, term)
        if share is not None and share.saving is not None:
            share.saved, share.saving = share.saving, None
            self._state.advance(share, now)
        return self._state.act(now)

    def commit_failed(self, at: TopicPartition, term: int, now: int) -> list[Effect]:
        """No response, or a retriable error."""
        share = self._state.of_term(at, term)
        if share is not None and share.saving is not None:
            share.saving = None
            share.changed = True
            self._state.calls.look_at(share, now + ASK_AGAIN_MS)
        return self._state.act(now)

    def identified(
        self, at: TopicPartition, term: int, identity: LetterProducer, now: int
    ) -> list[Effect]:
        share = self._state.of_term(at, term)
        if share is not None and share.identifying:
            share.identifying = False
            share.outbox.identity = identity
            self._state.advance(share, now)
        return self._state.act(now)

    def identify_failed(self, at: TopicPartition, term: int, now: int) -> list[Effect]:
        share = self._state.of_term(at, term)
        if share is not None and share.identifying:
            share.identifying = False
            self._state.calls.look_at(share, now + ASK_AGAIN_MS)
        return self._state.act(now)

    # Inside

    def _intend(self, share: WindowPartition, entry: WindowRecord, now: int) -> None:
        """The next record to move: its target, and its sequence number."""
        state, outbox = self._state, share.outbox
        way = state.policy.way_out(entry.trail.round, now, reject=entry.reject)
        if way is None:
            outbox.take_waiting()
            state.fail_without_dlq(entry)
            return
        if outbox.identity is None:
            if not share.identifying:
                share.identifying = True
                state.effects.append(Identify(share.at, share.term))
            return
        share.intend(entry, way, state.partitions[way.topic])
        self._commit(share)

    def _commit(self, share: WindowPartition) -> None:
        share.changed = False
        saving = share.to_save()
        if saving is not None:
            share.saving = saving
            commit = Commit(share.at, share.term, saving.offset, saving.metadata)
            self._state.effects.append(commit)
