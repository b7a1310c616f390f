"""The same requests to both brokers: a connection to Barnabas, and one to Apache Kafka."""

from collections.abc import Iterator

import pytest

from tests.peers.caller import Caller
from tests.peers.kafka import KafkaBroker
from tests.process import BrokerProcess


@pytest.fixture
def us(broker: BrokerProcess) -> Iterator[Caller]:
    caller = Caller(broker)
    yield caller
    caller.close()


@pytest.fixture
def them(kafka: KafkaBroker) -> Iterator[Caller]:
    caller = Caller(kafka)
    yield caller
    caller.close()
