"""Why a group is as it is: an API of Barnabas' own, told to no client but its own.

Times are in milliseconds: `..._ms` of an event since 1970 by the broker's clock, of a duration
plainly so. -1 where a thing is not over, or not known. Why it exists: docs/adr/0010.
"""

from barnabas.wire.codec import Int16, Int32, Int64, ProtocolMessage, Struct, message, tagged


@message(api_key=20_000, versions="0", flexible="0+")
class GroupStoryRequest(ProtocolMessage):
    """The stories of groups, from the coordinator of each."""

    group_ids: list[str]


class ToldMember(Struct):
    """`silent_ms`: since it was last heard. `awaited`: the rebalance under way waits for it."""

    member_id: str
    instance_id: str | None = None
    client_id: str
    client_host: str
    session_timeout_ms: Int32
    rebalance_timeout_ms: Int32
    silent_ms: Int64
    awaited: bool
    protocols: list[str]


class ToldPartition(Struct):
    """What is committed, since when the first unread record has waited, and how far members and
    producers came in the last `pace_ms`."""

    topic: str
    partition: Int32
    committed: Int64
    committed_at_ms: Int64
    unread_since_ms: Int64 = -1
    pace_ms: Int64 = -1
    consumed: Int64 = -1
    produced: Int64 = -1


class ToldCause(Struct):
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


class ToldMove(Struct):
    """A partition with another owner than before; None is nobody."""

    topic: str
    partition: Int32
    before: str | None
    after: str | None


class ToldChapter(Struct):
    """One generation: why it began, whom it waited for, what moved (None: that is not known)."""

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
    causes: list[ToldCause]
    more_causes: Int32
    moves: list[ToldMove] | None
    more_moves: Int32


class ToldNote(Struct):
    """What happened without a new generation, `times` in a row, the last at `at_ms`."""

    at_ms: Int64
    times: Int32
    cause: ToldCause


class ToldGroup(Struct):
    error_code: Int16
    error_message: str | None = None
    group_id: str
    now_ms: Int64
    generation: Int32
    members: list[ToldMember]
    partitions: list[ToldPartition]
    chapters: list[ToldChapter]
    notes: list[ToldNote]
    since_ms: Int64 = tagged(0, since=0, default=-1)  # the coordinator knows nothing from before


@message(api_key=20_000, versions="0", flexible="0+")
class GroupStoryResponse(ProtocolMessage):
    """Chapters from the oldest to the newest; the last may be under way."""

    groups: list[ToldGroup]
