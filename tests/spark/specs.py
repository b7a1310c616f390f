"""Specs of pipelines for the tests, and records for them to read."""

import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from barnabas.pipeline.run.spec import parse
from tests.waiting import WAIT_S

_DAY_MS = 86_400_000
FIRST_MS = (int(time.time() * 1000) // _DAY_MS - 5) * _DAY_MS  # older records would be deleted
SCHEMA = "id long, customer long, amount long"


def spec(kind: str, servers: str, topic: str, out: Path, **changed: Any) -> Any:
    given: dict[str, Any] = {
        "name": f"{kind}-{topic}",
        "kind": kind,
        "source": {"servers": servers, "topics": [topic]},
        "sink": {},
        "run": {"master": "local[2]"},
    }
    if kind != "mirror":
        given["run"]["checkpoint"] = str(out / "checkpoint")
        given["source"] |= {"format": "json", "schema": SCHEMA}
    for section, values in changed.items():
        given[section] = {**given[section], **values} if section in given and isinstance(
            values, dict
        ) else values  # fmt: skip
    return parse(given)


def run(found: Any, spark: Any) -> list[str]:
    from barnabas.pipeline.run.running import run_spec

    lines: list[str] = []
    run_spec(found, spark=spark, say=lines.append)
    return lines


def write(servers: str, topic: str, values: Iterable[tuple[int, bytes]]) -> None:
    """Of times in seconds, and values; all to partition 0, so that they stay in order."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 5})
    for second, value in values:
        producer.produce(topic, value, partition=0, timestamp=FIRST_MS + second * 1000)
    assert producer.flush(WAIT_S) == 0


def order(number: int, customer: int = 0, amount: int = 1) -> bytes:
    return json.dumps({"id": number, "customer": customer, "amount": amount}).encode()
