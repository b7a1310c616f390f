"""Clients in other languages visit the broker; each visit is also made to Apache Kafka.

A visit that Apache Kafka itself would not pass says nothing about us, so that is tested too.
"""

import subprocess

import pytest

from tests.process import BROKERS, BrokerProcess
from tests.support.go import Franz
from tests.support.java import Java
from tests.support.kafka import KafkaBroker
from tests.support.node import Node
from tests.support.probe import advertised_apis

FIND_COORDINATOR = 10

Target = BrokerProcess | KafkaBroker


@pytest.fixture(params=["broker", "kafka"] if BROKERS == 1 else ["broker"])
def target(request: pytest.FixtureRequest) -> Target:
    found: Target = request.getfixturevalue(request.param)
    return found


def passed(visit: subprocess.CompletedProcess[str]) -> None:
    assert visit.returncode == 0, f"{visit.stdout}\n{visit.stderr}"
    assert visit.stdout.endswith("ok\n")


def test_the_java_client_cannot_tell(java_client: Java, target: Target, topic: str) -> None:
    passed(java_client.run("Visit", target.bootstrap_servers, topic))


def test_franz_go_cannot_tell(franz_go: Franz, target: Target, topic: str) -> None:
    passed(franz_go.run(target.bootstrap_servers, topic))


def test_kafkajs_cannot_tell(kafkajs: Node, target: Target, topic: str) -> None:
    has_groups = FIND_COORDINATOR in advertised_apis(target.host, target.port)
    parts = ["consume"] if has_groups else []
    passed(kafkajs.run("visit.js", target.bootstrap_servers, topic, *parts))
