"""What type checkers make of the deserializers that were given: `assert_type` is for mypy."""

from typing import assert_type

import barnabas
import barnabas.sync
from barnabas import Message

Raw = bytes | None


def text(data: bytes) -> str:
    return data.decode()


async def test_a_consumer_is_of_what_its_deserializers_make() -> None:
    plain = barnabas.Consumer("t", group_id="g")
    assert_type(plain, barnabas.Consumer[Raw, Raw])
    values = barnabas.Consumer("t", group_id="g", value_deserializer=int)
    assert_type(values, barnabas.Consumer[Raw, int])
    keys = barnabas.Consumer("t", group_id="g", key_deserializer=text)
    assert_type(keys, barnabas.Consumer[str, Raw])
    both = barnabas.PartitionConsumer([("t", 0)], key_deserializer=text, value_deserializer=int)
    assert_type(both, barnabas.PartitionConsumer[str, int])
    for consumer in (plain, values, keys, both):
        await consumer.close()


def test_a_blocking_consumer_is_too() -> None:
    with barnabas.sync.Consumer("t", group_id="g", value_deserializer=int) as values:
        assert_type(values, barnabas.sync.Consumer[Raw, int])
    with barnabas.sync.PartitionConsumer([("t", 0)], key_deserializer=text) as keys:
        assert_type(keys, barnabas.sync.PartitionConsumer[str, Raw])


def test_a_worker_requires_a_function_of_such_messages() -> None:
    @barnabas.parallel("t", group_id="g", value_deserializer=int)
    def handle(message: Message[Raw, int]) -> None:
        assert_type(message.value, int)

    assert handle.__name__ == "handle"
