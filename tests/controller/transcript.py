"""Transcripts of a cluster's failovers (tests/transcripts.py), as its controller sees them.

Commands, and what follows from them:

    brokers 1 2 3 start             they register
    broker 1 starts [disk=NAME]     the same; with a disk of another name, its data is new
    brokers 1 2 stop                their sessions end; then the controller notices it
    broker 2 becomes controller     it wins the election and reads the whole state
    create TOPIC replicas=1,2,3 [NAME=VALUE ...]
    broker 1 proposes 1,2           AlterPartition: its in-sync set
    broker 1 shuts down             ControlledShutdown: it hands over what it leads
    broker 1 will report complete end=90 [epoch=1] [killed], lost, absent, nothing
                                    its answer to DescribeReplicas
    wait 10s                        time passes

    keeper: t-0: ...                a state that the controller wrote
    1, 2 <- LeaderAndIsr: ...       a request of the controller to each, in the order of sending
    1 -> DescribeReplicas: ...      a broker's report about its replica
    1 -> AlterPartition: ...        the result of a proposal
    log: ...                        a log line of the controller
"""

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from barnabas.controller.in_sync import ProposalResult
from barnabas.controller.proof import ReplicaCompleteness, ReplicaReport
from barnabas.controller.state import NO_LEADER, PartitionLeadership
from barnabas.controller.steps import LogLine, NewState, SendRequest, SetState, Step, Write
from barnabas.model.errors import KafkaError
from barnabas.model.ids import BrokerId
from barnabas.wire.codec import ProtocolMessage
from barnabas.wire.messages.describe_replicas import DescribeReplicasRequest
from barnabas.wire.messages.leader_and_isr import LeaderAndIsrRequest
from barnabas.wire.messages.stop_replica import StopReplicaRequest
from barnabas.wire.messages.update_metadata import UpdateMetadataRequest
from tests.controller.world import ControllerAtWork, World, propose
from tests.transcripts import ms_of, options_of


class ReportingWorld(World):
    """Keeps a line for each step of a controller, and for each report of a broker."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def step_done(self, step: Step) -> None:
        match step:
            case Write(changes=changes):
                for change in changes:
                    if isinstance(change, NewState | SetState):
                        self.lines.append(f"keeper: {change.name}: {_state(change.state)}")
            case SendRequest(broker=broker, message=message):
                self.lines.append(f"{broker} <- {_request(message)}")
            case LogLine(event=event, values=values):
                self.lines.append(f"log: {event}" + "".join(_values(values)))

    def reported(self, broker: BrokerId, report: ReplicaReport) -> None:
        self.lines.append(f"{broker} -> DescribeReplicas: {_report(report)}")


class Session:
    """A cluster of one topic, and the controller that is active now."""

    def __init__(self) -> None:
        self._world = ReportingWorld()
        self._controller: ControllerAtWork | None = None

    def run(self, line: str) -> list[str]:
        self._world.lines.clear()
        self._do(line)
        return list(_together(self._world.lines))

    def _do(self, line: str) -> None:
        world = self._world
        match line.split():
            case ["brokers", *ids, "start"]:
                world.up(*map(int, ids))
                self._look()
            case ["broker", id_, "starts", *options]:
                world.up(int(id_), **options_of(options))
                self._look()
            case ["brokers", *ids, "stop"]:
                self._stop([int(id_) for id_ in ids])
            case ["broker", id_, "stops"]:
                self._stop([int(id_)])
            case ["broker", id_, "becomes", "controller"]:
                self._controller = world.elected(int(id_))
                self._controller.do(lambda machine, now: machine.take_over(now))
            case ["create", name, replicas, *settings]:
                placed = [[int(each) for each in replicas.removeprefix("replicas=").split(",")]]
                given: dict[str, Any] = {
                    key.replace(".", "_"): each for key, each in options_of(settings).items()
                }
                self._active().create(name, placed=placed, **given)
            case ["broker", id_, "proposes", isr]:
                self._propose(int(id_), [int(each) for each in isr.split(",")])
            case ["broker", id_, "shuts", "down"]:
                self._shut_down(BrokerId(int(id_)))
            case ["broker", id_, "will", "report", *words]:
                world.reports[int(id_)] = _report_of(words)
            case ["wait", time]:
                controller = self._active()
                controller.now += ms_of(time)
                controller.do(lambda machine, now: machine.tick(now))
            case _:
                raise ValueError(f"there is no command {line!r}")

    def _active(self) -> ControllerAtWork:
        assert self._controller is not None, "no broker is the controller"
        return self._controller

    def _look(self) -> None:
        if self._controller is not None:
            self._controller.brokers_changed()

    def _stop(self, ids: list[int]) -> None:
        self._world.down(*ids)
        if self._controller is not None and self._controller.id in ids:
            self._controller = None
        self._look()

    def _propose(self, id_: int, isr: list[int]) -> None:
        result = propose(self._active(), isr, leader=id_)
        code = result.code if isinstance(result, ProposalResult) else result
        self._world.lines.append(f"{id_} -> AlterPartition: {code.name}")

    def _shut_down(self, id_: BrokerId) -> None:
        controller = self._active()
        epoch = controller.machine.cluster.epoch(id_)
        try:
            left = controller.do(lambda machine, now: machine.shut_down(id_, epoch, now))
            text = "still leads " + " ".join(map(str, left)) if left else "leads nothing"
        except KafkaError as error:
            text = error.code.name
        self._world.lines.append(f"{id_} -> ControlledShutdown: {text}")


def _report_of(words: list[str]) -> ReplicaReport | None:
    kind, options = words[0], options_of(words[1:])
    if kind == "nothing":
        return None
    copy = ReplicaCompleteness[kind.upper()]
    epoch, end = int(options.get("epoch", -1)), int(options.get("end", 0))
    return ReplicaReport(copy, "killed" not in options and "end" in options, epoch, end, kind)


# Text


def _together(lines: list[str]) -> Iterator[str]:
    """The same request to one broker after the other is one line."""
    for text, same in groupby(lines, lambda line: line.partition(" <- ")[2] or line):
        to = [line.partition(" <- ")[0] for line in same if " <- " in line]
        yield f"{', '.join(to)} <- {text}" if to else text


def _state(state: PartitionLeadership) -> str:
    text = f"{_leader(state.leader, state.leader_epoch)}, in sync {_ids(state.isr)}"
    return text + (f", eligible {_ids(state.elr)}" if state.elr else "")


def _leader(leader: int, epoch: int) -> str:
    return f"{'no leader' if leader == NO_LEADER else f'leader {leader}'}, leader epoch {epoch}"


def _ids(brokers: Any) -> str:
    return " ".join(map(str, brokers)) or "none"


def _request(message: ProtocolMessage) -> str:
    name = type(message).__name__.removesuffix("Request")
    return f"{name}: " + ("; ".join(_parts(message)) or "no partitions")


def _parts(message: ProtocolMessage) -> Iterator[str]:
    match message:
        case LeaderAndIsrRequest(topic_states=topics):
            for topic in topics:
                for each in topic.partition_states:
                    leader = _leader(each.leader, each.leader_epoch)
                    yield f"{topic.topic_name}-{each.partition_index}: {leader}, in sync " + _ids(
                        each.isr
                    )
        case UpdateMetadataRequest(topic_states=known, live_brokers=brokers):
            yield f"brokers {_ids(sorted(each.id for each in brokers))}"
            for shown in known:
                for state in shown.partition_states:
                    leader = _leader(state.leader, state.leader_epoch)
                    yield f"{shown.topic_name}-{state.partition_index}: {leader}"
        case StopReplicaRequest(topic_states=stopped):
            for one in stopped:
                for replica in one.partition_states:
                    verb = "delete" if replica.delete_partition else "stop"
                    yield f"{verb} {one.topic_name}-{replica.partition_index}"
        case DescribeReplicasRequest(topics=asked):
            for found in asked:
                yield " ".join(f"{found.topic_name}-{index}" for index in found.partitions)


def _report(report: ReplicaReport) -> str:
    if report.copy is not ReplicaCompleteness.COMPLETE:
        return report.copy.name.lower()
    how = "stopped cleanly" if report.clean else "killed"
    return f"complete, ends at {report.end_offset}, epoch {report.last_epoch}, {how}"


def _values(values: Any) -> Iterator[str]:
    for name, value in values.items():
        if name not in ("epoch", "id", "ms", "rack"):  # these say nothing about the failover
            yield f" {name}={value}"
