"""Which leaders a producer believes in."""

from uuid import UUID

from barnabas.client.producer.accumulator import Accumulator
from barnabas.client.producer.metadata_refresh import MetadataRefresh
from barnabas.client.producer.settings import ProducerSettings
from tests.client.fetched import view


def known_leader(accumulator: Accumulator) -> int:
    [queue] = accumulator.queues()
    return int(queue.leader)


def test_a_leader_of_before_is_not_written_to_though_a_broker_names_it_again() -> None:
    """It would refuse sequence numbers that follow what the newer leader has (KIP-320)."""
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
    cache.seen(view(2, epoch=4), now=0)
    assert known_leader(accumulator) == 2
    cache.seen(view(1, epoch=3), now=0)
    assert known_leader(accumulator) == -1
    cache.seen(view(1, epoch=5), now=1000)
    assert known_leader(accumulator) == 1
    cache.seen(view(2, epoch=0, topic_id=UUID(int=8)), now=1000)
    assert known_leader(accumulator) == 2, "a topic created again has low epochs"
