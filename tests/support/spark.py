"""Spark's own Kafka connector, from Maven: what `format("barnabas")` is compared with.

In: the version of the pyspark that is installed. Out: the jars it needs, for `spark.jars`.
"""

from pathlib import Path

from tests.support.cache import Missing, once, run
from tests.support.install import program
from tests.support.java import MAVEN_TIMEOUT_S

_CONNECTOR = "4.2.0"
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
