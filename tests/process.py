"""Runs `barnabas up` as a process of its own, the way a user does.

In: a data directory and options. Out: the address from its ready line.
Always: its standard error is kept beside the data, and shown when it does not start.
With BROKERS=3 in the environment there are three of them under one `barnabas up`, and every topic
has three replicas: so the suites of the clients are put to a cluster. With SECURED=1 their
listener is SASL_SSL (tests/secured.py).
"""

import os
import re
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.ports import free_ports_from
from tests.secured import SECURED, broker_arguments
from tests.waiting import WAIT_S

READY = re.compile(r"barnabas ready on (\S+):(\d+) \((\d+) ms\)")
START_TIMEOUT_S = WAIT_S
STOP_TIMEOUT_S = WAIT_S
BROKERS = int(os.environ.get("BROKERS", "1"))
REPLICAS = min(BROKERS, 3)
IN_CLUSTER = {
    "default.replication.factor": str(REPLICAS),
    "offsets.topic.replication.factor": str(REPLICAS),
    "min.insync.replicas": str(max(1, REPLICAS - 1)),
}


# Tests write records of any time: none is deleted for its age while a test reads it.
KEPT = {"log.initial.task.delay.ms": "86400000"}


class BrokerProcess:
    """One `barnabas up`; restarted on the same port, so that clients find it again."""

    def __init__(
        self,
        data: Path | None,
        options: Mapping[str, str] | None = None,
        *,
        port: int = 0,
        log: Path,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.data = data
        self.host = "127.0.0.1"
        self.port = port
        self.ready_ms = -1
        self._options = dict(options or {})
        self._log = log
        self._env = dict(env or {})
        self._process: subprocess.Popen[bytes] | None = None
        self.is_secured = False  # TLS, a login and access rules (tests/secured.py)

    @property
    def bootstrap_servers(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def ports(self) -> list[int]:
        return [self.port]

    @property
    def pid(self) -> int:
        return self._running().pid

    @property
    def log(self) -> str:
        """Everything it has written to standard error, all starts together."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def command(self) -> list[str]:
        if self.is_secured:
            assert self.data is not None
            file = self._log.with_name("secured.properties")
            secured = broker_arguments(self.data, file, self.host, self.ports, self._options)
            return [sys.executable, "-m", "barnabas", "up", *secured]
        where = ["--ephemeral"] if self.data is None else ["--data", str(self.data)]
        more = [part for name, value in self._options.items() for part in ("-X", f"{name}={value}")]
        return [
            *(sys.executable, "-m", "barnabas", "up"),
            *where,
            *("--listen", f"{self.host}:{self.port}"),
            *more,
        ]

    def start(self) -> "BrokerProcess":
        assert self._process is None, "it runs already"
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, **self._env},
            )
        try:
            self._read_ready_line()
        except BaseException:
            self.kill()
            raise
        return self

    def _read_ready_line(self) -> None:
        process = self._running()
        assert process.stdout is not None
        descriptor = process.stdout.fileno()
        deadline = time.monotonic() + START_TIMEOUT_S
        said = b""
        with selectors.DefaultSelector() as selector:
            selector.register(descriptor, selectors.EVENT_READ)
            while not (ready := READY.search(said.decode(errors="replace"))):
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise TimeoutError(
                        f"no ready line in {START_TIMEOUT_S} s: {self._diagnosis(said)}"
                    )
                piece = os.read(descriptor, 65536)
                if not piece:
                    raise RuntimeError(f"ended before it was ready: {self._diagnosis(said)}")
                said += piece
        self.host, self.port, self.ready_ms = ready[1], int(ready[2]), int(ready[3])

    def _diagnosis(self, said: bytes) -> str:
        return f"stdout {said!r}, stderr:\n{self.log[-4000:]}"

    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "it is not running"
        return self._process

    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """As a crash does it: SIGKILL, nothing flushed, nothing closed."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """SIGTERM, and the exit code."""
        return self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> int:
        process, self._process = self._running(), None
        process.send_signal(number)
        try:
            return process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise TimeoutError(
                f"still there {STOP_TIMEOUT_S} s after {number.name}: {self._diagnosis(b'')}"
            ) from None
        finally:
            if process.stdout is not None:
                process.stdout.close()

    def restart(self) -> None:
        """Stop cleanly if it still runs, and start on the same data and port."""
        if self._process is not None:
            self.stop()
        self.start()

    def check_log(self) -> None:
        """No exception may have escaped unhandled, whatever the client did."""
        assert "Traceback" not in self.log, self.log[-8000:]


class ClusterProcess(BrokerProcess):
    """Several brokers under one `barnabas up`; to a test they look like one that is spread out."""

    def __init__(
        self,
        count: int,
        data: Path | None,
        options: Mapping[str, str] | None = None,
        *,
        log: Path,
        env: Mapping[str, str] | None = None,
    ) -> None:
        more = {**IN_CLUSTER, **(options or {})}
        super().__init__(data, more, port=free_ports_from(count), log=log, env=env)
        self.count = count
        self._first = self.port

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"127.0.0.1:{self._first + number}" for number in range(self.count))

    @property
    def ports(self) -> list[int]:
        return [self._first + number for number in range(self.count)]

    def command(self) -> list[str]:
        self.host, self.port = "127.0.0.1", self._first
        return [*super().command(), "--brokers", str(self.count)]

    def start(self) -> "ClusterProcess":
        super().start()
        self.host, self.port = "127.0.0.1", self._first
        return self

    def kill(self) -> None:
        """All of them, before any could stop cleanly for want of its supervisor."""
        process = self._running()
        process.send_signal(signal.SIGSTOP)  # or it starts again the one that dies
        for child in children(process.pid):
            os.kill(child, signal.SIGKILL)
        super().kill()


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in path.read_text().split()]


def cpu_s(broker: BrokerProcess) -> float:
    """What the process has used so far; unlike time, no other process adds to it."""
    fields = Path(f"/proc/{broker.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def running_broker(
    directory: Path,
    options: Mapping[str, str] | None = None,
    *,
    env: Mapping[str, str] | None = None,
) -> Iterator[BrokerProcess]:
    """A broker with its data and its log in `directory`, stopped at the end; or BROKERS of them."""
    directory.mkdir(parents=True, exist_ok=True)
    log = directory / "broker.log"
    options = {**KEPT, **(options or {})}
    if BROKERS > 1:
        broker: BrokerProcess = ClusterProcess(
            BROKERS, directory / "data", options, log=log, env=env
        )
    else:
        port = free_ports_from(1)
        broker = BrokerProcess(directory / "data", options, port=port, log=log, env=env)
    broker.is_secured = SECURED
    broker.start()
    try:
        yield broker
    finally:
        if broker.is_running():
            broker.stop()
    broker.check_log()
