"""DescribeTransactionGroup: the last batch that a group of producers has committed.

An API of Barnabas, only for its own client. Why it exists: docs/adr/0046.
"""

from barnabas.wire.codec import Int16, Int32, Int64, ProtocolMessage, message


@message(api_key=20_009, versions="0", flexible="0+")
class DescribeTransactionGroupRequest(ProtocolMessage):
    """The group, by the name that its producers gave it."""

    group: str


@message(api_key=20_009, versions="0", flexible="0+")
class DescribeTransactionGroupResponse(ProtocolMessage):
    """`partitions`: of __transaction_state; all ids of a group must be in the partition of the
    group's name. `batch` is -1 if none is stored.
    """

    throttle_time_ms: Int32 = 0
    error_code: Int16
    partitions: Int32 = 0
    batch: Int64 = -1
    identity: str = ""
    note: str = ""
