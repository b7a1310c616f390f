"""One consumer and a pool per batch: records of a batch run at once, the batch is committed whole.

Always: nothing of a batch is committed past its first record that failed; while the pool works the
consumer keeps asking, with its partitions paused, so that a slow batch costs no membership.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

from barnabas.client.blocking.consumer import Consumer
from barnabas.client.consumer.message import K, Message, RawMessage, V
from barnabas.client.workers.calls import Deserializer, Opener
from barnabas.client.workers.policy import check_whole, invalid
from barnabas.client.workers.threads import POLL_S, ThreadCommits, Worker, WorkerRun
from barnabas.config.client import Settings, Value
from barnabas.model.ids import TopicPartition


def per_batch(
    *topics: str,
    group_id: str,
    pool: int = 16,
    batch: int = 500,
    key_deserializer: Deserializer | None = None,
    value_deserializer: Deserializer | None = None,
    settings: Settings | None = None,
    **options: Value,
) -> "Callable[[Callable[[Message[K, V]], None]], Worker[K, V]]":
    """Call a blocking function for every record: batches one after another, each by a pool."""
    check_whole("pool", pool, 1, 1_000)
    check_whole("batch", batch, 1, 100_000)
    if not topics:
        raise invalid("nothing to read: name topics")
    opener: Opener[Any, Any] = Opener(key_deserializer, value_deserializer)
    given: dict[str, Value] = {"auto_offset_reset": "earliest", **options, "group_id": group_id}

    def work(run: WorkerRun) -> None:
        reading = _Batches(run, topics, batch)
        with ThreadPoolExecutor(pool, thread_name_prefix="barnabas-worker") as hands:
            reading.read(hands)

    def make(handler: "Callable[[Message[K, V]], None]") -> Worker[K, V]:
        return Worker(handler, work, opener, settings, given)

    return make


class _Batches:
    """One consumer, and the batch in hand."""

    def __init__(self, run: WorkerRun, topics: tuple[str, ...], batch: int) -> None:
        self._run = run
        self._batch = batch
        self._calls: list[tuple[RawMessage, Future[None]]] = []
        self._commits = ThreadCommits()
        self._consumer: Consumer[Any, Any] = Consumer(
            *topics,
            {**run.settings, "enable.auto.commit": False},
            on_assigned=lambda consumer, partitions, cause: self._pause(partitions),
            on_revoked=lambda consumer, partitions, cause: self._finish(),
            on_lost=lambda consumer, partitions, cause: self._forget(),
        )

    def read(self, hands: ThreadPoolExecutor) -> None:
        with self._consumer as consumer:
            messages: list[RawMessage] = []
            while not self._run.stopping.is_set():
                messages = messages or consumer.getmany(self._batch, timeout=POLL_S)
                self._calls = [(one, hands.submit(self._run.call, one)) for one in messages]
                messages = []
                while self._calls and not messages:
                    waiting = [call for _, call in self._calls]
                    if not wait(waiting, timeout=POLL_S).not_done:
                        self._finish()
                        break
                    self._pause(consumer.assignment())
                    # All is paused: nothing comes, unless a rebalance has ended this batch.
                    messages = consumer.getmany(self._batch, timeout=0)
                if paused := consumer.paused():
                    consumer.resume(*paused)

    def _pause(self, partitions: list[TopicPartition]) -> None:
        if self._calls and partitions:
            self._consumer.pause(*partitions)

    def _finish(self) -> None:
        """Wait for the batch, commit what is finished of it, raise its first error."""
        calls, self._calls = self._calls, []
        wait([call for _, call in calls])
        failed: dict[tuple[str, int], BaseException] = {}
        for message, call in calls:
            at = (message.topic, message.partition)
            problem = call.exception()
            if problem is not None:
                failed.setdefault(at, problem)
            elif at not in failed:
                self._commits.handled(message)
        self._commits.commit(self._consumer)
        for problem in failed.values():
            raise problem

    def _forget(self) -> None:
        self._calls.clear()
        self._commits.forget()
