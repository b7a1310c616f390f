"""Kafka's own client: everything its Admin can ask of a broker without groups."""

from tests.compat.conftest import Address
from tests.support.java import Java


def test_the_admin_of_java_gets_an_answer_to_everything(
    java_client: Java, broker: Address, topic: str
) -> None:
    done = java_client.run("Tour", broker.bootstrap_servers, topic)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert done.stdout.endswith("ok\n")
