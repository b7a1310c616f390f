"""Chapters: coordinator and controller killed; high watermark; no leader; unclean election."""

from barnabas.cli.tours.members import TourMember
from barnabas.cli.tours.stage import LAG_MS_MAX, WAIT_S, Chapter, TourStage
from barnabas.client.blocking.producer import Producer
from barnabas.model.errors import KafkaError


def _killed(stage: TourStage) -> None:
    kafka = stage.kafka
    kafka.create_topic("orders", 2, replicas=3)
    kafka.produce("orders", ["1", "2"])
    member = TourMember(kafka, "billing", "member", "orders")
    try:
        stage.eventually("a group reads", lambda: len(member.read) == 2)
        kafka.wait_for_lag("billing", timeout=WAIT_S)
        stage.command("group", "describe", "billing")
        generation = kafka.group("billing").generation
        killed = kafka.kill(coordinator_of="billing")
        stage.tell(f"broker {killed}, the coordinator, was killed")
        kafka.produce("orders", ["3"])
        stage.eventually("another broker coordinates", lambda: kafka.lag("billing") == 0)
        stage.claim(
            "the group did not rebalance: its state was in the log",
            kafka.group("billing").generation == generation,
        )
        kafka.start()
        before = kafka.controller()
        kafka.kill(controller=True)
        stage.eventually(
            "the controller was killed: another one is elected",
            lambda: kafka.controller() not in (before, -1),
        )
        kafka.start()
        stage.command("status")
    finally:
        member.stop()


def _watermark(stage: TourStage) -> None:
    kafka = stage.kafka
    kafka.create_topic("orders", replicas=3, configs={"min.insync.replicas": 1})
    kafka.produce("orders", ["1"])
    leader = kafka.leader_of("orders")
    followers = [broker for broker in (1, 2, 3) if broker != leader]
    for broker in (1, 2, 3):
        stage.roles.add(kafka.replica("orders", 0, broker).role)
    stage.claim(
        f"broker {leader} is leader, {followers} are followers",
        {"leader", "follower"} <= stage.roles,
    )
    # Not the controller: it is the one that must be told about the in-sync set.
    frozen = next(broker for broker in followers if broker != kafka.controller())
    kafka.pause(frozen)
    stage.tell(f"follower {frozen} is frozen")
    with Producer(bootstrap_servers=kafka.bootstrap_servers, acks="1") as producer:
        producer.send("orders", b"2")
    _, high, end = kafka.replica("orders", 0, leader)
    stage.claim(f"the leader's log ends at {end}, the high watermark stays {high}", high < end)
    stage.claim("consumers do not see the record yet", kafka.values("orders") == [b"1"])
    stage.tell("after replica.lag.time.max.ms the frozen follower leaves the in-sync set")
    kafka.clock.advance(milliseconds=LAG_MS_MAX + 1_000)
    stage.eventually(
        "then the high watermark goes on", lambda: kafka.values("orders") == [b"1", b"2"]
    )
    stage.eventually(
        "the frozen replica is out of sync",
        lambda: frozen not in kafka.admin.topic("orders").partitions[0].in_sync,
    )
    kafka.resume()
    stage.eventually(
        "thawed, it catches up and is in sync again",
        lambda: frozen in kafka.admin.topic("orders").partitions[0].in_sync,
    )
    stage.command("topic", "describe", "orders")


def _unclean(stage: TourStage) -> None:
    kafka = stage.kafka
    kafka.create_topic("orders", replicas=2)
    kafka.produce("orders", ["1"])
    leader = kafka.leader_of("orders")
    replicas = kafka.admin.topic("orders").partitions[0].replicas
    (other,) = [broker for broker in (1, 2, 3) if broker not in replicas]
    stage.roles.add(kafka.replica("orders", 0, other).role)
    stage.claim(f"broker {other} has no replica: absent", "absent" in stage.roles)
    (follower,) = [each for each in replicas if each != leader]
    kafka.kill(follower)
    stage.eventually(
        "the follower is dead and out of sync",
        lambda: kafka.admin.topic("orders").partitions[0].in_sync == [leader],
    )
    kafka.produce("orders", ["only on the leader"])
    kafka.kill(leader)
    kafka.start(follower)
    stage.eventually("no replica in sync lives: leader -1", lambda: kafka.leader_of("orders") == -1)
    stage.tell("availability or consistency: `unclean.leader.election.enable` decides")
    kafka.admin.alter_topic("orders", put={"unclean.leader.election.enable": "true"})
    stage.eventually(
        "an unclean election makes the old replica leader",
        lambda: kafka.leader_of("orders") == follower,
    )
    stage.eventually("and loses the last record", lambda: _values(stage) == [b"1"])
    kafka.start()
    _failed_disk(stage, follower, leader)


def _failed_disk(stage: TourStage, leader: int, other: int) -> None:
    kafka = stage.kafka
    stage.eventually(
        "the old leader follows now, and is in sync",
        lambda: other in kafka.admin.topic("orders").partitions[0].in_sync,
    )
    kafka.disk_fails(leader)
    stage.claim(
        f"the disk of broker {leader} fails: its replica is offline",
        kafka.replica("orders", 0, leader).role == "offline",
    )
    stage.eventually("the other replica leads", lambda: kafka.leader_of("orders") == other)
    kafka.create_topic("short-lived")
    kafka.admin.delete_topic("short-lived")
    stage.eventually("a deleted topic: its replica is closed", lambda: "closed" in stage.roles)
    stage.claim(
        "before its role, a replica is assigned, for a moment: the log is open",
        "assigned" in stage.roles,
    )


def _values(stage: TourStage) -> list[bytes | None]:
    try:
        return stage.kafka.values("orders")
    except KafkaError:
        return []


CHAPTERS = (
    Chapter(
        "Coordinator and controller killed (协调者, 控制器)",
        "Both are roles that another broker takes over: from the log, and by an election.",
        "barnabas/broker/groups/coordination.py, docs/CONTROLLER.md",
        _killed,
        3,
    ),
    Chapter(
        "High watermark and a frozen follower (高水位, HW, LEO)",
        "A record is committed when every in-sync replica has it.",
        "barnabas/replication, docs/REPLICATION.md",
        _watermark,
        3,
    ),
    Chapter(
        "No leader, an unclean election, a failed disk (不干净的选举)",
        "If all in-sync replicas are dead: wait for one, or take another and lose records.",
        "barnabas/controller/leader_election.py, barnabas/broker/role.py",
        _unclean,
        3,
    ),
)
