"""DescribeClientQuotas: the limits of the entities that a filter matches."""

from typing import TYPE_CHECKING

from barnabas.broker.net.dispatch import Call
from barnabas.model.errors import KafkaError
from barnabas.security.quotas.entities import entity_stored_at
from barnabas.security.quotas.quota_filters import quota_filter
from barnabas.security.quotas.quota_limits import read_limits
from barnabas.wire.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)

if TYPE_CHECKING:
    from barnabas.broker.context import GroupsContext


def handle(
    broker: "GroupsContext", request: DescribeClientQuotasRequest, call: Call
) -> DescribeClientQuotasResponse:
    try:
        wanted = quota_filter(
            ((each.entity_type, each.match_type, each.match) for each in request.components),
            strict=request.strict,
        )
    except KafkaError as error:
        return DescribeClientQuotasResponse(
            error_code=error.code, error_message=error.detail, entries=None
        )
    entries = []
    for stored_at, settings in broker.catalog.entities.items():
        entity = entity_stored_at(*stored_at)
        if entity is None or not settings or not wanted.matches(entity):
            continue
        limits, _ = read_limits(settings)
        if limits:
            entries.append(
                EntryData(
                    entity=[
                        EntityData(entity_type=type_, entity_name=name)
                        for type_, name in entity.pairs()
                    ],
                    values=[
                        ValueData(key=kind.value, value=value) for kind, value in limits.items()
                    ],
                )
            )
    return DescribeClientQuotasResponse(error_code=0, entries=entries)
