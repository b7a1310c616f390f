"""Access rules in the keeper: read all, read what has changed, add, delete.

In: a keeper and changes. Out: rules by pattern.
Always: a change of one pattern replaces the node that was read (compare and set), so that two
brokers that change rules at the same time lose none; a notification is created with each change,
in one operation. Every call may block.
Not here: the format of nodes (security/acl/rule_nodes.py).
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from barnabas.keeper.keeper import (
    OPERATIONS_MAX,
    BadVersion,
    Create,
    Delete,
    Keeper,
    Node,
    NodeExists,
    NoNode,
    Operation,
    Set,
    TooLarge,
    ensure,
)
from barnabas.model.errors import Code, InvalidRequest, Retriable
from barnabas.security.acl import rule_nodes
from barnabas.security.acl.rule_changes import DELETED_MAX, with_added, with_deleted
from barnabas.security.acl.rules import AclRule, AclRuleFilter, PatternType, ResourcePattern

ATTEMPTS_MAX = 20  # when other brokers change the same patterns
NOTES_MAX = 1_000  # a broker that missed more reads everything
_CHANGES = (rule_nodes.LITERAL_CHANGES, rule_nodes.PREFIXED_CHANGES)
_PATTERNS_AT_ONCE = OPERATIONS_MAX // 4

Rules = dict[ResourcePattern, list[AclRule]]


class StoredRules(NamedTuple):
    """Rules by pattern, and the number of the last notification of either kind."""

    rules: Rules
    seen: tuple[int, int]


def prepare(keeper: Keeper) -> None:
    for path in rule_nodes.folders():
        if not keeper.exists(path):
            ensure(keeper, path)


def read_all(keeper: Keeper) -> StoredRules:
    """Notifications first: a change during the read has a later notification."""
    seen = _last(keeper, 0), _last(keeper, 1)
    return StoredRules(_read_patterns(keeper, _stored_patterns(keeper)), seen)


def _last(keeper: Keeper, kind: int) -> int:
    return max(map(_number, keeper.children(_CHANGES[kind], watch=keeper.session != 0)), default=-1)


def _stored_patterns(keeper: Keeper) -> list[ResourcePattern]:
    found = []
    for pattern in (PatternType.LITERAL, PatternType.PREFIXED):
        for type_ in rule_nodes.TYPES:
            try:
                nodes = keeper.children(rule_nodes.type_path(type_, pattern))
            except NoNode:
                continue
            found += [
                ResourcePattern(type_, rule_nodes.resource_name(node), pattern) for node in nodes
            ]
    return found


def _read_patterns(keeper: Keeper, patterns: Sequence[ResourcePattern]) -> Rules:
    paths = [rule_nodes.pattern_path(pattern) for pattern in patterns]
    nodes = keeper.get_many(paths)
    return {
        pattern: rule_nodes.read_rules(path, pattern, node.data)
        for pattern, path, node in zip(patterns, paths, nodes, strict=True)
        if node is not None
    }


def read_changes(keeper: Keeper, seen: tuple[int, int]) -> StoredRules | None:
    """The rules of the patterns that changed; None: notifications are missing, read everything."""
    patterns: dict[ResourcePattern, None] = {}
    last = list(seen)
    for kind, folder in enumerate(_CHANGES):
        notes = sorted(keeper.children(folder, watch=keeper.session != 0), key=_number)
        new = [note for note in notes if _number(note) > seen[kind]]
        if new and _number(new[0]) > seen[kind] + 1:
            return None
        for note in new:
            path = f"{folder}/{note}"
            try:
                patterns[rule_nodes.read_change(path, keeper.get(path).data)] = None
            except NoNode:
                return None
        last[kind] = max(map(_number, new), default=seen[kind])
    found = _read_patterns(keeper, list(patterns))
    rules: Rules = {pattern: found.get(pattern, []) for pattern in patterns}
    return StoredRules(rules, (last[0], last[1]))


def add_rules(keeper: Keeper, rules: Iterable[AclRule]) -> None:
    """All of them, by patterns; each pattern with all of its new rules or none."""
    by_pattern: Rules = {}
    for rule in rules:
        by_pattern.setdefault(rule.resource, []).append(rule)
    patterns = list(by_pattern)
    for start in range(0, len(patterns), _PATTERNS_AT_ONCE):
        some = patterns[start : start + _PATTERNS_AT_ONCE]
        new = [rule for pattern in some for rule in by_pattern[pattern]]
        _change(keeper, lambda: some, lambda present: with_added(present, new))  # noqa: B023
    _delete_old_notes(keeper)


def delete_rules(keeper: Keeper, filters: Sequence[AclRuleFilter]) -> list[list[AclRule]]:
    """For each filter the rules that it deleted. All or nothing."""
    deleted: list[list[AclRule]] = []

    def change(present: Rules) -> Rules:
        nonlocal deleted
        changed, deleted = with_deleted(present, filters)
        gone = {rule for rules in deleted for rule in rules}
        if len(gone) > DELETED_MAX or len(changed) > _PATTERNS_AT_ONCE:
            raise InvalidRequest(
                Code.INVALID_REQUEST,
                f"the filters match {len(gone)} ACLs of {len(changed)} resources; at most"
                f" {DELETED_MAX} of {_PATTERNS_AT_ONCE} can be deleted in one request:"
                " use narrower filters",
            )
        return changed

    _change(keeper, lambda: _stored_patterns(keeper), change)
    _delete_old_notes(keeper)
    return deleted


def _change(
    keeper: Keeper,
    concerned: Callable[[], Sequence[ResourcePattern]],
    change: Callable[[Rules], Rules],
) -> None:
    """Read the patterns, change them, and write those that are as they were read."""
    prepare(keeper)
    for _ in range(ATTEMPTS_MAX):
        patterns = concerned()
        nodes = keeper.get_many([rule_nodes.pattern_path(pattern) for pattern in patterns])
        present = dict(zip(patterns, nodes, strict=True))
        changed = change(
            {
                pattern: rule_nodes.read_rules(rule_nodes.pattern_path(pattern), pattern, node.data)
                for pattern, node in present.items()
                if node is not None
            }
        )
        if not changed:
            return
        operations: list[Operation] = []
        for pattern, rules in changed.items():
            operations += _writes(pattern, rules, present[pattern])
        try:
            keeper.multi(operations)
        except (BadVersion, NodeExists, NoNode):  # another broker was faster: look again
            continue
        except (TooLarge, ValueError) as error:
            raise InvalidRequest(
                Code.INVALID_REQUEST, f"too many ACLs in one change, or of one resource: {error}"
            ) from None
        return
    raise Retriable(Code.REQUEST_TIMED_OUT, "other brokers keep changing the same ACLs: try again")


def _writes(
    pattern: ResourcePattern, rules: Sequence[AclRule], node: Node | None
) -> list[Operation]:
    path = rule_nodes.pattern_path(pattern)
    data = rule_nodes.rules_data(rules)
    write: Operation
    if node is None:
        write = Create(path, data)
    elif rules:
        write = Set(path, data, node.version)
    else:
        write = Delete(path, node.version)
    note = Create(rule_nodes.change_path(pattern), rule_nodes.change_data(pattern), sequential=True)
    return [write, note]


def _delete_old_notes(keeper: Keeper) -> None:
    for folder in _CHANGES:
        notes = sorted(keeper.children(folder), key=_number)
        for note in notes[:-NOTES_MAX]:
            try:
                keeper.delete(f"{folder}/{note}")
            except NoNode:
                continue


def _number(note: str) -> int:
    digits = note.rpartition("_")[2]
    return int(digits) if digits.isdecimal() else -1
