"""MirrorMaker 2, from Maven: what our mirror is compared with.

In: two clusters and a pattern of topics. Out: a process that copies them, as ALIAS.TOPIC.
"""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.cache import once, run
from tests.support.install import program
from tests.support.java import KAFKA_VERSION, MAVEN_TIMEOUT_S, Java

STOP_TIMEOUT_S = 20


def mirror_maker_lib() -> Path:
    """The directory of its jars, fetched by Maven on first use."""
    return once(f"mirror-maker-{KAFKA_VERSION}", _fetch)


def _fetch(directory: Path) -> None:
    program("java")
    wanted = (
        ("org.apache.kafka", "connect-mirror", KAFKA_VERSION),
        ("org.slf4j", "slf4j-simple", "1.7.36"),
    )
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version></dependency>"
        for group, artifact, version in wanted
    )
    pom = directory / "pom.xml"
    pom.write_text(
        "<project><modelVersion>4.0.0</modelVersion><groupId>peers</groupId>"
        "<artifactId>mirror-maker</artifactId><version>1</version>"
        f"<dependencies>{dependencies}</dependencies></project>"
    )
    run(
        [program("mvn"), "-q", "-B", "-f", pom, "dependency:copy-dependencies",
         f"-DoutputDirectory={directory}"],
        timeout_s=MAVEN_TIMEOUT_S,
        what=f"MirrorMaker {KAFKA_VERSION} from Maven",
    )  # fmt: skip


@contextmanager
def running_mirror_maker(
    directory: Path, source: str, target: str, *, alias: str, topics: str, tasks: int
) -> Iterator[subprocess.Popen[bytes]]:
    """Its own defaults, but for what one broker and a short run need."""
    directory.mkdir(parents=True, exist_ok=True)
    options = {
        "clusters": f"{alias}, target",
        f"{alias}.bootstrap.servers": source,
        "target.bootstrap.servers": target,
        f"{alias}->target.enabled": "true",
        f"{alias}->target.topics": topics,
        "tasks.max": str(tasks),
        "replication.factor": "1",
        "checkpoints.topic.replication.factor": "1",
        "heartbeats.topic.replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "offset.storage.replication.factor": "1",
        "status.storage.replication.factor": "1",
        "config.storage.replication.factor": "1",
        "sync.topic.acls.enabled": "false",
        "refresh.topics.interval.seconds": "1",
    }
    properties = directory / "mm2.properties"
    properties.write_text("".join(f"{name} = {value}\n" for name, value in options.items()))
    java = Java(f"{mirror_maker_lib()}/*")
    flags = ("-Xms256M", "-Xmx2G", "-server", "-XX:+UseG1GC")  # as connect-mirror-maker.sh
    with open(directory / "mm2.out", "ab") as out:
        process = subprocess.Popen(
            java.command(
                "org.apache.kafka.connect.mirror.MirrorMaker", str(properties), flags=flags
            ),
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
