"""A broker for tests: fresh for every test, in this process, in milliseconds; any client.

    with barnabas.testing.Kafka() as kafka:
        run_app(kafka.bootstrap_servers)

With pytest, ask for the fixture `kafka` (plugin.py).

kafka: the broker as a test sees it
groups, records, error_replies: helpers for groups and records; the replies of `fail`
brokers, broker_thread, processes: brokers in this process, each on a thread; brokers as processes
locked_session: their sessions in one store in memory
clock, disk, faults: time that can jump; a disk that can be full; replies that fail or are late
report, waiting: what a failed test prints; waiting for a condition
awaiting: the same for asyncio
plugin: fixtures and options of pytest
"""

from typing import TYPE_CHECKING

from barnabas.model.lazy import lazy_names

if TYPE_CHECKING:
    from barnabas.testing.awaiting import AsyncKafka
    from barnabas.testing.clock import TestClock
    from barnabas.testing.groups import Rebalance
    from barnabas.testing.kafka import Kafka

__all__ = ["AsyncKafka", "Kafka", "Rebalance", "TestClock"]

_WHERE = {
    "AsyncKafka": "barnabas.testing.awaiting",
    "Kafka": "barnabas.testing.kafka",
    "Rebalance": "barnabas.testing.groups",
    "TestClock": "barnabas.testing.clock",
}

__getattr__, __dir__ = lazy_names(globals(), _WHERE)
