"""Which leaders a producer believes in."""

from barnabas.client.producer.accumulator import Accumulator
from barnabas.client.producer.metadata_refresh import MetadataRefresh
from barnabas.client.producer.settings import ProducerSettings
from tests.client.fetched import view


def known_leader(accumulator: Accumulator) -> int:
    [queue] = accumulator.queues()
    return int(queue.leader)


def test_a_leader_that_is_not_among_the_brokers_is_none() -> None:
    accumulator = Accumulator(
        batch_size_max=1000,
        buffer_size_max=1000,
        record_size_max=1000,
        clock=lambda: 0.0,
        wall=lambda: 0.0,
        chance=lambda: 0.5,
        wake=lambda: None,
        partitioner=None,
    )
    accumulator.add("t", b"", None, (), None, None, None)
    cache = MetadataRefresh(accumulator, ProducerSettings())
    cache.seen(view(2), now=0)
    assert known_leader(accumulator) == 2
    cache.seen(view(2, brokers=(1,)), now=0)
    assert known_leader(accumulator) == -1
