"""Something to look at in the demo's console: groups that read the orders, each in its own way.

billing has a slow member and so is behind; reports has read some orders and left. The broker-only
demo also writes dead letters, as a worker would that gave up on some orders.
Always: the demo's own counts do not depend on them; they end with the demo, in any case.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread

from barnabas.client.blocking.admin import Admin
from barnabas.client.blocking.consumer import Consumer
from barnabas.client.blocking.producer import Producer
from barnabas.client.workers.dead_letter_headers import LetterTrail, Origin
from barnabas.model.errors import KafkaError

SLOW_S, SLOW_RECORDS = 1.0, 5
_READ_BY_REPORTS = 200
_LETTERS = 12
_CAUSES = ("ValueError: amount is negative", "KeyError: 'country'", "TimeoutError: mail server")
_JOIN_S_MAX = 3.0


@contextmanager
def demo_readers(servers: str, topic: str) -> Iterator[None]:
    end, begun = Event(), Event()
    threads = [Thread(target=_read_slowly, args=(servers, topic, begun, end), daemon=True)]
    for client in ("worker-1", "worker-3"):
        arguments = (servers, topic, client, begun, end)
        threads.append(Thread(target=_read, args=arguments, daemon=True))
    threads.append(Thread(target=_read_some, args=(servers, topic, end), daemon=True))
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        end.set()
        begun.set()
        for thread in threads:
            thread.join(_JOIN_S_MAX)


def _options(servers: str, group: str, client: str) -> dict[str, str]:
    return {"bootstrap.servers": servers, "group.id": group, "client.id": client,
            "auto.offset.reset": "earliest"}  # fmt: skip


def _read_slowly(servers: str, topic: str, begun: Event, end: Event) -> None:
    """Joins first: the quick ones would have read everything before it came."""
    with suppress(KafkaError), Consumer(topic, _options(servers, "billing", "worker-2")) as slow:
        while not end.wait(SLOW_S):
            if slow.getmany(SLOW_RECORDS, timeout=0.5):
                slow.commit()
                begun.set()


def _read(servers: str, topic: str, client: str, begun: Event, end: Event) -> None:
    begun.wait()
    with suppress(KafkaError), Consumer(topic, _options(servers, "billing", client)) as quick:
        while not end.wait(0.1):
            if quick.getmany(500, timeout=0.5):
                quick.commit()


def _read_some(servers: str, topic: str, end: Event) -> None:
    read = 0
    with (
        suppress(KafkaError),
        Consumer(topic, _options(servers, "reports", "reports-1")) as consumer,
    ):
        while not end.is_set() and read < _READ_BY_REPORTS:
            read += len(consumer.getmany(100, timeout=0.5))
        consumer.commit()


def write_letters(servers: str, topic: str) -> int:
    """Dead letters about some of the first orders."""
    letters = f"{topic}.dlq"
    now_ms = int(time.time() * 1000)
    with Admin({"bootstrap.servers": servers, "client.id": "demo"}) as admin:
        admin.create_topic(letters, partitions=1)
    with Producer({"bootstrap.servers": servers, "client.id": "billing"}) as producer:
        for number in range(_LETTERS):
            cause = _CAUSES[number % 4 if number % 4 < len(_CAUSES) else 0]
            trail = LetterTrail(
                "billing", Origin(topic, 0, number * 7), now_ms - 60_000, cause, 3, 0, now_ms
            )
            value = b'{"order": %d, "amount": -1}' % number
            producer.send(letters, value, headers=list(trail.headers(())))
    return _LETTERS
