"""The identity of a connection, as rules, quotas and logs name it: `User:alice`."""

from typing import NamedTuple

USER = "User"


class Principal(NamedTuple):
    """Kafka's principal: a type, and a name that may be any text. Both are compared exactly."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS = Principal(USER, "ANONYMOUS")
"""Of a connection without a login and without a certificate."""


def parse_principal(text: str) -> Principal:
    """TYPE:NAME; the name may have colons. ValueError says what was expected."""
    type_, colon, name = text.partition(":")
    if not colon or not type_ or not name:
        raise ValueError(f"principal {text[:100]!r}: expected TYPE:NAME, as in User:alice")
    return Principal(type_, name)


def parse_principals(text: str) -> frozenset[Principal]:
    """The value of super.users: principals with `;` between them.

    Names of certificates have commas (`User:CN=a,O=b`): a comma does not separate.
    """
    return frozenset(parse_principal(each.strip()) for each in text.split(";") if each.strip())
