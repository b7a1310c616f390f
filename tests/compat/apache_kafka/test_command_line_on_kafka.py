"""The command line, and so the client under it, against Apache Kafka: the same tests."""

import pytest

from tests.cli.test_topics import *  # noqa: F403
from tests.cli.test_topics import Shell
from tests.support.kafka import KafkaBroker


@pytest.fixture  # type: ignore[no-redef]
def shell(kafka: KafkaBroker) -> Shell:
    return Shell(kafka.bootstrap_servers)
