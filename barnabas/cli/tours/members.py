"""Consumers on threads, which a chapter starts and stops."""

import threading
from collections.abc import Callable
from typing import Any

from barnabas.client.blocking.consumer import Consumer
from barnabas.client.consumer.one_poll import WokenUp
from barnabas.model.errors import KafkaError
from barnabas.testing.kafka import Kafka

_STOP_S_MAX = 120


class TourMember:
    """One consumer of a group. `work` is called with each batch of messages."""

    def __init__(
        self,
        kafka: Kafka,
        group: str,
        name: str,
        *topics: str,
        work: Callable[[list[Any]], None] = lambda messages: None,
        **options: Any,
    ) -> None:
        self.name = name
        self.read: list[Any] = []
        self.causes: list[str] = []
        self._work = work
        self._stop = threading.Event()
        settings = {
            "bootstrap_servers": kafka.bootstrap_servers,
            "group_id": group,
            "client_id": name,
            "auto_offset_reset": "earliest",
            "group_protocol": "classic",
            "partition_assignment_strategy": "range",
            "heartbeat_interval_ms": 100,
            "auto_commit_interval_ms": 50,
            **options,
        }

        def heard(kind: str) -> Callable[[Any, Any, Any], None]:
            return lambda consumer, partitions, cause: self.causes.append(f"{kind}: {cause}")

        self.consumer: Consumer[Any, Any] = Consumer(
            *topics,
            on_assigned=heard("assigned"),
            on_revoked=heard("revoked"),
            on_lost=heard("lost"),
            **settings,
        )
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with self.consumer:
            while not self._stop.is_set():
                try:
                    messages = self.consumer.getmany(timeout=0.05)
                except WokenUp:
                    continue
                except KafkaError:
                    if self._stop.is_set():
                        return
                    continue
                self.read += messages
                self._work(messages)

    @property
    def owns(self) -> list[int]:
        return sorted(at.partition for at in self.consumer.assignment())

    def stop(self) -> None:
        self._stop.set()
        self.consumer.wakeup()
        self._thread.join(_STOP_S_MAX)
