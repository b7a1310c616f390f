"""The decision: super users, rules, and what holds where there is no rule; from a bounded cache.

In: a principal, its host, an operation, a resource. Out: allowed or not.
Always: the answer is that of Kafka's StandardAuthorizer for the rules of this moment: a change of
rules empties the cache. Rules that are not loaded allow nothing, except to super users.
Not here: where rules come from (the broker reads them from the keeper), why (explain.py).
"""

from collections.abc import Collection, Iterable

from barnabas.security.acl.index import ALL_OPERATIONS, AclIndex
from barnabas.security.acl.rules import (
    OPERATIONS_OF,
    AclOperation,
    AclResourceType,
    AclRule,
    ResourcePattern,
)
from barnabas.security.principal import Principal

CACHED_MAX = 16_384
CACHED_NAME_LENGTH_MAX = 300  # names of groups may be long, and clients choose them

_SUPPORTED = {
    type_: sum(1 << operation for operation in operations)
    for type_, operations in OPERATIONS_OF.items()
}


class AclDecisions:
    """The rules in force on this broker.

    A key of the cache has all operations of a principal on a resource, so that the operations
    that a response lists cost one look, too.
    """

    __slots__ = ("_allow_without_rules", "_index", "_super_users", "cache", "loaded")

    def __init__(
        self,
        super_users: Collection[Principal] = (),
        allow_without_rules: bool = False,
        rules: Iterable[AclRule] | None = None,
    ) -> None:
        """Without `rules`, they are not loaded yet."""
        self._super_users = frozenset(super_users)
        self._allow_without_rules = allow_without_rules
        self._index = AclIndex(rules or ())
        self.loaded = rules is not None
        self.cache: dict[tuple[Principal, str, AclResourceType, str], int] = {}
        """Allowed operations, as bits. It stays the same object, so that requests can look into it
        without a call (broker/authorization/requester.py)."""

    @property
    def index(self) -> AclIndex:
        return self._index

    @property
    def allow_without_rules(self) -> bool:
        return self._allow_without_rules

    def configure(self, super_users: Collection[Principal], allow_without_rules: bool) -> None:
        self._super_users = frozenset(super_users)
        self._allow_without_rules = allow_without_rules
        self.cache.clear()

    def load(self, rules: Iterable[AclRule]) -> None:
        """All rules, in place of those before."""
        self._index = AclIndex(rules)
        self.cache.clear()
        self.loaded = True

    def replace(self, pattern: ResourcePattern, rules: Iterable[AclRule]) -> None:
        self._index.replace(pattern, rules)
        self.cache.clear()

    def unload(self) -> None:
        """The rules may have changed unnoticed: allow nothing until they are loaded again."""
        self.loaded = False
        self.cache.clear()

    def is_super(self, principal: Principal) -> bool:
        return principal in self._super_users

    def operations(self, principal: Principal, host: str, type_: AclResourceType, name: str) -> int:
        """The allowed operations, one bit each; also those that make no sense for the type."""
        found = self.cache.get((principal, host, type_, name))
        return self._compute(principal, host, type_, name) if found is None else found

    def _compute(self, principal: Principal, host: str, type_: AclResourceType, name: str) -> int:
        if principal in self._super_users:
            allowed = ALL_OPERATIONS
        elif not self.loaded:
            return 0
        else:
            by_rules = self._index.allowed(str(principal), host, type_, name)
            if by_rules is not None:
                allowed = by_rules
            else:
                allowed = ALL_OPERATIONS if self._allow_without_rules else 0
        cache = self.cache
        if len(name) <= CACHED_NAME_LENGTH_MAX:
            if len(cache) >= CACHED_MAX:
                del cache[next(iter(cache))]
            cache[principal, host, type_, name] = allowed
        return allowed

    def is_allowed(
        self,
        principal: Principal,
        host: str,
        operation: AclOperation,
        type_: AclResourceType,
        name: str,
    ) -> bool:
        allowed = self.cache.get((principal, host, type_, name))
        if allowed is None:
            allowed = self._compute(principal, host, type_, name)
        return allowed >> operation & 1 == 1

    def operations_in_response(
        self, principal: Principal, host: str, type_: AclResourceType, name: str
    ) -> int:
        """The allowed operations among those that the type of resource has."""
        return self.operations(principal, host, type_, name) & _SUPPORTED[type_]

    def is_allowed_on_some(
        self, principal: Principal, host: str, operation: AclOperation, type_: AclResourceType
    ) -> bool:
        """On at least one resource of the type, whatever its name."""
        # As Kafka does, with a fixed name: it stands for a name without rules of its own.
        if self.is_allowed(principal, host, operation, type_, "hardcode"):
            return True
        if not self.loaded:
            return False
        return self._index.allowed_on_some(str(principal), host, operation, type_)
