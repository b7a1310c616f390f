"""Every finding from a report that shows it, and none from one that does not."""

from dataclasses import replace
from typing import Any

import pytest

from barnabas.client.finding import Severity
from barnabas.client.groups.diagnosis import diagnose
from barnabas.client.groups.report import (
    ConsumptionRate,
    GroupReport,
    MemberReport,
    PartitionReport,
    with_pace,
)
from barnabas.client.transactions.report import (
    ActiveProducer,
    OpenTransaction,
    ReadingGroup,
    TransactionDescription,
    TransactionsReport,
    UnstablePartition,
)
from barnabas.client.words import count, listed, per_second
from barnabas.coordinators.groups.history.rebalance_history import CauseKind
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.describe_group_history import (
    GroupHistoryCause,
    GroupHistoryMove,
    GroupHistoryNote,
    GroupHistoryRebalance,
)

NOW_MS = 1_700_000_000_000
MINUTE = 60_000


def cause(kind: str, member: str = "c1-a", client: str = "c1", **given: Any) -> GroupHistoryCause:
    assert kind in CauseKind.__members__
    values: dict[str, Any] = {
        "kind": kind,
        "text": "",
        "member_id": member,
        "client_id": client,
        "client_host": "/10.0.0.1",
        "instance_id": "",
        "reason": "",
        "waited_ms": 0,
        "allowed_ms": 0,
        "topics_added": [],
        "topics_dropped": [],
        "alive": False,
    }
    return GroupHistoryCause(**{**values, **given})


def rebalance(
    *causes: GroupHistoryCause, ago_ms: int = MINUTE, **given: Any
) -> GroupHistoryRebalance:
    values: dict[str, Any] = {
        "began_ms": NOW_MS - ago_ms,
        "generation": 7,
        "members": 2,
        "protocol": "range",
        "leader": "c1-a",
        "under_way": False,
        "join_ms": 100,
        "sync_ms": 10,
        "last_member": "",
        "last_client": "",
        "last_after_ms": 100,
        "causes": list(causes),
        "more_causes": 0,
        "moves": [],
        "more_moves": 0,
    }
    return GroupHistoryRebalance(**{**values, **given})


def partition(number: int, committed: int | None = 1_000, end: int = 1_000, **given: Any) -> Any:
    values: dict[str, Any] = {
        "owner": f"c{number % 2 + 1}-a",
        "committed_ago_ms": 1_000,
        "pace": ConsumptionRate(60_000, 600, 600),
    }
    at = TopicPartition("t", number)
    return PartitionReport(at, committed, given.pop("start", 0), end, **{**values, **given})


def member(name: str, *owned: int, **given: Any) -> MemberReport:
    values: dict[str, Any] = {"topics": ("t",), "protocols": ("range",)}
    partitions = tuple(TopicPartition("t", number) for number in owned)
    return MemberReport(f"{name}-a", name, "/10.0.0.1", owned=partitions, **{**values, **given})


HEALTHY = GroupReport(
    group="g",
    state="Stable",
    assignor="range",
    generation=7,
    members=(member("c1", 0, 2), member("c2", 1, 3)),
    partitions=tuple(partition(number) for number in range(4)),
    rebalances=(rebalance(cause("JOINED"), cause("JOINED", "c2-a", "c2"), ago_ms=5 * MINUTE),),
    has_history=True,
    now_ms=NOW_MS,
    topic_partitions={"t": 4},
)


def told(*rebalances: GroupHistoryRebalance, **given: Any) -> GroupReport:
    return replace(HEALTHY, rebalances=rebalances, **given)


def lagging(*lags: int, **given: Any) -> GroupReport:
    """One partition for each: so many unread of 10,000."""
    partitions = tuple(
        partition(number, 10_000 - lag, 10_000, **{"unread_ms": 15_000, **given})
        for number, lag in enumerate(lags)
    )
    return replace(HEALTHY, partitions=partitions)


def restart_loop(times: int, **given: Any) -> GroupReport:
    rebalances = []
    for turn in range(times):
        id_ = f"c1-{turn}"
        ago_ms = 5 * MINUTE - turn * 20_000
        rebalances.append(rebalance(cause("JOINED", id_), ago_ms=ago_ms))
        rebalances.append(rebalance(cause("LEFT", id_, **given), ago_ms=ago_ms - 10_000))
    return told(*rebalances)


def rolling_restart() -> GroupReport:
    """Twenty members of one name leave, once each, and twenty new ones come."""
    return told(
        *(
            rebalance(cause("LEFT", f"c1-old{n}"), ago_ms=5 * MINUTE - n * 10_000)
            for n in range(20)
        ),
        *(rebalance(cause("JOINED", f"c1-{n}"), ago_ms=2 * MINUTE - n * 1_000) for n in range(20)),
    )


def fenced(ago_ms: int = MINUTE) -> tuple[GroupHistoryNote, ...]:
    return (
        GroupHistoryNote(
            at_ms=NOW_MS - ago_ms, times=2, cause=cause("FENCED", instance_id="worker-1")
        ),
    )


SICK: list[tuple[str, GroupReport, str]] = [
    ("poll-interval", told(rebalance(cause("LATE_POLL"))), "c1 at 10.0.0.1 did not poll"),
    (
        "poll-interval",
        told(rebalance(cause("RETURNED", waited_ms=2_500))),
        "came back after 2.5 s",
    ),
    (
        "poll-interval",
        told(rebalance(cause("LEFT", alive=True, allowed_ms=300_000))),
        "left the group but is still connected: it has not polled for longer than its"
        " max.poll.interval.ms (its rebalance timeout is 5 min)",
    ),
    (
        "poll-interval",
        told(*(rebalance(cause("RETURNED", f"c1-{n}", waited_ms=900)) for n in range(3))),
        "3 times in ten minutes",
    ),
    (
        "session-timeout",
        told(rebalance(cause("LATE_HEARTBEAT", waited_ms=45_100, allowed_ms=45_000))),
        "sent no heartbeat for 45.1 s and was removed: its session.timeout.ms is 45 s. It died",
    ),
    (
        "session-timeout",
        told(
            rebalance(cause("LATE_HEARTBEAT", waited_ms=45_100, allowed_ms=45_000, alive=True)),
            type="consumer",
        ),
        "or it has not polled within max.poll.interval.ms",
    ),
    (
        "slow-rebalance",
        told(
            rebalance(
                cause("JOINED", "c2-a", "c2"), sync_ms=9_000, last_client="c1", last_after_ms=9_000
            ),
            type="consumer",
        ),
        "epoch 7 had to wait 9 s for c1 to give up partitions",
    ),
    (
        "session-timeout",
        told(*(rebalance(cause("LATE_HEARTBEAT", f"c{n}-a", f"c{n}")) for n in range(3))),
        "c0 at 10.0.0.1, c1 at 10.0.0.1 and c2 at 10.0.0.1 sent no heartbeat",
    ),
    (
        "session-timeout",
        told(
            rebalance(cause("LATE_HEARTBEAT", waited_ms=45_100, allowed_ms=45_000)), type="streams"
        ),
        "its group.streams.session.timeout.ms (at the broker) is 45 s",
    ),
    (
        "topics-missing",
        replace(
            HEALTHY,
            type="streams",
            state="NotReady",
            members=(member("c1", topics=("t", "orders")),),
        ),
        "no task is assigned: orders does not exist",
    ),
    (
        "topics-wrong",
        replace(HEALTHY, type="streams", state="NotReady"),
        "do not have equally many partitions",
    ),
    (
        "late-to-join",
        told(rebalance(cause("LATE_JOIN", waited_ms=300_000, allowed_ms=300_000))),
        "did not join again within 5 min",
    ),
    (
        "late-to-join",
        told(rebalance(cause("LATE_REVOKE", waited_ms=60_000, allowed_ms=60_000))),
        "did not give up partitions",
    ),
    ("flapping", restart_loop(3), "came and went 3 times in ten minutes, staying 10 s"),
    ("static-twin", replace(HEALTHY, notes=fenced()), "'worker-1'"),
    (
        "slow-rebalance",
        told(
            rebalance(
                cause("JOINED", "c2-a", "c2"),
                join_ms=12_300,
                last_member="c1-a",
                last_client="c1",
                last_after_ms=12_300,
            )
        ),
        "generation 7 had to wait 12.3 s for c1",
    ),
    (
        "slow-rebalance",
        told(rebalance(cause("JOINED", "c2-a", "c2"), sync_ms=8_000)),
        "for its leader c1",
    ),
    (
        "slow-rebalance",
        told(
            rebalance(cause("JOINED", "c2-a", "c2"), ago_ms=9_000, under_way=True, join_ms=-1),
            state="PreparingRebalance",
            members=(
                member("c1", awaited=True, rebalance_timeout_ms=300_000),
                member("c2", awaited=False),
            ),
        ),
        "a rebalance has waited 9 s for c1, which will be dropped after 5 min",
    ),
    ("not-stored", told(rebalance(cause("NOT_STORED", "", ""))), "__consumer_offsets"),
    ("too-many-members", told(rebalance(cause("OVER_CAPACITY", "", ""))), "more members"),
    (
        "idle-members",
        replace(
            HEALTHY,
            members=(member("c1", 0), member("c2", 1), member("c3"), member("c4")),
            partitions=tuple(partition(number) for number in range(2)),
            topic_partitions={"t": 2},
        ),
        "2 of 4 members have nothing to do: a partition has one reader, and there are 2 partitions",
    ),
    (
        "different-subscriptions",
        replace(HEALTHY, members=(member("c1", 0, 2), member("c2", 1, 3, topics=("t", "u")))),
        "only some subscribe to u",
    ),
    (
        "different-assignors",
        replace(
            HEALTHY,
            members=(
                member("c1", 0, 2, protocols=("range", "cooperative-sticky")),
                member("c2", 1, 3),
            ),
        ),
        "all know range",
    ),
    (
        "no-members",
        replace(lagging(500, 500, pace=ConsumptionRate(2_000, 0, 40)), members=(), state="Empty"),
        "1,000 records unread, the oldest for 15 s; the last commit was 1 s ago. More come in:",
    ),
    (
        "deleted-unread",
        replace(HEALTHY, partitions=(partition(0, 10, 1_000, start=500),)),
        "490 records of t-0 were deleted",
    ),
    (
        "nothing-committed",
        replace(HEALTHY, partitions=(partition(0, None, 30, pace=None), partition(1))),
        "committed nothing yet in t-0 (30 records; it is unknown whether they were read),"
        " although its members joined",
    ),
    (
        "nothing-committed",
        replace(HEALTHY, partitions=(partition(0, None, 500, pace=None),), rebalances=()),
        "committed nothing yet in t-0 (500 records; it is unknown whether they were read)",
    ),
    (
        "nothing-committed",
        replace(
            HEALTHY,
            partitions=(partition(0, None, 30, pace=None),),
            rebalances=(),
            history_since_ms=NOW_MS - MINUTE,
        ),
        "although its members joined 1 min ago",
    ),
    (
        "nothing-committed",
        GroupReport("g", "Empty", has_history=True),
        "neither members nor committed offsets",
    ),
    (
        "beyond-the-end",
        replace(HEALTHY, partitions=(partition(0, 1_000, 10),)),
        "offsets in t-0 that are not there",
    ),
    (
        "hot-partition",
        replace(
            HEALTHY,
            partitions=(
                partition(0, 1_000, 9_000, pace=ConsumptionRate(60_000, 600, 6_000)),
                *(partition(number, pace=ConsumptionRate(60_000, 60, 60)) for number in (1, 2, 3)),
            ),
        ),
        "t-0 has 100 % of the lag (8,000 records) and 97 % of all records go there",
    ),
    ("slow-member", lagging(900, 0, 700, 0), "c1 at 10.0.0.1 has 100 % of the lag"),
    (
        "slow-member",
        replace(lagging(900, 0), members=(member("c1", 0), member("c2", 1))),
        "(900 records, in t-0) although it gets no more records",
    ),
    (
        "stuck",
        replace(
            HEALTHY,
            partitions=(
                partition(0, 900, unread_ms=41_000, committed_ago_ms=40_000, pace=None),
                *(partition(number) for number in (1, 2, 3)),
            ),
        ),
        "no commit in t-0 (owner: c1) for 40 s, and 100 records unread. Offsets of",
    ),
    (
        "not-subscribed",
        replace(
            HEALTHY,
            partitions=(
                *HEALTHY.partitions,
                PartitionReport(TopicPartition("old", 0), 0, 0, 5_000),
            ),
            topic_partitions={"t": 4, "old": 1},
        ),
        "no member subscribes to old, where the group has 5,000 records unread",
    ),
    (
        "idle-members",
        replace(
            HEALTHY,
            members=(member("c1", 0), member("c2", 1), member("c3")),
            partitions=(
                *HEALTHY.partitions[:2],
                PartitionReport(TopicPartition("old", 0), 0, 0, 0),
            ),
            topic_partitions={"t": 2, "old": 50},
        ),
        "1 of 3 members has nothing to do",
    ),
    (
        "falling-behind",
        lagging(500, 500, 500, 500, pace=ConsumptionRate(60_000, 300, 600)),
        "40/s come in, 20/s are read",
    ),
]


@pytest.mark.parametrize(("name", "report", "says"), SICK, ids=[each[0] for each in SICK])
def test_each_situation_is_named_and_nothing_else(
    name: str, report: GroupReport, says: str
) -> None:
    findings = diagnose(report)
    assert [finding.name for finding in findings] == [name], findings
    assert says in findings[0].text
    assert findings[0].remedy


WELL: dict[str, GroupReport] = {
    "at rest": HEALTHY,
    "without a history": replace(HEALTHY, rebalances=(), has_history=False),
    "empty and all read": replace(HEALTHY, members=(), state="Empty"),
    "nothing to commit": replace(HEALTHY, partitions=(partition(0, None, start=1_000),)),
    "a little behind": lagging(50, 0, 0, 0),
    "behind by what came since the last commits": lagging(5_000, 0, 5_000, 0, unread_ms=4_000),
    "behind, and catching up": lagging(500, 400, 500, 450, pace=ConsumptionRate(60_000, 900, 300)),
    "restarted": rolling_restart(),
    "restarted twice": restart_loop(2),
    "about to close": told(rebalance(cause("LEFT", alive=True), ago_ms=500)),
    "troubled an hour ago": told(
        rebalance(cause("LATE_HEARTBEAT"), ago_ms=60 * MINUTE), notes=fenced(60 * MINUTE)
    ),
    "a static member came back": replace(
        HEALTHY, notes=(GroupHistoryNote(at_ms=NOW_MS - 1, times=1, cause=cause("REPLACED")),)
    ),
    "started slowly, by its initial delay": told(
        rebalance(cause("JOINED"), join_ms=6_000, last_member="c1-a", last_after_ms=5_900)
    ),
    "rebalancing": told(
        rebalance(cause("JOINED"), ago_ms=1_000, under_way=True, join_ms=-1),
        state="PreparingRebalance",
        members=(member("c1", awaited=True), member("c2")),
    ),
    "a cooperative assignment on its way": replace(
        HEALTHY, members=(member("c1", 0), member("c2", 1), member("c3"))
    ),
    "taken over from a slow member": replace(
        lagging(900, 0, 0, 0),
        rebalances=(
            rebalance(
                cause("LEFT", "c3-a", "c3"),
                ago_ms=3_000,
                moves=[GroupHistoryMove(topic="t", partition=0, before="c3-a", after="c1-a")],
            ),
        ),
    ),
    "came just now": told(
        rebalance(cause("JOINED"), ago_ms=3_000),
        partitions=(partition(0, 900, unread_ms=90_000, committed_ago_ms=90_000),),
    ),
}


@pytest.mark.parametrize("report", WELL.values(), ids=WELL.keys())
def test_nothing_is_said_of_a_healthy_group(report: GroupReport) -> None:
    assert diagnose(report) == []


def test_members_of_one_name_are_distinguished_by_their_ids() -> None:
    id_ = "c1-9f240110-13e2-4abe-93bd-31de7269a880"
    assert HEALTHY.name_of("c1-a") == "c1"
    twins = replace(HEALTHY, members=(member("c1"), replace(member("c1"), id=id_)))
    assert twins.name_of(id_) == "c1-9f240110"
    assert HEALTHY.name_of(id_) == "c1-9f240110"  # gone by now


def test_a_group_whose_last_member_came_back_and_died_has_no_members() -> None:
    report = replace(
        lagging(500, 0),
        state="Empty",
        members=(),
        rebalances=(
            rebalance(cause("RETURNED"), ago_ms=2 * MINUTE),
            rebalance(cause("LATE_HEARTBEAT"), ago_ms=MINUTE),
        ),
    )
    names = [finding.name for finding in diagnose(report)]
    assert names == ["no-members", "poll-interval", "session-timeout"]


def test_problems_come_before_warnings() -> None:
    report = replace(
        HEALTHY,
        members=(member("c1", 0), member("c2", 1), member("c3")),
        topic_partitions={"t": 2},
        rebalances=(rebalance(cause("NOT_STORED", "", "")),),
    )
    found = [(finding.name, finding.severity) for finding in diagnose(report)]
    assert found == [("not-stored", Severity.PROBLEM), ("idle-members", Severity.WARNING)]


def test_a_member_that_left_and_is_back_on_another_connection_is_not_away() -> None:
    report = told(
        rebalance(cause("LEFT", "c1-a", alive=True)),
        rebalance(cause("JOINED", "c1-b"), ago_ms=9_000),
    )
    assert "still connected" not in str(diagnose(report))


def test_a_group_that_waits_behind_a_transaction_is_not_stuck() -> None:
    still = partition(0, 100, 300, stable=100, committed_ago_ms=MINUTE, unread_ms=MINUTE, pace=None)
    stuck = replace(HEALTHY, partitions=(still,))
    assert [finding.name for finding in diagnose(stuck)] == ["stuck"]
    producer = ActiveProducer(7, 0, -1, 0, NOW_MS, 100)
    known = TransactionDescription(
        "x-1", "Ongoing", 7, 0, 2 * MINUTE, NOW_MS - MINUTE, (still.at,), 1
    )
    opened = OpenTransaction(still.at, producer, 100, known, NOW_MS - MINUTE)
    held = UnstablePartition(still.at, 100, 300, 1, (opened,))
    behind = replace(held, groups=(ReadingGroup(stuck.group, 100, True),))
    waiting = replace(stuck, transactions=TransactionsReport((behind,), 1, (), NOW_MS))
    (finding,) = diagnose(waiting)
    assert finding.name == "open-transaction"
    assert "`barnabas txn abort x-1`" in finding.remedy
    before = replace(held, groups=(ReadingGroup(stuck.group, 100, False),))
    reading = replace(stuck, transactions=TransactionsReport((before,), 1, (), NOW_MS))
    assert [finding.name for finding in diagnose(reading)] == ["stuck"]


def test_lag_is_counted_to_the_end_and_to_the_last_stable_offset() -> None:
    both = partition(0, 90, 300, stable=100)
    assert (both.lag, both.committed_lag) == (210, 10)
    past = partition(0, 150, 300, stable=100)
    assert (past.lag, past.committed_lag) == (150, 0)
    assert partition(0, 90, 300).committed_lag == 210


def test_two_looks_make_a_rate_where_the_broker_reports_none() -> None:
    before = replace(HEALTHY, partitions=(partition(0, 100, 200, pace=None),))
    now = replace(HEALTHY, partitions=(partition(0, 150, 220, pace=None),))
    (paced,) = with_pace(now, before, 2_000).partitions
    assert paced.pace == ConsumptionRate(2_000, 50, 20)
    assert paced.catch_up_ms == 70 * 2_000 // 30
    assert with_pace(before, now, 2_000).partitions[0].pace is None  # it was moved back


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (count(1, "record"), "1 record"),
        (count(1_204, "record"), "1,204 records"),
        (listed([]), "none"),
        (listed(["a"]), "a"),
        (listed("abc"), "a, b and c"),
        (listed("abcdef"), "a, b, c, d and 2 more"),
        (per_second(40, 1_000), "40/s"),
        (per_second(4, 10_000), "0.4/s"),
        (per_second(0, 10_000), "0/s"),
    ],
)
def test_numbers_and_names_read_well(said: str, text: str) -> None:
    assert said == text
