"""All rules, arranged so that a decision looks at few of them.

In: rules. Out: which operations a principal from a host may do on a resource.
Always: the decision is that of Kafka's StandardAuthorizer. Rules cover a resource if they are
literal with its name, literal with `*`, or prefixed with a prefix of its name; of these, those
for the principal or `User:*`, and for the host or `*`, apply; one that denies wins over all that
allow.
Not here: super users, the answer without any rule, the cache (decisions.py).

One decision gives all operations as bits: the rules of one pattern, principal and host are kept
as two masks, so 10,000 rules cost no more than the patterns that cover one name.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator

from barnabas.security.acl.hosts import host_text
from barnabas.security.acl.rules import (
    ANY_USER,
    WILDCARD,
    AclOperation,
    AclResourceType,
    AclRule,
    PatternType,
    Permission,
    ResourcePattern,
)

ALL_OPERATIONS = sum(1 << operation for operation in AclOperation if operation >= AclOperation.READ)
_DESCRIBE = 1 << AclOperation.DESCRIBE
_DESCRIBE_CONFIGS = 1 << AclOperation.DESCRIBE_CONFIGS
_IMPLIES_DESCRIBE = (
    AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER,
)  # fmt: skip


def rule_mask(rule: AclRule) -> int:
    """The operations that the rule allows or denies. Only rules that allow imply others."""
    if rule.operation is AclOperation.ALL:
        return ALL_OPERATIONS
    mask = 1 << rule.operation
    if rule.permission is Permission.ALLOW:
        if rule.operation in _IMPLIES_DESCRIBE:
            mask |= _DESCRIBE
        elif rule.operation is AclOperation.ALTER_CONFIGS:
            mask |= _DESCRIBE_CONFIGS
    return mask


class PatternRules:
    """The rules of one pattern: by principal and host, what is denied and what is allowed."""

    __slots__ = ("masks", "parent", "rules")

    def __init__(self, rules: Iterable[AclRule]) -> None:
        self.rules = tuple(dict.fromkeys(rules))
        self.masks: dict[tuple[str, str], tuple[int, int]] = {}
        self.parent: str | None = None  # of a prefix: the longest other prefix that it begins with
        for rule in self.rules:
            key = rule.principal, host_text(rule.host)
            denied, allowed = self.masks.get(key, (0, 0))
            if rule.permission is Permission.DENY:
                denied |= rule_mask(rule)
            else:
                allowed |= rule_mask(rule)
            self.masks[key] = denied, allowed


class ResourceRules:
    """The rules for resources of one type."""

    __slots__ = ("_linked", "_prefixes", "literal", "prefixed")

    def __init__(self) -> None:
        self.literal: dict[str, PatternRules] = {}
        self.prefixed: dict[str, PatternRules] = {}
        self._prefixes: list[str] = []  # sorted
        self._linked = True

    def replace(self, pattern: ResourcePattern, rules: PatternRules) -> None:
        prefixed = pattern.pattern is PatternType.PREFIXED
        patterns = self.prefixed if prefixed else self.literal
        if rules.rules:
            patterns[pattern.name] = rules
        else:
            patterns.pop(pattern.name, None)
        if prefixed:
            self._linked = False

    def covering(self, name: str) -> list[PatternRules]:
        """The rules of each pattern that covers the resource."""
        found = []
        literal = self.literal
        rules = literal.get(name)
        if rules is not None:
            found.append(rules)
        if name != WILDCARD and (rules := literal.get(WILDCARD)) is not None:
            found.append(rules)
        if not self._linked:
            self._link()
        if self._prefixes:
            # A prefix of the name sorts before the name, and each text between them begins with
            # it: so all prefixes of the name are among this one and those that it begins with.
            position = bisect_right(self._prefixes, name) - 1
            prefix = self._prefixes[position] if position >= 0 else None
            while prefix is not None:
                rules = self.prefixed[prefix]
                if name.startswith(prefix):
                    found.append(rules)
                prefix = rules.parent
        return found

    def _link(self) -> None:
        """Once for many changes."""
        self._linked = True
        self._prefixes = sorted(self.prefixed)
        stack: list[str] = []
        for prefix in self._prefixes:
            while stack and not prefix.startswith(stack[-1]):
                stack.pop()
            self.prefixed[prefix].parent = stack[-1] if stack else None
            stack.append(prefix)


class AclIndex:
    """All rules of a cluster. They change by whole patterns, as the keeper keeps them."""

    def __init__(self, rules: Iterable[AclRule] = ()) -> None:
        self._types = {type_: ResourceRules() for type_ in AclResourceType}
        self._patterns: dict[ResourcePattern, tuple[AclRule, ...]] = {}
        patterns: dict[ResourcePattern, list[AclRule]] = {}
        for rule in rules:
            patterns.setdefault(rule.resource, []).append(rule)
        for pattern, its_rules in patterns.items():
            self.replace(pattern, its_rules)

    def replace(self, pattern: ResourcePattern, rules: Iterable[AclRule]) -> None:
        """From now on these are the rules of the pattern; none: it is removed."""
        found = PatternRules(rules)
        assert all(rule.resource == pattern for rule in found.rules)
        self._types[pattern.type].replace(pattern, found)
        if found.rules:
            self._patterns[pattern] = found.rules
        else:
            self._patterns.pop(pattern, None)

    def patterns(self) -> Iterable[ResourcePattern]:
        return self._patterns.keys()

    def rules_of(self, pattern: ResourcePattern) -> tuple[AclRule, ...]:
        return self._patterns.get(pattern, ())

    def __iter__(self) -> Iterator[AclRule]:
        for rules in self._patterns.values():
            yield from rules

    def __len__(self) -> int:
        return sum(map(len, self._patterns.values()))

    def allowed(self, principal: str, host: str, type_: AclResourceType, name: str) -> int | None:
        """The allowed operations as bits; None if no rule of any principal covers it."""
        covering = self._types[type_].covering(name)
        if not covering:
            return None
        denied = allowed = 0
        for rules in covering:
            masks = rules.masks
            for key in (
                (principal, host), (principal, WILDCARD), (ANY_USER, host), (ANY_USER, WILDCARD),
            ):  # fmt: skip
                found = masks.get(key)
                if found is not None:
                    denied |= found[0]
                    allowed |= found[1]
        return allowed & ~denied

    def covering_rules(self, type_: AclResourceType, name: str) -> Iterator[AclRule]:
        """Every rule, of any principal, whose pattern covers the resource."""
        for rules in self._types[type_].covering(name):
            yield from rules.rules

    def allowed_on_some(
        self, principal: str, host: str, operation: AclOperation, type_: AclResourceType
    ) -> bool:
        """Whether a rule allows the operation on at least one name of this type.

        As Kafka decides it for producers without a transactional id: an allowing rule counts
        unless a denying rule covers everything that it covers.
        """
        bit = 1 << operation
        keys = tuple((p, h) for p in (principal, ANY_USER) for h in (host, WILDCARD))
        rules = self._types[type_]

        def sets(mask: int, patterns: dict[str, PatternRules]) -> dict[str, None]:
            return {
                name: None
                for name, its in patterns.items()
                if any(its.masks.get(key, (0, 0))[mask] & bit for key in keys)
            }

        denied_names, denied_prefixes = sets(0, rules.literal), sets(0, rules.prefixed)
        allowed_names, allowed_prefixes = sets(1, rules.literal), sets(1, rules.prefixed)
        if WILDCARD in denied_names:
            return False
        if WILDCARD in allowed_names:
            return True

        def under_denied_prefix(name: str) -> bool:
            return any(name[:end] in denied_prefixes for end in range(1, len(name) + 1))

        return any(
            name not in denied_names and not under_denied_prefix(name) for name in allowed_names
        ) or any(not under_denied_prefix(name) for name in allowed_prefixes)
