"""One shard over a journal in memory, with a clock that is turned by hand."""

from dataclasses import dataclass, field
from itertools import count
from typing import Any
from uuid import UUID

from barnabas.assignment.group import AssignableTopic
from barnabas.coordinators.caller import Caller
from barnabas.coordinators.groups.limits import GroupLimits
from barnabas.coordinators.groups.shard import GroupShard
from barnabas.coordinators.groups.share.heartbeats import StateInitialization
from barnabas.coordinators.ports import TransactionMarker
from barnabas.coordinators.runtime import Now, Runtime, ShardReply
from barnabas.model.errors import Code, Failed, KafkaError
from barnabas.wire.control_records import EndMarker, marker_batch
from barnabas.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from barnabas.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from barnabas.wire.messages.delete_groups import DeleteGroupsResponse
from barnabas.wire.messages.heartbeat import HeartbeatRequest
from barnabas.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from barnabas.wire.messages.offset_fetch import OffsetFetchRequestTopics
from barnabas.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from barnabas.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from barnabas.wire.records import decode_batch

PARTITION = 0
WALL_MS = 1_700_000_000_000
GROUP = "g"
CODES: dict[int, Code] = {code.value: code for code in Code}


class MemoryJournal:
    """Batches in a list. `lagging`: what is written is not committed until it is said to be."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.end = 0
        self.high_watermark = 0
        self.lagging = False
        self.error: KafkaError | None = None
        self.batch_bytes_max = 1 << 20

    def append(self, batch: bytearray, wall_ms: int) -> int:
        if self.error is not None:
            raise self.error
        if len(batch) > self.batch_bytes_max:
            raise Failed(Code.MESSAGE_TOO_LARGE, f"a batch of {len(batch)} bytes")
        self.batches.append(bytes(batch))
        self.end += len(decode_batch(batch))
        if not self.lagging:
            self.high_watermark = self.end
        return self.end - 1

    def append_transactional(self, batch: bytearray, guard: object, wall_ms: int) -> int:
        return self.append(batch, wall_ms)

    def append_marker(self, marker: TransactionMarker, wall_ms: int) -> int:
        end = EndMarker(marker.commit, marker.coordinator_epoch)
        return self.append(marker_batch(marker.producer_id, marker.epoch, end, wall_ms), wall_ms)


class Cluster:
    """Topics that come, go and grow."""

    def __init__(self, topics: dict[str, int] | None = None) -> None:
        self._topics: dict[str, AssignableTopic] = {}
        self._ids = count(1)
        for name, partitions in (topics or {}).items():
            self.create(name, partitions)

    def create(self, name: str, partitions: int) -> None:
        self._topics[name] = AssignableTopic(partitions, UUID(int=next(self._ids)))

    def grow(self, name: str, partitions: int) -> None:
        self._topics[name] = AssignableTopic(partitions, self._topics[name].topic_id)

    def delete(self, name: str) -> None:
        del self._topics[name]

    def find(self, name: str) -> AssignableTopic | None:
        return self._topics.get(name)

    def name_of(self, topic_id: UUID) -> str | None:
        return next((n for n, t in self._topics.items() if t.topic_id == topic_id), None)

    def names(self) -> list[str]:
        return list(self._topics)

    def id_of(self, name: str) -> UUID:
        return self._topics[name].topic_id


@dataclass
class Call:
    """A request and, once there is one, its answer."""

    response: Any = None

    @property
    def waits(self) -> bool:
        return self.response is None

    @property
    def code(self) -> Code:
        assert self.response is not None, "it still waits"
        return CODES[self.response.error_code]


@dataclass
class World:
    """Verbs in a few letters. A member speaks the newest version unless told otherwise."""

    limits: GroupLimits = field(default_factory=GroupLimits)
    journal: MemoryJournal = field(default_factory=MemoryJournal)
    ms: int = 0
    topics: Cluster = field(default_factory=Cluster)

    def __post_init__(self) -> None:
        self._uuids = count(1)
        self.calls: list[Call] = []
        self.start()

    @property
    def now(self) -> Now:
        return Now(self.ms, WALL_MS + self.ms)

    @property
    def shard(self) -> GroupShard:
        return self.runtime.shard(PARTITION)

    def start(self) -> None:
        """A broker that finds this journal."""
        self.runtime: Runtime[GroupShard] = Runtime()
        shard = GroupShard(self.limits, topics=self.topics)
        self.runtime.start_loading(PARTITION, shard, self.journal)
        for batch in self.journal.batches:
            self.runtime.load(PARTITION, batch)
        self.runtime.finish_loading(PARTITION, self.now)

    def deliver(self, answers: list[ShardReply]) -> None:
        for token, response in answers:
            assert isinstance(token, Call)
            assert token.waits, "answered twice"
            token.response = response

    def advance(self, ms: int) -> None:
        """Let time pass, deadline by deadline."""
        end = self.ms + ms
        while (deadline := self.runtime.next_deadline()) is not None and deadline <= end:
            self.ms = max(self.ms, deadline)
            self.deliver(self.runtime.expire(self.now))
        self.ms = end

    def _caller(self, version: int, client: str) -> Caller:
        call = Call()
        self.calls.append(call)
        return Caller(call, version, client, "/10.0.0.1")

    def _run(self, caller: Caller, verb: Any) -> Call:
        self.deliver(self.runtime.run(PARTITION, verb, self.now))
        assert isinstance(caller.token, Call)
        return caller.token

    def join(
        self,
        member: str = "",
        *,
        group: str = GROUP,
        instance: str | None = None,
        protocols: list[str] | None = None,
        topics: list[str] | None = None,
        metadata: bytes | None = None,
        kind: str = "consumer",
        session: int = 10_000,
        rebalance: int = 60_000,
        version: int = 9,
        client: str = "c",
        reason: str | None = None,
    ) -> Call:
        caller = self._caller(version, client)
        told = subscription(topics or ["t"]) if metadata is None else metadata
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=session,
            rebalance_timeout_ms=rebalance,
            member_id=member,
            group_instance_id=instance,
            protocol_type=kind,
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=told)
                for name in (["range"] if protocols is None else protocols)
            ],
            reason=reason,
        )
        uuid = str(next(self._uuids))
        return self._run(caller, lambda shard: shard.join(request, caller, uuid, self.now))

    def new(self, **options: Any) -> tuple[str, Call]:
        """The two steps of a new dynamic member: its id, and its waiting join."""
        first = self.join(**options)
        assert first.code is Code.MEMBER_ID_REQUIRED
        return first.response.member_id, self.join(first.response.member_id, **options)

    def sync(
        self,
        member: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        group: str = GROUP,
        instance: str | None = None,
        kind: str | None = None,
        protocol: str | None = None,
    ) -> Call:
        caller = self._caller(5, "c")
        request = SyncGroupRequest(
            group_id=group,
            generation_id=generation,
            member_id=member,
            group_instance_id=instance,
            protocol_type=kind,
            protocol_name=protocol,
            assignments=[
                SyncGroupRequestAssignment(member_id=id_, assignment=given)
                for id_, given in (assignments or {}).items()
            ],
        )
        return self._run(caller, lambda shard: shard.sync(request, caller, self.now))

    def beat(
        self,
        member: str,
        epoch: int = 0,
        *,
        owned: dict[str, list[int]] | None = None,
        topics: list[str] | None = None,
        regex: str | None = None,
        instance: str | None = None,
        group: str = GROUP,
        rebalance: int = -1,
        assignor: str | None = None,
        rack: str | None = None,
        version: int = 1,
        client: str = "c",
    ) -> Call:
        """A heartbeat of the consumer protocol, as on the wire."""
        caller = self._caller(version, client)
        request = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=member,
            member_epoch=epoch,
            instance_id=instance,
            rack_id=rack,
            rebalance_timeout_ms=rebalance,
            subscribed_topic_names=topics,
            subscribed_topic_regex=regex,
            server_assignor=assignor,
            topic_partitions=None
            if owned is None
            else [
                TopicPartitions(topic_id=self.topics.id_of(name), partitions=indexes)
                for name, indexes in owned.items()
                if self.topics.find(name) is not None
            ],
        )
        uuid = f"m{next(self._uuids)}"
        return self._run(
            caller, lambda shard: shard.consumer_heartbeat(request, caller, uuid, self.now)
        )

    def share(
        self,
        member: str,
        epoch: int = 0,
        *,
        topics: list[str] | None = None,
        group: str = GROUP,
        rack: str | None = None,
        client: str = "c",
    ) -> Call:
        """A heartbeat of a share group; with epoch 0 it joins."""
        caller = self._caller(1, client)
        request = ShareGroupHeartbeatRequest(
            group_id=group,
            member_id=member,
            member_epoch=epoch,
            rack_id=rack,
            subscribed_topic_names=topics,
        )
        return self._run(caller, lambda shard: shard.share_heartbeat(request, caller, self.now))

    def run(self, verb: Any, version: int = 0, client: str = "c") -> Call:
        """`verb` gets the shard and the caller."""
        caller = self._caller(version, client)
        return self._run(caller, lambda shard: verb(shard, caller))

    def initialize(self, *, refused: bool = False) -> list[StateInitialization]:
        """The share coordinator does what heartbeats asked of it, or refuses all."""
        asked = self.shard.share.take_initializations()
        for group, _, keys in asked:
            share = self.shard.share
            if refused:
                outcome = share.not_initialized(group, keys, self.now)
            else:
                outcome = share.initialized(group, keys, self.now)
            self.deliver(self.runtime.carry_out(PARTITION, outcome, self.now))
        return asked

    def enter(self, member: str, topics: list[str] | None = None, **options: Any) -> Call:
        """The first heartbeat of a member."""
        if topics is None and "regex" not in options:
            topics = ["t"]
        options.setdefault("rebalance", 60_000)
        return self.beat(member, 0, owned={}, topics=topics, **options)

    def topics_changed(self, *names: str) -> None:
        self.shard.topics_changed(frozenset(names), of_names=True)

    def heartbeat(
        self, member: str, generation: int, *, group: str = GROUP, instance: str | None = None
    ) -> Code:
        caller = self._caller(4, "c")
        request = HeartbeatRequest(
            group_id=group,
            generation_id=generation,
            member_id=member,
            group_instance_id=instance,
        )
        return self._run(caller, lambda shard: shard.heartbeat(request, caller, self.now)).code

    def leave(
        self, *members: str, group: str = GROUP, instance: str | None = None, version: int = 5
    ) -> Call:
        caller = self._caller(version, "c")
        if version < 3:
            request = LeaveGroupRequest(group_id=group, member_id=members[0])
        else:
            request = LeaveGroupRequest(
                group_id=group,
                members=[
                    MemberIdentity(member_id=id_, group_instance_id=instance) for id_ in members
                ],
            )
        return self._run(caller, lambda shard: shard.leave(request, caller, self.now))

    def commit(
        self,
        offset: int,
        *,
        member: str = "",
        generation: int = -1,
        group: str = GROUP,
        topic: str = "t",
        partition: int = 0,
        metadata: str | None = "",
        instance: str | None = None,
        retention: int = -1,
        version: int = 9,
        epoch: int = -1,
    ) -> Call:
        caller = self._caller(version, "c")
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=generation,
            member_id=member,
            group_instance_id=instance,
            retention_time_ms=retention,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=partition,
                            committed_offset=offset,
                            committed_leader_epoch=epoch,
                            committed_metadata=metadata,
                        )
                    ],
                )
            ],
        )
        return self._run(caller, lambda shard: shard.commit(request, caller, self.now))

    def commit_code(self, offset: int, **options: Any) -> Code:
        return CODES[self.commit(offset, **options).response.topics[0].partitions[0].error_code]

    def fetch(self, topic: str = "t", partition: int = 0, *, group: str = GROUP) -> tuple[int, str]:
        wanted = OffsetFetchRequestTopics(name=topic, partition_indexes=[partition])
        found = self.shard.fetch(group, [wanted])[0].partitions[0]
        return found.committed_offset, found.metadata or ""

    def delete_offset(self, topic: str = "t", partition: int = 0, *, group: str = GROUP) -> Call:
        caller = self._caller(0, "c")
        request = OffsetDeleteRequest(
            group_id=group,
            topics=[
                OffsetDeleteRequestTopic(
                    name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=partition)]
                )
            ],
        )
        return self._run(caller, lambda shard: shard.delete_offsets(request, caller))

    def delete(self, group: str = GROUP) -> Code:
        caller = self._caller(2, "c")
        call = self._run(caller, lambda shard: shard.delete([group], caller))
        assert isinstance(call.response, DeleteGroupsResponse)
        return CODES[call.response.results[0].error_code]

    def state(self, group: str = GROUP) -> str | None:
        found = self.shard.group(group)
        return None if found is None else found.state.value

    def stable(self, members: int = 2, **options: Any) -> tuple[list[str], int]:
        """A stable group of dynamic members: their ids, the leader first, and the generation."""
        joins = [self.new(**options) for _ in range(members)]
        self.advance(self.limits.initial_rebalance_delay_ms * 3)
        ids = [id_ for id_, _ in joins]
        generation = joins[0][1].response.generation_id
        self.share_out(ids, generation)
        return ids, generation

    def share_out(self, ids: list[str], generation: int) -> list[Call]:
        """Everyone syncs, the first as leader: partition i of topic t to the i-th."""
        given = {id_: assignment({"t": [i]}) for i, id_ in enumerate(ids)}
        syncs = [self.sync(id_, generation) for id_ in ids[1:]]
        return [self.sync(ids[0], generation, given), *syncs]


def subscription(topics: list[str], owned: dict[str, list[int]] | None = None) -> bytes:
    message = ConsumerProtocolSubscription(
        topics=topics,
        owned_partitions=[
            TopicPartition(topic=topic, partitions=indexes)
            for topic, indexes in (owned or {}).items()
        ],
    )
    return b"\0\x03" + message.encode(3)


def assignment(partitions: dict[str, list[int]]) -> bytes:
    message = ConsumerProtocolAssignment(
        assigned_partitions=[
            TopicPartition(topic=topic, partitions=indexes) for topic, indexes in partitions.items()
        ]
    )
    return b"\0\x01" + message.encode(1)


def given(call: Call, topics: Cluster) -> dict[str, list[int]] | None:
    """The assignment of a consumer member by topic name; None when it is unchanged."""
    assert call.response is not None
    if call.response.assignment is None:
        return None
    return {
        topics.name_of(topic.topic_id) or str(topic.topic_id): list(topic.partitions)
        for topic in call.response.assignment.topic_partitions
    }


def broken_disk() -> KafkaError:
    return Failed(Code.KAFKA_STORAGE_ERROR, "the disk has failed")
