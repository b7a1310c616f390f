"""DescribeBroker: the state of a broker and the history of the controller.

An API of Barnabas for its own client (docs/adr/0010).
"""

from barnabas.wire.codec import (
    Float64,
    Int16,
    Int32,
    Int64,
    ProtocolMessage,
    Struct,
    message,
    since,
    tagged,
)


@message(api_key=20_002, versions="0-1", flexible="0+")
class DescribeBrokerRequest(ProtocolMessage):
    """Each broker reports its own state; the controller also reports its events after number
    `after`.
    """

    after: Int64 = -1
    events_max: Int32 = 0


class ControllerEvent(Struct):
    """`what` is the kind of event, `cause` a sentence; `partition` is -1 if the event is not about
    one.
    """

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


class DescribedLogDir(Struct):
    """`state`: online, full or offline, and then the reason."""

    path: str
    state: str
    reason: str = ""


class OfflinePartition(Struct):
    """`reason`: why the partition has no leader, and the remedy, as text."""

    topic: str
    partition: Int32
    reason: str


class WaitingPartition(Struct):
    """A log with segments past their retention that are not in the table of a lake yet."""

    topic: str
    partition: Int32
    waiting_bytes: Int64
    log_bytes: Int64
    limit_bytes: Int64


class ThrottledClient(Struct):
    """Clients that share a quota and were over it in the last minute. `source` has the limit."""

    entity: str
    quota: str
    limit: Float64
    source: str
    times: Int64
    wait_ms: Int64


@message(api_key=20_002, versions="0-1", flexible="0+")
class DescribeBrokerResponse(ProtocolMessage):
    """`machine` tells whether a process id means anything where it is read.

    `broker_epoch` is -1 for a lone broker. `controller_id` is -1 while there is no controller.
    `events` are the controller's, oldest first; none of another broker. `offline` too.
    v1: the health of the broker; -1 where it is not known. With an error the rest means nothing.
    """

    broker_id: Int32
    broker_epoch: Int64
    process_id: Int32
    machine: str
    version: str
    controller_id: Int32
    controller_epoch: Int32
    is_controller: bool
    events: list[ControllerEvent]
    loop_delay_ms_p99: Int64 = since(1, default=-1, ignorable=True)
    open_files: Int64 = since(1, default=-1, ignorable=True)
    open_files_max: Int64 = since(1, default=-1, ignorable=True)
    log_lines_dropped: Int64 = since(1, default=-1, ignorable=True)
    log_dirs: list[DescribedLogDir] = since(1, default=[], ignorable=True)
    offline: list[OfflinePartition] = tagged(0, since=0, default=[], ignorable=True)
    error_code: Int16 = tagged(1, since=0, default=0, ignorable=True)
    throttled: list[ThrottledClient] = tagged(2, since=0, default=[], ignorable=True)
    waiting: list[WaitingPartition] = tagged(3, since=0, default=[], ignorable=True)
