"""What the three simpler threading models share: a run that can be stopped, and its first error.

Always: SIGTERM and SIGINT, on the main thread, stop a run after the current records; the second
signal ends the process. A record that fails stops the run, and is not committed.
Not here: the models themselves (per_thread.py, per_batch.py, per_range.py).
"""

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic

from barnabas.client.blocking.consumer import Consumer
from barnabas.client.consumer.message import K, Message, RawMessage, V
from barnabas.client.consumer.offset_lookup import Rebalancing
from barnabas.client.workers.calls import HandlerFailed, Opener
from barnabas.client.workers.dead_letter_headers import cause_of
from barnabas.config.client import Settings, Value
from barnabas.model.errors import Fenced
from barnabas.model.ids import TopicPartition

_log = logging.getLogger("barnabas.workers")
POLL_S = 0.5
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class WorkerRun:
    """One run: its options, whether it must stop, and its error."""

    def __init__(
        self,
        handler: Callable[[Any], None],
        opener: Opener[Any, Any],
        settings: dict[str, object],
    ) -> None:
        self._handler = handler
        self._opener = opener
        self.settings = settings
        self.stopping = threading.Event()
        self.failure: BaseException | None = None

    def call(self, message: RawMessage) -> None:
        """Calls the handler on one message; its error names the record."""
        try:
            self._handler(self._opener.open(message))
        except Exception as problem:
            at = TopicPartition(message.topic, message.partition)
            raise HandlerFailed(at, message.offset, cause_of(problem)) from problem

    def fail(self, problem: BaseException) -> None:
        if self.failure is None:
            self.failure = problem
        self.stopping.set()

    def guarded(self, work: Callable[..., None], *arguments: object) -> None:
        """Runs in a thread; an error becomes the error of the run."""
        try:
            work(*arguments)
        except BaseException as problem:
            self.fail(problem)


class ThreadCommits:
    """The offsets that a thread has handled and not committed yet."""

    def __init__(self) -> None:
        self._offsets: dict[tuple[str, int], int] = {}

    def handled(self, message: RawMessage) -> None:
        self._offsets[message.topic, message.partition] = message.offset + 1

    def forget(self) -> None:
        self._offsets.clear()

    def commit(self, consumer: Consumer[Any, Any]) -> None:
        """Commit. If a rebalance is in progress, the commit is repeated when the partitions are
        revoked. If they belong to another member already, that member handles the records again.
        """
        if not self._offsets:
            return
        try:
            consumer.commit(self._offsets)
        except Rebalancing:
            return
        except Fenced as problem:
            _log.warning("%s: not committed, another member will handle its records again", problem)
        self._offsets.clear()


class Worker(Generic[K, V]):
    """A function that can be run on threads. A call of it calls the decorated function."""

    def __init__(
        self,
        handler: "Callable[[Message[K, V]], None]",
        work: Callable[[WorkerRun], None],
        opener: Opener[Any, Any],
        settings: Settings | None,
        options: dict[str, Value],
    ) -> None:
        self._handler = handler
        self._work = work
        self._opener = opener
        self._settings = settings
        self._options = options
        self._runs: list[WorkerRun] = []
        self.__doc__ = handler.__doc__
        self.__name__ = getattr(handler, "__name__", "handler")

    def __call__(self, message: "Message[K, V]") -> None:
        self._handler(message)

    def run(self, **options: Value) -> None:
        """Work until `stop`, SIGTERM or SIGINT. `options`: further client options."""
        settings = dict(self._settings or {})
        for name, value in {**self._options, **options}.items():
            settings[name.replace("_", ".")] = value
        run = WorkerRun(self._handler, self._opener, settings)
        self._runs.append(run)
        try:
            with _signals(run):
                run.guarded(self._work, run)
        finally:
            self._runs.remove(run)
        if run.failure is not None:
            raise run.failure

    def stop(self) -> None:
        """End every run of this function, from any thread."""
        for run in list(self._runs):
            run.stopping.set()


@contextmanager
def _signals(run: WorkerRun) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in _SIGNALS}

    def stop(*_: object) -> None:
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        run.stopping.set()

    for number in _SIGNALS:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
