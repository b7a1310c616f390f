"""The two brokers that are compared, each up in a directory of its own on the same disk."""

import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from bench import memory_disk, proc
from tests.process import running_broker
from tests.support.cache import CACHE
from tests.support.kafka import running_kafka

BARNABAS = "barnabas"
KAFKA = "kafka"

# Otherwise deleted files are kept for a minute: a long run would fill the memory disk with them,
# and have the disk write what nobody will read.
DELETE_SOON = {"log.segment.delete.delay.ms": "1000"}


@dataclass
class Side:
    """A running broker: where it listens, what it costs."""

    name: str
    bootstrap_servers: str
    pid: int

    @cached_property
    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})

    def cpu_s(self) -> float:
        return proc.cpu_s(self.pid)

    def rss_mb(self) -> float:
        return proc.rss_mb(self.pid)

    def create_topic(self, name: str, partitions: int = 1) -> None:
        self._admin.create_topics([NewTopic(name, partitions, 1)])[name].result(60)

    def has_topic(self, name: str) -> bool:
        return name in self._admin.list_topics(timeout=60).topics

    @contextmanager
    def topic(self, partitions: int = 1) -> Iterator[str]:
        """A fresh topic, deleted afterwards so that a long run does not fill the disk."""
        name = f"bench-{time.time_ns()}"
        self.create_topic(name, partitions)
        try:
            yield name
        finally:
            self.delete_topic(name)

    def delete_topic(self, name: str) -> None:
        self._admin.delete_topics([name])[name].result(60)


@contextmanager
def directory(where: str) -> Iterator[Path]:
    """An empty directory in memory ("ram") or on the disk the project is on ("disk")."""
    CACHE.mkdir(exist_ok=True)
    base = Path(memory_disk.PLACE) if where == "ram" else CACHE
    path = Path(tempfile.mkdtemp(prefix="barnabas-bench-", dir=base))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def running_sides(
    names: list[str], base: Path, options: Mapping[str, Mapping[str, str]] | None = None
) -> Iterator[list[Side]]:
    """All of them up at once, so that each round meets the same machine.

    `options`: more broker properties, by side.
    """
    with ExitStack() as up:
        sides = []
        for name in names:
            home = base / name
            more = {**DELETE_SOON, **(options or {}).get(name, {})}
            if name == KAFKA:
                kafka = up.enter_context(running_kafka(home, more))
                sides.append(Side(name, kafka.bootstrap_servers, kafka.pid))
            else:
                ours = up.enter_context(running_broker(home, more))
                sides.append(Side(name, ours.bootstrap_servers, ours.pid))
        yield sides
