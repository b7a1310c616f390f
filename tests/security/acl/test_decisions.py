"""The decision against a naive model, by many random sets of rules, and its bounds."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from barnabas.security.acl import decisions as decisions_module
from barnabas.security.acl import index as index_module
from barnabas.security.acl.decisions import CACHED_MAX, AclDecisions
from barnabas.security.acl.index import ALL_OPERATIONS, AclIndex, ResourceRules
from barnabas.security.acl.rules import (
    AclOperation,
    AclResourceType,
    AclRule,
    PatternType,
    Permission,
    ResourcePattern,
)
from barnabas.security.principal import Principal
from tests.security.acl.naive import naive_decision
from tests.share import examples

TOPIC, GROUP = AclResourceType.TOPIC, AclResourceType.GROUP
OPERATIONS = [each for each in AclOperation if each >= AclOperation.READ]
NAMES = ("*", "a", "ab", "abc", "abd", "b", "ba", "*x", "A", "a-", "ab!", "")
PRINCIPALS = ("User:p", "User:q", "User:*", "Group:p", "User:P")
HOSTS = ("*", "10.0.0.1", "10.0.0.2")


def some_rule(chance: random.Random) -> AclRule:
    pattern = chance.choice((PatternType.LITERAL, PatternType.PREFIXED))
    resource = ResourcePattern(chance.choice((TOPIC, GROUP)), chance.choice(NAMES[:-1]), pattern)
    return AclRule(
        resource,
        chance.choice(PRINCIPALS),
        chance.choice(HOSTS),
        chance.choice([AclOperation.ALL, *OPERATIONS]),
        chance.choice((Permission.ALLOW, Permission.ALLOW, Permission.DENY)),
    )


def differs_from_the_model(seed: int) -> str:
    """Random rules, added and removed by patterns; every question compared after each change."""
    chance = random.Random(seed)
    without_rules = chance.random() < 0.5
    decisions = AclDecisions((), without_rules, [])
    rules: list[AclRule] = []
    for _ in range(4):
        changed = [some_rule(chance) for _ in range(chance.randrange(1, 6))]
        for rule in changed:
            if rule in rules:
                rules.remove(rule)
            else:
                rules.append(rule)
        for pattern in {rule.resource for rule in changed}:
            decisions.replace(pattern, [rule for rule in rules if rule.resource == pattern])
        for name in NAMES:
            for principal in (Principal("User", "p"), Principal("Group", "p")):
                operation, host = chance.choice(OPERATIONS), chance.choice(HOSTS[1:])
                for type_ in (TOPIC, GROUP):
                    expected = naive_decision(
                        rules, str(principal), host, operation, type_, name, without_rules
                    )
                    if decisions.is_allowed(principal, host, operation, type_, name) != expected:
                        return f"{principal} {operation.name} {name!r} {host} {rules}: {expected}"
    return ""


@pytest.mark.parametrize("seeds", [range(at, at + 50) for at in range(0, examples(1_000), 50)])
def test_the_decision_is_that_of_the_naive_model(seeds: range) -> None:
    for seed in seeds:
        assert not differs_from_the_model(seed)


@contextmanager
def planted(owner: object, name: str, mutant: object) -> Iterator[None]:
    original = getattr(owner, name)
    setattr(owner, name, mutant)
    try:
        yield
    finally:
        setattr(owner, name, original)


def _deny_implies(rule: AclRule) -> int:
    return ORIGINAL_MASK(rule._replace(permission=Permission.ALLOW))


def _first_pattern_only(self: ResourceRules, name: str) -> list[object]:
    return ORIGINAL_COVERING(self, name)[:1]  # type: ignore[return-value]


def _wildcard_is_a_prefix_too(self: ResourceRules, name: str) -> list[object]:
    found = list(ORIGINAL_COVERING(self, name))
    if "*" in self.prefixed and self.prefixed["*"] not in found:
        found.append(self.prefixed["*"])
    return found  # type: ignore[return-value]


def _only_the_longest_prefix(self: ResourceRules, name: str) -> list[object]:
    found = ORIGINAL_COVERING(self, name)
    prefixes = [each for each in found if each in self.prefixed.values()]
    return [each for each in found if each not in prefixes[1:]]


def _stale_cache(self: AclDecisions, pattern: ResourcePattern, rules: list[AclRule]) -> None:
    self.index.replace(pattern, rules)


def _allow_wins(
    self: AclIndex, principal: str, host: str, type_: AclResourceType, name: str
) -> int | None:
    ordered = list(self.covering_rules(type_, name))
    if not ordered:
        return None
    return sum(
        1 << operation
        for operation in OPERATIONS
        if naive_decision(
            [rule for rule in ordered if rule.permission is Permission.ALLOW],
            principal, host, operation, type_, name, False,
        )
    )  # fmt: skip


ORIGINAL_MASK = index_module.rule_mask
ORIGINAL_COVERING = ResourceRules.covering


@pytest.mark.parametrize(
    ("owner", "name", "mutant"),
    [
        (index_module, "rule_mask", _deny_implies),
        (index_module, "rule_mask", lambda rule: 1 << rule.operation),
        (index_module, "ANY_USER", "User:nobody"),
        (ResourceRules, "covering", _first_pattern_only),
        (ResourceRules, "covering", _only_the_longest_prefix),
        (ResourceRules, "covering", _wildcard_is_a_prefix_too),
        (AclDecisions, "replace", _stale_cache),
        (AclIndex, "allowed", _allow_wins),
        (decisions_module, "ALL_OPERATIONS", 0),
    ],
)
def test_the_comparison_finds_a_planted_mistake(owner: object, name: str, mutant: object) -> None:
    with planted(owner, name, mutant):
        assert any(differs_from_the_model(seed) for seed in range(300))


def rule(
    operation: AclOperation = AclOperation.READ,
    permission: Permission = Permission.ALLOW,
    name: str = "orders",
    host: str = "*",
    pattern: PatternType = PatternType.LITERAL,
) -> AclRule:
    return AclRule(ResourcePattern(TOPIC, name, pattern), "User:alice", host, operation, permission)


ALICE = Principal("User", "alice")
Ask = Callable[[AclDecisions, AclOperation], bool]


def may(decisions: AclDecisions, operation: AclOperation, host: str = "10.0.0.1") -> bool:
    return decisions.is_allowed(ALICE, host, operation, TOPIC, "orders")


def test_a_super_user_may_do_everything_whatever_the_rules_say() -> None:
    denied = [rule(AclOperation.ALL, Permission.DENY)]
    assert may(AclDecisions([ALICE], rules=denied), AclOperation.ALTER)
    assert may(AclDecisions([ALICE]), AclOperation.ALTER), "also while rules are not loaded"
    assert not may(AclDecisions([Principal("User", "Alice")], rules=denied), AclOperation.READ)


def test_rules_that_are_not_loaded_allow_nothing() -> None:
    decisions = AclDecisions((), allow_without_rules=True)
    assert not may(decisions, AclOperation.READ)
    decisions.load([rule()])
    assert may(decisions, AclOperation.READ)
    decisions.unload()
    assert not may(decisions, AclOperation.READ)


def test_an_address_is_the_same_in_every_spelling() -> None:
    decisions = AclDecisions((), rules=[rule(host="0:0:0:0:0:0:0:1"), rule(host="::ffff:10.0.0.9")])
    assert may(decisions, AclOperation.READ, "::1")
    assert may(decisions, AclOperation.READ, "10.0.0.9")
    assert not may(decisions, AclOperation.READ, "10.0.0.1")


def test_operations_in_a_response_are_those_of_the_type() -> None:
    decisions = AclDecisions([ALICE], rules=[])
    found = [
        decisions.operations_in_response(ALICE, "h", type_, "x")
        for type_ in (TOPIC, GROUP, AclResourceType.CLUSTER)
    ]
    assert found == [0xDF8, 0xD48, 0x1FA0]
    assert decisions.operations(ALICE, "h", TOPIC, "x") == ALL_OPERATIONS


def test_the_cache_is_bounded() -> None:
    decisions = AclDecisions((), rules=[rule()])
    for number in range(CACHED_MAX + 100):
        decisions.is_allowed(ALICE, "h", AclOperation.READ, TOPIC, f"t{number}")
    decisions.is_allowed(ALICE, "h", AclOperation.READ, GROUP, "g" * 100_000)
    assert len(decisions.cache) <= CACHED_MAX
    assert max(len(name) for _, _, _, name in decisions.cache) < 1_000


def test_write_on_some_topic_is_found_as_kafka_finds_it() -> None:
    write, deny = AclOperation.WRITE, Permission.DENY
    prefixed = PatternType.PREFIXED

    def some(*rules: AclRule) -> bool:
        return AclDecisions((), rules=rules).is_allowed_on_some(ALICE, "h", write, TOPIC)

    assert not some()
    assert some(rule(write))
    assert not some(rule(write), rule(write, deny))
    assert not some(rule(write), rule(write, deny, "ord", pattern=prefixed))
    assert some(rule(write), rule(write, deny, "orders-", pattern=prefixed))
    assert some(rule(write, name="ord", pattern=prefixed), rule(write, deny))
    assert not some(rule(write), rule(AclOperation.ALL, deny, "*"))
    assert some(rule(write, name="*"), rule(write, deny, "ord", pattern=prefixed))
    assert not some(rule(write, host="other"))
    assert AclDecisions((), True, []).is_allowed_on_some(ALICE, "h", write, TOPIC)
    assert not AclDecisions().is_allowed_on_some(ALICE, "h", write, TOPIC)
