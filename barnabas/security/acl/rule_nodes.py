"""The nodes of rules in the keeper: those of ZooKeeper-era Kafka.

In and out: patterns with their rules, and the path and JSON of a node.
Always: nodes that Kafka 2.0 to 3.9 wrote to ZooKeeper can be read.
A name that a path cannot have (a group may be called `a/b`) is percent-encoded.
"""

import json
from collections.abc import Iterable
from typing import Any

from barnabas.model.errors import Code, Corrupt, InvalidRequest
from barnabas.security.acl.rules import (
    AclOperation,
    AclResourceType,
    AclRule,
    PatternType,
    Permission,
    ResourcePattern,
    from_word,
    word,
)

LITERAL_ROOT = "/kafka-acl"
PREFIXED_ROOT = "/kafka-acl-extended/prefixed"
LITERAL_CHANGES = "/kafka-acl-changes"
PREFIXED_CHANGES = "/kafka-acl-extended-changes"
CHANGE_NAME = "acl_changes_"
_VERSION = 1
_NODE_LENGTH_MAX = 900  # a path may have 1,024 characters

TYPES = tuple(type_ for type_ in AclResourceType if type_ > AclResourceType.ANY)


def type_path(type_: AclResourceType, pattern: PatternType) -> str:
    root = PREFIXED_ROOT if pattern is PatternType.PREFIXED else LITERAL_ROOT
    return f"{root}/{word(type_)}"


def folders() -> list[str]:
    """The nodes that exist before the first rule."""
    patterns = (PatternType.LITERAL, PatternType.PREFIXED)
    paths = [type_path(type_, pattern) for pattern in patterns for type_ in TYPES]
    return [*paths, LITERAL_CHANGES, PREFIXED_CHANGES]


def pattern_path(pattern: ResourcePattern) -> str:
    node = _node_name(pattern.name)
    if len(node) > _NODE_LENGTH_MAX:
        raise InvalidRequest(
            Code.INVALID_REQUEST,
            f"the name of the resource has {len(node)} characters as a node of the keeper; the"
            f" limit is {_NODE_LENGTH_MAX}: use a prefix",
        )
    return f"{type_path(pattern.type, pattern.pattern)}/{node}"


def _node_name(name: str) -> str:
    safe = "".join(
        character if character.isprintable() and character not in "/%" else _percent(character)
        for character in name
    )
    return safe.replace(".", "%2E") if safe in (".", "..") else safe


def _percent(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode("utf-8", "surrogatepass"))


def resource_name(node: str) -> str:
    """The name from that of its node; a node that this code did not write is taken literally."""
    if "%" not in node:
        return node
    first, *rest = node.split("%")
    try:
        data = first.encode() + b"".join(bytes((int(p[:2], 16),)) + p[2:].encode() for p in rest)
        name = data.decode()
    except ValueError:
        return node
    return name if _node_name(name) == node else node


def rules_data(rules: Iterable[AclRule]) -> bytes:
    return _json(
        {
            "version": _VERSION,
            "acls": [
                {
                    "principal": rule.principal,
                    "permissionType": word(rule.permission),
                    "operation": word(rule.operation),
                    "host": rule.host,
                }
                for rule in rules
            ],
        }
    )


def read_rules(path: str, pattern: ResourcePattern, data: bytes) -> list[AclRule]:
    """Raises Corrupt: a rule that cannot be read might be one that denies."""
    if not data:
        return []
    try:
        fields = _read_object(data)
        if fields.get("version") != _VERSION:
            raise ValueError(f"version {fields.get('version')!r}")
        return [
            AclRule(
                pattern,
                _text(each["principal"]),
                _text(each["host"]),
                from_word(AclOperation, _text(each["operation"])),
                from_word(Permission, _text(each["permissionType"])),
            )
            for each in fields["acls"]
        ]
    except (KeyError, ValueError, TypeError, AttributeError, InvalidRequest) as problem:
        raise _corrupt(path, problem) from None


def change_path(pattern: ResourcePattern) -> str:
    """Created sequentially, to notify the other brokers that the rules of a pattern changed."""
    prefixed = pattern.pattern is PatternType.PREFIXED
    return f"{PREFIXED_CHANGES if prefixed else LITERAL_CHANGES}/{CHANGE_NAME}"


def change_data(pattern: ResourcePattern) -> bytes:
    if pattern.pattern is not PatternType.PREFIXED:
        return f"{pattern.type.name}:{pattern.name}".encode("utf-8", "surrogatepass")
    return _json(
        {
            "version": _VERSION,
            "resourceType": pattern.type.name,
            "name": pattern.name,
            "patternType": pattern.pattern.name,
        }
    )


def read_change(path: str, data: bytes) -> ResourcePattern:
    """Which pattern changed. Raises Corrupt: then everything is read again."""
    try:
        if path.startswith(PREFIXED_CHANGES):
            fields = _read_object(data)
            return ResourcePattern(
                from_word(AclResourceType, _text(fields["resourceType"])),
                _text(fields["name"]),
                from_word(PatternType, _text(fields["patternType"])),
            )
        type_, colon, name = data.decode("utf-8", "surrogatepass").partition(":")
        if not colon or not name:
            raise ValueError("expected TYPE:name")
        return ResourcePattern(from_word(AclResourceType, type_), name)
    except (KeyError, ValueError, TypeError, AttributeError, InvalidRequest) as problem:
        raise _corrupt(path, problem) from None


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text")
    return value


def _json(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()


def _read_object(data: bytes) -> dict[str, Any]:
    fields = json.loads(data)
    if not isinstance(fields, dict):
        raise ValueError("not an object")
    return fields


def _corrupt(path: str, problem: Exception) -> Corrupt:
    return Corrupt(f"keeper node {path} cannot be read: {problem!r}", Code.UNKNOWN_SERVER_ERROR)
