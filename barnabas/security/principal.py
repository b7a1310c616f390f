"""The name of an authenticated client, as in User:alice."""

from typing import NamedTuple

USER = "User"


class Principal(NamedTuple):
    """Who a connection belongs to. Two principals are equal if type and name are, exactly."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS = Principal(USER, "ANONYMOUS")


def parse_principal(text: str) -> Principal:
    """TYPE:NAME. ValueError says what was expected."""
    type_, colon, name = text.partition(":")
    if not colon or not type_ or not name:
        raise ValueError(f"principal {text[:100]!r}: expected TYPE:NAME, as in User:alice")
    return Principal(type_, name)
