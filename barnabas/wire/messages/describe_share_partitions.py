"""DescribeSharePartitions: the records that a share group has in flight, who holds them, and what
failed. An API of Barnabas for its own client (docs/adr/0010)."""

from barnabas.wire.codec import Int16, Int32, Int64, ProtocolMessage, Struct, message


@message(api_key=20_011, versions="0", flexible="0+")
class DescribeSharePartitionsRequest(ProtocolMessage):
    """Each broker reports the partitions that it leads and that members of the group read, those
    with the most records in flight first."""

    group_id: str
    partitions_max: Int32 = 200


class ShareClient(Struct):
    """`client_id` and `host` are empty if the broker does not know them any more."""

    member_id: str
    client_id: str
    host: str


class ShareHolder(Struct):
    """The oldest record that is not finished. `client`: who has it; no member id: nobody.

    Times are -1 where they mean nothing: `held_ms` since it was delivered, `lock_ms` until its lock
    ends, `backoff_ms` until it may be delivered again. `writing`: an acknowledgement of it is being
    stored.
    """

    offset: Int64
    attempts: Int16
    client: ShareClient
    held_ms: Int64
    lock_ms: Int64
    backoff_ms: Int64
    writing: bool


class ShareFailure(Struct):
    """A delivery that failed. `archived`: the records are not delivered again."""

    at_ms: Int64
    cause: str
    first_offset: Int64
    last_offset: Int64
    attempts: Int16
    client: ShareClient
    archived: bool


class ShareOutcome(Struct):
    """How many records ended so, since this broker has the share partition in memory."""

    name: str
    records: Int64


class DescribedSharePartition(Struct):
    """`in_flight`: offsets from the start offset to the last delivered one, finished ones too.
    `delivered` and `redelivered`: records, in the last `known_ms`."""

    topic: str
    partition: Int32
    start_offset: Int64
    in_flight: Int32
    limit: Int32
    acquired: Int32
    available: Int32
    delivery_limit: Int16
    delivered: Int64
    redelivered: Int64
    known_ms: Int64
    holder: list[ShareHolder]
    outcomes: list[ShareOutcome]
    failures: list[ShareFailure]


@message(api_key=20_011, versions="0", flexible="0+")
class DescribeSharePartitionsResponse(ProtocolMessage):
    """`count`: all of the group here, also those that were left out."""

    error_code: Int16 = 0
    error_message: str | None = None
    count: Int32 = 0
    now_ms: Int64 = 0
    partitions: list[DescribedSharePartition]
