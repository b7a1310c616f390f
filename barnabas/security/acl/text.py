"""Rules as the command line writes them: `alice read topic:orders`, `alice write topic:orders-*`.

In and out: text that people type, and rules.
Always: what `resource_text` writes, `parse_resource` reads back.
"""

from shlex import quote

from barnabas.model.errors import Code, InvalidRequest
from barnabas.security.acl.rules import (
    CLUSTER_NAME,
    WILDCARD,
    AclOperation,
    AclResourceType,
    AclRule,
    PatternType,
    Permission,
    ResourcePattern,
    from_word,
)

_SHORT = {"txn": AclResourceType.TRANSACTIONAL_ID, "token": AclResourceType.DELEGATION_TOKEN}
_EXPECTED = "expected topic:NAME, group:NAME, txn:ID, cluster, token:ID or user:PRINCIPAL"


def parse_resource(text: str, pattern: PatternType | None = None) -> ResourcePattern:
    """`topic:orders` is one topic, `topic:orders-*` all whose names begin so, `topic:*` all.

    `pattern` says that the name is meant literally, or as a prefix, whatever its last character.
    """
    type_text, _, name = text.partition(":")
    type_ = _SHORT.get(type_text.lower())
    if type_ is None:
        try:
            type_ = from_word(AclResourceType, type_text)
        except InvalidRequest:
            raise InvalidRequest(
                Code.INVALID_REQUEST, f"resource {text[:300]!r}: {_EXPECTED}"
            ) from None
    if type_ is AclResourceType.CLUSTER and not name:
        name = CLUSTER_NAME
    if not name or type_ is AclResourceType.ANY:
        raise InvalidRequest(Code.INVALID_REQUEST, f"resource {text[:300]!r}: {_EXPECTED}")
    if pattern is not None:
        return ResourcePattern(type_, name, pattern)
    if name.endswith(WILDCARD) and name != WILDCARD:
        return ResourcePattern(type_, name.removesuffix(WILDCARD), PatternType.PREFIXED)
    return ResourcePattern(type_, name)


def resource_text(resource: ResourcePattern) -> str:
    """Names that end with `*` themselves need `--literal` or `--prefix` beside them."""
    if resource.type is AclResourceType.CLUSTER and resource.name == CLUSTER_NAME:
        return "cluster"
    short = next((text for text, type_ in _SHORT.items() if type_ is resource.type), None)
    type_text = short or resource.type.name.lower()
    if resource.pattern is PatternType.PREFIXED:
        return f"{type_text}:{resource.name}{WILDCARD}"
    return f"{type_text}:{resource.name}"


def pattern_options(resource: ResourcePattern) -> str:
    """The option without which `resource_text` would be read as another pattern."""
    if resource.pattern is PatternType.PREFIXED or resource.type is AclResourceType.CLUSTER:
        return ""
    return " --literal" if resource.name.endswith(WILDCARD) and resource.name != WILDCARD else ""


def operation_text(operation: AclOperation) -> str:
    return operation.name.lower().replace("_", "-")


def parse_user(text: str) -> str:
    """`alice` is `User:alice`; other types of principals are written in full."""
    return text if ":" in text else f"User:{text}"


def user_text(principal: str) -> str:
    name = principal.removeprefix("User:")
    return principal if not name or ":" in name else name


def rule_command(rule: AclRule, *, revoke: bool = False) -> str:
    """The command that adds the rule, or removes it."""
    verb = "allow" if rule.permission is Permission.ALLOW else "deny"
    words = ["barnabas", "acl", "revoke" if revoke else verb]
    words += [user_text(rule.principal), operation_text(rule.operation)]
    words.append(resource_text(rule.resource))
    command = " ".join(quote(each) for each in words) + pattern_options(rule.resource)
    if revoke:
        command += f" --{verb}"
    return command if rule.host == WILDCARD else f"{command} --host {quote(rule.host)}"
