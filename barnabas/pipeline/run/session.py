"""A Spark session that starts quietly, runs this Python, and reports a failed start in one line.

In: a master and Spark's own options. Out: a SparkSession.
Executors elsewhere get this package by themselves (package.py).
"""

import atexit
import logging
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.run.jvm_noise import quietly
from barnabas.pipeline.spark.worker_start import quick_options, unzipped

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_MIN = 17
_STANDALONE = "spark://"
_SUBMITTED = "PYSPARK_GATEWAY_PORT"
_LOOPBACK = ("127.", "localhost")
_CONNECT_S_MAX = 5
_EXECUTOR_S_MAX = 120  # on a busy machine, a JVM may need a minute to start
_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?')
_JAVA_TIMEOUT_S = 20
_LOGGING = Path(__file__).parent / "log4j2.properties"
QUIET_JAVA = f"-Xss4m -Dlog4j2.configurationFile=file:{_LOGGING}"


def session(
    master: str = "local[*]",
    *,
    name: str = "barnabas",
    options: dict[str, str] | None = None,
    modules: Iterable[str] = (),
) -> "SparkSession":
    """The active session, or a new one. `options`: Spark's options; they override ours.

    `modules`: the user's modules that executors need too.
    """
    spark_home()
    from pyspark.sql import SparkSession

    # Under spark-submit, which has set up Java, the master and the package.
    submitted = _SUBMITTED in os.environ
    if not submitted:
        check_java()
        check_master(master)
    os.environ["PYSPARK_PYTHON"] = python_of(options or {})
    ours = {
        **quick_options(),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.driver.extraJavaOptions": QUIET_JAVA,
    }
    local = master == "local" or master.startswith("local[")
    if local or master.removeprefix(_STANDALONE).startswith(_LOOPBACK):
        ours |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    if not local and not submitted:
        ours |= _packaged(modules)
    given = {**ours, **(options or {})}
    builder = SparkSession.builder.appName(name)
    if not submitted:
        builder = builder.master(master)
    for option, value in given.items():
        builder = builder.config(option, value)
    _hush()
    python = os.environ["PYSPARK_PYTHON"]
    # The driver's Python processes start in this process's pyspark; workers have their own Spark.
    here = not submitted and (local or master.startswith(_STANDALONE))
    with quietly(), unzipped(spark_home(), python) if here else nullcontext():
        spark = builder.getOrCreate()
    if master.startswith(_STANDALONE) and "spark.dynamicAllocation.enabled" not in given:
        _wait_for_executor(spark, master)
    return spark


def spark_home() -> str:
    """The directory of pyspark. PipelineError if it is not installed."""
    from importlib.util import find_spec

    found = find_spec("pyspark")
    if found is None or found.origin is None:
        raise PipelineError("pyspark is not installed: pip install 'barnabas[spark]'")
    return os.environ.get("SPARK_HOME") or str(Path(found.origin).parent)


def python_of(options: Mapping[str, str]) -> str:
    """Sets the Python that tasks run, here and elsewhere; Spark's driver looks for formats with it
    as well.

    By default Spark runs the first python3 in the PATH, and it uses the option only for its own
    programs.
    """
    named = options.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON")
    return named or sys.executable


def _hush() -> None:
    """PySpark logs an error that it also raises."""
    from pyspark.logger import PySparkLogger

    PySparkLogger.getLogger("DataFrameQueryContextLogger").setLevel(logging.CRITICAL)


def _packaged(modules: Iterable[str]) -> dict[str, str]:
    """The options that send this package to executors."""
    from barnabas.pipeline.run.package import FOLDER, write_package

    directory = tempfile.mkdtemp(prefix="barnabas-package-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    path = Path(directory) / f"{FOLDER}.tar"
    write_package(path, modules)
    return {"spark.archives": f"{path}#{FOLDER}", "spark.executorEnv.PYTHONPATH": FOLDER}


def check_master(master: str) -> None:
    """PipelineError unless the master answers. Spark tries for a minute, and then reports another
    error.
    """
    if not master.startswith(_STANDALONE):
        return
    reasons = []
    for each in master.removeprefix(_STANDALONE).split(","):
        host, _, port = each.rpartition(":")
        try:
            with socket.create_connection((host, int(port)), timeout=_CONNECT_S_MAX):
                return
        except (OSError, ValueError) as problem:
            reasons.append(f"{each}: {getattr(problem, 'strerror', None) or problem}")
    raise PipelineError(
        f"no Spark master answers at {master} ({'; '.join(reasons)[:200]}): start one"
        " (barnabas pipeline cluster up), or correct run.master"
    )


def _wait_for_executor(spark: "SparkSession", master: str) -> None:
    """PipelineError if no executor starts: a job without executors would wait for ever,
    silently.
    """
    context = spark.sparkContext._jsc.sc()
    deadline = time.monotonic() + _EXECUTOR_S_MAX
    while context.getExecutorMemoryStatus().size() < 2:  # the driver is listed too
        if time.monotonic() > deadline:
            spark.stop()
            raise PipelineError(
                f"{master} started no executor in {_EXECUTOR_S_MAX} s: check that it has workers,"
                " and that"
                " their cores and memory are free. Each application takes all cores unless"
                " spark.cores.max"
                " is set in run.options"
            )
        time.sleep(0.1)


def check_java() -> None:
    """PipelineError unless Spark can find a Java that it supports."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if java is None or not os.access(java, os.X_OK):
        where = f"in JAVA_HOME ({home})" if home else "in the PATH"
        raise PipelineError(
            f"Spark needs Java {JAVA_MIN} or newer, and found none {where}:"
            f" install one (Debian: openjdk-{JAVA_MIN}-jre-headless), or set JAVA_HOME"
        )
    try:
        said = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=_JAVA_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise PipelineError(f"Spark needs Java, and {java} does not run: {problem}") from None
    found = _VERSION.search(said.stderr + said.stdout)
    major = int(found[2] or 0) if found and found[1] == "1" else int(found[1]) if found else 0
    if major < JAVA_MIN:
        raise PipelineError(
            f"Spark needs Java {JAVA_MIN} or newer, and {java} is"
            f" {major or 'of an unknown version'}: set JAVA_HOME to a newer one"
        )
