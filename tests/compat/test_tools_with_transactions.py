"""Kafka's own tools that use or show transactions, unchanged, with our broker at the other end.

What kafka-transactions ends: test_transaction_tools.py.
"""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import confluent_kafka
import pytest

from tests.compat.conftest import Address, Clients
from tests.compat.test_transactions import await_seen, seen
from tests.conftest import StartBroker
from tests.raw import RawClient
from tests.support.java import Java
from tests.waiting import WAIT_S

TOOLS = "org.apache.kafka.tools"
PARTITIONS = 2

Transactions = Callable[..., list[dict[str, str]]]
OpenTransaction = confluent_kafka.Producer


def rows(table: str) -> list[dict[str, str]]:
    """A table as the tool prints it: one line of names, one line per row, tabs between."""
    head, *lines = (line.split("\t") for line in table.rstrip("\n").split("\n"))
    names = [name.strip() for name in head]
    return [
        dict(zip(names, (cell.strip() for cell in line), strict=True))
        for line in lines
        if any(line)
    ]


@pytest.fixture
def transactions(java_tools: Java, broker: Address) -> Transactions:
    """Runs `kafka-transactions` and gives the rows of the table that it prints."""

    def run(command: str, *arguments: str) -> list[dict[str, str]]:
        done = java_tools.run(
            f"{TOOLS}.TransactionsCommand",
            *("--bootstrap-server", broker.bootstrap_servers, command, *arguments),
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return rows(done.stdout) if done.stdout.strip() else []

    return run


@pytest.fixture
def made(clients: Clients, topic: str) -> str:
    clients["confluent"].create_topic(topic, partitions=PARTITIONS)
    return topic


@pytest.fixture
def open_(broker: Address, made: str) -> Iterator[OpenTransaction]:
    """A producer with an open transaction in partition 1; its id is the name of the topic."""
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": made}
    )
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    producer.produce(made, b"open", partition=1)
    assert producer.flush(WAIT_S) == 0
    yield producer
    producer.purge()


def of(found: list[dict[str, str]], topic: str) -> dict[str, str]:
    (row,) = [row for row in found if row["TransactionalId"] == topic]
    return row


def test_list_and_describe_show_an_open_transaction_and_its_end(
    transactions: Transactions, open_: OpenTransaction, made: str
) -> None:
    assert of(transactions("list"), made)["TransactionState"] == "Ongoing"
    assert not transactions("list", "--duration-filter", "3600000")
    matching = transactions("list", "--transactional-id-pattern", f"{made[:-1]}.")
    assert of(matching, made)["TransactionState"] == "Ongoing"
    (shown,) = transactions("describe", "--transactional-id", made)
    assert shown["TransactionState"] == "Ongoing"
    assert shown["TransactionTimeoutMs"] == "60000"
    assert shown["TopicPartitions"] == f"{made}-1"
    assert int(shown["TransactionDurationMs"]) >= 0
    open_.commit_transaction(WAIT_S)
    (shown,) = transactions("describe", "--transactional-id", made)
    assert shown["TransactionState"] in ("PrepareCommit", "CompleteCommit")


def test_describe_names_an_id_that_does_not_exist(
    java_tools: Java, broker: Address, topic: str
) -> None:
    done = java_tools.run(
        f"{TOOLS}.TransactionsCommand",
        *("--bootstrap-server", broker.bootstrap_servers),
        *("describe", "--transactional-id", topic),
    )
    assert done.returncode == 1
    assert "the ID could not be found" in done.stderr


def test_describe_producers_shows_where_the_transaction_began(
    transactions: Transactions, open_: OpenTransaction, made: str
) -> None:
    of_partition = ("describe-producers", "--topic", made, "--partition")
    assert transactions(*of_partition, "0") == []
    (shown,) = transactions(*of_partition, "1")
    assert shown["CurrentTransactionStartOffset"] == "0"
    assert shown["LatestCoordinatorEpoch"] == "-1"
    assert shown["LastSequence"] == "0"
    open_.commit_transaction(WAIT_S)
    (shown,) = transactions(*of_partition, "1")
    assert shown["CurrentTransactionStartOffset"] == "None"


@pytest.mark.parametrize("duration_ms", [10, 1000])
def test_the_performance_tool_commits_all_its_records(
    java_tools: Java, broker: Address, made: str, duration_ms: int
) -> None:
    done = java_tools.run(
        f"{TOOLS}.ProducerPerformance",
        *("--bootstrap-server", broker.bootstrap_servers, "--topic", made),
        *("--num-records", "20000", "--record-size", "100", "--throughput", "-1"),
        *("--transactional-id", made, "--transaction-duration-ms", str(duration_ms)),
    )
    assert done.returncode == 0, done.stderr
    assert "20000 records sent" in done.stdout
    assert len(seen(broker, made, committed=False)) == 20_000
    assert len(seen(broker, made)) == 20_000


@pytest.mark.parametrize("group_mode", [False, True], ids=["assigned", "group"])
def test_the_message_copier_copies_each_record_once(
    java_tools: Java, broker: Address, clients: Clients, made: str, group_mode: bool
) -> None:
    """As Kafka's system tests use it, with random aborts."""
    count, target = 3000, f"{made}-copy"
    clients["confluent"].create_topic(target, partitions=PARTITIONS)
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers})
    values = [b"%d" % number for number in range(count)]
    for value in values:
        producer.produce(made, value, partition=0)
    assert producer.flush(WAIT_S) == 0
    more = ("--group-mode", "--use-group-metadata") if group_mode else ()
    done = java_tools.run(
        f"{TOOLS}.TransactionalMessageCopier",
        *("--broker-list", broker.bootstrap_servers, "--transactional-id", f"{made}-copier"),
        *("--input-topic", made, "--input-partition", "0", "--output-topic", target),
        *("--consumer-group", f"{made}-group", "--transaction-size", "100"),
        *("--transaction-timeout", "40000", "--enable-random-aborts", *more),
    )
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr}"
    states = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert states[-1]["totalProcessed"] == count
    await_seen(broker, target, sorted(values))
    assert len(seen(broker, target, committed=False)) > count  # records of aborted transactions


LOGGED = re.compile(r'"transactionalId":"([^"]+)".*"transactionStatus":(\d+)')


def test_dump_log_segments_decodes_our_transaction_log(
    java_tools: Java, start_broker: StartBroker, topic: str
) -> None:
    broker = start_broker()
    assert broker.data is not None
    with RawClient(broker.host, broker.port) as client:
        client.create_topic(topic, 1)
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": topic}
    )
    producer.init_transactions(WAIT_S)
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        producer.produce(topic, b"x", partition=0)
        producer.flush(WAIT_S)
        end(WAIT_S)
    broker.stop()
    logs = sorted(Path(broker.data).rglob("__transaction_state-*/*.log"))
    files = [path for path in logs if path.stat().st_size]
    assert files
    done = java_tools.run(
        f"{TOOLS}.DumpLogSegments",
        *("--transaction-log-decoder", "--files", ",".join(map(str, files))),
    )
    assert done.returncode == 0, done.stderr
    found = LOGGED.findall(done.stdout)
    assert {id_ for id_, _ in found} == {topic}
    committed, aborted = ["1", "2", "4"], ["1", "3", "5"]
    assert [state for _, state in found] == ["0", *committed, *aborted]
