"""Nodes are written as ZooKeeper-era Kafka wrote them."""

import json
import re
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.keeper import paths
from barnabas.model.errors import Corrupt

ID = UUID("b8a3e3a0-0f2c-4d4f-9d4e-1b0c3f8e7a61")


def test_a_topic_round_trips_in_kafkas_format() -> None:
    data = paths.topic_data(ID, {1: [2, 1], 0: [1, 2]})
    assert json.loads(data)["partitions"] == {"0": [1, 2], "1": [2, 1]}
    assert json.loads(data)["topic_id"] == "uKPjoA8sTU-dThsMP456YQ"
    assert paths.read_topic(paths.topic("t"), data) == (ID, {0: [1, 2], 1: [2, 1]})


def test_a_node_kafka_wrote_is_read() -> None:
    data = b'{"removing_replicas":{},"partitions":{"0":[0]},"topic_id":"uKPjoA8sTU-dThsMP456YQ","adding_replicas":{},"version":3}'  # noqa: E501
    assert paths.read_topic("/brokers/topics/t", data) == (ID, {0: [0]})


def test_settings_cluster_id_and_producer_ids_round_trip() -> None:
    assert paths.read_config("/c", paths.config_data({"a": "1"})) == {"a": "1"}
    assert paths.read_cluster_id("/c", paths.cluster_id_data("abc")) == "abc"
    assert paths.read_producer_id_block("/p", paths.producer_id_block_data(1, 0, 999)) == (0, 999)
    assert paths.broker_config(None) == "/config/brokers/<default>"


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"{}", b'{"partitions":[]}', b"\xff"])
def test_a_broken_node_is_named(data: bytes) -> None:
    for read in (paths.read_topic, paths.read_config, paths.read_cluster_id):
        with pytest.raises(Corrupt, match="/some/path"):
            read("/some/path", data)


def test_a_broker_reads_back_with_its_addresses_and_rack() -> None:
    endpoints = (
        paths.Endpoint("PLAINTEXT", "broker.example", 9092),
        paths.Endpoint("INSIDE", "fe80::1", 9093),
    )
    for rack in (None, "east"):
        registration = paths.Registration(endpoints, rack)
        assert paths.read_broker("/b", paths.broker_data(registration, 1)) == registration


def test_a_broker_that_kafka_registered_can_be_read() -> None:
    data = (
        b'{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},'
        b'"endpoints":["PLAINTEXT://kafka-1:9092"],"jmx_port":-1,"port":9092,"host":"kafka-1",'
        b'"version":5,"timestamp":"1731670000000"}'
    )
    found = paths.read_broker("/brokers/ids/1", data)
    assert found == paths.Registration((paths.Endpoint("PLAINTEXT", "kafka-1", 9092),), None)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b'{"endpoints":[]}',
        b'{"endpoints":["x"]}',
        b'{"endpoints":[1]}',
        b'{"endpoints":["P://h:1"],"rack":7}',
    ],
)
def test_a_broker_that_cannot_be_read_is_an_error_with_its_path(data: bytes) -> None:
    with pytest.raises(Corrupt, match="/brokers/ids/1"):
        paths.read_broker("/brokers/ids/1", data)


def test_a_note_of_changed_settings_names_whose_they_are() -> None:
    assert paths.read_config_change("/n", paths.config_change_data("topics/t")) == "topics/t"
    with pytest.raises(Corrupt, match="entity_path"):
        paths.read_config_change("/n", b"{}")


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1) | st.sampled_from([".", ".."]))
def test_a_group_of_any_name_has_a_node_of_its_own(name: str) -> None:
    path = paths.entity_config(paths.GROUPS, name)
    parent, _, node = path.rpartition("/")
    assert parent == paths.GROUP_CONFIGS
    assert re.fullmatch(r"[A-Za-z0-9._%-]+", node, re.ASCII)
    assert node not in (".", "..")
    assert paths.entity_name(node) == name


def test_a_node_with_a_name_of_another_kind_is_taken_as_it_is() -> None:
    assert paths.entity_name("100%") == "100%"
    assert paths.entity_name("%FF") == "%FF"


def test_a_user_whose_node_was_created_for_its_clients_has_no_settings() -> None:
    """ZooKeeper-era Kafka creates it without data."""
    assert paths.read_config("/config/users/alice", b"") == {}


@pytest.mark.parametrize("name", ["alice", "", "<default>", "a/b c", "..", "%41"])
def test_an_entity_is_found_by_the_path_of_its_settings(name: str) -> None:
    for kind in (paths.USERS, paths.CLIENTS, paths.IPS, paths.GROUPS):
        path = paths.entity_config(kind, name)
        assert paths.entity_at(path.removeprefix("/config/")) == (kind, name)
    pair = f"{name}\0{name}"
    path = paths.entity_config(paths.USER_CLIENTS, pair)
    assert path.startswith("/config/users/")
    assert paths.entity_at(path.removeprefix("/config/")) == (paths.USER_CLIENTS, pair)
