"""Why a transaction was aborted, and by whom: for people who ask.

The log has no room for it, so another coordinator knows only that a transaction was aborted.
"""

from enum import Enum
from typing import NamedTuple


class CauseKind(Enum):
    """Who decided it."""

    CLIENT = "the producer aborted it"
    TIMEOUT = "it was open for longer than its transaction.timeout.ms"
    FENCED = "another producer initialised the same transactional id"
    UNKNOWN = "it was aborted before this broker became its coordinator"


class Client(NamedTuple):
    """Who sent a request."""

    client_id: str
    host: str


class Cause(NamedTuple):
    """Why a transaction was aborted. `by`: the producer that aborted or fenced it."""

    kind: CauseKind
    at_ms: int
    by: Client | None = None
