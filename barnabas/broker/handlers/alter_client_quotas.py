"""AlterClientQuotas: sets and removes limits of users, client ids and addresses.

Always: the limits of one entity change together or not at all; an entity that is refused does not
keep the others from being changed.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from barnabas.broker.net.dispatch import Call
from barnabas.keeper.keeper import PATH_LENGTH_MAX
from barnabas.keeper.paths import entity_config
from barnabas.model.errors import Code, InvalidRequest, KafkaError
from barnabas.security.quotas.entities import QuotaEntity, entity_of
from barnabas.security.quotas.quota_limits import changed_settings
from barnabas.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
    EntryResult,
    OpData,
)

if TYPE_CHECKING:
    from barnabas.broker.context import GroupsContext

ENTITIES_MAX = 10_000  # each is one write to the keeper

Named = tuple[tuple[str, str | None], ...]


async def handle(
    broker: "GroupsContext", request: AlterClientQuotasRequest, call: Call
) -> AlterClientQuotasResponse:
    if len(request.entries) > ENTITIES_MAX:
        return _too_many(request)
    times = Counter(_named(entry) for entry in request.entries)
    results = []
    for named, entry in {_named(entry): entry for entry in request.entries}.items():
        code, problem = Code.NONE, None
        try:
            if times[named] > 1:
                raise _invalid(f"the entity {_shown(named)} appears {times[named]} times: it was"
                               " not changed")  # fmt: skip
            entity = entity_of(named)
            await _alter(broker, entity, entry.ops, validate_only=request.validate_only)
        except KafkaError as error:
            code, problem = error.code, error.detail
            broker.refused("quota not altered", call, error, entity=_shown(named))
        else:
            if not request.validate_only:
                broker.log.info(
                    "quota altered",
                    entity=str(entity),
                    changes={op.key: None if op.remove else op.value for op in entry.ops},
                )
        results.append(
            EntryResult(
                error_code=code,
                error_message=problem,
                entity=[EntityData(entity_type=type_, entity_name=name) for type_, name in named],
            )
        )
    return AlterClientQuotasResponse(entries=results)


def _too_many(request: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
    problem = f"{len(request.entries)} entities in one request; at most {ENTITIES_MAX} are accepted"
    return AlterClientQuotasResponse(
        entries=[
            EntryResult(error_code=Code.INVALID_REQUEST, error_message=problem, entity=entry.entity)
            for entry in request.entries
        ]
    )


def _named(entry: EntryData) -> Named:
    """The same for the same entity, whatever the order of its types is."""
    return tuple(
        sorted(
            ((each.entity_type, each.entity_name) for each in entry.entity),
            key=lambda pair: (pair[0], pair[1] or ""),
        )
    )


def _shown(named: Named) -> str:
    return ", ".join(f"{type_} {name or '(default)'}" for type_, name in named)[:300]


async def _alter(
    broker: "GroupsContext", entity: QuotaEntity, ops: Sequence[OpData], *, validate_only: bool
) -> None:
    changes: dict[str, float | None] = {}
    for op in ops:
        if op.key in changes:
            raise _invalid(f"Duplicate quota key {op.key[:100]}")
        changes[op.key] = None if op.remove else op.value
    kind, name = entity.stored_at()
    if len(entity_config(kind, name)) > PATH_LENGTH_MAX:
        raise _invalid(
            f"the names of {str(entity)[:300]} are too long for the keeper, where each character"
            " but letters and digits takes three or more: use shorter ones"
        )

    def change(settings: Mapping[str, str]) -> dict[str, str]:
        return changed_settings(entity, settings, changes)

    change(broker.catalog.entities.get((kind, name), {}))
    if changes and not validate_only:
        await broker.catalog.configure_entity(kind, name, change)


def _invalid(reason: str) -> InvalidRequest:
    return InvalidRequest(Code.INVALID_REQUEST, reason)
