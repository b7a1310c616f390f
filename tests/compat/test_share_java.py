"""Java's share consumer: both ways to acknowledge, and members that share partitions."""

from tests.compat.conftest import Address
from tests.process import REPLICAS
from tests.support.java import Java


def test_java_share_consumers_accept_release_reject_and_renew(
    java_client: Java, broker: Address, topic: str
) -> None:
    done = java_client.run("Share", broker.bootstrap_servers, topic, str(REPLICAS))
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert done.stdout.endswith("ok\n")
