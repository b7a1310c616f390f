"""The command that sends a pipeline to a cluster, and what goes along with it; no Spark runs."""

import json
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.run.spec import parse
from barnabas.pipeline.run.submit import prepare, submit, submit_command
from tests.waiting import WAIT_S

pytest.importorskip("pyspark", reason="pyspark is not installed")
pytest.importorskip("yaml", reason="PyYAML is not installed")
HERE = Path("/sent")


def document(master: str) -> dict[str, Any]:
    return {
        "name": "orders-lake",
        "kind": "lake",
        "source": {"servers": "h:9092", "topics": ["orders"]},
        "sink": {"path": "/lake"},
        "run": {"master": master, "checkpoint": "/c", "options": {"spark.executor.cores": 2}},
    }


def command(master: str, *more: str) -> list[str]:
    given = submit_command(parse(document(master)), HERE, more)
    number = next(n for n, each in enumerate(given) if each.endswith("/bin/spark-submit"))
    assert given[:number] in ([], ["env", f"PYSPARK_PYTHON={sys.executable}"])
    return given[number + 1 :]


def test_on_yarn_and_kubernetes_the_driver_goes_to_the_cluster_with_all_it_needs() -> None:
    for master, place in (
        ("yarn", "spark.yarn.appMasterEnv.PYTHONPATH"),
        ("k8s://https://h:6443", "spark.kubernetes.driverEnv.PYTHONPATH"),
    ):
        assert command(master, "--driver-memory", "2g") == [
            *("--master", master, "--name", "orders-lake"),
            *("--deploy-mode", "cluster", "--files", "/sent/orders-lake.json"),
            *("--archives", "/sent/barnabas-package.tar#barnabas-package"),
            *("--conf", f"{place}=barnabas-package"),
            *("--conf", "spark.executorEnv.PYTHONPATH=barnabas-package"),
            *("--conf", "spark.executor.cores=2"),
            *("--driver-memory", "2g", "/sent/run_pipeline.py", "orders-lake.json"),
        ]


def test_on_a_standalone_cluster_the_driver_stays_and_keeps_quiet() -> None:
    given = command("spark://h:7077")
    assert "--deploy-mode" not in given
    assert given[-2:] == ["/sent/run_pipeline.py", "/sent/orders-lake.json"]
    assert any("log4j2.configurationFile" in each for each in given)
    assert f"spark.pyspark.python={sys.executable}" in given


def test_a_process_of_its_own_is_nothing_to_submit_to() -> None:
    with pytest.raises(PipelineError, match=r"'local\[\*\]': there is nothing to submit to"):
        command("local[*]")


@pytest.mark.full
def test_what_is_sent_needs_no_package_that_a_cluster_may_lack(tmp_path: Path) -> None:
    path = tmp_path / "spec.yml"
    path.write_text(json.dumps(document("yarn")))
    prepare(path, parse(document("yarn")), tmp_path)
    assert (tmp_path / "orders-lake.json").stat().st_mode & 0o777 == 0o600  # it may have a login
    assert json.loads((tmp_path / "orders-lake.json").read_text()) == document("yarn")
    with tarfile.open(tmp_path / "barnabas-package.tar") as archive:
        archive.extractall(tmp_path / "package", filter="data")
    (tmp_path / "ask.py").write_text(
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name in 'click rich yaml structlog prometheus_client uvloop'.split():\n"
        "            raise ImportError(name)\n"
        "sys.meta_path.insert(0, Absent())\n"
        "import barnabas.pipeline.run.submitted, barnabas.pipeline.lake.lake\n"
        "import barnabas.pipeline.mirror.mirroring\n"
        "import barnabas.pipeline.spark.source, barnabas.pipeline.spark.sink, pyspark_barnabas\n"
        "import crc32c\n"
        "print(barnabas.__file__, crc32c.__file__)\n"
    )
    asked = subprocess.run(
        [sys.executable, "ask.py"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path / "package")},
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert asked.stderr == ""
    assert all(each.startswith(str(tmp_path / "package")) for each in asked.stdout.split())


def submitted(*said: str, code: int = 0) -> tuple[list[str], list[str], str | int]:
    """What is passed on of lines, those that begin with 2 from standard error; how it ended."""
    out: list[str] = []
    err: list[str] = []
    program = "import sys\n" + "".join(
        f"print({line[1:]!r}, file=sys.{'stderr' if line[0] == '2' else 'stdout'}, flush=True)\n"
        for line in said
    )
    command = [sys.executable, "-c", f"{program}sys.exit({code})"]
    try:
        return out, err, submit(command, out.append, err.append)
    except PipelineError as problem:
        return out, err, str(problem)


def test_what_spark_submit_says_is_passed_on_without_javas_stacks() -> None:
    assert submitted("1batch 0", "2WARNING: Using incubator modules: x", "2state: RUNNING") == (
        ["batch 0"], ["state: RUNNING"], 0
    )  # fmt: skip


def test_why_it_failed_is_one_line_and_said_once() -> None:
    java = (
        '2Exception in thread "main" org.apache.spark.SparkException: no such queue',
        "2\tat org.apache.spark.deploy.SparkSubmit.main(SparkSubmit.scala)",
        "2Caused by: java.net.ConnectException: Connection refused",
        "2\t... 20 more",
    )
    ended = submitted(*java, code=1)
    assert ended == ([], [], "spark-submit: no such queue: Connection refused")
    usage = ("2Error: Unrecognized option: --quue", "2", "2Usage: spark-submit [options]")
    assert submitted(*usage, code=1)[1:] == ([], "spark-submit: Unrecognized option: --quue")
    # A driver that stays here has told it; Spark joins its outputs.
    told = submitted("1barnabas: no such topic", code=1)
    assert told == ([], ["barnabas: no such topic"], 1)
    assert submitted(code=3) == ([], [], "spark-submit: ended with 3")
