"""DescribeTransactionHistory: owners of transactional ids, causes of aborts, waiting readers.

An API of Barnabas, only for its own client. Times are in milliseconds: `..._ms` of an event is the
time since 1970 by the broker's clock, otherwise a duration. Why it exists: docs/adr/0010.
"""

from barnabas.wire.codec import Int16, Int32, Int64, ProtocolMessage, Struct, message


class AskedTopic(Struct):
    name: str
    partitions: list[Int32]


@message(api_key=20_006, versions="0", flexible="0+")
class DescribeTransactionHistoryRequest(ProtocolMessage):
    """Transactional ids, of their coordinator; partitions, of their leader."""

    transactional_ids: list[str]
    topics: list[AskedTopic]


class TransactionHistoryAbort(Struct):
    """`kind` for programs, `text` for people. `open_ms`: how long the transaction was open."""

    at_ms: Int64
    kind: str
    text: str
    client_id: str
    client_host: str
    producer_id: Int64
    producer_epoch: Int16
    open_ms: Int64
    partitions: Int32


class TransactionHistory(Struct):
    """`client_id` and `client_host`: who initialised it last; empty if that is not known."""

    error_code: Int16
    transactional_id: str
    client_id: str = ""
    client_host: str = ""
    aborts: list[TransactionHistoryAbort]


class WaitingReader(Struct):
    """A client whose fetch of committed records waits for an open transaction."""

    client_id: str
    client_host: str


class WaitingReaders(Struct):
    """The clients that wait in a partition now."""

    topic: str
    partition: Int32
    error_code: Int16
    readers: list[WaitingReader]


@message(api_key=20_006, versions="0", flexible="0+")
class DescribeTransactionHistoryResponse(ProtocolMessage):
    """The last abort first. `since_ms`: the coordinator knows nothing from before."""

    now_ms: Int64
    since_ms: Int64
    transactions: list[TransactionHistory]
    partitions: list[WaitingReaders]
