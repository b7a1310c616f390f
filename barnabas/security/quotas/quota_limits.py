"""The limits of all entities, and which of them holds for a client.

In: settings of entities as the keeper has them, changes that a request asks for. Out: the limit of
a kind for a user and a client id, and the entity whose clients share it.
Always: the most specific entity that has a limit of this kind decides, in Kafka's order.
"""

from collections.abc import Mapping
from enum import Enum
from math import isfinite
from typing import NamedTuple

from barnabas.model.errors import Code, InvalidRequest
from barnabas.security.quotas.entities import DEFAULT, QuotaEntity

LONG_MAX = 2**63 - 1
INT_MAX = 2**31 - 1
_WHOLE = 1e-6  # a number that is nearer to a whole one is taken for it, as in Kafka


class QuotaKind(Enum):
    """What is limited, by the name of the setting."""

    PRODUCE = "producer_byte_rate"
    FETCH = "consumer_byte_rate"
    REQUEST = "request_percentage"
    MUTATION = "controller_mutation_rate"
    CONNECTION = "connection_creation_rate"


OF_CLIENTS = (QuotaKind.PRODUCE, QuotaKind.FETCH, QuotaKind.REQUEST, QuotaKind.MUTATION)
_WHOLE_MAX = {
    QuotaKind.PRODUCE: (LONG_MAX, "a LONG"),
    QuotaKind.FETCH: (LONG_MAX, "a LONG"),
    QuotaKind.CONNECTION: (INT_MAX, "an INT"),
}
KIND_NAMES = frozenset(kind.value for kind in QuotaKind)


class FoundLimit(NamedTuple):
    """A limit, and the entity whose connections share it: a default limit holds for each user or
    client id alone. `source`: the entity that has the limit."""

    value: float
    shared_by: QuotaEntity
    source: QuotaEntity


class QuotaLimits:
    """The limits that are in force."""

    def __init__(self) -> None:
        self._limits: dict[QuotaKind, dict[QuotaEntity, float]] = {kind: {} for kind in QuotaKind}

    def __bool__(self) -> bool:
        return any(self._limits.values())

    def has(self, kind: QuotaKind) -> bool:
        return bool(self._limits[kind])

    def replace(self, entity: QuotaEntity, limits: Mapping[QuotaKind, float]) -> bool:
        """Whether anything has changed."""
        changed = False
        for kind, known in self._limits.items():
            value = limits.get(kind)
            changed = changed or known.get(entity) != value
            if value is None:
                known.pop(entity, None)
            else:
                known[entity] = value
        return changed

    def entities(self) -> dict[QuotaEntity, dict[QuotaKind, float]]:
        found: dict[QuotaEntity, dict[QuotaKind, float]] = {}
        for kind, known in self._limits.items():
            for entity, value in known.items():
                found.setdefault(entity, {})[kind] = value
        return found

    def find(self, kind: QuotaKind, user: str, client_id: str) -> FoundLimit | None:
        """None: this client has no limit."""
        known = self._limits[kind]
        if not known:
            return None
        both, of_user = QuotaEntity(user, client_id), QuotaEntity(user)
        of_client = QuotaEntity(client_id=client_id)
        for source, shared_by in (
            (both, both),
            (QuotaEntity(user, DEFAULT), both),
            (of_user, of_user),
            (QuotaEntity(DEFAULT, client_id), both),
            (QuotaEntity(DEFAULT, DEFAULT), both),
            (QuotaEntity(DEFAULT), of_user),
            (of_client, of_client),
            (QuotaEntity(client_id=DEFAULT), of_client),
        ):
            value = known.get(source)
            if value is not None:
                return FoundLimit(value, shared_by, source)
        return None

    def find_address(self, ip: str) -> FoundLimit | None:
        """How many connections a second this address may create."""
        known = self._limits[QuotaKind.CONNECTION]
        own = QuotaEntity(ip=ip)
        for source in (own, QuotaEntity(ip=DEFAULT)):
            value = known.get(source)
            if value is not None:
                return FoundLimit(value, own, source)
        return None


def read_limits(settings: Mapping[str, str]) -> tuple[dict[QuotaKind, float], list[str]]:
    """The limits in the settings of an entity, and what in them cannot be read."""
    found, problems = {}, []
    for kind in QuotaKind:
        text = settings.get(kind.value)
        if text is None:
            continue
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if isfinite(value) and value > 0:
            found[kind] = value
        else:
            problems.append(f"{kind.value} is {text[:100]!r}, not a number above 0")
    return found, problems


def changed_settings(
    entity: QuotaEntity, settings: Mapping[str, str], changes: Mapping[str, float | None]
) -> dict[str, str]:
    """The settings of an entity after a request. None removes; settings that are no limits, such
    as the passwords of a user, stay."""
    result = dict(settings)
    for key, value in changes.items():
        if value is None:
            if key in KIND_NAMES:
                result.pop(key, None)
        else:
            kind = _checked(entity, key, value)
            result[key] = str(round(value)) if kind in _WHOLE_MAX else repr(float(value))
    return result


def _checked(entity: QuotaEntity, key: str, value: float) -> QuotaKind:
    kinds = (QuotaKind.CONNECTION,) if entity.ip is not None else OF_CLIENTS
    kind = next((each for each in kinds if each.value == key), None)
    if kind is None:
        raise _invalid(f"Invalid configuration key {key[:100]}")
    if not value > 0:  # NaN neither
        raise _invalid(f"Quota {key} must be greater than 0")
    if kind in _WHOLE_MAX:
        most, name = _WHOLE_MAX[kind]
        if value > most:
            raise _invalid(f"Proposed value for {key} is too large for {name}.")
        if abs(value % 1.0) > _WHOLE:
            raise _invalid(f"{key} cannot be a fractional value.")
    elif not isfinite(value):
        raise _invalid(f"Quota {key} must be a finite number")
    return kind


def _invalid(reason: str) -> InvalidRequest:
    return InvalidRequest(Code.INVALID_REQUEST, reason)
