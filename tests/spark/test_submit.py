"""What Spark's own spark-submit makes of our command, for clusters that are not here."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from barnabas.pipeline.run.spec import parse
from barnabas.pipeline.run.submit import prepare, submit_command
from tests.support.cache import ROOT
from tests.waiting import PROGRAM_S


def document(master: str) -> dict[str, Any]:
    return {
        "name": "orders-lake",
        "kind": "lake",
        "source": {"servers": "127.0.0.1:1", "topics": ["orders"]},
        "sink": {"path": "/lake"},
        "run": {"master": master, "checkpoint": "/c", "options": {"spark.executor.cores": 2}},
    }


def understood(spark: Any, master: str, directory: Path) -> tuple[str, list[str], Any]:
    """The class it would run, with which arguments and options."""
    spec = parse(document(master))
    (directory / "spec.yml").write_text(json.dumps(document(master)))
    prepare(directory / "spec.yml", spec, directory)
    _, *given = submit_command(spec, directory)
    java, utils = spark._jvm, spark._jvm.org.apache.spark.api.python.PythonUtils
    environment = utils.toScalaMap({"HADOOP_CONF_DIR": str(directory)})
    arguments = java.org.apache.spark.deploy.SparkSubmitArguments(utils.toSeq(given), environment)
    submit = java.org.apache.spark.deploy.SparkSubmit()
    found = submit.prepareSubmitEnvironment(arguments, java.scala.Option.empty())
    called = [found._1().apply(number) for number in range(found._1().length())]
    return found._4(), called, found._3()


def test_yarn_gets_the_program_the_spec_and_the_package(spark: Any, tmp_path: Path) -> None:
    main, called, options = understood(spark, "yarn", tmp_path)
    assert main == "org.apache.spark.deploy.yarn.YarnClusterApplication"
    assert called[called.index("--primary-py-file") + 1].endswith("/run_pipeline.py")
    assert called[called.index("--arg") + 1] == "orders-lake.json"
    assert options.get("spark.submit.deployMode") == "cluster"
    assert options.get("spark.app.name") == "orders-lake"
    assert options.get("spark.executor.cores") == "2"
    assert options.get("spark.yarn.dist.files").endswith(f"{tmp_path}/orders-lake.json")
    package = f"{tmp_path}/barnabas-package.tar#barnabas-package"
    assert options.get("spark.yarn.dist.archives").endswith(package)
    for side in ("yarn.appMasterEnv", "executorEnv"):
        assert options.get(f"spark.{side}.PYTHONPATH") == "barnabas-package"


def test_kubernetes_gets_the_same(spark: Any, tmp_path: Path) -> None:
    main, called, options = understood(spark, "k8s://https://127.0.0.1:6443", tmp_path)
    assert main == "org.apache.spark.deploy.k8s.submit.KubernetesClientApplication"
    assert called[called.index("--primary-py-file") + 1].endswith("/run_pipeline.py")
    assert called[called.index("--arg") + 1] == "orders-lake.json"
    assert options.get("spark.files").endswith(f"{tmp_path}/orders-lake.json")
    package = f"{tmp_path}/barnabas-package.tar#barnabas-package"
    assert options.get("spark.archives").endswith(package)
    for side in ("kubernetes.driverEnv", "executorEnv"):
        assert options.get(f"spark.{side}.PYTHONPATH") == "barnabas-package"


@pytest.mark.parametrize(
    ("master", "more", "said"),
    [
        ("yarn", [], "spark-submit: When running with master 'yarn' either HADOOP_CONF_DIR or"),
        ("yarn", ["--quue", "etl"], "spark-submit: Unrecognized option: --quue"),
        ("spark://127.0.0.1:1", [], "no Spark master answers at spark://127.0.0.1:1"),
    ],
    ids=["no yarn", "no such option", "no master"],
)
def test_what_spark_submit_refuses_is_one_line(
    tmp_path: Path, master: str, more: list[str], said: str
) -> None:
    (tmp_path / "spec.yml").write_text(json.dumps(document(master)))
    ended = subprocess.run(
        [sys.executable, "-m", "barnabas", "pipeline", "submit", "spec.yml", *more],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "XDG_STATE_HOME": str(tmp_path)},
        cwd=tmp_path,
        timeout=2 * PROGRAM_S,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (1, ""), ended
    assert len(ended.stderr.splitlines()) == 1, ended.stderr
    assert ended.stderr.startswith(f"barnabas: {said}")
