"""`barnabas group`, and so the client's calls under it, against Apache Kafka: the same tests."""

import pytest

from tests.cli.test_command_group import *  # noqa: F403
from tests.cli.test_command_group import Here
from tests.cli.test_topics import Shell
from tests.support.kafka import KafkaBroker


@pytest.fixture  # type: ignore[no-redef]
def shell(kafka: KafkaBroker) -> Shell:
    return Here(kafka.bootstrap_servers)


def test_without_a_history_the_commands_say_so(shell: Shell, group: str) -> None:
    for verb in ("describe", "explain"):
        assert "keeps no history" in shell.out("group", verb, group)
