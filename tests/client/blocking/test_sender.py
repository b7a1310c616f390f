"""How long the thread that sends may sleep, on a clock that only the test moves."""

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from barnabas.client.blocking import sender
from barnabas.client.cluster import ClusterClient
from barnabas.client.producer.accumulator import Accumulator
from barnabas.client.producer.outbox import Outbox
from barnabas.client.producer.settings import ProducerSettings

LINGER_MS = 5
REQUEST_TIMEOUT_MS = 30_000


def test_a_batch_whose_linger_ends_while_it_is_looked_at_is_not_slept_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 1_000
    monkeypatch.setattr(sender, "now_ms", lambda: now)
    accumulator = Accumulator(
        batch_size_max=1_000,
        buffer_size_max=10_000,
        record_size_max=1_000,
        clock=lambda: now / 1000,
        wall=lambda: now / 1000,
        chance=lambda: 0.5,
        wake=lambda: None,
    )
    outbox = Outbox(accumulator, ProducerSettings(linger_ms=LINGER_MS), lambda: 0.5)
    outbox.identify(7, 0)
    accumulator.topic_known("t", {0: 0})
    cluster: Any = SimpleNamespace(
        is_due=lambda key: False,
        config=SimpleNamespace(request_timeout_ms=REQUEST_TIMEOUT_MS),
    )
    sending = sender.Sender(
        cast(ClusterClient, cluster), outbox, accumulator, threading.Condition()
    )
    sending._connections[0] = cast(Any, SimpleNamespace(closed=False))
    accumulator.add("t", b"value", None, (), 0, None, None)

    assert not sending.due()
    assert sending.rest().wait_s == LINGER_MS / 1000
    now += LINGER_MS - 1
    assert not sending.due()
    now += 1
    assert sending.rest().wait_s == 0.001
