"""Access rules (ACLs) and client limits (quotas).

Always: names are Kafka's, in lower case: `topic`, `read`, `allow`; the error for an unknown name
lists the known ones.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from barnabas.client.cluster import ClusterClient
from barnabas.client.errors import check
from barnabas.model.errors import Code, InvalidRequest
from barnabas.wire.messages import (
    alter_client_quotas,
    create_acls,
    delete_acls,
    describe_acls,
    describe_client_quotas,
    describe_denials,
)

# By the numbers of the protocol; 0 is "unknown", 1 matches any.
RESOURCES = ("unknown", "any", "topic", "group", "cluster", "transactional_id",
             "delegation_token", "user")  # fmt: skip
PATTERNS = ("unknown", "any", "match", "literal", "prefixed")
OPERATIONS = ("unknown", "any", "all", "read", "write", "create", "delete", "alter", "describe",
              "cluster_action", "describe_configs", "alter_configs", "idempotent_write",
              "create_tokens", "describe_tokens", "two_phase_commit")  # fmt: skip
PERMISSIONS = ("unknown", "any", "deny", "allow")
_ANY = 2  # entity of this kind


class Acl(NamedTuple):
    """One rule: this principal, from this host, may (not) do this to this resource."""

    resource: str
    name: str
    principal: str
    operation: str
    permission: str = "allow"
    host: str = "*"
    pattern: str = "literal"


class AclFilter(NamedTuple):
    """Selects rules. A field that is left out matches any value."""

    resource: str = "any"
    name: str | None = None
    principal: str | None = None
    operation: str = "any"
    permission: str = "any"
    host: str | None = None
    pattern: str = "any"


class DeniedRequest(NamedTuple):
    """A request that access rules denied. `rule`: the rule that did; empty: none allowed it."""

    broker: int
    at_ms: int
    principal: str
    host: str
    operation: str
    resource: str
    name: str
    api: str
    client_id: str
    rule: str


Entity = Mapping[str, str | None]
"""The entity of a quota: {"user": ..., "client-id": ..., "ip": ...}; None is the default entity."""


class Quota(NamedTuple):
    """The limits of one entity, by Kafka's names: `producer_byte_rate`, ..."""

    entity: dict[str, str | None]
    limits: dict[str, float]


class SecurityAdmin:
    """ACLs and quotas."""

    _cluster: ClusterClient

    async def acls(self, which: AclFilter | None = None) -> list[Acl]:
        """The rules that match the filter."""
        request = describe_acls.DescribeAclsRequest(**_filter_fields(which or AclFilter()))

        async def attempt() -> list[Acl]:
            connection = await self._cluster.controller()
            response = await connection.call(
                request, describe_acls.DescribeAclsResponse, timeout_ms=self._cluster.timeout_ms
            )
            check(response.error_code, response.error_message, about="ACLs")
            return [_acl(resource, acl) for resource in response.resources for acl in resource.acls]

        return await self._cluster.retrying(attempt)

    async def create_acls(self, rules: Iterable[Acl]) -> None:
        """Add rules."""
        wanted = list(rules)
        request = create_acls.CreateAclsRequest(
            creations=[
                create_acls.AclCreation(
                    resource_type=_number(RESOURCES, acl.resource),
                    resource_name=acl.name,
                    resource_pattern_type=_number(PATTERNS, acl.pattern),
                    principal=acl.principal,
                    host=acl.host,
                    operation=_number(OPERATIONS, acl.operation),
                    permission_type=_number(PERMISSIONS, acl.permission),
                )
                for acl in wanted
            ]
        )

        async def attempt() -> None:
            connection = await self._cluster.controller()
            response = await connection.call(
                request, create_acls.CreateAclsResponse, timeout_ms=self._cluster.timeout_ms
            )
            for acl, result in zip(wanted, response.results, strict=False):
                check(result.error_code, result.error_message, about=str(acl))

        await self._cluster.retrying(attempt)

    async def delete_acls(self, which: AclFilter) -> list[Acl]:
        """Delete the rules that match; returns the deleted rules."""
        request = delete_acls.DeleteAclsRequest(
            filters=[delete_acls.DeleteAclsFilter(**_filter_fields(which))]
        )

        async def attempt() -> list[Acl]:
            connection = await self._cluster.controller()
            response = await connection.call(
                request, delete_acls.DeleteAclsResponse, timeout_ms=self._cluster.timeout_ms
            )
            gone: list[Acl] = []
            for result in response.filter_results:
                check(result.error_code, result.error_message, about=str(which))
                for acl in result.matching_acls:
                    check(acl.error_code, acl.error_message, about=str(which))
                    gone.append(_acl(acl, acl))
            return gone

        return await self._cluster.retrying(attempt)

    async def denials(self, count: int = 1000) -> list[DeniedRequest]:
        """What access rules denied on all brokers, the newest first."""
        found: list[DeniedRequest] = []
        for broker in sorted((await self._cluster.retrying(self._cluster.refresh)).brokers):
            connection = await self._cluster.broker(broker)
            response = await connection.call(
                describe_denials.DescribeDenialsRequest(denials_max=count),
                describe_denials.DescribeDenialsResponse,
                timeout_ms=self._cluster.timeout_ms,
            )
            check(response.error_code, about=f"denials of broker {broker}")
            found += [
                DeniedRequest(
                    broker,
                    each.at_ms,
                    each.principal,
                    each.host,
                    _name(OPERATIONS, each.operation),
                    _name(RESOURCES, each.resource_type),
                    each.resource_name,
                    each.api,
                    each.client_id,
                    each.rule,
                )
                for each in response.denials
            ]
        return sorted(found, key=lambda each: each.at_ms, reverse=True)[:count]

    async def quotas(self, kinds: Iterable[str] = ()) -> list[Quota]:
        """The limits of all entities that have these kinds (`user`, `client-id`, `ip`)."""
        request = describe_client_quotas.DescribeClientQuotasRequest(
            components=[
                describe_client_quotas.ComponentData(entity_type=kind, match_type=_ANY, match=None)
                for kind in kinds
            ],
            strict=False,
        )

        async def attempt() -> list[Quota]:
            connection = await self._cluster.anyone()
            response = await connection.call(
                request,
                describe_client_quotas.DescribeClientQuotasResponse,
                timeout_ms=self._cluster.timeout_ms,
            )
            check(response.error_code, response.error_message, about="quotas")
            return [
                Quota(
                    {each.entity_type: each.entity_name for each in entry.entity},
                    {each.key: each.value for each in entry.values},
                )
                for entry in response.entries or []
            ]

        return await self._cluster.retrying(attempt)

    async def alter_quota(self, entity: Entity, limits: Mapping[str, float | None]) -> None:
        """Set limits of one entity; None removes a limit."""
        request = alter_client_quotas.AlterClientQuotasRequest(
            entries=[
                alter_client_quotas.EntryData(
                    entity=[
                        alter_client_quotas.EntityData(entity_type=kind, entity_name=name)
                        for kind, name in entity.items()
                    ],
                    ops=[
                        alter_client_quotas.OpData(
                            key=key, value=0.0 if value is None else value, remove=value is None
                        )
                        for key, value in limits.items()
                    ],
                )
            ],
            validate_only=False,
        )

        async def attempt() -> None:
            connection = await self._cluster.controller()
            response = await connection.call(
                request,
                alter_client_quotas.AlterClientQuotasResponse,
                timeout_ms=self._cluster.timeout_ms,
            )
            for entry in response.entries:
                check(entry.error_code, entry.error_message, about=f"quota of {dict(entity)}")

        await self._cluster.retrying(attempt)


def _filter_fields(which: AclFilter) -> dict[str, Any]:
    return {
        "resource_type_filter": _number(RESOURCES, which.resource),
        "resource_name_filter": which.name,
        "pattern_type_filter": _number(PATTERNS, which.pattern),
        "principal_filter": which.principal,
        "host_filter": which.host,
        "operation": _number(OPERATIONS, which.operation),
        "permission_type": _number(PERMISSIONS, which.permission),
    }


def _acl(
    resource: describe_acls.DescribeAclsResource | delete_acls.DeleteAclsMatchingAcl,
    acl: describe_acls.AclDescription | delete_acls.DeleteAclsMatchingAcl,
) -> Acl:
    return Acl(
        _name(RESOURCES, resource.resource_type),
        resource.resource_name,
        acl.principal,
        _name(OPERATIONS, acl.operation),
        _name(PERMISSIONS, acl.permission_type),
        acl.host,
        _name(PATTERNS, resource.pattern_type),
    )


def _number(names: tuple[str, ...], name: str) -> int:
    try:
        return names.index(name)
    except ValueError:
        raise InvalidRequest(
            Code.INVALID_REQUEST, f"{name!r}: expected one of {', '.join(names[1:])}"
        ) from None


def _name(names: tuple[str, ...], number: int) -> str:
    return names[number] if 0 <= number < len(names) else names[0]
