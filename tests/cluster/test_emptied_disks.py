"""A disk is replaced while no broker runs: the partition is offline until an operator decides.

Rounds of "all killed, one disk emptied, all started" are a kind of fault (faults.py).
"""

import json
from pathlib import Path

from tests.cli.command import barnabas
from tests.cluster.members import running_cluster
from tests.waiting import until


def test_the_last_in_sync_replica_does_not_lead_without_its_disk_until_an_operator_says_so(
    tmp_path: Path,
) -> None:
    """And meanwhile a topic with a replica on each broker is made, though one is down."""
    with running_cluster(tmp_path, options={"min.insync.replicas": "1"}) as cluster:
        servers = cluster.bootstrap_servers

        def produce(text: str) -> None:
            said = barnabas("produce", "t", "-X", "acks=all", stdin=text, servers=servers)
            assert said.code == 0, said.err

        cluster.create_topic("t", 1)
        produce("on all three\n")
        assert cluster.members[1].stop() == 0
        made = barnabas("topic", "create", "made", "-r", "3", servers=servers)
        assert made.code == 0, made.err
        assert cluster.members[2].stop() == 0
        produce("on one only\n")
        assert cluster.members[3].stop() == 0
        cluster.members[3].empty_disk()
        cluster.start()

        def reason() -> str:
            status = json.loads(barnabas("status", "-J", servers=servers).out)
            rows = [row for row in status["offline"] if row["topic"] == "t"]
            return rows[0].get("reason", "") if rows else "it is led"

        until(lambda: "broker 3 has no log of it" in reason(), reason)
        assert sorted(cluster.states()["made", 0].replicas) == [1, 2, 3], (
            "on the broker that was down as well"
        )
        explained = barnabas("cluster", "explain", servers=servers)
        assert explained.code == 1
        assert "t:0 is offline" in explained.out
        assert "barnabas cluster elect --unclean t:0" in explained.out
        elected = barnabas("cluster", "elect", "--unclean", "t:0", "made:0", "-y", servers=servers)
        assert elected.code == 0, elected.err
        cluster.wait_whole()
        read = barnabas("consume", "t", "-e", servers=servers)
        assert read.out == "on all three\n", "the longest log that is left"
        assert "every partition has a leader" in barnabas("cluster", "explain", servers=servers).err
