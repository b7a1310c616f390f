"""Chapters: joins and leaves, the states of a group, a late poll, ZooKeeper's consumer."""

import time

from barnabas.cli.tours.members import TourMember
from barnabas.cli.tours.stage import Chapter, TourStage
from barnabas.client.consumer.membership.zookeeper import share


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
        stage.claim("every rebalance has its cause", all(r.causes for r in kafka.story("group1")))
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
        kafka.slow(150, api="SyncGroup")
        second = TourMember(kafka, "billing", "second", "orders")
        stage.eventually(
            "a newcomer: PreparingRebalance, everyone joins again",
            lambda: look() == "PreparingRebalance",
        )
        stage.eventually(
            "CompletingRebalance, the leader assigns",
            lambda: look() == "CompletingRebalance",
        )
        kafka.heal()
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
        session_timeout_ms=6_000,
    )
    try:
        stage.eventually(
            "a member that works longer than max.poll.interval.ms leaves its group",
            lambda: (
                "billing" in kafka.groups()
                and any("LATE_POLL" in each.kinds for each in kafka.story("billing"))
            ),
        )
        said = stage.command("group", "explain", "billing")
        stage.claim("explain names the cause and the option", "max.poll.interval.ms" in said)
    finally:
        slow.stop()


def _zookeeper(stage: TourStage) -> None:
    stage.tell("Before Kafka 0.9 each consumer watched ZooKeeper and took its own share:")
    stage.tell("N = ceil(partitions / consumers), member i takes i*N to (i+1)*N-1.")
    ids = ["a", "b", "c", "d"]
    shares = [share(range(6), ids, each) for each in ids]
    stage.tell("6 partitions, 4 members: " + " ".join(map(str, shares)))
    stage.claim("rounding up leaves the last member without work", shares[3] == [])
    stage.tell("The herd: a member that comes or goes makes every consumer read and claim again;")
    stage.tell("the split brain: two that see different members claim the same partition.")
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
    stage.claim("without members it is Empty", stage.group_state("new") == "Empty")


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
