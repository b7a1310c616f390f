"""The same requests to both brokers: a connection to Barnabas, and one to Apache Kafka."""

from collections.abc import Iterator

import pytest

from tests.process import BrokerProcess
from tests.support.caller import Caller
from tests.support.kafka import KafkaBroker


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
