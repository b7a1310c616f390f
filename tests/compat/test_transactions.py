"""Transactions are not there yet: clients that ask for them stop with an error."""

import pytest
from confluent_kafka import KafkaException, Producer

from tests.compat.conftest import Address


def test_librdkafka_stops_when_it_asks_for_transactions(broker: Address) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "tx"})
    with pytest.raises(KafkaException) as refused:
        producer.init_transactions(60)
    error = refused.value.args[0]
    assert error.name() == "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
    assert error.fatal()
