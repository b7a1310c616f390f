"""A Spark session that starts quietly, finds this Python, and says in one line why it cannot.

In: a master and Spark's own options. Out: a SparkSession.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from barnabas.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_MIN = 17
_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?')
_JAVA_TIMEOUT_S = 20
_LOGGING = Path(__file__).parent / "log4j2.properties"


def session(
    master: str = "local[*]", *, name: str = "barnabas", options: dict[str, str] | None = None
) -> "SparkSession":
    """The session there is, else a new one. `options` are Spark's, and go before ours."""
    check_java()
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise PipelineError("pyspark is not installed: pip install 'barnabas[spark]'") from None
    # Tasks would otherwise run whatever python3 is first in the PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    ours = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{_LOGGING}",
    }
    if master.startswith("local"):
        ours |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    builder = SparkSession.builder.master(master).appName(name)
    for option, value in {**ours, **(options or {})}.items():
        builder = builder.config(option, value)
    return builder.getOrCreate()


def check_java() -> None:
    """PipelineError unless Spark would find a Java that it runs on."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if java is None or not os.access(java, os.X_OK):
        where = f"in JAVA_HOME ({home})" if home else "in the PATH"
        raise PipelineError(
            f"Spark needs Java {JAVA_MIN} or newer, and there is none {where}:"
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
