"""What happens in a cluster, and why: an API of Barnabas' own, for its client (docs/adr/0010)."""

from barnabas.wire.codec import Int32, Int64, ProtocolMessage, Struct, message, since, tagged


@message(api_key=20_002, versions="0-1", flexible="0+")
class ClusterStoryRequest(ProtocolMessage):
    """Any broker tells of itself, and the controller of what it did after event `after`."""

    after: Int64 = -1
    events_max: Int32 = 0


class ToldEvent(Struct):
    """`what` is one of a few words, `cause` a sentence; `partition` is -1 if it is of none."""

    number: Int64
    at_ms: Int64
    what: str
    cause: str
    isr: list[Int32]
    isr_before: list[Int32]
    topic: str = ""
    partition: Int32 = -1
    leader: Int32 = -1
    leader_epoch: Int32 = -1
    leader_before: Int32 = -1


class ToldLogDir(Struct):
    """`state`: online, full or offline, and then the reason."""

    path: str
    state: str
    reason: str = ""


class OfflinePartition(Struct):
    """`reason`: why nobody leads it, and what to do, in words."""

    topic: str
    partition: Int32
    reason: str


@message(api_key=20_002, versions="0-1", flexible="0+")
class ClusterStoryResponse(ProtocolMessage):
    """`machine` tells whether a process id means anything where it is read.

    `broker_epoch` is -1 of a broker that stands alone. `controller_id` is -1 while nobody is.
    `events` are the controller's, oldest first; none of another broker. `offline` too.
    v1: how well the broker is; -1 where it is not known.
    """

    broker_id: Int32
    broker_epoch: Int64
    process_id: Int32
    machine: str
    version: str
    controller_id: Int32
    controller_epoch: Int32
    is_controller: bool
    events: list[ToldEvent]
    loop_delay_ms_p99: Int64 = since(1, default=-1, ignorable=True)
    open_files: Int64 = since(1, default=-1, ignorable=True)
    open_files_max: Int64 = since(1, default=-1, ignorable=True)
    log_lines_dropped: Int64 = since(1, default=-1, ignorable=True)
    log_dirs: list[ToldLogDir] = since(1, default=[], ignorable=True)
    offline: list[OfflinePartition] = tagged(0, since=0, default=[], ignorable=True)
