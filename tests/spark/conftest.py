"""One Spark for all tests here, with Spark's own Kafka connector beside ours; two brokers."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import _or_skip
from tests.process import BrokerProcess, running_broker
from tests.support.cache import ROOT, Missing
from tests.support.kafka import KafkaBroker, kafka_for_tests
from tests.support.s3 import CREDENTIALS
from tests.support.spark import check_spark, connector_jars, jvm_options

OPTIONS = {"num.partitions": "3"}
# Of the S3 server of the tests: tasks have the environment in which Spark was started.
os.environ |= CREDENTIALS


@pytest.fixture(scope="session", autouse=True)
def _quick_start() -> None:
    """Of every Spark that a test starts, here or as a program."""
    with suppress(Missing):
        os.environ["SPARK_SUBMIT_OPTS"] = jvm_options()


@pytest.fixture(scope="session")
def connector() -> list[Path]:
    """The jars of Spark's connector; none if they cannot be had."""
    try:
        return connector_jars()
    except Missing:
        return []


@pytest.fixture(scope="session")
def spark(connector: list[Path]) -> Iterator[Any]:
    _or_skip(check_spark)
    from barnabas.pipeline import session

    # The sources, wherever the tests were started from.
    os.environ["PYTHONPATH"] = str(ROOT)
    started = session(
        "local[2]",
        options={
            "spark.jars": ",".join(map(str, connector)),
            "spark.security.credentials.kafka.enabled": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.driver.memory": "1g",
            "spark.sql.streaming.numRecentProgressUpdates": "1000",
        },
    )
    yield started
    started.stop()


@pytest.fixture(scope="session")
def both_formats(connector: list[Path]) -> None:
    if not connector:
        pytest.skip("Spark's Kafka connector could not be fetched from Maven")


@pytest.fixture(scope="session")
def our_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with running_broker(tmp_path_factory.mktemp("broker"), OPTIONS) as running:
        yield running


@pytest.fixture(scope="session")
def apache_kafka(
    kafka_lib: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KafkaBroker]:
    with kafka_for_tests(tmp_path_factory.mktemp("kafka"), OPTIONS) as running:
        yield running


@pytest.fixture(params=["barnabas", "kafka"])
def servers(request: pytest.FixtureRequest) -> str:
    """Of a broker of ours, then of Apache Kafka's."""
    name = "our_broker" if request.param == "barnabas" else "apache_kafka"
    found: str = request.getfixturevalue(name).bootstrap_servers
    return found


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first of them waits for Spark to start and to warm up."""
    for item in items:
        if "tests/spark/" in item.path.as_posix():
            item.add_marker(pytest.mark.timeout(900))
