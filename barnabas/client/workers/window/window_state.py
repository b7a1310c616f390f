"""What the parts of a window share: its partitions, when handlers run, the effects so far, a drain.

In: calls of window.py and of the guarantee (at_least_once.py, exactly_once.py). Out: effects.
Always: a revoked partition is released within the drain time and LAST_COMMIT_MS, and no unfinished
record of it is committed; a partition that was dropped is never used again.
Not here: what a finished record leads to (the guarantee).
"""

from collections.abc import Mapping
from typing import Protocol

from barnabas.client.workers.policy import Policy
from barnabas.client.workers.window.effects import Cancel, Effect, Fail, Release, Resume, SendLetter
from barnabas.client.workers.window.handler_calls import HandlerCalls
from barnabas.client.workers.window.window_partition import (
    RecordState,
    WindowPartition,
    WindowRecord,
)
from barnabas.model.ids import TopicPartition

ASK_AGAIN_MS = 500  # after a commit, a send, a transaction or a request for a producer id failed
LAST_COMMIT_MS = 5_000  # for the commit after a drain


class Guarantee(Protocol):
    """How the end of a record gets to the brokers: at least once, or exactly once.

    `acts`: something may wait for the end of an event.
    """

    acts: bool

    def handled(self, share: WindowPartition, entry: WindowRecord, now: int) -> None:
        """The handler succeeded."""

    def gave_up(self, share: WindowPartition, entry: WindowRecord, now: int) -> None:
        """The record failed all its attempts here, and goes to another topic."""

    def changed(self, share: WindowPartition, now: int) -> None:
        """The finished prefix grew without a handler."""

    def step(self, share: WindowPartition, now: int) -> None:
        """Continue what waits in this partition."""

    def is_settled(self, share: WindowPartition, now: int, *, late: bool) -> bool:
        """Whether a drained partition can be released. Otherwise its last commit is started.

        `late`: the drain time is over.
        """

    def tick(self, now: int) -> None: ...

    def next_deadline(self) -> int | None: ...

    def act(self, now: int) -> None:
        """All of an event is known: start what is due."""


class WindowState:
    """Of one worker. `partitions`: how many the retry and dead-letter topic have."""

    def __init__(self, policy: Policy, partitions: Mapping[str, int]) -> None:
        self.policy = policy
        self.partitions = dict(partitions)
        self.shares: dict[TopicPartition, WindowPartition] = {}
        self.calls = HandlerCalls(policy)
        self.effects: list[Effect] = []
        self.failed = False
        self.guarantee: Guarantee  # set by the window

    def act(self, now: int) -> list[Effect]:
        """Start handlers and commits. Returns all effects since the last call."""
        if self.guarantee.acts:
            self.guarantee.act(now)
        if not self.failed:
            self.calls.start(now, self.effects)
        effects, self.effects = self.effects, []
        return effects

    def of_term(self, at: TopicPartition, term: int) -> WindowPartition | None:
        share = self.shares.get(at)
        return share if share is not None and share.term == term else None

    def is_current(self, share: WindowPartition) -> bool:
        return self.shares.get(share.at) is share

    # Records

    def finish(self, share: WindowPartition, entry: WindowRecord, now: int) -> None:
        share.finish(entry)
        if entry.lane is not None:
            self.pass_lane(share, entry, now)
        if share.paused:
            self.resume(share)

    def pass_lane(self, share: WindowPartition, entry: WindowRecord, now: int) -> None:
        """The next record of the lane may run."""
        following = share.leave_lane(entry)
        if following is not None and following.state is RecordState.BEHIND:
            self.calls.take(following, now)

    def resume(self, share: WindowPartition) -> None:
        """Fetch again if half of the window is free."""
        if share.paused and not share.draining and len(share.entries) <= self.policy.window // 2:
            share.paused = False
            self.effects.append(Resume(share.at))

    def fail(self, at: TopicPartition, offset: int, detail: str) -> None:
        self.failed = True
        self.effects.append(Fail(at, offset, detail))

    def fail_without_dlq(self, entry: WindowRecord) -> None:
        trail = entry.trail
        said = f"{trail.cause} (attempt {trail.attempts}; set dlq to continue without it)"
        self.fail(entry.share.at, entry.record.offset, said)

    # Partitions

    def advance(self, share: WindowPartition, now: int) -> None:
        """Continue what waits, and the drain, by one step."""
        if not self.is_current(share):
            return
        self.guarantee.step(share, now)
        if share.draining:
            self._drain(share, now)

    def drop(self, share: WindowPartition) -> None:
        for entry in share.entries:
            if entry.state is RecordState.RUNNING:
                self.effects.append(Cancel(entry))
            entry.state = RecordState.DROPPED
        share.outbox.drop_waiting()
        del self.shares[share.at]

    def _drain(self, share: WindowPartition, now: int) -> None:
        """Release the partition when its records are finished, or after the drain time."""
        assert share.drain_until is not None
        late = now >= share.drain_until
        if late and share.running:
            for entry in share.entries:
                if entry.state is RecordState.RUNNING:
                    entry.state = RecordState.DROPPED
                    self.effects.append(Cancel(entry))
        if now >= share.drain_until + LAST_COMMIT_MS:
            self._release(share)
        elif late or not share.running:
            if self.guarantee.is_settled(share, now, late=late):
                self._release(share)
            else:
                self.calls.look_at(share, share.drain_until + LAST_COMMIT_MS)

    def _release(self, share: WindowPartition) -> None:
        self.drop(share)
        self.effects.append(Release(share.at))


class IntentSender:
    """Sends the record of an intent, and takes the responses. The intent may be an earlier
    worker's.
    """

    def __init__(self, state: WindowState) -> None:
        self._state = state

    def send(self, share: WindowPartition) -> None:
        share.sending = True
        letter: SendLetter = share.letter()
        self._state.effects.append(letter)

    def sent(self, at: TopicPartition, term: int, now: int) -> list[Effect]:
        """The target has the record, written now or earlier."""
        share = self._sending(at, term)
        if share is not None:
            share.outbox.sent()
            self._state.finish(share, share.take_leaving(), now)
            self._state.guarantee.changed(share, now)
            self._state.advance(share, now)
        return self._state.act(now)

    def send_failed(self, at: TopicPartition, term: int, now: int) -> list[Effect]:
        """No response, or a retriable error: the target may have the record or not."""
        share = self._sending(at, term)
        if share is not None:
            self._state.calls.look_at(share, now + ASK_AGAIN_MS)
        return self._state.act(now)

    def send_out_of_order(self, at: TopicPartition, term: int, now: int) -> list[Effect]:
        """The target no longer knows our sequence numbers, and does not have the record."""
        share = self._sending(at, term)
        if share is not None:
            share.outbox.forget()
            share.changed = True
            self._state.guarantee.gave_up(share, share.take_leaving(), now)
            self._state.advance(share, now)
        return self._state.act(now)

    def send_refused(self, at: TopicPartition, term: int, detail: str, now: int) -> list[Effect]:
        """The target will never accept the record: it is too large, or not allowed."""
        share = self._sending(at, term)
        if share is not None:
            assert share.leaving is not None
            self._state.fail(at, share.leaving.record.offset, detail)
        return self._state.act(now)

    def _sending(self, at: TopicPartition, term: int) -> WindowPartition | None:
        share = self._state.of_term(at, term)
        if share is None or not share.sending:
            return None
        share.sending = False
        return share
