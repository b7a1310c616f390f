"""Runs a sliding window on an event loop: executes the window's effects.

In: a consumer, a handler. Out: calls of the handler.
Always: the loop polls however slow the handlers are, so the group does not remove this worker; only
the offsets that the window returns are committed; a stop drains first.
Not here: deciding (window/), requests other than fetches (commit_requests.py,
transaction_writer.py).
"""

import asyncio
import inspect
import time
from bisect import bisect_left
from collections.abc import Coroutine
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
from barnabas.client.producer.record import ProducerRecord
from barnabas.client.workers.calls import HandlerFailed, UndecodableRecord, is_blocking
from barnabas.client.workers.commit_requests import CommitRequests
from barnabas.client.workers.dead_letter_headers import cause_of
from barnabas.client.workers.driver import GuaranteeRequests, log
from barnabas.client.workers.policy import Reject
from barnabas.client.workers.pool import Pool
from barnabas.client.workers.topics import prepared
from barnabas.client.workers.window.at_least_once import AtLeastOnce
from barnabas.client.workers.window.effects import (
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
    WriteTransaction,
)
from barnabas.client.workers.window.window import Window
from barnabas.client.workers.window.window_partition import RecordState, WindowRecord
from barnabas.client.workers.window.window_state import WindowState
from barnabas.client.workers.window.window_view import WindowView
from barnabas.client.workers.worker_setup import WorkerSetup
from barnabas.config.client import ClientConfig, Value
from barnabas.model.errors import KafkaError, Retriable
from barnabas.model.ids import TopicPartition

Written = tuple[ProducerRecord, ...]
_REQUESTS = (Commit, WriteTransaction, Identify, SendLetter)
_POLL_S = 0.25  # how soon a stop is noticed
_DRAIN_POLL_S = 0.05
_END_S_MAX = 5.0
_POSITIONS_MS = 1_000
_RECORDS_MAX = 500
_offset = attrgetter("offset")


class Runner:
    """One run of one worker."""

    def __init__(self, setup: WorkerSetup) -> None:
        self._setup = setup
        self._policy = setup.policy
        self._stop = asyncio.Event()
        self._failure: BaseException | None = None
        self._calls: dict[WindowRecord, asyncio.Future[Written]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._released: dict[TopicPartition, asyncio.Event] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._positions_at = 0  # when the window next gets the positions of the consumer
        self._loop = asyncio.get_running_loop()
        self._wall_ms = int(time.time() * 1000) - time.monotonic_ns() // 1_000_000

    def stop(self) -> None:
        """Let handlers finish, commit, and leave the group."""
        self._stop.set()

    def windows(self) -> list[WindowView]:
        """Of every partition that this worker has, while it runs."""
        window = getattr(self, "_window", None)
        return [] if window is None else window.views()

    async def run(self) -> None:
        cluster = open_cluster(self._setup.settings, self._all_options())
        try:
            wanted = [self._policy.retry_topic, self._policy.dlq]
            counts = await prepared(Admin(cluster=cluster), wanted, like=self._setup.topics[0])
            self._poll_interval_ms = cluster.config.max_poll_interval_ms
            self._prepare(cluster, WindowState(self._policy, counts))
            self._pool: Pool[Written] | None = None
            if is_blocking(self._setup.handler):
                self._pool = Pool(self._policy.concurrency)
            try:
                await self._requests.open()
                await self._consume(cluster)
            finally:
                await self._requests.close()
        finally:
            cluster.close()
        if self._failure is not None:
            raise self._failure

    def _all_options(self) -> dict[str, Value]:
        options: dict[str, Value] = {**self._setup.options, "enable_auto_commit": False}
        if self._policy.exactly_once:
            from barnabas.client.workers.transaction_writer import transaction_options

            options |= transaction_options(ClientConfig(self._setup.settings, **options))
        return options

    def _prepare(self, cluster: ClusterClient, state: WindowState) -> None:
        self._window: Window[Any]
        self._requests: GuaranteeRequests
        if self._policy.exactly_once:
            from barnabas.client.workers.transaction_writer import TransactionWriter
            from barnabas.client.workers.window.exactly_once import ExactlyOnce

            transactions = ExactlyOnce(state)
            self._window = Window(state, transactions)
            self._requests = TransactionWriter(self, cluster, transactions)
        else:
            commits = AtLeastOnce(state)
            self._window = Window(state, commits)
            self._requests = CommitRequests(self, cluster, commits)

    # --- the loop ---

    async def _consume(self, cluster: ClusterClient) -> None:
        retry = [self._policy.retry_topic] if self._policy.retry_topic else []
        self.consumer: Consumer[Raw, Raw] = Consumer(
            *dict.fromkeys([*self._setup.topics, *retry]),
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
                self.fail(problem)  # handled records can still be committed
            await self._drain()
            await self.consumer.close()
        finally:
            await self._end()

    async def _poll(self) -> None:
        messages = await self.consumer.getmany(_RECORDS_MAX, _POLL_S)
        now = self.now()
        for at, group in groupby(messages, key=_partition_of):
            fetched = list(group)
            effects = self._window.fetched(at, fetched, now)
            wanted_from = self._window.wanted_from(at)
            if wanted_from is not None and fetched[-1].offset >= wanted_from:
                self.consumer.give_back(fetched[bisect_left(fetched, wanted_from, key=_offset) :])
            self.do(effects)
        if now >= self._positions_at:
            self._positions_at = now + _POSITIONS_MS
            for at, place in self.consumer._positions().items():
                self.do(self._window.reached(at, place.offset, now))

    async def _drain(self) -> None:
        """Let calls finish. Heartbeats continue meanwhile, or the last commit would be refused."""
        self.do(self._window.revoke(self._window.partitions, self.now()))
        while self._window.partitions:
            self.consumer.pause()
            try:
                await self.consumer.getmany(1, _DRAIN_POLL_S)
            except KafkaError:
                if self._failure is None:
                    raise
                await asyncio.sleep(_DRAIN_POLL_S)

    async def _end(self) -> None:
        """Ends all tasks, threads and connections, also after an error."""
        now = self.now()
        self.do(self._window.lost(self._window.partitions, now))
        if self._timer is not None:
            self._timer.cancel()
        pending: list[asyncio.Future[Any]] = [*self._tasks]
        if self._pool is None:
            pending += self._calls.values()
        else:
            self._pool.close()
        for task in pending:
            task.cancel()
        if pending:  # a handler that swallows its cancellation is left behind
            await asyncio.wait(pending, timeout=_END_S_MAX)
        await self.consumer.close()

    # --- the group ---

    async def _assigned(
        self, consumer: Consumer[Raw, Raw], partitions: list[TopicPartition], cause: Cause
    ) -> None:
        if not partitions or self._stop.is_set():
            return
        committed = await self._committed(consumer, partitions)
        for at in partitions:
            place = committed.get(at, Committed(-1))
            self.do(self._window.given(at, place.offset, place.metadata, self.now()))

    async def _committed(
        self, consumer: Consumer[Raw, Raw], partitions: list[TopicPartition]
    ) -> dict[TopicPartition, Committed]:
        """Reads the committed offsets, and retries: an outage of the brokers must not
        end a worker.
        """
        while True:
            try:
                return await consumer.committed(*partitions)
            except Retriable as problem:
                if self._stop.is_set():
                    raise
                log.warning("cannot read the committed offsets yet, retrying: %s", problem)

    async def _revoked(
        self, consumer: Consumer[Raw, Raw], partitions: list[TopicPartition], cause: Cause
    ) -> None:
        waiting = {at: asyncio.Event() for at in partitions}
        self._released.update(waiting)
        # A rebalance runs within one poll: it must end before max.poll.interval.ms.
        longest = self._poll_interval_ms // 2
        drain_ms = min(self._policy.drain_ms, longest)
        self.do(self._window.revoke(partitions, self.now(), drain_ms))
        for event in waiting.values():
            await event.wait()

    def _lost(
        self, consumer: Consumer[Raw, Raw], partitions: list[TopicPartition], cause: Cause
    ) -> None:
        for at in partitions:
            self._requests.forget(at)
        self.do(self._window.lost(partitions, self.now()))

    # --- effects ---

    def now(self) -> int:
        """Close to wall-clock time, but it never goes back."""
        return self._wall_ms + time.monotonic_ns() // 1_000_000

    def do(self, effects: list[Effect]) -> None:
        requests: list[Effect] = []
        for effect in effects:
            if isinstance(effect, Start):
                self._start(effect.entry)
            elif isinstance(effect, _REQUESTS):
                requests.append(effect)
            else:
                self._do_rarer(effect)
        if requests:
            self._requests.start(requests)
        self._set_timer()

    def _do_rarer(self, effect: Effect) -> None:
        match effect:
            case Cancel():
                call = self._calls.get(effect.entry)
                if call is None:
                    return
                if self._pool is None:
                    call.cancel()
                elif effect.entry.state is RecordState.RUNNING:  # it timed out: it may hang
                    self._pool.abandon(call)
            case Pause():
                if effect.at in self.consumer.assignment():
                    self.consumer.pause(effect.at)
            case Resume():
                if effect.at in self.consumer.assignment():
                    self.consumer.resume(effect.at)
            case Release():
                self._requests.forget(effect.at)
                if effect.at in self._released:
                    self._released.pop(effect.at).set()
            case Fail():
                self.fail(HandlerFailed(effect.at, effect.offset, effect.detail))

    def fail(self, problem: BaseException) -> None:
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
            self._timer = self._loop.call_later(max(0, due - self.now()) / 1000, self._tick)

    _timer_at = 0

    def _tick(self) -> None:
        self._timer = None
        self.do(self._window.tick(self.now()))

    def spawn(self, flow: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task: asyncio.Task[None] = self._loop.create_task(flow)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # --- calls ---

    def _start(self, entry: WindowRecord) -> None:
        message = cast("RawMessage", entry.record)
        call: asyncio.Future[Written]
        if self._pool is not None:
            call = self._pool.submit(partial(self._call_blocking, message))
        else:
            call = self._loop.create_task(self._call(message))
        self._calls[entry] = call
        call.add_done_callback(lambda call: self._ended(entry, call))

    async def _call(self, raw: RawMessage) -> Written:
        result = await self._setup.handler(self._setup.opener.open(raw))
        if result is None:
            return ()
        return await self._requests.take(self._setup.encoder.encode(result))

    def _call_blocking(self, raw: RawMessage) -> Written:
        result = self._setup.handler(self._setup.opener.open(raw))
        # a plain function that returned an awaitable: the record is handled when it ends
        if inspect.iscoroutine(result):
            result = asyncio.run_coroutine_threadsafe(result, self._loop).result()
        if result is None:
            return ()
        taking = self._requests.take(self._setup.encoder.encode(result))
        return asyncio.run_coroutine_threadsafe(taking, self._loop).result()

    def _ended(self, entry: WindowRecord, call: "asyncio.Future[Written]") -> None:
        del self._calls[entry]
        now = self.now()
        if call.cancelled():
            self.do(self._window.cancelled(entry, now))
            return
        error = call.exception()
        if error is None:
            self.do(self._window.succeeded(entry, now, call.result()))
            return
        record = entry.record
        where = f"{record.topic}-{record.partition}, offset {record.offset}"
        if not isinstance(error, Exception):
            self.fail(error)
        cause = cause_of(error)
        log.warning("%s: attempt %d failed: %s", where, entry.trail.attempts + 1, cause)
        reject = isinstance(error, Reject | UndecodableRecord)
        self.do(self._window.failed(entry, cause, now, reject=reject))


def _partition_of(message: Message[Any, Any]) -> TopicPartition:
    return TopicPartition(message.topic, message.partition)
