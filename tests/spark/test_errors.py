"""What a user will get wrong: one line each, of `pipeline run` with an exit code, and of Spark."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.spark.specs import order, write
from tests.spark.topics import create, cut, produce
from tests.support.cache import ROOT
from tests.waiting import PROGRAM_S

SPEC = """
name: {name}
kind: {kind}
source: {{servers: "{servers}", topics: [{topic}], {source}}}
sink: {{{sink}}}
run: {{master: "{master}", {run}}}
{more}
"""


def pipeline(directory: Path, servers: str, topic: str, **changed: str) -> tuple[int, list[str]]:
    """Run a spec by the command; its exit code and what it said."""
    given = {
        "name": "mistake",
        "kind": "stream",
        "source": "format: json, schema: id long",
        "sink": "format: console",
        "run": f"checkpoint: {directory}/checkpoint",
        "master": "local[1]",
        "more": "",
    } | changed
    path = directory / "spec.yml"
    path.write_text(SPEC.format(servers=servers, topic=topic, **given))
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "XDG_STATE_HOME": str(directory / "state"),
        **({"JAVA_HOME": changed["java"]} if "java" in changed else {}),
    }
    ended = subprocess.run(
        [sys.executable, "-m", "barnabas", "pipeline", "run", str(path)],
        capture_output=True,
        text=True,
        env=environment,
        cwd=directory,
        timeout=2 * PROGRAM_S,
        check=False,
    )
    assert ended.stdout == "", ended
    return ended.returncode, ended.stderr.splitlines()


def java(directory: Path, version: str) -> str:
    path = directory / "java" / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    path.chmod(0o755)
    return str(directory / "java")


@pytest.mark.parametrize(
    ("changed", "code", "said"),
    [
        ({"topic": "ordres"}, 3, "barnabas: topic 'ordres': this broker has no such topic"),
        ({"servers": "127.0.0.1:1"}, 1, "barnabas: no broker at 127.0.0.1:1: Connection refused"),
        ({"servers": "no.such.host.invalid:9092"}, 1, "barnabas: no broker at no.such.host"),
        ({"java": "/there/is/none"}, 1, "barnabas: Spark needs Java 17 or newer, and found"),
        ({"java": "11.0.2"}, 1, "is 11: set JAVA_HOME to a newer one"),
        (
            {"source": "format: json, schema: id lnog"}, 1,
            "barnabas: valueSchema: column id cannot be of type 'lnog'; did you mean long",
        ),
        (
            {"source": "format: avro, schema: order.avsc"}, 1,
            "barnabas: valueSchema: expected an Avro schema in JSON, or a file that contains one,"
            " got 'order.avsc'",
        ),
        (
            {"source": "format: protobuf, schema: none.desc, message: a.B"}, 1,
            "barnabas: valueSchema: none.desc: No such file or directory",
        ),
        (
            {"source": "format: avro, registry: 'http://127.0.0.1:1'"}, 1,
            "barnabas: schema registry: http://127.0.0.1:1/subjects/",
        ),
        ({"sink": "fromat: console"}, 2, "barnabas: sink.fromat: 'console': no such key; did you"
         " mean format?"),
        ({"sink": "format: [console]"}, 2, "barnabas: sink.format: ['console']: expected text"),
        ({"more": "errors: {retries: many, dlq: d}"}, 2, "barnabas: errors.retries: 'many': use a"),
        ({"run": "checkpoint: c, trigger: often"}, 2, "barnabas: run.trigger: 'often': use"),
        ({"more": "transform: 'no.such:f'"}, 1, "transform: 'no.such:f': No module named"),
        ({"master": "spark://127.0.0.1:1"}, 1, "barnabas: no Spark master answers at spark://127"),
        ({"master": "sprak://a:1"}, 2, "barnabas: run.master: 'sprak://a:1': use local[*], spark://"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) else None,
)  # fmt: skip
def test_a_mistake_that_shows_before_spark_starts_is_one_line(
    our_broker: Any, topic: str, tmp_path: Path, changed: dict[str, str], code: int, said: str
) -> None:
    create(our_broker.bootstrap_servers, topic)
    changed = {"servers": our_broker.bootstrap_servers, "topic": topic, **changed}
    if changed.get("java") == "11.0.2":
        changed["java"] = java(tmp_path, "11.0.2")
    found, lines = pipeline(tmp_path, **changed)
    assert len(lines) == 1, lines
    assert said in lines[0]
    assert found == code, lines


def test_a_mistake_that_spark_finds_is_one_line(
    our_broker: Any, topic: str, tmp_path: Path
) -> None:
    servers = our_broker.bootstrap_servers
    create(servers, topic, 1)
    write(servers, topic, [(0, order(0)), (1, b"{bad")])
    code, lines = pipeline(tmp_path, servers, topic)
    assert (code, len(lines)) == (1, 1), lines
    assert lines[0].startswith(f"barnabas: {topic}-0, offset 1: ")
    assert lines[0].endswith("set errors.dlq to continue without such rows")
    (tmp_path / "steps.py").write_text("def f(rows):\n    return rows.select('nothing')\n")
    code, lines = pipeline(tmp_path, servers, topic, more="transform: 'steps:f'")
    assert (code, len(lines)) == (1, 1), lines
    assert "`nothing` cannot be resolved" in lines[0]


def test_records_that_are_gone_end_a_pipeline_with_one_line(
    spark: Any, our_broker: Any, topic: str, tmp_path: Path
) -> None:
    from barnabas.pipeline.errors import PipelineError, from_spark
    from tests.spark.specs import run, spec

    servers = our_broker.bootstrap_servers
    create(servers, topic)
    produce(servers, topic, range(30))
    found = spec("stream", servers, topic, tmp_path, sink={"format": "console"},
                 source={"format": "bytes", "schema": None})  # fmt: skip
    run(found, spark)
    produce(servers, topic, range(30, 60))
    cut(servers, topic, 0, 15)
    with pytest.raises(Exception, match=r"lost") as caught:
        run(found, spark)
    problem: Any = caught.value
    line = str(problem if isinstance(problem, PipelineError) else from_spark(problem))
    assert line == (
        f"{topic}-0 begins at offset 15, but 10 was requested: records may have been lost. Set"
        " failOnDataLoss to false to continue without them"
    )


def test_a_directory_that_cannot_be_made_is_named(
    spark: Any, our_broker: Any, topic: str, tmp_path: Path
) -> None:
    from barnabas.pipeline.errors import PipelineError
    from tests.spark.specs import run, spec

    servers = our_broker.bootstrap_servers
    create(servers, topic)
    (tmp_path / "file").write_text("")
    below = f"{tmp_path}/file/below"
    right: dict[str, Any] = {"sink": {"path": f"{tmp_path}/lake"}}
    for key, wrong in (
        ("sink.path", {"sink": {"path": below}}),
        ("run.checkpoint", {"run": {"checkpoint": below}}),
    ):
        found = spec("lake", servers, topic, tmp_path, **{**right, **wrong})
        with pytest.raises(PipelineError, match=key) as caught:
            run(found, spark)
        assert str(caught.value).startswith(f"{key}: {below}")
        assert "\n" not in str(caught.value)


def test_sparks_own_words_are_one_line(spark: Any) -> None:
    from barnabas.pipeline.errors import from_spark

    with pytest.raises(Exception, match=r"nothing") as caught:
        spark.range(1).select("nothing")
    line = str(from_spark(caught.value))
    assert "`nothing` cannot be resolved" in line
    assert not line.startswith("[")
    assert "SQLSTATE" not in line
    assert "\n" not in line
    with pytest.raises(Exception, match=r"ZERO") as divided:
        spark.sql("select 1 / 0").collect()
    assert str(from_spark(divided.value)).startswith("Division by zero.")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"subscribe": "there-is-none"}, "topic 'there-is-none': this broker has no such topic"),
        ({"subscribe": "t", "kafka.bootstrap.servers": "127.0.0.1:1"}, "no broker at 127.0.0.1:1"),
        ({"subscribe": "t", "startingOffsets": "{"}, "startingOffsets: expected"),
        ({"subscribe": "t", "valueFormat": "json", "valueSchema": "id lnog"}, "did you mean long"),
        ({"subscribe": "t", "valueFormat": "avro", "valueSchema": "x.avsc"}, "Avro schema"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) else None,
)
def test_a_read_of_sparks_says_it_in_one_line_too(
    spark: Any, our_broker: Any, options: dict[str, str], said: str
) -> None:
    """Spark adds its own name for an error in front, and its SQLSTATE behind."""
    servers = our_broker.bootstrap_servers
    given = {"kafka.bootstrap.servers": servers, **options}
    for read in (_batch, _stream):
        with pytest.raises(Exception, match=said) as caught:
            read(spark, given)
        text = str(caught.value)
        assert "Traceback" not in text
        assert "\tat " not in text


def _batch(spark: Any, options: dict[str, str]) -> None:
    spark.read.format("barnabas").options(**options).load().collect()


def _stream(spark: Any, options: dict[str, str]) -> None:
    rows = spark.readStream.format("barnabas").options(**options).load()
    query = rows.writeStream.format("noop").trigger(availableNow=True).start()
    query.awaitTermination(60)
