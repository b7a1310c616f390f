"""A mirror copies each record once: killed rounds, two mirrors, transactions of the source."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pytest

from barnabas.client.blocking.producer import Producer
from barnabas.model.errors import KafkaError
from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.mirror.copying import CopyTask
from barnabas.pipeline.mirror.mirroring import Mirroring, copy_here, mirror
from barnabas.pipeline.mirror.translation import Copied
from barnabas.pipeline.spark import brokers as clusters
from tests.conftest import broker_with
from tests.pipeline.spark.once import committed, create
from tests.process import BrokerProcess, running_broker

pytestmark = pytest.mark.slow

broker = broker_with({"transaction.state.log.num.partitions": "5"})


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with running_broker(tmp_path_factory.mktemp("other")) as running:
        yield running


@pytest.fixture(params=["barnabas", "kafka"])
def target(request: pytest.FixtureRequest) -> str:
    name = "other" if request.param == "barnabas" else "kafka"
    found: str = request.getfixturevalue(name).bootstrap_servers
    return found


@pytest.fixture(autouse=True)
def _forget_clusters() -> Iterator[None]:
    yield
    for cluster in clusters._opened.values():
        cluster.close()
    clusters._opened.clear()


def client(servers: str) -> dict[str, str]:
    return {"bootstrap.servers": servers}


def produce(servers: str, topic: str, numbers: Iterable[int]) -> None:
    with Producer(client(servers)) as producer:
        for number in numbers:
            producer.send_nowait(topic, b"%d" % number, partition=number % 2)


def transact(servers: str, topic: str, numbers: Iterable[int], *, commit: bool) -> None:
    with Producer({**client(servers), "transactional.id": topic}) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        for number in numbers:
            producer.send_nowait(topic, b"%d" % number, partition=number % 2)
        (producer.commit_transaction if commit else producer.abort_transaction)()


def mirroring(source: str, target: str, topic: str) -> Mirroring:
    return Mirroring(client(source), client(target), name=topic, topics=[topic])


class Killed(Exception):
    """A mirror ends here."""


def killed_after_copying(tasks: Sequence[CopyTask]) -> Iterable[Copied]:
    list(copy_here(tasks))
    raise Killed


def test_a_round_that_is_killed_before_its_commit_is_copied_once(
    broker: BrokerProcess, target: str, topic: str
) -> None:
    source = broker.bootstrap_servers
    create(source, topic)
    produce(source, topic, range(50))
    with pytest.raises(Killed):
        mirroring(source, target, topic).round(killed_after_copying)
    again = mirroring(source, target, topic)
    assert again.round().records == 50
    produce(source, topic, range(50, 60))
    with pytest.raises(Killed):
        again.round(killed_after_copying)
    assert again.round().records == 10
    assert again.round().records == 0
    assert committed(target, topic) == list(range(60))


def test_of_two_mirrors_at_once_one_copies(broker: BrokerProcess, target: str, topic: str) -> None:
    source = broker.bootstrap_servers
    create(source, topic)
    produce(source, topic, range(20))
    first, second = (mirroring(source, target, topic) for _ in range(2))

    def overtaken(tasks: Sequence[CopyTask]) -> Iterable[Copied]:
        found = list(copy_here(tasks))
        second.round()
        return found

    with pytest.raises((PipelineError, KafkaError)):
        first.round(overtaken)
    produce(source, topic, range(20, 30))
    first.round()
    second.round()
    assert committed(target, topic) == list(range(30))


def test_transactions_of_the_source_are_copied_and_aborted_ones_are_not(
    broker: BrokerProcess, target: str, topic: str
) -> None:
    source = broker.bootstrap_servers
    create(source, topic)
    transact(source, topic, range(10), commit=True)
    transact(source, topic, range(100, 110), commit=False)
    produce(source, topic, range(10, 20))
    transact(source, topic, range(20, 30), commit=True)
    for _ in range(2):
        done = mirror(client(source), client(target), name=topic, topics=[topic])
        assert done.behind == 0
    assert committed(target, topic) == list(range(30))


def test_a_mirror_that_copied_at_least_once_goes_on_exactly_once(
    broker: BrokerProcess, other: BrokerProcess, topic: str
) -> None:
    source, target = broker.bootstrap_servers, other.bootstrap_servers
    create(source, topic)
    given: dict[str, Any] = {"name": topic, "topics": [topic]}
    produce(source, topic, range(10))
    mirror(client(source), client(target), once=False, **given)
    produce(source, topic, range(10, 20))
    mirror(client(source), client(target), **given)
    produce(source, topic, range(20, 30))
    mirror(client(source), client(target), once=False, **given)
    assert committed(target, topic) == list(range(30))
