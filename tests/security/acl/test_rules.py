"""Rules and filters as requests give them, and as people write them."""

import pytest

from barnabas.model.errors import InvalidRequest
from barnabas.security.acl.rule_changes import with_added, with_deleted
from barnabas.security.acl.rules import (
    AclOperation,
    AclResourceType,
    AclRule,
    AclRuleFilter,
    PatternType,
    Permission,
    ResourcePattern,
    check_filter,
    check_rule,
    from_word,
    word,
)
from barnabas.security.acl.text import parse_resource, resource_text

TOPIC = AclResourceType.TOPIC
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
RULE = AclRule(
    ResourcePattern(TOPIC, "orders"), "User:alice", "*", AclOperation.READ, Permission.ALLOW
)


@pytest.mark.parametrize(
    "rule",
    [
        RULE._replace(resource=ResourcePattern(AclResourceType.ANY, "x")),
        RULE._replace(resource=ResourcePattern(AclResourceType.UNKNOWN, "x")),
        RULE._replace(resource=ResourcePattern(TOPIC, "")),
        RULE._replace(resource=ResourcePattern(TOPIC, "x", PatternType.MATCH)),
        RULE._replace(resource=ResourcePattern(TOPIC, "x", PatternType.ANY)),
        RULE._replace(resource=ResourcePattern(AclResourceType.CLUSTER, "mine")),
        RULE._replace(operation=AclOperation.ANY),
        RULE._replace(operation=AclOperation.UNKNOWN),
        RULE._replace(permission=Permission.ANY),
        RULE._replace(principal="alice"),
    ],
)
def test_a_rule_that_kafka_refuses_is_refused(rule: AclRule) -> None:
    with pytest.raises(InvalidRequest):
        check_rule(rule)


def test_a_filter_with_an_unknown_field_is_refused() -> None:
    check_filter(AclRuleFilter())
    with pytest.raises(InvalidRequest):
        check_filter(AclRuleFilter(operation=AclOperation.UNKNOWN))


def test_the_pattern_of_a_filter_selects_as_in_kafka() -> None:
    patterns = [
        ResourcePattern(TOPIC, "orders"), ResourcePattern(TOPIC, "orders", PREFIXED),
        ResourcePattern(TOPIC, "ord", PREFIXED), ResourcePattern(TOPIC, "*"),
        ResourcePattern(TOPIC, "other"), ResourcePattern(AclResourceType.GROUP, "orders"),
    ]  # fmt: skip

    def selected(pattern: PatternType, name: str | None = "orders") -> list[int]:
        which = AclRuleFilter(TOPIC, name, pattern)
        return [n for n, p in enumerate(patterns) if which.matches(RULE._replace(resource=p))]

    assert selected(LITERAL) == [0]
    assert selected(PREFIXED) == [1]
    assert selected(PatternType.ANY) == [0, 1]
    assert selected(PatternType.MATCH) == [0, 1, 2, 3]
    assert selected(PREFIXED, None) == [1, 2]


def test_to_delete_one_rule_keeps_the_others_of_its_pattern() -> None:
    others = [RULE._replace(principal=f"User:{n}") for n in range(5)]
    present = {RULE.resource: [*others[:2], RULE, *others[2:]]}
    changed, deleted = with_deleted(
        present, [AclRuleFilter(principal="User:alice"), AclRuleFilter(principal="User:bob")]
    )
    assert changed == {RULE.resource: others}
    assert deleted == [[RULE], []]


def test_to_add_a_rule_twice_changes_nothing() -> None:
    new = RULE._replace(host="h")
    assert with_added({RULE.resource: [RULE]}, [RULE, RULE]) == {}
    assert with_added({RULE.resource: [RULE]}, [new, RULE, new]) == {RULE.resource: [RULE, new]}


def test_words_are_those_of_kafka_and_are_read_in_any_spelling() -> None:
    assert word(AclResourceType.TRANSACTIONAL_ID) == "TransactionalId"
    assert word(AclOperation.DESCRIBE_CONFIGS) == "DescribeConfigs"
    for text in ("DescribeConfigs", "describe-configs", "DESCRIBE_CONFIGS"):
        assert from_word(AclOperation, text) is AclOperation.DESCRIBE_CONFIGS
    with pytest.raises(InvalidRequest, match="expected one of Any, All, Read"):
        from_word(AclOperation, "reed")
    with pytest.raises(InvalidRequest):
        from_word(AclOperation, "unknown")


def test_resources_are_written_as_they_are_read() -> None:
    assert parse_resource("topic:orders") == ResourcePattern(TOPIC, "orders")
    assert parse_resource("topic:orders-*") == ResourcePattern(TOPIC, "orders-", PREFIXED)
    assert parse_resource("topic:*") == ResourcePattern(TOPIC, "*")
    assert parse_resource("topic:a*", LITERAL) == ResourcePattern(TOPIC, "a*")
    assert parse_resource("cluster").name == "kafka-cluster"
    for text in ("topic:orders", "group:g:1*", "txn:app-*", "cluster", "topic:*", "user:User:a"):
        assert resource_text(parse_resource(text)) == text
    for text in ("orders", "topic:", "any:x", ":x", ""):
        with pytest.raises(InvalidRequest, match="expected topic:NAME"):
            parse_resource(text)
