"""Runs a sliding window on an event loop: carries out what the window decides.

In: a consumer, a handler. Out: calls of the handler, commits, letters.
Always: the loop asks for records however slow the handlers are, so that the group never thinks
this worker dead; nothing is committed but what the window says; a stop drains first.
Not here: deciding (window.py).
"""

import asyncio
import inspect
import logging
import time
from bisect import bisect_left
from collections.abc import Callable
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Any, cast

from barnabas.client.admin.admin import Admin
from barnabas.client.aio import open_cluster
from barnabas.client.cluster import ClusterClient
from barnabas.client.consumer.consumer import Consumer
from barnabas.client.consumer.membership.membership import Cause
from barnabas.client.consumer.message import Message, Raw, RawMessage
from barnabas.client.consumer.offset_lookup import Committed
from barnabas.client.workers.calls import HandlerFailed, Opener, UndecodableRecord
from barnabas.client.workers.effects import (
    Cancel,
    Commit,
    Effect,
    Fail,
    Identify,
    Pause,
    Release,
    Resume,
    SendLetter,
    Start,
)
from barnabas.client.workers.letters import cause_of
from barnabas.client.workers.policy import Policy, Reject
from barnabas.client.workers.pool import Pool
from barnabas.client.workers.post import LetterWriter
from barnabas.client.workers.share import WindowRecord
from barnabas.client.workers.topics import prepared
from barnabas.client.workers.window import Window
from barnabas.config.client import Settings, Value
from barnabas.model.errors import Code, Fenced, KafkaError, Retriable
from barnabas.model.ids import TopicPartition

_log = logging.getLogger("barnabas.workers")
_POLL_S = 0.25  # how soon a stop is seen
_DRAIN_POLL_S = 0.05
_END_S_MAX = 5.0
_RECORDS_MAX = 500
_offset = attrgetter("offset")


class Runner:
    """One run of one worker."""

    def __init__(
        self,
        topics: tuple[str, ...],
        policy: Policy,
        handler: Callable[[Any], Any],
        opener: Opener[Any, Any],
        settings: Settings | None,
        options: dict[str, Value],
    ) -> None:
        self._topics = topics
        self._policy = policy
        self._handler = handler
        self._opener = opener
        self._settings = dict(settings or {})
        self._options = options
        self._blocking = not (
            inspect.iscoroutinefunction(handler)
            or inspect.iscoroutinefunction(getattr(handler, "__call__", None))  # noqa: B004
        )
        self._stop = asyncio.Event()
        self._failure: BaseException | None = None
        self._calls: dict[WindowRecord, asyncio.Future[None]] = {}
        self._commits: dict[TopicPartition, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._released: dict[TopicPartition, asyncio.Event] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._wall_ms = int(time.time() * 1000) - time.monotonic_ns() // 1_000_000

    def stop(self) -> None:
        """Let handlers end, commit, leave."""
        self._stop.set()

    async def run(self) -> None:
        cluster = open_cluster(self._settings, {**self._options, "enable_auto_commit": False})
        try:
            wanted = [self._policy.retry_topic, self._policy.dlq]
            counts = await prepared(Admin(cluster=cluster), wanted, like=self._topics[0])
            self._post = LetterWriter(cluster)
            self._poll_interval_ms = cluster.config.max_poll_interval_ms
            self._window = Window(self._policy, counts)
            self._pool = Pool(self._policy.concurrency) if self._blocking else None
            await self._consume(cluster)
        finally:
            cluster.close()
        if self._failure is not None:
            raise self._failure

    # --- the loop ---

    async def _consume(self, cluster: ClusterClient) -> None:
        retry = [self._policy.retry_topic] if self._policy.retry_topic else []
        self._consumer: Consumer[Raw, Raw] = Consumer(
            *dict.fromkeys([*self._topics, *retry]),
            cluster=cluster,
            on_assigned=self._assigned,
            on_revoked=self._revoked,
            on_lost=self._lost,
        )
        try:
            try:
                while not self._stop.is_set():
                    await self._poll()
            except KafkaError as problem:
                self._fail(problem)  # what was handled can still be committed
            await self._drain()
            await self._consumer.close()
        finally:
            await self._end()

    async def _poll(self) -> None:
        messages = await self._consumer.getmany(_RECORDS_MAX, _POLL_S)
        now = self._now()
        for at, group in groupby(messages, key=_partition_of):
            fetched = list(group)
            effects = self._window.fetched(at, fetched, now)
            wanted_from = self._window.wanted_from(at)
            if wanted_from is not None and fetched[-1].offset >= wanted_from:
                self._consumer.give_back(fetched[bisect_left(fetched, wanted_from, key=_offset) :])
            self._do(effects)

    async def _drain(self) -> None:
        """Let calls end. The group hears of us meanwhile, or the last commit would be refused."""
        self._do(self._window.revoke(self._window.partitions, self._now()))
        while self._window.partitions:
            self._consumer.pause()
            try:
                await self._consumer.getmany(1, _DRAIN_POLL_S)
            except KafkaError:
                if self._failure is None:
                    raise
                await asyncio.sleep(_DRAIN_POLL_S)

    async def _end(self) -> None:
        """Whatever happened: no task, no thread, no connection is left behind."""
        now = self._now()
        self._do(self._window.lost(self._window.partitions, now))
        if self._timer is not None:
            self._timer.cancel()
        pending: list[asyncio.Future[None]] = [*self._tasks]
        if self._pool is None:
            pending += self._calls.values()
        else:
            self._pool.close()
        for task in pending:
            task.cancel()
        if pending:  # a handler that swallows its cancellation is left behind
            await asyncio.wait(pending, timeout=_END_S_MAX)
        await self._consumer.close()

    # --- the group ---

    async def _assigned(
        self, consumer: Consumer[Raw, Raw], partitions: list[TopicPartition], cause: Cause
    ) -> None:
        if not partitions or self._stop.is_set():
            return
        committed = await self._committed(consumer, partitions)
        for at in partitions:
            place = committed.get(at, Committed(-1))
            self._do(self._window.given(at, place.offset, place.metadata, self._now()))

    async def _committed(
        self, consumer: Consumer[Raw, Raw], partitions: list[TopicPartition]
    ) -> dict[TopicPartition, Committed]:
        """An outage must not end a worker that waits through all others."""
        while True:
            try:
                return await consumer.committed(*partitions)
            except Retriable as problem:
                if self._stop.is_set():
                    raise
                _log.warning("where the group left off is not known yet: %s", problem)

    async def _revoked(
        self, consumer: Consumer[Raw, Raw], partitions: list[TopicPartition], cause: Cause
    ) -> None:
        waiting = {at: asyncio.Event() for at in partitions}
        self._released.update(waiting)
        # A rebalance happens within one poll: it must be over before the next one is due.
        longest = self._poll_interval_ms // 2
        drain_ms = min(self._policy.drain_ms, longest)
        self._do(self._window.revoke(partitions, self._now(), drain_ms))
        for event in waiting.values():
            await event.wait()

    def _lost(
        self, consumer: Consumer[Raw, Raw], partitions: list[TopicPartition], cause: Cause
    ) -> None:
        for at in partitions:
            self._forget_commit(at)
        self._do(self._window.lost(partitions, self._now()))

    def _forget_commit(self, at: TopicPartition) -> None:
        """It must not be tried again when the partition is another's."""
        commit = self._commits.pop(at, None)
        if commit is not None:
            commit.cancel()

    # --- effects ---

    def _now(self) -> int:
        """Close to the wall's time, but it only goes forward."""
        return self._wall_ms + time.monotonic_ns() // 1_000_000

    def _do(self, effects: list[Effect]) -> None:
        commits: list[Commit] = []
        for effect in effects:
            if isinstance(effect, Start):
                self._start(effect.entry)
            elif isinstance(effect, Commit):
                commits.append(effect)
            else:
                self._do_rarer(effect)
        if commits:
            task = self._spawn(self._commit(commits))
            for commit in commits:
                self._commits[commit.at] = task
        self._set_timer()

    def _do_rarer(self, effect: Effect) -> None:
        match effect:
            case Cancel():
                call = self._calls.get(effect.entry)
                if call is not None and not self._blocking:
                    call.cancel()
            case Pause():
                if effect.at in self._consumer.assignment():
                    self._consumer.pause(effect.at)
            case Resume():
                if effect.at in self._consumer.assignment():
                    self._consumer.resume(effect.at)
            case Identify():
                self._spawn(self._identify(effect))
            case SendLetter():
                self._spawn(self._send(effect))
            case Release():
                self._forget_commit(effect.at)
                if effect.at in self._released:
                    self._released.pop(effect.at).set()
            case Fail():
                self._fail(HandlerFailed(effect.at, effect.offset, effect.detail))

    def _fail(self, problem: BaseException) -> None:
        if self._failure is None:
            self._failure = problem
        self.stop()

    def _set_timer(self) -> None:
        due = self._window.next_deadline()
        if self._timer is not None:
            if due is not None and self._timer_at == due:
                return
            self._timer.cancel()
            self._timer = None
        if due is not None:
            self._timer_at = due
            self._timer = self._loop.call_later(max(0, due - self._now()) / 1000, self._tick)

    _timer_at = 0

    def _tick(self) -> None:
        self._timer = None
        self._do(self._window.tick(self._now()))

    def _spawn(self, flow: Any) -> "asyncio.Task[None]":
        task: asyncio.Task[None] = self._loop.create_task(flow)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # --- calls ---

    def _start(self, entry: WindowRecord) -> None:
        message = cast("RawMessage", entry.record)
        call: asyncio.Future[None]
        if self._pool is not None:
            call = self._pool.submit(partial(self._call_blocking, message))
        else:
            call = self._loop.create_task(self._call(message))
        self._calls[entry] = call
        call.add_done_callback(lambda call: self._ended(entry, call))

    async def _call(self, raw: RawMessage) -> None:
        await self._handler(self._opener.open(raw))

    def _call_blocking(self, raw: RawMessage) -> None:
        result = self._handler(self._opener.open(raw))
        if inspect.iscoroutine(result):  # a plain function that gave one: it counts when it ends
            asyncio.run_coroutine_threadsafe(result, self._loop).result()

    def _ended(self, entry: WindowRecord, call: "asyncio.Future[None]") -> None:
        del self._calls[entry]
        now = self._now()
        if call.cancelled():
            self._do(self._window.cancelled(entry, now))
            return
        error = call.exception()
        if error is None:
            self._do(self._window.succeeded(entry, now))
            return
        record = entry.record
        where = f"{record.topic}-{record.partition}, offset {record.offset}"
        if not isinstance(error, Exception):
            self._fail(error)
        cause = cause_of(error)
        _log.warning("%s: attempt %d failed: %s", where, entry.trail.attempts + 1, cause)
        reject = isinstance(error, Reject | UndecodableRecord)
        self._do(self._window.failed(entry, cause, now, reject=reject))

    # --- requests ---

    async def _commit(self, commits: list[Commit]) -> None:
        offsets = {
            commit.at: Committed(commit.offset, metadata=commit.metadata) for commit in commits
        }
        committed = False
        try:
            if self._consumer.member_id:
                await self._consumer.commit(offsets)
                committed = True
        except asyncio.CancelledError:
            pass  # one of its partitions is another's now; the others are committed again
        except (Retriable, Fenced) as problem:
            _log.info("a commit will be made again: %s", problem)
        except KafkaError as problem:
            if problem.code is not Code.REBALANCE_IN_PROGRESS:
                self._fail(problem)
        now = self._now()
        for commit in commits:
            if self._commits.get(commit.at) is asyncio.current_task():
                del self._commits[commit.at]
            answer = self._window.committed if committed else self._window.commit_failed
            self._do(answer(commit.at, commit.term, now))

    async def _identify(self, effect: Identify) -> None:
        try:
            identity = await self._post.identify()
        except Retriable as problem:
            _log.warning("no producer id yet: %s", problem)
            self._do(self._window.identify_failed(effect.at, effect.term, self._now()))
        except KafkaError as problem:
            self._fail(problem)
        else:
            self._do(self._window.identified(effect.at, effect.term, identity, self._now()))

    async def _send(self, letter: SendLetter) -> None:
        at, term = letter.at, letter.term
        try:
            there = await self._post.send(letter)
        except Retriable as problem:
            _log.warning("%s: not written yet: %s", letter.to, problem)
            self._do(self._window.send_failed(at, term, self._now()))
        except KafkaError as problem:
            self._do(self._window.send_refused(at, term, problem.detail, self._now()))
        else:
            _log.warning("%s, offset %d: moved to %s", at, letter.offset, letter.to)
            answer = self._window.sent if there else self._window.send_out_of_order
            self._do(answer(at, term, self._now()))


def _partition_of(message: Message[Any, Any]) -> TopicPartition:
    return TopicPartition(message.topic, message.partition)
