"""The brokers of a test as processes of their own: real signals, a real crash.

For tests that fork, hold the interpreter for long, or must see what a killed process leaves.
Always: a broker ends with the process that started it; `close` ends all and removes their files.
"""

import os
import re
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping

from barnabas.testing.brokers import HOST, MEMORY, SETTINGS

START_S_MAX = 120.0
STOP_S_MAX = 120.0
READY = re.compile(rb"barnabas ready on \S+:(\d+) ")
SUPERVISED = "BARNABAS_SUPERVISED"


class BrokerProcesses:
    """The same operations as LocalBrokers has, on processes."""

    def __init__(self, count: int, settings: Mapping[str, str]) -> None:
        memory = MEMORY if os.access(MEMORY, os.W_OK) else None
        self.directory = tempfile.mkdtemp(prefix="barnabas-test-", dir=memory)
        self._settings = {**SETTINGS, **settings}
        self._several = count > 1
        if self._several:
            replicas = str(min(3, count))
            self._settings = {
                "keeper.file": os.path.join(self.directory, "keeper.db"),
                "default.replication.factor": replicas,
                "offsets.topic.replication.factor": replicas,
                "transaction.state.log.replication.factor": replicas,
                **self._settings,
            }
        # 0 until its first start: the broker chooses a free port, and keeps it.
        self._ports = dict.fromkeys(range(1, count + 1) if self._several else (0,), 0)
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._paused: set[int] = set()

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{HOST}:{port}" for port in self._ports.values())

    @property
    def reachable(self) -> str:
        there = [port for id_, port in self._ports.items() if id_ not in self._paused]
        return ",".join(f"{HOST}:{port}" for port in there) or self.bootstrap_servers

    @property
    def ids(self) -> list[int]:
        return list(self._ports)

    @property
    def logs(self) -> str:
        return "".join(self._log_of(id_) for id_ in self._ports)

    def _log_of(self, id_: int) -> str:
        try:
            with open(self._path(id_, "log"), encoding="utf-8", errors="replace") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def _path(self, id_: int, kind: str) -> str:
        return os.path.join(self.directory, f"broker-{id_}.{kind}")

    def start(self, *ids: int) -> None:
        wanted = [id_ for id_ in ids or self._ports if id_ not in self._processes]
        try:
            for id_ in wanted:
                self._launch(id_)
            for id_ in wanted:
                self._await_ready(id_)
        except BaseException:
            self.close()
            raise

    def _launch(self, id_: int) -> None:
        options = [f"-X{name}={value}" for name, value in self._settings.items()]
        command = [
            *(sys.executable, "-m", "barnabas", "up", "--data", self._path(id_, "data")),
            *("--listen", f"{HOST}:{self._ports[id_]}", "--id", str(id_)),
            *options,
        ]
        with open(self._path(id_, "log"), "ab") as log:
            self._processes[id_] = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,  # closed when this process ends, which ends the broker
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, SUPERVISED: "1"},
            )

    def _await_ready(self, id_: int) -> None:
        stdout = self._processes[id_].stdout
        assert stdout is not None
        deadline = time.monotonic() + START_S_MAX
        said = b""
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            while not (ready := READY.search(said)):
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise TimeoutError(f"broker {id_} was not ready in {START_S_MAX:.0f} s")
                piece = os.read(stdout.fileno(), 4096)
                if not piece:
                    raise RuntimeError(f"broker {id_} did not start: {self._log_of(id_)[-2000:]}")
                said += piece
        self._ports[id_] = int(ready[1])

    def stop(self, id_: int) -> None:
        self._end(id_, signal.SIGTERM)

    def kill(self, id_: int) -> None:
        self._end(id_, signal.SIGKILL)

    def pause(self, id_: int, *, session_ends: bool = False) -> None:
        """`session_ends` has no effect: the keeper of these brokers decides by itself."""
        self._found(id_).send_signal(signal.SIGSTOP)
        self._paused.add(id_)

    def resume(self, id_: int) -> None:
        self._found(id_).send_signal(signal.SIGCONT)
        self._paused.discard(id_)

    def paused(self) -> list[int]:
        return sorted(self._paused)

    def pid(self, id_: int) -> int:
        return self._found(id_).pid

    def _found(self, id_: int) -> subprocess.Popen[bytes]:
        if id_ not in self._processes:
            raise ValueError(f"broker {id_} does not run; there are {sorted(self._ports)}")
        return self._processes[id_]

    def _end(self, id_: int, number: signal.Signals) -> None:
        process = self._found(id_)
        del self._processes[id_]
        self._paused.discard(id_)
        process.send_signal(number)
        process.send_signal(signal.SIGCONT)  # one that is paused would not hear SIGTERM
        try:
            process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        finally:
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()

    def close(self) -> None:
        for id_ in list(self._processes):
            self._end(id_, signal.SIGKILL)
        shutil.rmtree(self.directory, ignore_errors=True)
