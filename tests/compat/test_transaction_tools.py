"""kafka-transactions, unchanged: it lists, describes, finds and ends transactions of our broker."""

from collections.abc import Callable

import pytest

import barnabas.sync
from barnabas.model.ids import TopicPartition
from tests.client_e2e.hanging import UNKNOWN_PRODUCER, leave_hanging, unverified
from tests.compat.conftest import Address
from tests.support.java import Java
from tests.waiting import until

Tool = Callable[..., list[list[str]]]


@pytest.fixture
def tool(java_tools: Java, broker: Address) -> Tool:
    """Runs the tool; the cells of what it printed, without the head."""

    def run(*arguments: str) -> list[list[str]]:
        done = java_tools.run(
            "org.apache.kafka.tools.TransactionsCommand",
            *("--bootstrap-server", broker.bootstrap_servers),
            *arguments,
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        lines = done.stdout.splitlines()[1:]
        return [[cell.strip() for cell in line.split("\t")][:-1] for line in lines]

    return run


def test_an_open_transaction_is_listed_described_and_terminated(
    broker: Address, tool: Tool, topic: str
) -> None:
    servers = broker.bootstrap_servers
    with barnabas.sync.Admin(bootstrap_servers=servers) as admin:
        admin.create_topic(topic, partitions=2)
        with barnabas.sync.Producer(bootstrap_servers=servers, transactional_id=topic) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            producer.send(topic, b"x", partition=1)
            producer.flush()
            described = admin.describe_transaction(topic)
            id_ = str(described.producer_id)
            listed = tool("list", "--transactional-id-pattern", f"{topic}.*")
            assert listed == [[topic, str(described.coordinator), id_, "Ongoing"]]
            ((*first, _, _, partitions),) = tool("describe", "--transactional-id", topic)
            assert first == [str(described.coordinator), topic, id_, "0", "Ongoing", "60000"]
            assert partitions == f"{topic}-1"
            (active,) = tool("describe-producers", "--topic", topic, "--partition", "1")
            assert (active[0], active[-1]) == (id_, "0")
            age = ("--max-transaction-timeout", "0")
            assert tool("find-hanging", "--topic", topic, *age) == []
            tool("forceTerminateTransaction", "--transactionalId", topic)
            until(lambda: admin.describe_transaction(topic).partitions == ())


def test_a_hanging_transaction_is_found_and_aborted(
    broker: Address, tool: Tool, topic: str
) -> None:
    servers, at = broker.bootstrap_servers, TopicPartition(topic, 0)
    with barnabas.sync.Admin(bootstrap_servers=servers) as admin, unverified(servers):
        admin.create_topic(topic)
        leave_hanging(servers, at)
        ((name, number, id_, *_),) = tool(
            "find-hanging", "--topic", topic, "--max-transaction-timeout", "0"
        )
        assert (name, number, id_) == (topic, "0", str(UNKNOWN_PRODUCER))
        tool("abort", "--topic", topic, "--partition", "0", "--start-offset", "0")
        assert admin.describe_producers([at])[at][0].start_offset is None
