"""Why a request is allowed or denied, and what would allow it."""

import random

from barnabas.security.acl.decisions import AclDecisions
from barnabas.security.acl.explain import AclQuestion, explain
from barnabas.security.acl.rules import (
    AclOperation,
    AclResourceType,
    AclRule,
    PatternType,
    Permission,
    ResourcePattern,
)
from barnabas.security.principal import Principal
from tests.security.acl.test_decisions import NAMES, OPERATIONS, some_rule

TOPIC = AclResourceType.TOPIC
ALICE = Principal("User", "alice")


def rule(
    name: str = "orders",
    operation: AclOperation = AclOperation.READ,
    permission: Permission = Permission.ALLOW,
    principal: str = "User:alice",
    host: str = "*",
    pattern: PatternType = PatternType.LITERAL,
) -> AclRule:
    return AclRule(ResourcePattern(TOPIC, name, pattern), principal, host, operation, permission)


QUESTION = AclQuestion(ALICE, "10.0.0.1", AclOperation.READ, TOPIC, "orders-eu")


def test_the_rule_that_allows_is_named() -> None:
    wide = rule("ord", pattern=PatternType.PREFIXED)
    found = explain(AclDecisions(rules=[rule("*", AclOperation.WRITE), wide]), QUESTION)
    assert (found.allowed, found.rule, found.command) == (True, wide, "")


def test_the_rule_that_denies_is_named_with_the_command_that_removes_it() -> None:
    deny = rule("*", AclOperation.ALL, Permission.DENY, "User:*", host="10.0.0.1")
    found = explain(AclDecisions(rules=[rule("orders-eu"), deny]), QUESTION)
    assert (found.allowed, found.rule) == (False, deny)
    assert found.command == "barnabas acl revoke '*' all 'topic:*' --deny --host 10.0.0.1"


def test_near_misses_say_which_field_failed() -> None:
    near = {
        "host": rule("orders-eu", host="10.0.0.2"),
        "pattern": rule("orders"),
        "name": rule("Orders-EU"),
        "principal": rule("orders-eu", principal="User:Alice"),
        "operation": rule("orders-eu", AclOperation.WRITE),
    }
    far = [
        rule("other"),
        rule("orders", host="10.0.0.2"),
        rule("orders-eu", principal="User:bob"),
        rule("orders-eu", permission=Permission.DENY, host="10.0.0.2"),
    ]
    found = explain(AclDecisions(rules=[*far, *near.values()]), QUESTION)
    assert not found.allowed
    assert {miss.field: miss.rule for miss in found.near_misses} == near
    assert found.command == "barnabas acl allow alice read topic:orders-eu --host 10.0.0.1"


def test_a_question_without_a_host_names_none() -> None:
    assert str(QUESTION._replace(host="")) == "User:alice Read on Topic orders-eu"


def test_a_star_in_a_literal_name_is_a_near_miss() -> None:
    (miss,) = explain(AclDecisions(rules=[rule("orders*")]), QUESTION).near_misses
    assert miss.field == "pattern"
    assert "is literal" in miss.reason


def test_without_rules_the_setting_decides_and_is_named() -> None:
    assert explain(AclDecisions(rules=[]), QUESTION).reason == "no rule covers this resource"
    found = explain(AclDecisions((), True, []), QUESTION)
    assert found.allowed
    assert "allow.everyone.if.no.acl.found" in found.reason
    assert "super.users" in explain(AclDecisions([ALICE], rules=[]), QUESTION).reason
    assert not explain(AclDecisions(), QUESTION).allowed


def test_an_operation_that_the_resource_does_not_have_is_pointed_out() -> None:
    question = QUESTION._replace(operation=AclOperation.CLUSTER_ACTION)
    assert "has the operations Read, Write" in explain(AclDecisions(rules=[]), question).reason


def test_the_verdict_is_the_decision_and_its_rule_agrees() -> None:
    for seed in range(300):
        chance = random.Random(seed)
        rules = [some_rule(chance) for _ in range(chance.randrange(8))]
        decisions = AclDecisions((), chance.random() < 0.5, rules)
        for name in NAMES:
            question = AclQuestion(
                Principal("User", "p"), "10.0.0.1", chance.choice(OPERATIONS), TOPIC, name
            )
            found = explain(decisions, question)
            assert found.allowed == decisions.is_allowed(*question)
            if found.rule is not None:
                assert found.allowed == (found.rule.permission is Permission.ALLOW)
