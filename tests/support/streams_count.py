"""Kafka Streams: the programs of `tests/support/streams/`, run as processes that can be killed.

In: addresses, topics, an application id. Out: processes; committed counts, checked as they are
read.
Always: each key has the counts 1, 2, 3 and so on in the target, each once.
"""

import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from tests.support.java import Java
from tests.waiting import WAIT_S

FLAGS = ("-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xmx256m")


class StreamsInstance:
    """One instance of an application, with a state directory of its own. `arguments`: those before
    the state directory, and those after it."""

    def __init__(
        self, java: Java, main: str, home: Path, arguments: Sequence[str], more: Sequence[str] = ()
    ) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.home = home
        self._log = home / "streams.log"
        self._command = java.command(main, *arguments, str(home / "state"), *more, flags=FLAGS)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(WAIT_S)
            finally:
                self.kill()

    def check(self) -> None:
        assert self._process is None or self._process.poll() is None, self.diagnosis()

    def lines(self) -> list[str]:
        """What it has written so far."""
        return self._log.read_text(errors="replace").splitlines() if self._log.exists() else []

    def diagnosis(self) -> str:
        return "\n".join(self.lines())[-3000:]


class CountsReader:
    """Reads the committed counts."""

    def __init__(self, servers: str, target: str, partitions: int) -> None:
        self.counts: dict[bytes, int] = {}
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "unused",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 50,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )
        self._consumer.assign(
            [TopicPartition(target, number, OFFSET_BEGINNING) for number in range(partitions)]
        )

    def read(self) -> int:
        """How many counts there are."""
        for message in self._consumer.consume(5_000, 0.05):
            if message.error() is not None:
                continue  # a broker is away
            key, count = message.key() or b"", int.from_bytes(message.value() or b"")
            before = self.counts.get(key, 0)
            assert count == before + 1, f"{key!r} was counted to {before}, then to {count}"
            self.counts[key] = count
        return sum(self.counts.values())

    def close(self) -> None:
        self._consumer.close()
