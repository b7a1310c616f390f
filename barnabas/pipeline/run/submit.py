"""Sends a pipeline to YARN, Kubernetes or a standalone cluster with spark-submit.

In: a spec. Out: a directory with all files that the cluster needs, and the spark-submit command,
which `submit` runs.
Always: the cluster's Python needs pyspark, pyarrow and pandas, and nothing else; the spec is sent
as JSON, because the cluster may have no YAML parser.
Not here: `run.master` of a pipeline that is run here, with its driver in this process (session.py).
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import IO

from barnabas.pipeline.errors import PipelineError, from_text
from barnabas.pipeline.run.jvm_noise import JvmNoise, is_loud
from barnabas.pipeline.run.package import FOLDER, write_package
from barnabas.pipeline.run.session import QUIET_JAVA, python_of, spark_home
from barnabas.pipeline.run.spec import Spec, read_document
from barnabas.pipeline.run.stopping import heeding

MAIN = "run_pipeline.py"
_MAIN = """\
import sys

from barnabas.pipeline.run.submitted import main

sys.exit(main(sys.argv[1]))
"""
# Where the driver finds the package; on a standalone cluster the driver runs here and has it.
_DRIVER = {
    "yarn": "spark.yarn.appMasterEnv.PYTHONPATH",
    "k8s": "spark.kubernetes.driverEnv.PYTHONPATH",
}
_OURS = "barnabas: "  # the driver's own line that says why it failed
_FAILED = ('Exception in thread "main" ', "Error: ")  # stack traces or usage text follow
_IDLE = "WARN Utils: "  # the host names and ports that Spark chose
_KEPT_LINES_MAX = 1000

Say = Callable[[str], None]


def prepare(path: Path, spec: Spec, directory: Path) -> None:
    """Write the package, the spec and a program that runs it into a directory."""
    modules = [] if spec.transform is None else [spec.transform.partition(":")[0]]
    write_package(directory / f"{FOLDER}.tar", modules)
    document = directory / _named(spec)
    document.touch(mode=0o600)  # it may have a login
    document.chmod(0o600)
    document.write_text(json.dumps(read_document(path), default=str))
    (directory / MAIN).write_text(_MAIN)


def submit_command(spec: Spec, directory: Path, more: Sequence[str] = ()) -> list[str]:
    """The spark-submit command. `more`: further options of spark-submit."""
    master = spec.run.master
    kind = master.partition(":")[0]
    if kind not in (*_DRIVER, "spark"):
        raise PipelineError(
            f"run.master: {master!r}: there is nothing to submit to: use yarn, k8s://HOST:PORT or"
            " spark://HOST:PORT, or run it (barnabas pipeline run)"
        )
    conf = {"spark.executorEnv.PYTHONPATH": FOLDER, **spec.run.options}
    command = [os.path.join(spark_home(), "bin", "spark-submit"), "--master", master]
    command += ["--name", spec.name]
    document = str(directory / _named(spec))
    if kind in _DRIVER:
        conf = {_DRIVER[kind]: FOLDER, **conf}
        command += ["--deploy-mode", "cluster", "--files", document]
        document = _named(spec)
    else:
        python = python_of(spec.run.options)
        here = {"spark.driver.extraJavaOptions": QUIET_JAVA, "spark.pyspark.python": python}
        conf = {**here, "spark.pyspark.driver.python": sys.executable, **conf}
        # The JVM always runs this one, regardless of its options, to find the format.
        command = ["env", f"PYSPARK_PYTHON={python}", *command]
    command += ["--archives", f"{directory / FOLDER}.tar#{FOLDER}"]
    for name, value in conf.items():
        command += ["--conf", f"{name}={value}"]
    return [*command, *more, str(directory / MAIN), document]


def _named(spec: Spec) -> str:
    return f"{spec.name}.json"


class _DriverOutput:
    """Passes on the output of spark-submit, without Java's stack traces and the final error."""

    def __init__(self, say: Say, complain: Say) -> None:
        self._say = say
        self._complain = complain
        self._noise = JvmNoise()
        self._why: list[str] = []
        self._was_reported = False

    def out(self, line: str) -> None:
        """Separates the two outputs of a local driver, which Spark merges."""
        if line.startswith(_OURS):
            self._was_reported = True
            self._complain(line)
        else:
            self._say(line)

    def err(self, line: str) -> None:
        is_why = bool(self._why) or line.startswith(_FAILED)
        if is_why and len(self._why) < _KEPT_LINES_MAX:
            self._why.append(line)
        is_noise = self._noise.is_in(f"{line}\n".encode()) or _IDLE in line
        if is_loud() or not (is_why or is_noise):
            self._complain(line)

    def problem(self, code: int) -> PipelineError | None:
        """Why it failed, unless the driver has reported that."""
        if not code or self._was_reported:
            return None
        text = "\n".join(self._why)
        for begin in _FAILED:
            text = text.removeprefix(begin)
        return PipelineError(f"spark-submit: {from_text(text) or f'ended with {code}'}")


def submit(command: Sequence[str], say: Say, complain: Say) -> int:
    """Run the command to its end: its exit code, or PipelineError in place of Java's stacks.

    On a first signal, a local driver finishes its batch. A second signal, or the first one if the
    driver is not local, ends all started processes.
    """
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    output = _DriverOutput(say, complain)
    readers = [
        Thread(target=_read, args=(process.stdout, output.out)),
        Thread(target=_read, args=(process.stderr, output.err)),
    ]
    with heeding(_Submitter(process.pid).end):
        for reader in readers:
            reader.start()
        code = process.wait()
        for reader in readers:
            reader.join()
    problem = output.problem(code)
    if problem is not None:
        raise problem
    return code


def _read(lines: IO[str], take: Say) -> None:
    with lines:
        for line in lines:
            take(line.rstrip("\n"))


class _Submitter:
    """The process of spark-submit. On the first stop request its driver stops cleanly."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._asked = False

    def end(self) -> None:
        driver = None if self._asked else _driver(self._pid)
        self._asked = True
        with suppress(ProcessLookupError):
            if driver is not None:
                os.kill(driver, signal.SIGTERM)
            else:
                os.killpg(self._pid, signal.SIGTERM)


def _driver(submitter: int) -> int | None:
    """The Python process that spark-submit started, if the system shows it."""
    for children in Path(f"/proc/{submitter}/task").glob("*/children"):
        for child in children.read_text().split():
            with suppress(OSError):
                if MAIN.encode() in Path(f"/proc/{child}/cmdline").read_bytes():
                    return int(child)
    return None
