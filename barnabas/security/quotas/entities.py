"""Whom a quota is for: a user, a client id, both, or an address.

In: the pairs of a request (`user`, `client-id`, `ip` and a name; no name is the default), or the
place where settings are stored. Out: one entity, or an error that names what is wrong.
"""

from collections.abc import Iterable
from ipaddress import ip_address
from typing import NamedTuple

from barnabas.model.errors import Code, InvalidRequest
from barnabas.security.acl.hosts import host_text

USER, CLIENT_ID, IP = "user", "client-id", "ip"
ENTITY_TYPES = (USER, CLIENT_ID, IP)
DEFAULT = ""
"""The name of the entity for all that have none of their own. No other name is empty."""

# Kinds of settings in the keeper (/config/KIND); of a pair: /config/users/USER/clients/CLIENT.
USERS, CLIENTS, IPS, USER_CLIENTS = "users", "clients", "ips", "users/clients"
SEPARATOR = "\0"  # between the names of a pair
NAME_BYTES_MAX = 300  # each may become three in the name of a node


class QuotaEntity(NamedTuple):
    """None: not part of the entity. DEFAULT: all that have no quota of their own."""

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None

    def pairs(self) -> list[tuple[str, str | None]]:
        """As on the wire: type and name, and no name for the default."""
        return [
            (type_, name or None)
            for type_, name in zip(ENTITY_TYPES, self, strict=True)
            if name is not None
        ]

    def stored_at(self) -> tuple[str, str]:
        """The kind and the name of its settings."""
        if self.ip is not None:
            return IPS, self.ip
        if self.user is None:
            assert self.client_id is not None
            return CLIENTS, self.client_id
        if self.client_id is None:
            return USERS, self.user
        return USER_CLIENTS, f"{self.user}{SEPARATOR}{self.client_id}"

    def __str__(self) -> str:
        return ", ".join(f"{type_} {name or '(default)'}" for type_, name in self.pairs())


def entity_stored_at(kind: str, name: str) -> QuotaEntity | None:
    """None: settings of this kind are no quotas."""
    if kind == USERS:
        return QuotaEntity(user=name)
    if kind == CLIENTS:
        return QuotaEntity(client_id=name)
    if kind == IPS:
        return QuotaEntity(ip=name)
    if kind == USER_CLIENTS:
        user, _, client_id = name.partition(SEPARATOR)
        return QuotaEntity(user, client_id)
    return None


def entity_of(pairs: Iterable[tuple[str, str | None]]) -> QuotaEntity:
    """The entity that a request names."""
    names: dict[str, str] = {}
    for type_, name in pairs:
        if type_ in names:
            raise _invalid(f"Invalid client quota entity, duplicate entity entry {type_}")
        if type_ not in ENTITY_TYPES:
            raise _invalid(f"Unhandled client quota entity type: {type_[:100]}")
        if name == "":
            raise _invalid(f"Empty {type_} not supported")
        if name is not None and (len(name.encode()) > NAME_BYTES_MAX or SEPARATOR in name):
            raise _invalid(f"a {type_} has at most {NAME_BYTES_MAX} bytes, and no NUL")
        names[type_] = DEFAULT if name is None else name
    if not names:
        raise _invalid("Invalid empty client quota entity")
    if IP in names:
        if len(names) > 1:
            raise _invalid(
                "Invalid quota entity combination, IP entity should not be combined with User or"
                " ClientId"
            )
        names[IP] = _address(names[IP])
    return QuotaEntity(names.get(USER), names.get(CLIENT_ID), names.get(IP))


def _address(text: str) -> str:
    """One spelling for each address. Host names are refused: what they resolve to changes."""
    if text == DEFAULT:
        return DEFAULT
    try:
        ip_address(text.strip("[]"))
    except ValueError:
        raise _invalid(f"{text} is not a valid IP address; host names are not resolved") from None
    return host_text(text)


def _invalid(reason: str) -> InvalidRequest:
    return InvalidRequest(Code.INVALID_REQUEST, reason)
