"""Runs a worker of a share group on an event loop: takes records, calls the handler, acknowledges.

In: a share consumer, a handler. Out: calls of the handler.
Always: at most `concurrency` records are held; results of a call are written before its record is
accepted; a stop lets calls finish, and releases the rest.
Not here: deciding (share_calls.py), requests (client/share/).
"""

import asyncio
import inspect
import time
from functools import partial
from typing import Any

from barnabas.client.aio import open_cluster
from barnabas.client.consumer.message import RawMessage
from barnabas.client.share.acknowledge_type import AcknowledgeType
from barnabas.client.share.share_consumer import ShareConsumer
from barnabas.client.workers.calls import UndecodableRecord, is_blocking
from barnabas.client.workers.dead_letter_headers import cause_of
from barnabas.client.workers.driver import log
from barnabas.client.workers.policy import Reject
from barnabas.client.workers.pool import Pool
from barnabas.client.workers.result_writer import ResultWriter
from barnabas.client.workers.share_calls import ShareCalls
from barnabas.client.workers.window.window_view import WindowView
from barnabas.client.workers.worker_setup import WorkerSetup
from barnabas.config.client import Value
from barnabas.model.errors import InvalidRequest, KafkaError

_POLL_S = 0.25  # how soon a stop is noticed, and how long an acknowledgement waits at most
_END_S_MAX = 5.0
_LOCK_MS = 30_000  # until the broker says how long a lock lasts


class ShareRunner:
    """One run of one worker."""

    def __init__(self, setup: WorkerSetup) -> None:
        self._setup = setup
        self._policy = setup.policy
        self._stop = asyncio.Event()
        self._changed = asyncio.Event()  # a call has ended
        self._failure: BaseException | None = None
        self._machine = ShareCalls(setup.policy.concurrency, setup.policy.timeout_ms)
        self._calls: dict[int, tuple[RawMessage, asyncio.Future[None]]] = {}
        self._loop = asyncio.get_running_loop()

    def stop(self) -> None:
        """Let handlers finish, acknowledge, and leave the group."""
        self._stop.set()
        self._changed.set()

    def windows(self) -> list[WindowView]:
        """None: a share group has no windows."""
        return []

    async def run(self) -> None:
        options: dict[str, Value] = {
            **self._setup.options,
            "share_acknowledgement_mode": "explicit",
            "share_acquire_mode": "record_limit",
        }
        cluster = open_cluster(self._setup.settings, options)
        self._results = ResultWriter(cluster)
        self._pool: Pool[None] | None = None
        if is_blocking(self._setup.handler):
            self._pool = Pool(self._policy.concurrency)
        self._consumer: ShareConsumer[Any, Any] = ShareConsumer(
            *self._setup.topics, allow_unacknowledged=True, cluster=cluster
        )
        try:
            try:
                while not self._stop.is_set():
                    await self._turn()
                await self._drain()
            except KafkaError as problem:
                self._failure = self._failure or problem
            await self._end()
        finally:
            await self._results.close()
            cluster.close()
        if self._failure is not None:
            raise self._failure

    # --- the loop ---

    async def _turn(self) -> None:
        self._changed.clear()
        self._look_at_calls()
        if free := self._machine.free:
            for message in await self._consumer.poll(_POLL_S, free):
                self._start(message)
            return
        await self._consumer.commit_async()
        await self._wait_for_calls()

    async def _drain(self) -> None:
        until = self._loop.time() + self._policy.drain_ms / 1_000
        while self._calls and self._loop.time() < until:
            self._changed.clear()
            self._look_at_calls()
            await self._consumer.commit_async()
            await self._wait_for_calls()

    async def _wait_for_calls(self) -> None:
        """Until one has ended: then its acknowledgement is sent, and a record is taken."""
        try:
            await asyncio.wait_for(self._changed.wait(), _POLL_S)
        except TimeoutError:
            return

    async def _end(self) -> None:
        """Ends all calls and the membership; the brokers release what was not acknowledged."""
        calls = [call for _, call in self._calls.values()]
        if self._pool is None:
            for call in calls:
                call.cancel()
            if calls:  # a handler that swallows its cancellation is left behind
                await asyncio.wait(calls, timeout=_END_S_MAX)
        else:
            self._pool.close()
        await self._consumer.close()

    def _look_at_calls(self) -> None:
        now = _now()
        for number in self._machine.timed_out(now):
            message, call = self._calls[number]
            if self._pool is None:
                call.cancel()
            elif not self._pool.abandon(call):
                continue
            log.warning("%s: no result in %s ms", _where(message), self._policy.timeout_ms)
        for number in self._machine.renewals(now, self._lock_ms()):
            self._acknowledge(self._calls[number][0], AcknowledgeType.RENEW)

    def _lock_ms(self) -> int:
        return self._consumer.acquisition_lock_timeout_ms() or _LOCK_MS

    def _acknowledge(self, message: RawMessage, type_: AcknowledgeType) -> None:
        try:
            self._consumer.acknowledge(message, type_)
        except InvalidRequest as problem:  # too late: another member has it
            log.warning("%s", problem.detail)

    # --- calls ---

    def _start(self, message: RawMessage) -> None:
        number = self._machine.start(_now(), self._lock_ms())
        call: asyncio.Future[None]
        if self._pool is not None:
            call = self._pool.submit(partial(self._call_blocking, message))
        else:
            call = self._loop.create_task(self._call(message))
        self._calls[number] = (message, call)
        call.add_done_callback(partial(self._ended, number))

    async def _call(self, raw: RawMessage) -> None:
        result = await self._setup.handler(self._setup.opener.open(raw))
        if result is not None:
            await self._results.write(self._setup.encoder.encode(result))

    def _call_blocking(self, raw: RawMessage) -> None:
        result = self._setup.handler(self._setup.opener.open(raw))
        # a plain function that returned an awaitable: the record is handled when it ends
        if inspect.iscoroutine(result):
            result = asyncio.run_coroutine_threadsafe(result, self._loop).result()
        if result is not None:
            writing = self._results.write(self._setup.encoder.encode(result))
            asyncio.run_coroutine_threadsafe(writing, self._loop).result()

    def _ended(self, number: int, call: "asyncio.Future[None]") -> None:
        message, _ = self._calls.pop(number)
        self._changed.set()
        error = None if call.cancelled() else call.exception()
        if error is not None and not isinstance(error, Exception):
            self._failure = self._failure or error
            self.stop()
        reject = isinstance(error, Reject | UndecodableRecord)
        failed = error is not None or call.cancelled()
        if error is not None:
            what = "rejected" if reject else f"delivery {message.delivery_count} failed"
            log.warning("%s: %s: %s", _where(message), what, cause_of(error))
        type_ = self._machine.end(number, failed=failed, reject=reject)
        if type_ is not None:
            self._acknowledge(message, type_)


def _now() -> int:
    return time.monotonic_ns() // 1_000_000


def _where(message: RawMessage) -> str:
    return f"{message.topic}-{message.partition}, offset {message.offset}"
