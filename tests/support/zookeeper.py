"""Starts a ZooKeeper server of one node, from the jars that Spark's wheel brings.

In: an empty directory. Out: a process that answers, to be stopped, killed and started again.
"""

import os
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.ports import free_ports
from tests.support.cache import Missing
from tests.support.install import program
from tests.support.spark import check_spark
from tests.waiting import WAIT_S

TICK_MS = 200  # sessions may last 2 to 20 ticks
_SERVER = "org.apache.zookeeper.server.ZooKeeperServerMain"
_CLOSE_SESSION = struct.pack(">iii", 8, 1, -11)


class Zookeeper:
    """One server; started again on the same port, with the data it had."""

    def __init__(self, directory: Path) -> None:
        check_spark()
        import pyspark

        self._jars = Path(pyspark.__file__).parent / "jars"
        self._directory = directory
        [self.port] = free_ports(1)
        self._config = directory / "zoo.cfg"
        self._config.write_text(
            f"dataDir={directory / 'data'}\n"
            f"clientPort={self.port}\n"
            "clientPortAddress=127.0.0.1\n"
            f"tickTime={TICK_MS}\n"
            f"maxSessionTimeout=600000\n"
            "admin.enableServer=false\n"
        )
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        flags = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
        command = [program("java"), *flags, "-cp", f"{self._jars}/*", _SERVER, str(self._config)]
        with open(self._directory / "zookeeper.out", "ab") as out:
            self._process = subprocess.Popen(
                command,
                cwd=self._directory,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        try:
            self._wait_until_it_answers(self._process)
        except BaseException:
            self.kill()
            raise

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)
        if number is signal.SIGSTOP:
            os.waitpid(self._process.pid, os.WUNTRACED)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def end_session(self, session: int, password: bytes) -> None:
        """As its owner would, who does not know of it."""
        greeting = struct.pack(">iqiqi16s?", 0, 0, 10_000, session, 16, password, False)
        with socket.create_connection(("127.0.0.1", self.port), WAIT_S) as connection:
            connection.sendall(struct.pack(">i", len(greeting)) + greeting + _CLOSE_SESSION)
            while connection.recv(4096):
                pass

    def _wait_until_it_answers(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + WAIT_S
        while process.poll() is None and time.monotonic() < deadline:
            try:
                with socket.create_connection(("127.0.0.1", self.port), WAIT_S) as connection:
                    connection.sendall(b"srvr")
                    if b"Mode: standalone" in connection.recv(4096):
                        return
            except OSError:
                pass
            time.sleep(0.05)
        raise RuntimeError(f"ZooKeeper did not start: see {self._directory / 'zookeeper.out'}")


def zookeeper_or_skip(directory: Path) -> Zookeeper:
    """Started; a test on a machine without Java, Spark or kazoo is skipped."""
    pytest.importorskip("kazoo", reason="kazoo is not installed: pip install -e '.[zookeeper]'")
    try:
        return Zookeeper(directory)
    except Missing as missing:
        pytest.skip(str(missing))


@contextmanager
def running_zookeeper(directory: Path) -> Iterator[Zookeeper]:
    """Killed at the end; without Java, Spark or kazoo the test is skipped."""
    running = zookeeper_or_skip(directory)
    try:
        yield running
    finally:
        running.kill()
