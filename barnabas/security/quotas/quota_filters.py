"""Which entities a request to describe quotas asks for.

In: the components of a filter. Out: yes or no for each entity; an error for a filter that makes no
sense, with Kafka's code and text.
"""

from collections.abc import Iterable
from typing import NamedTuple

from barnabas.model.errors import Code, InvalidRequest
from barnabas.security.acl.hosts import host_text
from barnabas.security.quotas.entities import DEFAULT, ENTITY_TYPES, IP, QuotaEntity

EXACT, DEFAULT_NAME, ANY_NAME = 0, 1, 2
"""Types of a match: this name, the default entity, or any entity that has this type."""


class QuotaFilter(NamedTuple):
    """`names`: by type; None: any name. `strict`: the entity has no other types."""

    names: dict[str, str | None]
    strict: bool

    def matches(self, entity: QuotaEntity) -> bool:
        has = {
            type_: name
            for type_, name in zip(ENTITY_TYPES, entity, strict=True)
            if name is not None
        }
        if self.strict and len(has) != len(self.names):
            return False
        return all(
            type_ in has and (name is None or has[type_] == name)
            for type_, name in self.names.items()
        )


def quota_filter(components: Iterable[tuple[str, int, str | None]], *, strict: bool) -> QuotaFilter:
    """`components`: type of the entity, type of the match, name."""
    names: dict[str, str | None] = {}
    for type_, match_type, name in components:
        if not type_:
            raise _invalid("Invalid empty entity type.")
        if type_ in names:
            raise _invalid(f"Entity type {type_} cannot appear more than once in the filter.")
        if type_ not in ENTITY_TYPES:
            raise InvalidRequest(Code.UNSUPPORTED_VERSION, f"Unsupported entity type {type_[:100]}")
        names[type_] = _name(match_type, name)
    if IP in names:
        if len(names) > 1:
            raise _invalid(
                "Invalid entity filter component combination. IP filter component should not be"
                " used with user or clientId filter component."
            )
        if names[IP]:
            names[IP] = host_text(names[IP] or "")
    return QuotaFilter(names, strict)


def _name(match_type: int, name: str | None) -> str | None:
    if match_type == EXACT:
        if name is None:
            raise _invalid("Request specified MATCH_TYPE_EXACT, but set match string to null.")
        return name or "\0"  # no entity has an empty name: it matches nothing
    if match_type not in (DEFAULT_NAME, ANY_NAME):
        raise _invalid(f"Unknown match type {match_type}")
    word = "MATCH_TYPE_DEFAULT" if match_type == DEFAULT_NAME else "MATCH_TYPE_SPECIFIED"
    if name is not None:
        raise _invalid(f"Request specified {word}, but also specified a match string.")
    return DEFAULT if match_type == DEFAULT_NAME else None


def _invalid(reason: str) -> InvalidRequest:
    return InvalidRequest(Code.INVALID_REQUEST, reason)
