"""Copiers as processes: started, killed, restarted, and started again when they end early.

In: which copiers a variant has. Out: their processes; what they wrote, beside the cluster's logs.
"""

import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from tests.cluster.copier import CopierTask
from tests.support.java import kafka_tools
from tests.waiting import WAIT_S

AGAIN_S = 0.5  # between the end of one and the start of the next

COPIER = "org.apache.kafka.tools.TransactionalMessageCopier"


def command_of(task: CopierTask) -> list[str]:
    if task.library != "java":
        argument = msgspec.json.encode(task).decode()
        return [sys.executable, "-m", "tests.cluster.copier", argument]
    how = ["--input-partition", str(task.partitions[0] if task.partitions else 0)]
    if not task.partitions:
        how += ["--group-mode", "--use-group-metadata"]
    return kafka_tools().command(
        COPIER,
        *("--broker-list", task.servers, "--transactional-id", task.name),
        *("--input-topic", task.source, "--output-topic", task.target, *how),
        *("--consumer-group", task.group, "--transaction-size", str(task.size)),
        *("--transaction-timeout", str(task.timeout_ms), "--enable-random-aborts"),
        flags=["-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xmx256m"],
    )


class Zombie:
    """A copier that stood still while another one took its transactional id over."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


class CopierProcess:
    """One copier, and those that follow it with the same transactional id."""

    def __init__(self, task: CopierTask, log: Path) -> None:
        self.task = task
        self.early_ends = 0
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._again_at = 0.0

    def start(self) -> None:
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(
                command_of(self.task), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def tend(self) -> None:
        """Start it again if it has ended: Kafka's does when it has read everything."""
        if self._process is None or self._process.poll() is None:
            return
        if not self._again_at:
            self.early_ends += 1
            self._again_at = time.monotonic() + AGAIN_S
        elif time.monotonic() >= self._again_at:
            self._again_at = 0.0
            self.start()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._process = None

    def replace(self) -> "Zombie":
        """It stands still, and another one with its transactional id begins."""
        assert self._process is not None
        zombie = Zombie(self._process)
        self._process = None
        self.start()
        return zombie

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(signal.SIGTERM)
        try:
            return process.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise TimeoutError(f"{self.task.name} ignores SIGTERM: {self.diagnosis()}") from None

    def diagnosis(self) -> str:
        """The last lines that it has written."""
        text = self._log.read_text(errors="replace") if self._log.exists() else ""
        ended = self._process.poll() if self._process is not None else "not running"
        return f"{self.task.name} ({ended}, {self.early_ends} early ends): {text[-1500:]}"


class Copiers:
    """Those of one run."""

    def __init__(self, tasks: Sequence[CopierTask], home: Path) -> None:
        self.all = [CopierProcess(task, home / f"{task.name}.log") for task in tasks]

    def start(self) -> None:
        for each in self.all:
            each.start()

    def tend(self) -> None:
        for each in self.all:
            each.tend()

    def stop(self) -> None:
        for each in self.all:
            each.stop()

    def kill(self) -> None:
        for each in self.all:
            each.kill()

    def diagnosis(self) -> str:
        return "\n".join(each.diagnosis() for each in self.all)
