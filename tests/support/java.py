"""Apache Kafka's jars from Maven, and Java programs run against them.

In: a main class, or a single-file program of `tests/support/java/`. Out: its output.
"""

import hashlib
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.secured import java_arguments
from tests.support.cache import once, run
from tests.support.install import program
from tests.support.tool_jvm import ToolJvm
from tests.waiting import PROGRAM_S

KAFKA_VERSION = "4.3.0"
SOURCES = Path(__file__).parent / "java"
MAVEN_TIMEOUT_S = 600
COMPILE_TIMEOUT_S = 600

STREAMS_SOURCES = Path(__file__).parent / "streams"

# They write their last lines while their JVM ends, so each needs one.
_REPORT_AT_THE_END = ("VerifiableProducer", "VerifiableConsumer", "TransactionalMessageCopier")

Artifact = tuple[str, str, str]
_LOGGING = ("org.slf4j", "slf4j-simple", "1.7.36")
_ARTIFACTS = (
    ("org.apache.kafka", "kafka_2.13", KAFKA_VERSION),
    ("org.apache.kafka", "kafka-tools", KAFKA_VERSION),
    _LOGGING,
)
_STREAMS = (("org.apache.kafka", "kafka-streams", KAFKA_VERSION), _LOGGING)


def kafka_lib() -> Path:
    """The directory of Kafka's jars, fetched by Maven on first use."""
    lib = once(f"kafka-{KAFKA_VERSION}", lambda directory: _fetch(directory, _ARTIFACTS))
    return lib.resolve()  # archives of classes are for one path


def streams_lib() -> Path:
    """The jars of Kafka Streams, RocksDB among them."""
    return once(f"streams-{KAFKA_VERSION}", lambda directory: _fetch(directory, _STREAMS))


def _fetch(directory: Path, artifacts: Sequence[Artifact]) -> None:
    program("java")
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version></dependency>"
        for group, artifact, version in artifacts
    )
    pom = directory / "pom.xml"
    pom.write_text(
        "<project><modelVersion>4.0.0</modelVersion><groupId>peers</groupId>"
        "<artifactId>kafka</artifactId><version>1</version>"
        f"<dependencies>{dependencies}</dependencies></project>"
    )
    run(
        [program("mvn"), "-q", "-B", "-f", pom, "dependency:copy-dependencies",
         f"-DoutputDirectory={directory}"],
        timeout_s=MAVEN_TIMEOUT_S,
        what=f"{artifacts[0][1]} {KAFKA_VERSION} from Maven",
    )  # fmt: skip


@dataclass(frozen=True)
class Java:
    """A class path to run things on."""

    class_path: str
    jvm: ToolJvm | None = None  # in which programs run that are run to their end

    def command(self, main: str, *arguments: str, flags: Sequence[str] = ()) -> list[str]:
        quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
        more, words = java_arguments(main, arguments)
        return [program("java"), *flags, *more, quiet, "-cp", self.class_path, main, *words]

    def run(
        self, main: str, *arguments: str, timeout_s: float = PROGRAM_S, stdin: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run to the end; the caller judges return code, stdout and stderr."""
        if self.jvm and not main.endswith(_REPORT_AT_THE_END):
            _, words = java_arguments(main, arguments)
            if done := self.jvm.run(main, words, stdin or "", timeout_s):
                return done
        # Short-lived tools: half the start time without the optimising compiler.
        flags = ["-XX:TieredStopAtLevel=1", "-Xshare:auto"]
        return subprocess.run(
            self.command(main, *arguments, flags=flags),
            input=stdin if stdin is not None else "",
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )


@cache
def kafka_tools() -> Java:
    """Kafka's own command-line tools, by class name."""
    flags = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
    jvm = ToolJvm(lambda: java_programs().command("Tools", flags=flags))
    return Java(f"{kafka_lib()}/*", jvm)


def java_programs() -> Java:
    """The programs of `tests/support/java/`, compiled against Kafka's client."""
    return _compiled("java", SOURCES, kafka_lib())


def streams_programs() -> Java:
    """The programs of `tests/support/streams/`, compiled against Kafka Streams."""
    return _compiled("streams", STREAMS_SOURCES, streams_lib())


def _compiled(name: str, directory: Path, lib: Path) -> Java:
    sources = sorted(directory.glob("*.java"))
    # A changed source gets a directory of its own, so nothing stale is ever run.
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:12]

    def compile_into(directory: Path) -> None:
        run(
            [program("javac"), "-nowarn", "-cp", f"{lib}/*", "-d", directory, *sources],
            timeout_s=COMPILE_TIMEOUT_S,
            what="the Java test programs",
        )

    return Java(f"{once(f'{name}-{digest}', compile_into)}:{lib}/*")
