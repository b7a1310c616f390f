"""Transcripts of one shard of groups (tests/transcripts.py): requests, records, responses.

Commands, and what follows from them:

    topic NAME PARTITIONS           create a topic, or give it more partitions
    limits NAME=NUMBER ...          limits of groups; the first command, if it is there
    CLIENT API [NAME=VALUE ...]     a request; see the methods `_join_group` and so on
    share state begun               the share coordinator does what it was asked, or refuses
    share state refused
    CLIENT restarts                 the client forgets its member id and generation
    wait 3s, wait 500ms             time passes
    coordinator moves               another broker reads the log and continues
    log fails, log works            the log refuses records, or accepts them again

    log: ...            a record that was written
    CLIENT <- API: ...  a response; one request may answer others that waited
    CLIENT waits        there is no response yet
    group g: ...        the state of the group, where it has changed
    after 500 ms: ...   what happened while time passed
"""

from collections.abc import Callable, Iterator
from typing import Any

from barnabas.coordinators.caller import Caller
from barnabas.coordinators.groups.consumer.records import (
    ConsumerRecord,
    CurrentValue,
    EpochValue,
    MemberValue,
    TargetEpochValue,
    TargetValue,
)
from barnabas.coordinators.groups.consumer.states import MemberState
from barnabas.coordinators.groups.limits import GroupLimits
from barnabas.coordinators.groups.records import GroupRecord, OffsetRecord, Record, decode
from barnabas.coordinators.groups.share.records import (
    SHARE_CURRENT_KEY,
    SHARE_EPOCH_KEY,
    SHARE_MEMBER_KEY,
    SHARE_STATE_KEY,
    SHARE_TARGET_EPOCH_KEY,
    SHARE_TARGET_KEY,
    ShareCurrentValue,
    ShareEpochValue,
    ShareGroupRecord,
    ShareMemberValue,
    ShareStateValue,
    ShareTargetEpochValue,
    ShareTargetValue,
)
from barnabas.coordinators.groups.subscription import partitions_of
from barnabas.coordinators.runtime import ShardReply
from barnabas.model.errors import Code
from barnabas.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from barnabas.wire.messages.join_group import JoinGroupResponse
from barnabas.wire.messages.leave_group import LeaveGroupResponse
from barnabas.wire.messages.offset_commit import OffsetCommitResponse
from barnabas.wire.messages.share_group_heartbeat import ShareGroupHeartbeatResponse
from barnabas.wire.messages.sync_group import SyncGroupResponse
from barnabas.wire.records import decode_batch
from tests.coordinators.world import (
    CODES,
    GROUP,
    Call,
    Cluster,
    MemoryJournal,
    World,
    assignment,
    broken_disk,
    subscription,
)
from tests.transcripts import ms_of, options_of

Options = dict[str, str]
HEARTBEATS = (ConsumerGroupHeartbeatResponse, ShareGroupHeartbeatResponse)
_SHARE_KINDS = {
    SHARE_MEMBER_KEY: "member",
    SHARE_EPOCH_KEY: "share group",
    SHARE_TARGET_EPOCH_KEY: "epoch of the targets of",
    SHARE_TARGET_KEY: "target of",
    SHARE_CURRENT_KEY: "assignment of",
    SHARE_STATE_KEY: "share state of group",
}


class Client:
    """What a client knows of itself."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.member = ""
        self.epoch = -1  # or generation


class ReportingJournal(MemoryJournal):
    """Reports every record that is written."""

    def __init__(self, report: Callable[[str], None], topics: Cluster) -> None:
        super().__init__()
        self._report = report
        self._topics = topics

    def append(self, batch: bytearray, wall_ms: int) -> int:
        last = super().append(batch, wall_ms)
        for record in decode_batch(batch):
            assert record.key is not None
            found = decode(record.key, record.value)
            assert found is not None
            self._report("log: " + "".join(_record(found, self._topics)))
        return last


class Session:
    """A shard, its clients, and what is to be reported of the present command."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._clients: dict[str, Client] = {}
        self._topics = Cluster()
        self._state: str | None = None
        self._waiting_since: int | None = None
        self._world = self._new_world(GroupLimits())

    def run(self, line: str) -> list[str]:
        words = line.split()
        self._lines.clear()
        match words:
            case ["topic", name, partitions]:
                self._topic(name, int(partitions))
            case ["limits", *options]:
                numbers: dict[str, Any] = {
                    name: int(value) for name, value in options_of(options).items()
                }
                self._world = self._new_world(GroupLimits(**numbers))
            case ["wait", time]:
                self._waiting_since = self._world.ms
                self._world.advance(ms_of(time))
                self._waiting_since = None
            case ["coordinator", "moves"]:
                self._world.start()
            case ["share", "state", how]:
                for _, epoch, keys in self._world.initialize(refused=how == "refused"):
                    found = ", ".join(f"{self._topics.name_of(id_)}:{n}" for id_, n in keys)
                    self._report(f"share state of {found}, state epoch {epoch}: {how}")
            case ["log", "fails"]:
                self._world.journal.error = broken_disk()
            case ["log", "works"]:
                self._world.journal.error = None
            case [name, "restarts"]:
                self._clients[name] = Client(name)
            case [name, api, *options]:
                self._request(self._client(name), api, options_of(options))
            case _:
                raise ValueError(f"there is no command {line!r}")
        self._report_state()
        return list(self._lines)

    def _new_world(self, limits: GroupLimits) -> "ReportingWorld":
        journal = ReportingJournal(self._report, self._topics)
        return ReportingWorld(limits, journal, topics=self._topics, answered=self._answered)

    def _report(self, line: str) -> None:
        if self._waiting_since is not None:
            line = f"after {self._world.ms - self._waiting_since} ms: {line}"
        self._lines.append(line)

    def _report_state(self) -> None:
        state = self._world.state()
        if state != self._state:
            self._state = state
            self._report(f"group {GROUP}: {state or 'does not exist'}")

    def _topic(self, name: str, partitions: int) -> None:
        if self._topics.find(name) is None:
            self._topics.create(name, partitions)
        else:
            self._topics.grow(name, partitions)
        self._world.topics_changed(name)

    def _client(self, name: str) -> Client:
        return self._clients.setdefault(name, Client(name))

    # Requests

    def _request(self, client: Client, api: str, options: Options) -> None:
        requests: dict[str, Callable[[Client, Options], None]] = {
            "JoinGroup": self._join_group,
            "SyncGroup": self._sync_group,
            "Heartbeat": self._heartbeat,
            "LeaveGroup": self._leave_group,
            "ConsumerGroupHeartbeat": self._consumer_group_heartbeat,
            "ShareGroupHeartbeat": self._share_group_heartbeat,
            "OffsetCommit": self._offset_commit,
            "OffsetFetch": self._offset_fetch,
        }
        if api not in requests:
            raise ValueError(f"there is no API {api!r}; expected one of {', '.join(requests)}")
        self._world.speaker = (client, api)
        before = len(self._world.calls)
        requests[api](client, options)
        if any(call.waits for call in self._world.calls[before:]):
            self._report(f"{client.name} waits")

    def _join_group(self, client: Client, options: Options) -> None:
        """topics=t,u instance=i session=10s rebalance=60s owned=t:0,1"""
        owned = _partitions(options.get("owned", ""))
        topics = options.get("topics", "t").split(",")
        self._world.join(
            client.member,
            instance=options.get("instance"),
            metadata=subscription(topics, owned),
            session=ms_of(options.get("session", "10s")),
            rebalance=ms_of(options.get("rebalance", "60s")),
            client=client.name,
        )

    def _sync_group(self, client: Client, options: Options) -> None:
        """Of the leader, the assignment: a=t:0,1 b=t:2"""
        assignments = {
            self._client(name).member: assignment(_partitions(value))
            for name, value in options.items()
        }
        self._world.sync(client.member, client.epoch, assignments)

    def _heartbeat(self, client: Client, options: Options) -> None:
        self._world.heartbeat(client.member, client.epoch, instance=options.get("instance"))

    def _leave_group(self, client: Client, options: Options) -> None:
        self._world.leave(client.member)

    def _consumer_group_heartbeat(self, client: Client, options: Options) -> None:
        """joins topics=t,u rebalance=60s, or owned=t:0,1 (owned= for none), leaves"""
        client.member = client.member or client.name
        if "joins" in options:
            topics = options.get("topics", "t").split(",")
            rebalance = ms_of(options.get("rebalance", "60s"))
            self._world.enter(client.member, topics, rebalance=rebalance, client=client.name)
            return
        owned = _partitions(options["owned"]) if "owned" in options else None
        epoch = -1 if "leaves" in options else client.epoch
        self._world.beat(client.member, epoch, owned=owned, client=client.name)

    def _share_group_heartbeat(self, client: Client, options: Options) -> None:
        """joins topics=t,u, or topics=t (another subscription), epoch=1, leaves"""
        client.member = client.member or client.name
        topics = options["topics"].split(",") if "topics" in options else None
        epoch = int(options.get("epoch", client.epoch))
        if "joins" in options:
            topics, epoch = topics or ["t"], 0
        if "leaves" in options:
            epoch = -1
        self._world.share(client.member, epoch, topics=topics, client=client.name)

    def _offset_commit(self, client: Client, options: Options) -> None:
        """t:0=42"""
        for where, offset in options.items():
            topic, partition = where.split(":")
            self._world.commit(
                int(offset),
                member=client.member,
                generation=client.epoch,
                topic=topic,
                partition=int(partition),
            )

    def _offset_fetch(self, client: Client, options: Options) -> None:
        """t:0"""
        for where in options:
            topic, partition = where.split(":")
            offset, _ = self._world.fetch(topic, int(partition))
            self._report(f"{client.name} <- OffsetFetch: {where} is at {offset}")

    # Responses

    def _answered(self, client: Client, api: str, response: Any) -> None:
        if isinstance(response, JoinGroupResponse):
            client.member = response.member_id or client.member
            if response.error_code == Code.NONE:
                client.epoch = response.generation_id
        elif isinstance(response, ConsumerGroupHeartbeatResponse) or (
            isinstance(response, ShareGroupHeartbeatResponse) and not response.error_code
        ):
            client.epoch = response.member_epoch
        text = "".join(_response(response, self._topics))
        self._report(f"{client.name} <- {api}: {text}")


class ReportingWorld(World):
    """Reports every response with the client and the API that it belongs to."""

    def __init__(
        self,
        limits: GroupLimits,
        journal: MemoryJournal,
        *,
        topics: Cluster,
        answered: Callable[[Client, str, Any], None],
    ) -> None:
        self.speaker: tuple[Client, str] | None = None
        self._speakers: dict[int, tuple[Client, str]] = {}
        self._answered = answered
        super().__init__(limits, journal, topics=topics)

    def _caller(self, version: int, client: str) -> Caller:
        caller = super()._caller(version, client)
        assert self.speaker is not None
        self._speakers[id(caller.token)] = self.speaker
        return caller

    def deliver(self, answers: list[ShardReply]) -> None:
        super().deliver(answers)
        for token, response in answers:
            assert isinstance(token, Call)
            self._answered(*self._speakers[id(token)], response)


# Text


def _response(response: Any, topics: Cluster) -> Iterator[str]:
    if isinstance(response, OffsetCommitResponse):
        yield CODES[response.topics[0].partitions[0].error_code].name
        return
    code = CODES[response.error_code]
    if isinstance(response, LeaveGroupResponse) and response.members:
        code = CODES[response.members[0].error_code]
    if code is not Code.NONE or isinstance(response, LeaveGroupResponse):
        yield code.name
        if code is Code.MEMBER_ID_REQUIRED:
            yield f", member id {response.member_id}"
        elif getattr(response, "error_message", None):
            yield f", {response.error_message}"
    elif isinstance(response, JoinGroupResponse):
        yield f"generation {response.generation_id}, member id {response.member_id}"
        yield f", leader {response.leader or '(the coordinator)'}"
        if response.members:
            yield ", members " + " ".join(each.member_id for each in response.members)
    elif isinstance(response, SyncGroupResponse):
        yield f"assignment {_assigned(response.assignment)}"
    elif isinstance(response, HEARTBEATS) and response.member_epoch < 0:
        yield "it has left"
    elif isinstance(response, HEARTBEATS):
        yield f"epoch {response.member_epoch}, "
        if response.assignment is None:
            yield "assignment unchanged"
        else:
            given = response.assignment.topic_partitions
            yield "assignment " + _held({t.topic_id: t.partitions for t in given}, topics)
        yield f", next heartbeat in {response.heartbeat_interval_ms} ms"
    else:
        yield code.name


def _record(record: Record, topics: Cluster) -> Iterator[str]:
    if isinstance(record, OffsetRecord):
        yield f"offset of {record.topic}:{record.partition} "
        yield "deleted" if record.value is None else f"is {record.value.offset}"
    elif isinstance(record, GroupRecord):
        value = record.value
        if value is None:
            yield f"classic group {record.group} deleted"
            return
        yield f"classic group {record.group}, generation {value.generation}"
        yield f", leader {value.leader}" if value.leader else ", no members"
        for member in value.members:
            yield f", {member.member_id} has {_assigned(member.assignment)}"
    elif isinstance(record, ShareGroupRecord):
        yield from _share_record(record, topics)
    elif isinstance(record, ConsumerRecord):
        yield from _consumer_record(record, topics)
    else:
        yield f"streams group {record.group}: {record.value}"


def _share_record(record: ShareGroupRecord, topics: Cluster) -> Iterator[str]:
    match record.value:
        case None:
            yield f"{_SHARE_KINDS[record.key]} {record.name or record.group} deleted"
        case ShareEpochValue(epoch=epoch):
            yield f"share group {record.group}, epoch {epoch}"
        case ShareMemberValue() as member:
            yield f"member {record.name} subscribes to {' '.join(member.subscribed_topic_names)}"
        case ShareTargetEpochValue(assignment_epoch=epoch):
            yield f"targets are of epoch {epoch}"
        case ShareTargetValue(topic_partitions=target):
            held = {topic.topic_id: topic.partitions for topic in target}
            yield f"target of {record.name} is {_held(held, topics)}"
        case ShareCurrentValue() as current:
            held = {topic.topic_id: topic.partitions for topic in current.assigned_partitions}
            yield f"{record.name} is at epoch {current.member_epoch}, has {_held(held, topics)}"
        case ShareStateValue() as states:
            yield f"share state of group {record.group}"
            for what, part in (
                ("initializing", states.initializing_topics),
                ("initialized", states.initialized_topics),
            ):
                for topic in part:
                    numbers = ",".join(map(str, topic.partitions))
                    yield f", {what} {topic.topic_name}:{numbers}"
            for gone in states.deleting_topics:
                yield f", deleting {gone.topic_name}"


def _consumer_record(record: ConsumerRecord, topics: Cluster) -> Iterator[str]:
    match record.value:
        case None:
            yield f"{_KINDS[record.key]} {record.name or record.group} deleted"
        case EpochValue(epoch=epoch):
            yield f"consumer group {record.group}, epoch {epoch}"
        case MemberValue() as member:
            yield f"member {record.name} subscribes to {' '.join(member.subscribed_topic_names)}"
            if member.classic_member_metadata is not None:
                yield " (classic protocol)"
        case TargetEpochValue(assignment_epoch=epoch):
            yield f"targets are of epoch {epoch}"
        case TargetValue(topic_partitions=target):
            held = {topic.topic_id: topic.partitions for topic in target}
            yield f"target of {record.name} is {_held(held, topics)}"
        case CurrentValue() as current:
            owned = {topic.topic_id: topic.partitions for topic in current.assigned_partitions}
            yield f"{record.name} is {MemberState(current.state).name} at epoch "
            yield f"{current.member_epoch}, has {_held(owned, topics)}"
            revoking = current.partitions_pending_revocation
            if revoking:
                held = {topic.topic_id: topic.partitions for topic in revoking}
                yield f", must release {_held(held, topics)}"


_KINDS = {
    3: "consumer group",
    4: "partition metadata of",
    5: "member",
    6: "target epoch of",
    7: "target of",
    8: "assignment of",
    16: "pattern",
}


def _held(partitions: dict[Any, list[int]], topics: Cluster) -> str:
    found = (
        f"{topics.name_of(topic_id)}:{','.join(map(str, indexes))}"
        for topic_id, indexes in partitions.items()
        if indexes
    )
    return " ".join(found) or "nothing"


def _assigned(data: bytes) -> str:
    found: dict[str, list[int]] = {}
    for topic, partition in partitions_of(data) or ():
        found.setdefault(topic, []).append(partition)
    texts = (f"{topic}:{','.join(map(str, indexes))}" for topic, indexes in found.items())
    return " ".join(texts) or "nothing"


def _partitions(text: str) -> dict[str, list[int]]:
    """t:0,1 as a topic with its partitions."""
    if not text:
        return {}
    topic, _, indexes = text.partition(":")
    return {topic: [int(index) for index in indexes.split(",")]}
