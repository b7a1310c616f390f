"""Access rules: a principal, from a host, may or may not do an operation on resources.

The numbers are those of Kafka's protocol. A word is Kafka's in ZooKeeper and in its tools
(`Read`, `TransactionalId`); the command line also takes it in lower case with `-` or `_`.
"""

from enum import IntEnum
from typing import NamedTuple, TypeVar

from barnabas.model.errors import Code, InvalidRequest

WILDCARD = "*"
ANY_USER = "User:*"
CLUSTER_NAME = "kafka-cluster"
"""The only resource of type Cluster."""


class AclResourceType(IntEnum):
    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(IntEnum):
    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(IntEnum):
    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


AclField = TypeVar("AclField", AclResourceType, PatternType, AclOperation, Permission)


def from_number(kind: type[AclField], number: int) -> AclField:
    """The field of a request; a number that is not in the table is UNKNOWN."""
    return kind(number) if 0 <= number < len(kind) else kind(0)


def word(value: IntEnum) -> str:
    """`TRANSACTIONAL_ID` is `TransactionalId`."""
    return "".join(part.capitalize() for part in value.name.split("_"))


def from_word(kind: type[AclField], text: str) -> AclField:
    """The field from any spelling of its word; the error lists the words."""
    wanted = text.replace("-", "").replace("_", "").lower()
    for value in kind:
        if value.name.replace("_", "").lower() == wanted and value:
            return value
    words = ", ".join(word(value) for value in kind if value)
    raise InvalidRequest(
        Code.INVALID_REQUEST, f"{text[:100]!r} is unknown; expected one of {words}"
    )


# By the type of a resource: the operations that a client can be allowed on it.
OPERATIONS_OF = {
    AclResourceType.TOPIC: (
        AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE, AclOperation.DELETE,
        AclOperation.ALTER, AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    AclResourceType.GROUP: (
        AclOperation.READ, AclOperation.DELETE, AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS,
    ),
    AclResourceType.CLUSTER: (
        AclOperation.CREATE, AclOperation.ALTER, AclOperation.DESCRIBE,
        AclOperation.CLUSTER_ACTION, AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS,
        AclOperation.IDEMPOTENT_WRITE,
    ),
    AclResourceType.TRANSACTIONAL_ID: (
        AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.TWO_PHASE_COMMIT,
    ),
    AclResourceType.DELEGATION_TOKEN: (AclOperation.DESCRIBE,),
    AclResourceType.USER: (AclOperation.CREATE_TOKENS, AclOperation.DESCRIBE_TOKENS),
}  # fmt: skip


class ResourcePattern(NamedTuple):
    """The resources of a rule: one name, all names (literal `*`), or all with a prefix."""

    type: AclResourceType
    name: str
    pattern: PatternType = PatternType.LITERAL

    def covers(self, name: str) -> bool:
        if self.pattern is PatternType.PREFIXED:
            return name.startswith(self.name)
        return self.name in (name, WILDCARD)

    def __str__(self) -> str:
        prefixed = " (prefix)" if self.pattern is PatternType.PREFIXED else ""
        return f"{word(self.type)} {self.name}{prefixed}"


class AclRule(NamedTuple):
    """One rule. Rules with equal fields are the same rule."""

    resource: ResourcePattern
    principal: str
    host: str
    operation: AclOperation
    permission: Permission

    def __str__(self) -> str:
        return (
            f"{word(self.permission)} {self.principal} {word(self.operation)}"
            f" on {self.resource} from host {self.host}"
        )


class AclRuleFilter(NamedTuple):
    """Selects rules. None and ANY match every value."""

    type: AclResourceType = AclResourceType.ANY
    name: str | None = None
    pattern: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: Permission = Permission.ANY

    def matches(self, rule: AclRule) -> bool:
        return (
            self._matches_resource(rule.resource)
            and self.principal in (None, rule.principal)
            and self.host in (None, rule.host)
            and self.operation in (AclOperation.ANY, rule.operation)
            and self.permission in (Permission.ANY, rule.permission)
        )

    def _matches_resource(self, resource: ResourcePattern) -> bool:
        if self.type not in (AclResourceType.ANY, resource.type):
            return False
        if self.pattern not in (PatternType.ANY, PatternType.MATCH, resource.pattern):
            return False
        if self.name is None:
            return True
        if self.pattern is PatternType.MATCH:
            return resource.covers(self.name)
        return self.name == resource.name


def check_rule(rule: AclRule) -> AclRule:
    """Raises InvalidRequest for a rule that Kafka's controller refuses, too."""
    resource = rule.resource
    problem = ""
    if resource.type in (AclResourceType.UNKNOWN, AclResourceType.ANY):
        problem = f"resource type {resource.type.name}: expected the type of one resource"
    elif resource.type is AclResourceType.CLUSTER and resource.name != CLUSTER_NAME:
        problem = f"cluster {resource.name[:100]!r}: the only valid name is {CLUSTER_NAME}"
    elif resource.pattern not in (PatternType.LITERAL, PatternType.PREFIXED):
        problem = f"pattern type {resource.pattern.name}: expected LITERAL or PREFIXED"
    elif rule.operation in (AclOperation.UNKNOWN, AclOperation.ANY):
        problem = f"operation {rule.operation.name}: expected one operation, or ALL"
    elif rule.permission not in (Permission.ALLOW, Permission.DENY):
        problem = f"permission {rule.permission.name}: expected ALLOW or DENY"
    elif not resource.name:
        problem = "the name of the resource is empty"
    elif ":" not in rule.principal:
        problem = (
            f"principal {rule.principal[:300]!r}: expected a type, a colon and a name, such as"
            " User:alice"
        )
    if problem:
        raise InvalidRequest(Code.INVALID_REQUEST, problem)
    return rule


def check_filter(which: AclRuleFilter) -> AclRuleFilter:
    """Raises InvalidRequest for a filter with a field that is unknown."""
    for field in (which.type, which.pattern, which.operation, which.permission):
        if not field:
            raise InvalidRequest(
                Code.INVALID_REQUEST, f"{type(field).__name__} UNKNOWN in a filter of ACLs"
            )
    return which
