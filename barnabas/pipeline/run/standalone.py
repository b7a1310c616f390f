"""A Spark cluster on this machine: a master and workers, from the classes in pyspark's wheel.

In: the number and size of the workers. Out: processes, and the address for `run.master`.
Always: all of them end with this process, however it ends; if one dies, the others are stopped.
Anyone who can reach the master can run programs here: by default it listens on the loopback only.
"""

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.run.session import check_java, spark_home
from barnabas.pipeline.run.stopping import StopRequest

_LOGGING = Path(__file__).parent / "log4j2-cluster.properties"
_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"
_LEADS = re.compile(r"I have been elected leader")
_JOINED = re.compile(r"Registering worker ")
_READY_S_MAX = 180.0
_STOP_S_MAX = 20.0
_TOLD_MAX = 20
# PR_SET_PDEATHSIG: the kernel sends SIGTERM when this process dies, even if it is killed. It stays
# set after exec.
_DIE_WITH_PARENT = """
import ctypes, os, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, 15)
os.execv(sys.argv[1], sys.argv[1:])
"""


class Daemon:
    """One process of the cluster, and its output."""

    def __init__(self, name: str, command: list[str], environment: dict[str, str]) -> None:
        self.name = name
        self.leads = Event()
        self.joined = 0
        self._said: deque[str] = deque(maxlen=_TOLD_MAX)
        self.process = subprocess.Popen(
            [sys.executable, "-c", _DIE_WITH_PARENT, *command],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,  # Ctrl-C is for the parent process
        )
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if _LEADS.search(line):
                self.leads.set()
            elif _JOINED.search(line):
                self.joined += 1
            elif not line.startswith("INFO "):
                self._said.append(line.strip())

    def is_dead(self) -> bool:
        return self.process.poll() is not None

    def failure_text(self) -> str:
        """Why the process ended, in one line."""
        self._reader.join(1)
        return f"Spark's {self.name} ended with {self.process.poll()}: {self.said}"

    @property
    def said(self) -> str:
        """The last line of its output that is not informational."""
        return next((line[:300] for line in reversed(self._said) if line), "it wrote nothing")

    def stop(self) -> None:
        if not self.is_dead():
            self.process.terminate()
            try:
                self.process.wait(_STOP_S_MAX)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self._reader.join(1)
        assert self.process.stderr is not None
        self.process.stderr.close()


class Standalone:
    """A running Spark cluster."""

    def __init__(self, master: str, daemons: list[Daemon]) -> None:
        self.master = master
        self.daemons = daemons

    def watch(self, stop: StopRequest) -> None:
        """Wait until a stop is requested. PipelineError if a process ends before."""
        while not stop.wait(0.2):
            for daemon in self.daemons:
                if daemon.is_dead():
                    raise PipelineError(daemon.failure_text())


@contextmanager
def standalone(
    *, host: str, port: int, workers: int, cores: int, memory: str, stop: StopRequest | None = None
) -> Iterator[Standalone]:
    """Start a cluster, and wait until each worker has joined. Files of executors are deleted at the
    end.
    """
    stop = stop or StopRequest()
    check_java()
    port = _free(host, port)
    home = spark_home()
    start = os.path.join(home, "bin", "spark-class")
    environment = {
        **os.environ,
        "SPARK_HOME": home,
        "SPARK_LOCAL_IP": host,
        "SPARK_DAEMON_MEMORY": "512m",
        # The REST interface has a fixed port, which a second cluster could not use.
        "SPARK_DAEMON_JAVA_OPTS": f"-Dlog4j2.configurationFile=file:{_LOGGING}"
        " -Dspark.port.maxRetries=0 -Dspark.master.rest.enabled=false",
    }
    address = f"spark://{host}:{port}"
    directory = tempfile.mkdtemp(prefix="barnabas-spark-")
    daemons: list[Daemon] = []
    try:
        command = [start, _MASTER, "--host", host, "--port", str(port), "--webui-port", "0"]
        master = Daemon("master", command, environment)
        daemons.append(master)
        _wait(daemons, master.leads.is_set, "its master has not started", stop)
        for number in range(workers):
            size = ["--cores", str(cores), "--memory", memory, "--host", host]
            where = ["--work-dir", os.path.join(directory, str(number)), "--webui-port", "0"]
            command = [start, _WORKER, *size, *where, address]
            daemons.append(Daemon(f"worker {number}", command, environment))
        late = f"not all of its {workers} workers have joined"
        _wait(daemons, lambda: master.joined >= workers, late, stop)
        yield Standalone(address, daemons)
    finally:
        for daemon in reversed(daemons):
            daemon.stop()
        shutil.rmtree(directory, ignore_errors=True)


def _wait(daemons: list[Daemon], ready: Callable[[], bool], late: str, stop: StopRequest) -> None:
    deadline = time.monotonic() + _READY_S_MAX
    while not ready() and not stop.asked:
        for daemon in daemons:
            if daemon.is_dead():
                raise PipelineError(daemon.failure_text())
        if time.monotonic() > deadline:
            said = "".join(f"; {daemon.name}: {daemon.said}" for daemon in daemons)
            raise PipelineError(
                f"the Spark cluster was not ready after {_READY_S_MAX:.0f} s: {late}{said}"
            )
        stop.wait(0.05)


def _free(host: str, port: int) -> int:
    """The port, or any free port for 0. PipelineError, in one line, if it cannot be used."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except OSError as problem:
            raise PipelineError(
                f"{host}:{port} cannot be listened on: {problem.strerror or problem}:"
                " choose another port; 0 picks a free one"
            ) from None
        return int(listener.getsockname()[1])
