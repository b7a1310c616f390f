"""Chapters: joins and leaves, the states of a group, a late poll, ZooKeeper's consumer."""

import time

from barnabas.cli.tours.members import TourMember
from barnabas.cli.tours.old_consumers import OldConsumers
from barnabas.cli.tours.stage import Chapter, TourStage

# How long a request is held so that a state can be seen. The clock is advanced by it: nobody waits.
_HELD_MS = 15_000


def _sequence(stage: TourStage) -> None:
    kafka = stage.kafka
    kafka.create_topic("topic1", 3)
    members: list[TourMember] = []
    wanted = ([[0, 1, 2]], [[0, 1], [2]], [[0], [1], [2]], [[], [0], [1], [2]])
    try:
        for number, shares in enumerate(wanted):
            members.append(TourMember(kafka, "group1", f"consumer{number + 1}", "topic1"))
            stage.eventually(
                f"{number + 1} members: {_shown(shares)}",
                lambda shares=shares: sorted(each.owns for each in members) == shares,  # type: ignore[misc]
            )
        for left in (3, 2, 1):
            members.pop(0).stop()
            shares = wanted[left - 1]
            stage.eventually(
                f"one leaves, {left} stay: {_shown(shares)}",
                lambda shares=shares: sorted(each.owns for each in members) == shares,  # type: ignore[misc]
            )
        stage.command("group", "describe", "group1")
        stage.claim(
            "every rebalance has its cause",
            all(r.causes for r in kafka.rebalance_history("group1")),
        )
    finally:
        for each in members:
            each.stop()


def _shown(shares: list[list[int]]) -> str:
    return " ".join("[" + ",".join(map(str, each)) + "]" for each in shares)


def _states(stage: TourStage) -> None:
    kafka = stage.kafka
    kafka.create_topic("orders", 2)
    first = TourMember(kafka, "billing", "first", "orders")
    seen: list[str] = []

    def look() -> str:
        state = stage.group_state("billing")
        if not seen or seen[-1] != state:
            seen.append(state)
        return state

    try:
        stage.eventually("with a member it becomes Stable", lambda: look() == "Stable")
        kafka.slow(_HELD_MS, api="JoinGroup", client="first")
        kafka.slow(_HELD_MS, api="SyncGroup")
        second = TourMember(kafka, "billing", "second", "orders")
        stage.eventually(
            "a newcomer: PreparingRebalance, everyone joins again",
            lambda: look() == "PreparingRebalance" and first.consumer.state == "joining",
        )
        kafka.clock.advance(milliseconds=_HELD_MS)
        stage.eventually(
            "CompletingRebalance, the leader assigns",
            lambda: look() == "CompletingRebalance",
        )
        kafka.heal()
        kafka.clock.advance(milliseconds=_HELD_MS)
        stage.eventually("then Stable again", lambda: look() == "Stable")
        second.stop()
    finally:
        kafka.heal()
        first.stop()
    stage.eventually("without members: Empty", lambda: look() == "Empty")
    kafka.admin.delete_group("billing")
    stage.claim("deleted: Dead, and gone", look() == "Dead")
    stage.tell("seen: " + ", ".join(seen))


def _late_poll(stage: TourStage) -> None:
    kafka = stage.kafka
    kafka.create_topic("orders")
    kafka.produce("orders", ["1"])
    slow = TourMember(
        kafka,
        "billing",
        "slow",
        "orders",
        work=lambda messages: time.sleep(1.2 if messages else 0),
        max_poll_interval_ms=400,
        session_timeout_ms=30_000,
    )
    try:
        stage.eventually(
            "a member that works longer than max.poll.interval.ms leaves its group",
            lambda: (
                "billing" in kafka.groups()
                and any("LATE_POLL" in each.kinds for each in kafka.rebalance_history("billing"))
            ),
        )
        said = stage.command("group", "explain", "billing")
        stage.claim("explain names the cause and the option", "max.poll.interval.ms" in said)
    finally:
        slow.stop()


def _herd(stage: TourStage, group: OldConsumers) -> None:
    stage.tell("Member d, which owns nothing, leaves:")
    group.leave("d")
    before = sum(each.released for each in group.members.values())
    stage.claim(
        "the herd: every other member is woken", all(each.woken for each in group.members.values())
    )
    group.rebalance()
    released = sum(each.released for each in group.members.values()) - before
    stage.claim(
        "each of them stops reading all its partitions, and claims the same ones again",
        released == 6 and group.owners == {"a": [0, 1], "b": [2, 3], "c": [4, 5]},
    )


def _split_brain(stage: TourStage) -> None:
    group = OldConsumers(6, "abc")
    first, second = group.members["a"], group.members["b"]
    seen = first.look()
    group.leave("c")
    stage.tell("Member c leaves after a has read the members, and before b reads them:")
    for each in (first, second):
        each.release()
    first.claim(seen)
    second.claim(second.look())
    stage.tell(f"a divides by three, b by two: {group.owners}")
    stage.claim(
        "split brain: partition 2 has no owner, and no error says so",
        group.owners == {"a": [0, 1], "b": [3, 4, 5]},
    )
    first.release()
    first.claim(first.look())
    stage.claim(
        "until a looks again: then every partition has an owner",
        group.owners == {"a": [0, 1, 2], "b": [3, 4, 5]},
    )


def _zookeeper(stage: TourStage) -> None:
    stage.tell("Before Kafka 0.9 each consumer watched ZooKeeper and took its own share:")
    stage.tell("N = ceil(partitions / consumers), member i takes i*N to (i+1)*N-1.")
    group = OldConsumers(6, "abcd")
    stage.tell(f"6 partitions, 4 members: {group.owners}")
    stage.claim("rounding up leaves the last member without work", group.owners["d"] == [])
    _herd(stage, group)
    _split_brain(stage)
    kafka = stage.kafka
    kafka.create_topic("orders", 6)
    members = [TourMember(kafka, "new", f"c{n}", "orders") for n in range(4)]
    try:
        stage.eventually(
            "the coordinator has one view: every partition has exactly one owner",
            lambda: sorted(n for each in members for n in each.owns) == [0, 1, 2, 3, 4, 5],
        )
    finally:
        for each in members:
            each.stop()
    stage.eventually("without members it is Empty", lambda: stage.group_state("new") == "Empty")


CHAPTERS = (
    Chapter(
        "Members join and leave (再均衡)",
        "The seven pictures of the first article: three partitions, one to four members and back.",
        "barnabas/assignment/ranges.py, docs/GROUPS.md",
        _sequence,
    ),
    Chapter(
        "The five states of a group (状态机)",
        "Empty, PreparingRebalance, CompletingRebalance, Stable, Dead: a rebalance, watched.",
        "barnabas/coordinators/groups/classic/states.py",
        _states,
    ),
    Chapter(
        "A poll that comes too late (max.poll.interval.ms)",
        "Heartbeats say that a consumer lives; polls say that it works. Both have a deadline.",
        "barnabas/client/groups/member_rules.py",
        _late_poll,
    ),
    Chapter(
        "ZooKeeper's consumer: herd effect and split brain (羊群效应, 脑裂)",
        "Why a coordinator: one that decides, instead of all that watch.",
        "barnabas/client/consumer/membership/zookeeper.py, docs/ZOOKEEPER_CONSUMER.md",
        _zookeeper,
    ),
)
