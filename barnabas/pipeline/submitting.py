"""A pipeline by spark-submit: to YARN, Kubernetes or a standalone cluster, the driver in it.

In: a spec. Out: a directory with all that the cluster needs of it, and the command that sends it.
Always: the cluster's Python needs pyspark, pyarrow and pandas, and nothing else; the spec goes as
JSON, because there may be no parser of YAML.
Not here: `master` in a spec that is run, whose driver is the process that reads it (starting.py).
"""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.package import FOLDER, write_package
from barnabas.pipeline.spec import Spec, read_document
from barnabas.pipeline.starting import QUIET_JAVA, spark_home

MAIN = "run_pipeline.py"
_MAIN = """\
import sys

from barnabas.pipeline.submitted import main

sys.exit(main(sys.argv[1]))
"""
# Where the driver learns of the package; on a standalone cluster it stays here, which has it.
_DRIVER = {
    "yarn": "spark.yarn.appMasterEnv.PYTHONPATH",
    "k8s": "spark.kubernetes.driverEnv.PYTHONPATH",
}


def prepare(path: Path, spec: Spec, directory: Path) -> None:
    """Put into a directory what is sent: the package, the spec and a program that runs it."""
    modules = [] if spec.transform is None else [spec.transform.partition(":")[0]]
    write_package(directory / f"{FOLDER}.tar", modules)
    (directory / _named(spec)).write_text(json.dumps(read_document(path), default=str))
    (directory / MAIN).write_text(_MAIN)


def submit_command(spec: Spec, directory: Path, more: Sequence[str] = ()) -> list[str]:
    """As a shell would be given it. `more`: further options of spark-submit."""
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
        here = {"spark.driver.extraJavaOptions": QUIET_JAVA, "spark.pyspark.python": sys.executable}
        conf = {**here, **conf}
    command += ["--archives", f"{directory / FOLDER}.tar#{FOLDER}"]
    for name, value in conf.items():
        command += ["--conf", f"{name}={value}"]
    return [*command, *more, str(directory / MAIN), document]


def _named(spec: Spec) -> str:
    return f"{spec.name}.json"
