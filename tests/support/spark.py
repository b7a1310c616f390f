"""Spark's own Kafka connector, from Maven: what `format("barnabas")` is compared with. And how
tests start Spark's JVM.

In: the version of the pyspark that is installed. Out: the jars it needs, for `spark.jars`; options
of the JVM.
"""

import hashlib
import shutil
import sys
from pathlib import Path

from barnabas.pipeline.run.session import spark_home
from tests.support.cache import ROOT, Missing, once, run
from tests.support.install import program
from tests.support.java import MAVEN_TIMEOUT_S

_CONNECTOR = "4.2.0"
# Compiling well takes longer than it saves in a test.
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_ARCHIVE = "classes.jsa"
_ARCHIVE_TIMEOUT_S = 300
# A shuffle, a table, a stream, and Python: most classes that pipelines use.
_USE_MOST_CLASSES = """
import sys
from barnabas.pipeline import session

spark = session("local[2]", options={"spark.sql.shuffle.partitions": "2"})
rows = spark.range(100).mapInArrow(lambda batches: batches, "id long")
rows.groupBy("id").count().write.parquet(sys.argv[1] + "/table")
stream = spark.readStream.schema("id long, count long").parquet(sys.argv[1] + "/table")
query = stream.writeStream.foreachBatch(lambda batch, number: batch.collect())
query = query.option("checkpointLocation", sys.argv[1] + "/checkpoint")
query.trigger(availableNow=True).start().awaitTermination()
spark.stop()
"""
# The token provider of this very version cannot be had everywhere; it is only needed to load.
_ARTIFACTS = (
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13", _CONNECTOR),
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
    ("org.apache.kafka", "kafka-clients", "3.9.1"),
    ("org.apache.commons", "commons-pool2", "2.12.0"),
)


def connector_jars() -> list[Path]:
    """Fetched by Maven on first use."""
    return sorted(once(f"spark-kafka-{_CONNECTOR}", _fetch).glob("*.jar"))


def check_spark() -> None:
    """Missing unless pyspark and Java are there."""
    program("java")
    try:
        import pyspark  # noqa: F401
    except ImportError:
        raise Missing("pyspark is not installed: pip install -e '.[spark]'") from None


def jvm_options() -> str:
    """For SPARK_SUBMIT_OPTS, of every Spark that a test starts, here or as a program.

    The classes that a start loads are archived in the JVM's own format: to load and check them is
    half of a start. A JVM with another class path ignores the archive.
    """
    java = Path(program("java")).resolve()
    made = f"{java} {java.stat().st_mtime_ns} {spark_home()}"
    name = f"spark-classes-{hashlib.sha256(made.encode()).hexdigest()[:12]}"
    archive = once(name, _archive_classes) / _ARCHIVE
    return f"{SHORT_LIVED} -XX:SharedArchiveFile={archive} -Xshare:auto -Xlog:disable"


def _archive_classes(directory: Path) -> None:
    check_spark()
    dump = f"-XX:ArchiveClassesAtExit={directory / _ARCHIVE} -Xlog:disable"
    run(
        [sys.executable, "-c", _USE_MOST_CLASSES, directory / "rows"],
        env={"SPARK_SUBMIT_OPTS": f"{SHORT_LIVED} {dump}", "PYTHONPATH": str(ROOT)},
        timeout_s=_ARCHIVE_TIMEOUT_S,
        what="an archive of Spark's classes",
    )
    shutil.rmtree(directory / "rows")


def _fetch(directory: Path) -> None:
    everything = "<exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion>"
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version><exclusions>{everything}</exclusions></dependency>"
        for group, artifact, version in _ARTIFACTS
    )
    pom = directory / "pom.xml"
    pom.write_text(
        "<project><modelVersion>4.0.0</modelVersion><groupId>peers</groupId>"
        "<artifactId>spark</artifactId><version>1</version>"
        f"<dependencies>{dependencies}</dependencies></project>"
    )
    run(
        [program("mvn"), "-q", "-B", "-f", pom, "dependency:copy-dependencies",
         f"-DoutputDirectory={directory}"],
        timeout_s=MAVEN_TIMEOUT_S,
        what=f"Spark's Kafka connector {_CONNECTOR} from Maven",
    )  # fmt: skip
