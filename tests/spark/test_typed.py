"""Typed values in Spark: two columns more, and bad rows beside the good ones."""

from typing import Any

import pytest
from confluent_kafka import Producer

from tests.spark.topics import create
from tests.waiting import WAIT_S


def test_json_values_become_a_column_and_bad_ones_an_error(
    spark: Any, our_broker: Any, topic: str
) -> None:
    servers = our_broker.bootstrap_servers
    create(servers, topic)
    producer = Producer({"bootstrap.servers": servers})
    for value in (b'{"id": 1, "name": "a"}', b"broken", None):
        producer.produce(topic, value)
    producer.flush(WAIT_S)
    reader = (
        spark.read.format("barnabas")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("valueFormat", "json")
    )
    rows = reader.option("valueSchema", "id long, name string").load()
    found = [(row.value, row.data, row.error) for row in rows.collect()]
    assert len(found) == 3
    by_value = {value: (data, error) for value, data, error in found}
    assert by_value[b'{"id": 1, "name": "a"}'][0].asDict() == {"id": 1, "name": "a"}
    assert by_value[b"broken"][0] is None
    assert by_value[b"broken"][1]
    assert by_value[None] == (None, None)
    assert rows.where("error is not null").count() == 1
    with pytest.raises(Exception, match="Avro schema") as refused:
        reader.option("valueFormat", "avro").option("valueSchema", "{").load()
    assert "Traceback" not in str(refused.value)
