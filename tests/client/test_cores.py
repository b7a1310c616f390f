"""Partitioner, metadata, backoff: no socket in sight."""

from itertools import repeat
from uuid import UUID

import pytest
from aiokafka.partitioner import murmur2 as oracle
from hypothesis import given
from hypothesis import strategies as st

from barnabas.client.backoff import waits_ms
from barnabas.client.cluster import bootstrap_addresses
from barnabas.client.errors import error_of
from barnabas.client.metadata_snapshot import MetadataSnapshot
from barnabas.client.producer.accumulator import murmur2
from barnabas.client.producer.settings import settings_of
from barnabas.config.client import ClientConfig
from barnabas.model.errors import Code, Failed, Fenced, InvalidRequest, Retriable
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

AT = TopicPartition("t", 0)
ID = UUID(int=7)


# --- partitioner ---


@given(st.binary(max_size=40))
def test_keys_hash_as_in_other_clients(key: bytes) -> None:
    assert murmur2(key) == oracle(key) & 0xFFFF_FFFF


def test_keys_hash_as_in_java() -> None:
    """Values from Kafka's own test of its hash."""
    assert murmur2(b"21") == -973932308 & 0xFFFF_FFFF
    assert murmur2(b"foobar") == -790332482 & 0xFFFF_FFFF
    assert murmur2(b"a-little-bit-long-string") == -985981536 & 0xFFFF_FFFF


# --- metadata, errors, backoff ---


def snapshot() -> MetadataSnapshot:
    def partition(number: int, leader: int) -> MetadataResponsePartition:
        return MetadataResponsePartition(
            error_code=0,
            partition_index=number,
            leader_id=leader,
            replica_nodes=[1],
            isr_nodes=[1],
        )

    return MetadataSnapshot(
        MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=1, host="h", port=9)],
            topics=[
                MetadataResponseTopic(
                    error_code=0,
                    name="t",
                    topic_id=ID,
                    partitions=[partition(1, -1), partition(0, 1)],
                ),
                MetadataResponseTopic(error_code=17, name="bad", partitions=[]),
            ],
        )
    )


def test_a_picture_knows_leaders_and_says_what_it_does_not_know() -> None:
    view = snapshot()
    assert [p.number for p in view.topic("t").partitions] == [0, 1]
    assert view.leader(AT) == 1
    assert view.name_of(ID) == "t"
    with pytest.raises(Retriable, match="t-1 has no leader"):
        view.leader(TopicPartition("t", 1))
    with pytest.raises(InvalidRequest, match="no partition 2: it has 2"):
        view.leader(TopicPartition("t", 2))
    with pytest.raises(InvalidRequest, match="'gone' does not exist"):
        view.topic("gone")
    with pytest.raises(InvalidRequest) as refused:
        view.topic("bad")
    assert refused.value.code is Code.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize(
    ("number", "kind"), [(6, Retriable), (90, Fenced), (-1, Failed), (40, InvalidRequest)]
)
def test_the_class_of_an_error_says_what_to_do(number: int, kind: type[Exception]) -> None:
    assert type(error_of(number, "why", about="it")) is kind
    assert str(error_of(number, "why", about="it")).endswith(": it: why")


def test_a_code_from_the_future_is_an_error_too() -> None:
    assert "32000" in str(error_of(32000))


def test_waits_double_up_to_a_bound_and_differ_between_clients() -> None:
    longest, shortest = waits_ms(repeat(1.0)), waits_ms(repeat(0.0))
    assert [next(longest) for _ in range(7)] == [50, 100, 200, 400, 800, 1000, 1000]
    assert [next(shortest) for _ in range(3)] == [25, 50, 100]


def test_bootstrap_servers_may_leave_out_the_port() -> None:
    found = bootstrap_addresses("a, b:1,[::1]:2,[::1]")
    assert list(map(str, found)) == ["a:9092", "b:1", "[::1]:2", "[::1]:9092"]
    for wrong in ["", "a:x", "a:0", "a,,b", "http://x:1"]:
        with pytest.raises(InvalidRequest, match="bootstrap server"):
            bootstrap_addresses(wrong)


# --- options ---


def test_options_are_taken_with_dots_and_as_keywords() -> None:
    config = ClientConfig({"linger.ms": 5, "acks": 1}, batch_size=7, enable_auto_commit=False)
    assert (config.linger_ms, config.acks, config.batch_size) == (5, "1", 7)
    assert not config.enable_auto_commit
    assert config.bootstrap_servers == "localhost:9092"
    assert ClientConfig({"max.in.flight": 3}).max_in_flight_requests_per_connection == 3
    assert ClientConfig(group_id=None).group_id == ""


@pytest.mark.parametrize(
    ("name", "meant"), [("linger.mss", "linger.ms"), ("bootstrap.server", "bootstrap.servers")]
)
def test_a_misspelt_option_is_answered_with_the_nearest(name: str, meant: str) -> None:
    with pytest.raises(InvalidRequest, match=f"did you mean {meant}"):
        ClientConfig({name: "1"})
    with pytest.raises(InvalidRequest, match=f"did you mean {meant}"):
        ClientConfig(**{name.replace(".", "_"): "1"})


def test_a_producer_refuses_options_that_contradict_each_other() -> None:
    assert not settings_of(ClientConfig(acks="1")).idempotent
    with pytest.raises(InvalidRequest, match="needs acks=all, but acks=1"):
        settings_of(ClientConfig(acks="1", enable_idempotence=True))
    with pytest.raises(InvalidRequest, match="at most 5"):
        settings_of(ClientConfig(max_in_flight_requests_per_connection=6))
