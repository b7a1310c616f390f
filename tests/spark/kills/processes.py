"""A driver as a process of its own, and how processes are killed."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from tests.support.cache import ROOT


def descendants(pid: int) -> list[int]:
    """Children first, each with its own."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = [int(child) for child in task.read_text().split()]
        except OSError:
            continue
        for child in children:
            found += [child, *descendants(child)]
    return found


def kill(pids: list[int]) -> None:
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


class DriverProcess:
    """Runs pipelines on one Spark. `log` has the output of all drivers that used it."""

    def __init__(self, master: str, specs: Iterable[Path], log: Path) -> None:
        self._log = log
        self._from = log.stat().st_size if log.exists() else 0
        with open(log, "ab") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.kills.driver", master, *map(str, specs)],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    def children(self) -> list[int]:
        """Java first, then what Java has started."""
        return descendants(self._process.pid)

    def kill(self, way: str = "all") -> None:
        """`python`: Java and its workers stay, until they see it."""
        family = self.children()
        pid = self._process.pid
        kill({"all": [pid, *family], "python": [pid], "java": family[:1]}[way])
        if way == "java":
            kill([pid])  # it is of no use any more
        self._process.wait()

    def said(self) -> bytes:
        with open(self._log, "rb") as log:
            log.seek(self._from)
            return log.read()

    def batches(self) -> int:
        return self.said().count(b": batch ")

    def tail(self) -> str:
        return self.said()[-4000:].decode(errors="replace")
