"""Lives of a group: our memberships against the real coordinator, on a clock turned by hand.

Requests and answers get lost, members crash, close, stop polling and come back, the broker
restarts, topics grow. Checked all along: no partition has two owners among those whom the
coordinator counts as members. Checked at the end, when nothing goes wrong any more: every wait
has ended, and the members share everything.
"""

import random
from dataclasses import dataclass, field
from typing import Any

from barnabas.assignment import AssignableTopic
from barnabas.client.consumer.membership.assignors import ASSIGNORS
from barnabas.client.consumer.membership.classic import ClassicMembership
from barnabas.client.consumer.membership.consumer import ConsumerMembership
from barnabas.client.consumer.membership.membership import (
    AssignPartitions,
    CoordinatorRequest,
    Describe,
    EndMembership,
    LosePartitions,
    MemberTerms,
    Resolve,
    RevokePartitions,
    WaitStep,
)
from barnabas.client.consumer.membership.target_assignment import TargetAssignment
from barnabas.coordinators.groups.classic.group import ClassicGroup
from barnabas.coordinators.groups.limits import GroupLimits
from barnabas.model.errors import Code, Retriable
from barnabas.wire.codec import ProtocolMessage
from barnabas.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from barnabas.wire.messages.heartbeat import HeartbeatRequest
from barnabas.wire.messages.join_group import JoinGroupRequest
from barnabas.wire.messages.leave_group import LeaveGroupRequest
from barnabas.wire.messages.sync_group import SyncGroupRequest
from tests.coordinators.world import GROUP, Call, Cluster, World

KINDS = ("range", "sticky", "cooperative-sticky", "consumer")
CUT = Retriable(Code.NETWORK_EXCEPTION, "cut")
SESSION_MS = 6_000
POLL_MS = 8_000


class Coordinator(World):
    """The world of the coordinator's own tests, spoken to in messages."""

    def send(self, request: ProtocolMessage) -> Call:
        caller = self._caller(type(request).version_max, "c")
        uuid = f"u{next(self._uuids)}"
        now = self.now

        def verb(shard: Any) -> Any:
            if isinstance(request, JoinGroupRequest):
                return shard.join(request, caller, uuid, now)
            if isinstance(request, SyncGroupRequest):
                return shard.sync(request, caller, now)
            if isinstance(request, HeartbeatRequest):
                return shard.heartbeat(request, caller, now)
            if isinstance(request, LeaveGroupRequest):
                return shard.leave(request, caller, now)
            assert isinstance(request, ConsumerGroupHeartbeatRequest)
            return shard.consumer_heartbeat(request, caller, uuid, now)

        return self._run(caller, verb)

    def members(self) -> set[str]:
        group: Any = self.shard.group(GROUP)
        if group is None:
            return set()
        return set(group.members.by_id if isinstance(group, ClassicGroup) else group.stored.members)


@dataclass
class Sent:
    """A request under way: lost, or to be answered, perhaps too late to be heard."""

    request: ProtocolMessage
    call: Call | None
    cut: bool
    fails_at: int


@dataclass
class Member:
    """One consumer: its machine, and what its driver would hold."""

    name: str
    machine: Any
    polls: bool = True
    asked: Sent | None = None
    beaten: Sent | None = None
    told: list[str] = field(default_factory=list)
    hears: Any = None  # a step that its reader takes its time over


class History:
    """One life, from a seed."""

    def __init__(self, seed: int, kind: str) -> None:
        self.chance = random.Random(seed)
        self.kind = kind
        limits = GroupLimits()
        self.world = Coordinator(limits=limits, topics=Cluster({"t": 4}))
        self.members: list[Member] = []
        self.started = 0
        self.faults = True

    def run(self, turns: int = 120) -> None:
        for _ in range(turns):
            self.something_happens()
            self.turn()
        self.faults = False
        for member in self.members:
            member.polls = True
        if not self.members:
            self.start()
        for _ in range(600):
            self.turn()
            if not self.members:
                self.start()
            if self.settled():
                return
        raise AssertionError(
            "the group never settled: "
            + "; ".join(
                f"{m.name} {m.machine.state.name} owns {[at.partition for at in m.machine.owned]}"
                f" asked {m.asked} told {m.told[-3:]}"
                for m in self.members
            )
        )

    def settled(self) -> bool:
        owned = [at for member in self.members for at in member.machine.owned]
        everything = self.world.topics.find("t")
        assert everything is not None
        return (
            len(owned) == len(set(owned)) == everything.partitions
            and all(m.machine.state.name == "STABLE" for m in self.members)
            and all(m.asked is None and not _has_target(m.machine) for m in self.members)
        )

    # --- what happens to them ---

    def something_happens(self) -> None:
        what = self.chance.random()
        if what < 0.06 or not self.members:
            if len(self.members) < 4:
                self.start()
        elif what < 0.09:
            self.members.remove(self.chance.choice(self.members))  # killed
        elif what < 0.11:
            self.close(self.chance.choice(self.members))
        elif what < 0.16:
            member = self.chance.choice(self.members)
            member.polls = not member.polls
        elif what < 0.17:
            self.restart()
        elif what < 0.18:
            self.grow()

    def start(self) -> None:
        self.started += 1
        name = f"m{self.started}"
        terms = MemberTerms(
            GROUP,
            instance_id=name if self.chance.random() < 0.2 else None,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=1_000,
            poll_interval_ms_max=POLL_MS,
        )
        now = self.world.ms
        machine: Any
        if self.kind == "consumer":
            machine = ConsumerMembership(terms, name, now)
        else:
            machine = ClassicMembership(terms, [ASSIGNORS[self.kind]], now)
        machine.subscribe(["t"], now)
        self.members.append(Member(name, machine))

    def close(self, member: Member) -> None:
        self.members.remove(member)
        leaving = member.machine.leave("closed", self.world.ms)
        if leaving is not None and self.chance.random() < 0.8:
            self.world.send(leaving.request)

    def restart(self) -> None:
        self.world.start()
        for member in self.members:
            for sent in (member.asked, member.beaten):
                if sent is not None:
                    sent.cut = True
                    sent.fails_at = min(sent.fails_at, self.world.ms + 100)

    def grow(self) -> None:
        topic = self.world.topics.find("t")
        assert topic is not None
        if topic.partitions < 8:
            self.world.topics.grow("t", topic.partitions + 1)
            self.world.topics_changed("t")

    # --- what they do ---

    def turn(self) -> None:
        self.world.advance(self.chance.choice((5, 50, 300, 1_000)))
        for member in self.chance.sample(self.members, len(self.members)):
            self.hear(member, "asked")
            self.hear(member, "beaten")
            if member.polls:
                self.poll(member)
            self.beat(member)
            self.check()

    def hear(self, member: Member, hand: str) -> None:
        sent: Sent | None = getattr(member, hand)
        if sent is None:
            return
        now = self.world.ms
        if sent.call is not None and not sent.call.waits and not sent.cut:
            setattr(member, hand, None)
            member.machine.answered(sent.request, sent.call.response, now)
        elif (sent.cut or sent.call is None) and now >= sent.fails_at:
            setattr(member, hand, None)
            member.machine.failed(sent.request, CUT, now)

    def send(self, request: ProtocolMessage) -> Sent:
        lost = self.faults and self.chance.random() < 0.04
        cut = self.faults and self.chance.random() < 0.04
        fails_at = self.world.ms + self.chance.choice((0, 500, 3_000))
        return Sent(request, None if lost else self.world.send(request), cut, fails_at)

    def poll(self, member: Member) -> None:
        machine = member.machine
        if member.hears is not None:
            if self.faults and self.chance.random() < 0.5:
                return
            machine.done(member.hears, self.world.ms)
            member.hears = None
        machine.polled(self.world.ms)
        topics = {"t": self.world.topics.find("t") or AssignableTopic(0)}
        machine.watched(topics)
        for _ in range(50):
            if member.asked is not None or member.hears is not None:
                return
            step = machine.next_step(self.world.ms)
            if step is None or isinstance(step, WaitStep):
                return
            if isinstance(step, EndMembership):
                # A static member whose new id died with the coordinator's memory: as in Kafka,
                # it cannot be told from a twin.
                assert step.error.code is Code.FENCED_INSTANCE_ID, step
                self.members.remove(member)
                return
            if isinstance(step, CoordinatorRequest):
                member.asked = self.send(step.request)
                self.hear(member, "asked")
            elif isinstance(step, Describe):
                machine.described(topics, self.world.ms)
            elif isinstance(step, Resolve):
                names = {id_: self.world.topics.name_of(id_) for id_ in step.ids}
                machine.resolved({k: v for k, v in names.items() if v}, self.world.ms)
            else:
                self.tell(member, step)
        raise AssertionError(f"{member.name} has no end of steps: {member.told[-5:]}")

    def tell(
        self, member: Member, step: RevokePartitions | LosePartitions | AssignPartitions
    ) -> None:
        assert step.partitions
        assert str(step.cause)
        owned = set(member.machine.owned)
        if isinstance(step, AssignPartitions):
            assert not owned & set(step.partitions)
        else:
            assert owned >= set(step.partitions)
        member.told.append(f"{type(step).__name__} {step.cause.kind}")
        if self.faults and self.chance.random() < 0.3:
            member.hears = step
        else:
            member.machine.done(step, self.world.ms)

    def beat(self, member: Member) -> None:
        due = member.machine.next_beat()
        if due is None or due > self.world.ms or member.beaten is not None:
            return
        ask = member.machine.beat(self.world.ms)
        if ask is not None:
            member.beaten = self.send(ask.request)
            self.hear(member, "beaten")

    # --- what must hold ---

    def check(self) -> None:
        known = self.world.members()
        newest = max((m.machine.generation for m in self.members), default=-1)
        owners: dict[Any, str] = {}
        for member in self.members:
            machine = member.machine
            if machine.identity is None or machine.identity.member_id not in known:
                continue
            if machine._gone is not None:
                continue  # it has heard that it lost them, and tells its reader next
            if machine.terms.instance_id and machine.generation < newest and not member.polls:
                continue  # a static member is kept in its group though it missed a rebalance
            given = member.hears.partitions if isinstance(member.hears, AssignPartitions) else ()
            for at in (*machine.owned, *given):
                assert at not in owners, f"{at} belongs to {owners[at]} and {member.name}"
                owners[at] = member.name


def _has_target(machine: Any) -> bool:
    """Whether the member has an assignment that it does not own yet."""
    target = machine._target
    return target.is_pending if isinstance(target, TargetAssignment) else target is not None
