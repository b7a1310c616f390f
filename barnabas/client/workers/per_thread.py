"""One consumer per thread: the simplest way. Each partition in order, at most a thread for each.

Always: a thread commits what it has handled, after each batch and before a rebalance.
"""

import threading
from collections.abc import Callable
from typing import Any

from barnabas.client.blocking.consumer import Consumer
from barnabas.client.consumer.message import K, Message, V
from barnabas.client.workers.calls import Deserializer, Opener
from barnabas.client.workers.policy import check_whole, invalid
from barnabas.client.workers.threads import POLL_S, ThreadCommits, Worker, WorkerRun
from barnabas.config.client import Settings, Value


def per_thread(
    *topics: str,
    group_id: str,
    threads: int = 4,
    key_deserializer: Deserializer | None = None,
    value_deserializer: Deserializer | None = None,
    settings: Settings | None = None,
    **options: Value,
) -> "Callable[[Callable[[Message[K, V]], None]], Worker[K, V]]":
    """Call a blocking function for every record, on threads that have a consumer each."""
    check_whole("threads", threads, 1, 1_000)
    if not topics:
        raise invalid("nothing to read: name topics")
    opener: Opener[Any, Any] = Opener(key_deserializer, value_deserializer)
    given: dict[str, Value] = {"auto_offset_reset": "earliest", **options, "group_id": group_id}

    def work(run: WorkerRun) -> None:
        hands = [
            threading.Thread(
                target=run.guarded, args=(_read, run, topics), name=f"barnabas-consumer-{number}"
            )
            for number in range(threads)
        ]
        for hand in hands:
            hand.start()
        for hand in hands:
            while hand.is_alive():
                hand.join(POLL_S)  # in slices, so that a signal is seen

    def make(handler: "Callable[[Message[K, V]], None]") -> Worker[K, V]:
        return Worker(handler, work, opener, settings, given)

    return make


def _read(run: WorkerRun, topics: tuple[str, ...]) -> None:
    commits = ThreadCommits()
    consumer: Consumer[Any, Any] = Consumer(
        *topics,
        {**run.settings, "enable.auto.commit": False},
        on_revoked=lambda consumer, partitions, cause: commits.commit(consumer),
        on_lost=lambda consumer, partitions, cause: commits.forget(),
    )
    with consumer:
        while not run.stopping.is_set():
            try:
                for message in consumer.getmany(timeout=POLL_S):
                    if run.stopping.is_set():
                        break
                    run.call(message)
                    commits.handled(message)
            finally:
                commits.commit(consumer)
