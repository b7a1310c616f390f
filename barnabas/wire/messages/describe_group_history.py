"""DescribeGroupHistory: the rebalance history of groups.

An API of Barnabas, only for its own client. Times are in milliseconds: `..._ms` of an event is the
time since 1970 by the broker's clock, otherwise a duration. -1 if it has not ended, or is not
known. Why it exists: docs/adr/0010.
"""

from barnabas.wire.codec import Int16, Int32, Int64, ProtocolMessage, Struct, message, tagged


@message(api_key=20_000, versions="0", flexible="0+")
class DescribeGroupHistoryRequest(ProtocolMessage):
    """The histories of groups, from the coordinator of each."""

    group_ids: list[str]


class GroupHistoryMember(Struct):
    """`silent_ms`: time since its last request. `awaited`: the current rebalance waits for it."""

    member_id: str
    instance_id: str | None = None
    client_id: str
    client_host: str
    session_timeout_ms: Int32
    rebalance_timeout_ms: Int32
    silent_ms: Int64
    awaited: bool
    protocols: list[str]


class GroupHistoryPartition(Struct):
    """The committed offset, the time of the first unread record, and the records read and written
    in the last `pace_ms`.
    """

    topic: str
    partition: Int32
    committed: Int64
    committed_at_ms: Int64
    unread_since_ms: Int64 = -1
    pace_ms: Int64 = -1
    consumed: Int64 = -1
    produced: Int64 = -1


class GroupHistoryCause(Struct):
    """`kind` for programs, `text` for people. `alive`: its connection is still open."""

    kind: str
    text: str
    member_id: str
    client_id: str
    client_host: str
    instance_id: str
    reason: str
    waited_ms: Int64
    allowed_ms: Int64
    topics_added: list[str]
    topics_dropped: list[str]
    alive: bool


class GroupHistoryMove(Struct):
    """A partition with a new owner; None is no owner."""

    topic: str
    partition: Int32
    before: str | None
    after: str | None


class GroupHistoryRebalance(Struct):
    """One generation: its causes, the members it waited for, the moved partitions (None: not
    known).
    """

    began_ms: Int64
    generation: Int32
    members: Int32
    protocol: str | None
    leader: str | None
    under_way: bool
    join_ms: Int64
    sync_ms: Int64
    last_member: str
    last_client: str
    last_after_ms: Int64
    causes: list[GroupHistoryCause]
    more_causes: Int32
    moves: list[GroupHistoryMove] | None
    more_moves: Int32


class GroupHistoryNote(Struct):
    """An event without a new generation, `times` in a row, the last at `at_ms`."""

    at_ms: Int64
    times: Int32
    cause: GroupHistoryCause


class GroupHistory(Struct):
    error_code: Int16
    error_message: str | None = None
    group_id: str
    now_ms: Int64
    generation: Int32
    members: list[GroupHistoryMember]
    partitions: list[GroupHistoryPartition]
    rebalances: list[GroupHistoryRebalance]
    notes: list[GroupHistoryNote]
    since_ms: Int64 = tagged(0, since=0, default=-1)  # the coordinator knows nothing from before


@message(api_key=20_000, versions="0", flexible="0+")
class DescribeGroupHistoryResponse(ProtocolMessage):
    """The history from the oldest to the newest rebalance; the last may be in progress."""

    groups: list[GroupHistory]
