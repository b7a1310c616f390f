"""Why a transaction was aborted, and by whom: for people who ask.

The log has no room for it, so another coordinator knows only that a transaction was aborted.
"""

from enum import Enum
from typing import NamedTuple

NAME_LENGTH_MAX = 200  # of a client id that is kept: a client may send one of 32 KB with every id


class AbortedBy(Enum):
    """Who decided it."""

    CLIENT = "the producer aborted it"
    TIMEOUT = "it was open for longer than its transaction.timeout.ms"
    FENCED = "another producer initialised the same transactional id"
    GROUP = "its group was ended without it"
    UNKNOWN = "it was aborted before this broker became its coordinator"


class Client(NamedTuple):
    """Who sent a request."""

    client_id: str
    host: str


class TransactionCause(NamedTuple):
    """Why a transaction was aborted. `by`: the producer that aborted or fenced it."""

    kind: AbortedBy
    at_ms: int
    by: Client | None = None


def client_of(client_id: str, host: str) -> Client:
    """As it is kept: a long name is cut."""
    return Client(client_id[:NAME_LENGTH_MAX], host)


def cause_text(cause: TransactionCause) -> str:
    """For people: why, and who."""
    if cause.by is None:
        return cause.kind.value
    name = f"client {cause.by.client_id!r} at " if cause.by.client_id else "a client at "
    return f"{cause.kind.value} ({name}{cause.by.host.removeprefix('/')})"
