"""Rules in the keeper: Kafka's paths and JSON."""

import json

import pytest

from barnabas.model.errors import Corrupt, InvalidRequest
from barnabas.security.acl import rule_nodes
from barnabas.security.acl.rules import (
    AclOperation,
    AclResourceType,
    AclRule,
    PatternType,
    Permission,
    ResourcePattern,
)

TOPIC = ResourcePattern(AclResourceType.TOPIC, "orders")
PREFIX = ResourcePattern(AclResourceType.TRANSACTIONAL_ID, "app-", PatternType.PREFIXED)
RULE = AclRule(TOPIC, "User:alice", "*", AclOperation.READ, Permission.ALLOW)
AS_KAFKA_WROTE = (
    b'{"version":1,"acls":[{"principal":"User:alice","permissionType":"Allow",'
    b'"operation":"Read","host":"*"}]}'
)


def test_paths_and_contents_are_those_of_kafka() -> None:
    assert rule_nodes.pattern_path(TOPIC) == "/kafka-acl/Topic/orders"
    path = rule_nodes.pattern_path(PREFIX)
    assert path == "/kafka-acl-extended/prefixed/TransactionalId/app-"
    assert rule_nodes.rules_data([RULE]) == AS_KAFKA_WROTE
    assert rule_nodes.read_rules("/x", TOPIC, AS_KAFKA_WROTE) == [RULE]
    assert rule_nodes.change_data(TOPIC) == b"TOPIC:orders"
    assert rule_nodes.change_path(TOPIC) == "/kafka-acl-changes/acl_changes_"
    assert json.loads(rule_nodes.change_data(PREFIX)) == {
        "version": 1, "resourceType": "TRANSACTIONAL_ID", "name": "app-", "patternType": "PREFIXED",
    }  # fmt: skip


def test_a_change_is_read_back() -> None:
    odd = ResourcePattern(AclResourceType.GROUP, "a:b/c\x00")
    for pattern in (TOPIC, PREFIX, odd):
        path = rule_nodes.change_path(pattern) + "0000000001"
        assert rule_nodes.read_change(path, rule_nodes.change_data(pattern)) == pattern


@pytest.mark.parametrize(
    "name", ["a", "*", "a/b", "%", "a%2Fb", ".", "..", "x\ny", "ä ö", "%zz", "a:b", "..."]
)
def test_every_name_has_one_node_and_is_read_back(name: str) -> None:
    path = rule_nodes.pattern_path(ResourcePattern(AclResourceType.GROUP, name))
    assert path.count("/") == 3
    assert rule_nodes.resource_name(path.rpartition("/")[2]) == name


def test_a_node_that_kafka_named_with_a_percent_sign_is_taken_literally() -> None:
    assert rule_nodes.resource_name("100%") == "100%"
    assert rule_nodes.resource_name("a%41") == "a%41"


def test_a_name_too_long_for_a_node_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="use a prefix"):
        rule_nodes.pattern_path(ResourcePattern(AclResourceType.GROUP, "g" * 2_000))


@pytest.mark.parametrize(
    "data",
    [
        b"[]", b"{", b'{"version":2,"acls":[]}', b'{"version":1}',
        AS_KAFKA_WROTE.replace(b"Read", b"Reed"), AS_KAFKA_WROTE.replace(b'"*"', b"1"),
    ],
)  # fmt: skip
def test_a_node_that_cannot_be_read_is_an_error_not_an_absence(data: bytes) -> None:
    """A rule that is skipped might be one that denies."""
    with pytest.raises(Corrupt, match="/x"):
        rule_nodes.read_rules("/x", TOPIC, data)
