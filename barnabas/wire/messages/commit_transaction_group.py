"""CommitTransactionGroup: ends the transactions of several producers with one decision.

An API of Barnabas, only for its own client. Why it exists: docs/adr/0046.
"""

from barnabas.wire.codec import Int16, Int32, Int64, ProtocolMessage, Struct, message


class GroupedTransaction(Struct):
    """The transaction that a producer has open."""

    transactional_id: str
    producer_id: Int64
    producer_epoch: Int16


@message(api_key=20_008, versions="0", flexible="0+")
class CommitTransactionGroupRequest(ProtocolMessage):
    """Commit all of them, or abort all of them. `batch`: the number that the coordinator stores
    for the group, with its identity and note; -1 stores nothing.
    """

    group: str
    committed: bool
    batch: Int64
    identity: str
    note: str
    transactions: list[GroupedTransaction]


@message(api_key=20_008, versions="0", flexible="0+")
class CommitTransactionGroupResponse(ProtocolMessage):
    """`already_committed`: an earlier request did it. `last_batch` and `last_note`: what the
    coordinator has stored for the group, if it refuses the batch.
    """

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: str | None = None
    already_committed: bool = False
    last_batch: Int64 = -1
    last_note: str = ""
