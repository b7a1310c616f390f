"""`barnabas txn` on a real broker: what is open, who waits, and how it is ended."""

import json

import barnabas.sync
from barnabas.model.ids import TopicPartition
from tests.cli.command import barnabas as command
from tests.client_e2e.conftest import Served
from tests.client_e2e.hanging import UNKNOWN_PRODUCER, leave_hanging, unverified
from tests.client_e2e.test_transactions_admin import open_transaction
from tests.waiting import until


def only_finding(servers: str, topic: str) -> dict[str, str]:
    """A transaction of the last moment is no finding yet."""
    found: list[dict[str, str]] = []

    def explained() -> bool:
        said = json.loads(command("txn", "explain", topic, "-J", servers=servers).out)
        found[:] = said["findings"]
        return bool(found)

    until(explained, "no finding")
    (finding,) = found
    return finding


def test_a_waiting_group_is_shown_with_the_transaction_that_holds_it(
    served: Served, topic: str, group: str
) -> None:
    servers, at = served.bootstrap_servers, TopicPartition(topic, 0)
    with barnabas.sync.Admin(bootstrap_servers=servers) as admin:
        admin.create_topic(topic)
    with open_transaction(servers, topic, at) as producer:
        producer.commit_transaction()
    with barnabas.sync.Consumer(
        topic,
        bootstrap_servers=servers,
        group_id=group,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        message = next(iter(consumer))
        consumer.commit(message)  # the offset of the marker
    with open_transaction(servers, topic, at) as producer:
        found = json.loads(command("txn", "describe", topic, "-J", servers=servers).out)
        assert (found["state"], found["partitions"]) == ("Ongoing", [[topic, 0]])
        (held,) = found["holds_back"]
        assert (held["stable"], held["end"], held["hidden"]) == (2, 3, 1)
        (position,) = held["groups"]
        assert position == {"group": group, "committed": 1, "at_stable": True}
        listed = command("txn", "ls", servers=servers).out
        (line,) = [line for line in listed.splitlines() if line.startswith(f"{topic} ")]
        assert f"{topic}-0 (1)" in line
        assert group in line
        finding = only_finding(servers, topic)
        assert finding["name"] == "open-transaction"
        assert f"`barnabas txn abort {topic}`" in finding["remedy"]
        assert f"Group {group} has read everything" in finding["text"]

        group_said = json.loads(command("group", "describe", group, "-J", servers=servers).out)
        (partition,) = group_said["partitions"]
        assert (partition["stable"], partition["end"]) == (2, 3)
        assert (partition["lag"], partition["committed_lag"]) == (2, 1)

        refused = command("txn", "abort", topic, servers=servers)
        assert (refused.code, "use -y" in refused.err) == (2, True)
        done = command("txn", "abort", topic, "-y", servers=servers)
        assert (done.code, "is aborted" in done.err) == (0, True)
        again = command("txn", "abort", topic, "-y", servers=servers)
        assert (again.code, "has no open transaction" in again.err) == (0, True)
        after = json.loads(command("txn", "describe", topic, "-J", servers=servers).out)
        assert after["holds_back"] == []
        if after["aborts"] is not None:  # Apache Kafka keeps no causes
            (abort,) = after["aborts"]
            assert (abort["kind"], abort["client_id"]) == ("fenced", "barnabas-txn-abort")


def test_a_hanging_transaction_is_found_and_aborted(served: Served, topic: str) -> None:
    servers, at = served.bootstrap_servers, TopicPartition(topic, 0)
    with barnabas.sync.Admin(bootstrap_servers=servers) as admin, unverified(servers):
        admin.create_topic(topic)
        leave_hanging(servers, at)
    listed = json.loads(command("txn", "ls", "--output", "json", servers=servers).out)
    (row,) = [each for each in listed if each["partitions"] == [[topic, 0]]]
    assert (row["state"], row["producer_id"]) == ("hanging", UNKNOWN_PRODUCER)
    shown = command("txn", "abort", "--hanging", f"{topic}:0", "--dry-run", servers=servers)
    assert "no coordinator knows it" in shown.err
    done = command("txn", "abort", "--hanging", topic, "-y", servers=servers)
    assert (done.code, "from offset 0 is aborted" in done.err) == (0, True)
    assert "no reader waits" in command("txn", "explain", topic, servers=servers).out
    again = command("txn", "abort", "--hanging", topic, "-y", servers=servers)
    assert again.code == 3


def test_an_unknown_id_is_an_error_with_the_nearest_name(served: Served, topic: str) -> None:
    servers = served.bootstrap_servers
    with barnabas.sync.Producer(bootstrap_servers=servers, transactional_id=topic) as producer:
        producer.init_transactions()
    ended = command("txn", "describe", topic[:-1], servers=servers)
    assert ended.code == 3
    assert f"did you mean {topic}" in ended.err or topic[:-1] in ended.err
    assert command("txn", "explain", f"{topic}-no", servers=servers).code == 3
