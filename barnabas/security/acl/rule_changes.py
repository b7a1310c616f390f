"""What a request to add or delete rules changes, by pattern.

In: the rules of the patterns concerned, as the keeper has them. Out: their new rules.
Always: to remove one rule keeps the others of its pattern, in their order; to add a rule that
exists changes nothing.
"""

from collections.abc import Iterable, Mapping, Sequence

from barnabas.security.acl.rules import AclRule, AclRuleFilter, ResourcePattern

DELETED_MAX = 10_000  # rules in one request, as in Kafka

RulesByPattern = Mapping[ResourcePattern, Sequence[AclRule]]


def with_added(
    present: RulesByPattern, new: Iterable[AclRule]
) -> dict[ResourcePattern, list[AclRule]]:
    """The patterns that change."""
    rules: dict[ResourcePattern, dict[AclRule, None]] = {}
    for rule in new:
        pattern = rule.resource
        if pattern not in rules:
            rules[pattern] = dict.fromkeys(present.get(pattern, ()))
        rules[pattern][rule] = None
    return {
        pattern: list(after)
        for pattern, after in rules.items()
        if len(after) > len(present.get(pattern, ()))
    }


def with_deleted(
    present: RulesByPattern, filters: Iterable[AclRuleFilter]
) -> tuple[dict[ResourcePattern, list[AclRule]], list[list[AclRule]]]:
    """The patterns that change, and for each filter the rules that it deletes."""
    deleted: list[list[AclRule]] = []
    gone: dict[AclRule, None] = {}
    for which in filters:
        matching = [rule for rules in present.values() for rule in rules if which.matches(rule)]
        deleted.append(matching)
        gone.update(dict.fromkeys(matching))
    changed = {
        pattern: [rule for rule in present[pattern] if rule not in gone]
        for pattern in dict.fromkeys(rule.resource for rule in gone)
    }
    return changed, deleted
