"""The decision about a request for one transactional id: its answer, and what is written."""

from typing import NamedTuple, Protocol

from barnabas.coordinators.transactions.transaction import NO_EPOCH, NO_ID, Transaction
from barnabas.model.errors import Code


class Decision(NamedTuple):
    """The code to answer with, once `then` is in the log; without `then` nothing is written."""

    code: Code
    then: Transaction | None = None


class ProducerIds(Protocol):
    """Ids that no producer has had yet."""

    def take(self) -> int | None:
        """None if there is none in stock; more are being fetched."""
        ...


class Identity(NamedTuple):
    """The producer that a request says it comes from."""

    producer_id: int = NO_ID
    epoch: int = NO_EPOCH

    @property
    def is_given(self) -> bool:
        return self.producer_id != NO_ID


NO_IDS_AT_HAND = Decision(Code.COORDINATOR_LOAD_IN_PROGRESS)
"""The code at which every client asks again."""
