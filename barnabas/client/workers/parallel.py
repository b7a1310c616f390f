"""`@parallel(...)`: calls a function for every record of a topic, many at a time.

The sliding window behind it: window/. When to use it: docs/WORKERS.md.
"""

import asyncio
import logging
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic

from barnabas.client.consumer.message import K, Message, V
from barnabas.client.workers.calls import Opener, Serializer
from barnabas.client.workers.policy import Policy, RecordOrder, Retry, invalid
from barnabas.client.workers.results import ResultEncoder, Results
from barnabas.client.workers.worker_setup import WorkerSetup
from barnabas.config.client import ClientConfig, Settings, Value

if TYPE_CHECKING:
    from prometheus_client.core import Metric
    from typing_extensions import TypeVar

    from barnabas.client.workers.runner import Runner
    from barnabas.client.workers.share_runner import ShareRunner
    from barnabas.client.workers.window.window_view import WindowView

    R_co = TypeVar("R_co", bound=Awaitable[Results] | Results, covariant=True, default=None)
else:  # see client/consumer/message.py
    from typing import TypeVar

    R_co = TypeVar("R_co", covariant=True)
R = TypeVar("R", bound=Awaitable[Results] | Results)
"""The result of a handler: records to write, or nothing; an awaitable from an asyncio function."""
_WINDOW = 1_000
_COMMIT_S, _TRANSACTION_S = 1.0, 0.1  # defaults of commit_interval
_log = logging.getLogger("barnabas.workers")
_VIEW_TRIES = 100
SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Parallel(Generic[K, V, R_co]):
    """A handler that can be run. A call of it calls the decorated function."""

    def __init__(
        self,
        handler: Callable[[Message[K, V]], R_co],
        setup: WorkerSetup,
        *,
        share: bool = False,
    ) -> None:
        self._share = share
        self._handler = handler
        self._setup = setup
        self._stops: list[Callable[[], None]] = []
        self._runners: list[Runner | ShareRunner] = []
        self.__doc__ = handler.__doc__
        self.__name__ = getattr(handler, "__name__", "handler")

    def __call__(self, message: Message[K, V]) -> R_co:
        return self._handler(message)

    def run(self, **options: Value) -> None:
        """Work until `stop`, SIGTERM or SIGINT; running handlers may finish. `options`: further
        client options, such as bootstrap_servers.
        """
        import uvloop

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self._run_until_signalled(options))

    async def serve(self, **options: Value) -> None:
        """As `run`, on the running event loop, without signal handlers."""
        setup = self._setup._replace(options={**self._setup.options, **options})
        runner = self._runner_type()(setup)
        loop = asyncio.get_running_loop()

        def stop() -> None:
            loop.call_soon_threadsafe(runner.stop)

        self._stops.append(stop)
        self._runners.append(runner)
        try:
            await runner.run()
        finally:
            self._runners.remove(runner)
            self._stops.remove(stop)

    def _runner_type(self) -> "type[Runner | ShareRunner]":
        if self._share:
            from barnabas.client.workers.share_runner import ShareRunner

            return ShareRunner
        from barnabas.client.workers.runner import Runner

        return Runner

    def windows(self) -> "list[WindowView]":
        """The sliding window of every partition: start, end, what runs, what holds it up.

        `print(*handle.windows(), sep="\\n")`, on any thread. A worker that `run` started logs them
        when it gets SIGUSR1.
        """
        for _ in range(_VIEW_TRIES):
            with suppress(RuntimeError):  # a partition came or went meanwhile
                return [view for runner in list(self._runners) for view in runner.windows()]
        return []

    def collect(self) -> "Iterator[Metric]":
        """The windows as metrics: `prometheus_client.REGISTRY.register(handle)`."""
        from barnabas.client.workers.window.window_metrics import window_metrics

        return window_metrics(self._setup.policy.group, self.windows())

    def stop(self) -> None:
        """End every run of this handler, from any thread."""
        for stop in list(self._stops):
            stop()

    async def _run_until_signalled(self, options: dict[str, Value]) -> None:
        loop = asyncio.get_running_loop()
        watched = SIGNALS if threading.current_thread() is threading.main_thread() else ()

        def stop() -> None:
            for number in watched:  # the second one ends the process
                loop.remove_signal_handler(number)
            self.stop()

        for number in watched:
            loop.add_signal_handler(number, stop)
        if watched:
            loop.add_signal_handler(signal.SIGUSR1, self._log_windows)
        try:
            await self.serve(**options)
        finally:
            for number in watched:
                loop.remove_signal_handler(number)
            if watched:
                loop.remove_signal_handler(signal.SIGUSR1)

    def _log_windows(self) -> None:
        for view in self.windows():
            _log.warning("window of %s", view)


class Decorator(Generic[K, V]):
    """The result of `parallel(...)`: turns a function into a Parallel."""

    def __init__(self, make: Callable[[Any], Parallel[K, V, Any]]) -> None:
        self._make = make

    def __call__(self, handler: Callable[[Message[K, V]], R]) -> Parallel[K, V, R]:
        return self._make(handler)


def parallel(
    *topics: str,
    group_id: str,
    key_deserializer: Callable[[bytes], K] | None = None,
    value_deserializer: Callable[[bytes], V] | None = None,
    key_serializer: Serializer | None = None,
    value_serializer: Serializer | None = None,
    exactly_once: bool = False,
    share: bool = False,
    order: str | None = None,
    window: int | None = None,
    concurrency: int = 64,
    retry: Retry | None = None,
    retry_topic: str | None = None,
    dlq: str | None = None,
    timeout: float | None = None,
    commit_interval: float | None = None,
    drain: float = 10.0,
    settings: Settings | None = None,
    **options: Value,
) -> Decorator[K, V]:
    """Call a function, asyncio's or a blocking one, for every record of these topics.

    Records that the function returns are written. `exactly_once`: they are written in one
    transaction with the offset of the record, and with retries and dead letters. `share`: the group
    is a share group, whose members take single records of all partitions, without an order.

    `order`: records of one "key" (the default) or one "partition" one after another, or "none".
    `window`: how many records of a partition may be in flight, from the first unfinished one on
    (1000). `concurrency`:
    how many calls at a time. `retry`, `retry_topic`, `dlq`: what happens to a record whose call
    fails; without a dlq the worker stops. `timeout`: of one call. `commit_interval`: seconds
    between commits (1), or until a handled record is in a transaction (0.1). `drain`: seconds that
    calls may still take when their partition goes to another worker. `key_serializer`,
    `value_serializer`: of returned records. `settings` and `options` are the consumer's and, for
    returned records, the producer's.
    """
    orders = [one.value for one in RecordOrder]
    if share:
        _check_share(exactly_once, order, window, retry, retry_topic, dlq)
    order = order or ("none" if share else "key")
    if order not in orders:
        raise invalid(f"order is {order!r}; it is one of {', '.join(orders)}")
    if not topics:
        raise invalid("nothing to read: name topics")
    for name in (retry_topic, dlq):
        if name in topics:
            raise invalid(f"{name!r} is read and written: its records would be copied in a circle")
    if commit_interval is None:
        commit_interval = _TRANSACTION_S if exactly_once else _COMMIT_S
    policy = Policy(
        group=group_id,
        order=RecordOrder(order),
        window=_WINDOW if window is None else window,
        concurrency=concurrency,
        retry=retry or Retry(),
        retry_topic=retry_topic,
        dlq=dlq,
        timeout_ms=None if timeout is None else int(timeout * 1_000),
        commit_interval_ms=int(commit_interval * 1_000),
        drain_ms=int(drain * 1_000),
        exactly_once=exactly_once,
    )
    opener: Opener[K, V] = Opener(key_deserializer, value_deserializer)
    encoder = ResultEncoder(key_serializer, value_serializer)
    all_options: dict[str, Value] = {"auto_offset_reset": "earliest", **options}
    all_options["group_id"] = group_id

    _check(ClientConfig(settings, **all_options), exactly_once)  # an unknown option fails here

    def make(handler: Callable[[Message[K, V]], Any]) -> Parallel[K, V, Any]:
        setup = WorkerSetup(topics, policy, handler, opener, encoder, settings, all_options)
        return Parallel(handler, setup, share=share)

    return Decorator(make)


def _check(config: ClientConfig, exactly_once: bool) -> None:
    if exactly_once and config.isolation_level != "read_committed":
        raise invalid(
            "exactly_once reads committed records only: leave isolation.level at read_committed"
        )
    if config.transactional_id and not exactly_once:
        raise invalid("a worker with a transactional.id needs exactly_once=True")


def _check_share(exactly_once: bool, order: str | None, *given: object) -> None:
    if exactly_once:
        raise invalid("a share group is not exactly once: leave share or exactly_once out")
    if order not in (None, "none"):
        raise invalid(f"order is {order!r}: records of a share group have no order")
    if any(one is not None for one in given):
        raise invalid(
            "with share=True the group decides about retries: set its share.delivery.count.limit,"
            " and leave window, retry, retry_topic and dlq out"
        )
