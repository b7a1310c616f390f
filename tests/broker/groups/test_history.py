"""What a broker tells of its groups: over the wire, in its log, and in its metrics."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from time import time

import pytest

from barnabas.broker.groups.metrics import catch_up_seconds
from barnabas.broker.groups.rates import GroupRates, Rate
from barnabas.broker.metrics import page
from barnabas.coordinators.groups.offsets.store import CommittedOffsets
from barnabas.coordinators.groups.records import OffsetCommitValue, OffsetRecord
from barnabas.coordinators.runtime import Now
from barnabas.model.errors import Code
from barnabas.model.words import short_member
from barnabas.wire.messages.describe_group_history import (
    DescribeGroupHistoryRequest,
    DescribeGroupHistoryResponse,
    GroupHistory,
)
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.wire.messages.join_group import JoinGroupResponse
from barnabas.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from barnabas.wire.messages.offset_commit import OffsetCommitResponse
from barnabas.wire.messages.sync_group import SyncGroupResponse
from tests.broker.running import Running, running_broker
from tests.coordinators.world import assignment, subscription
from tests.group_requests import commit_request, join_request, sync_request

OPTIONS = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "2"}


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    async with running_broker(tmp_path, OPTIONS) as running:
        await running.create("t", 2)
        found = FindCoordinatorRequest(coordinator_keys=["g"])
        await running.ask(found, FindCoordinatorResponse)
        yield running


async def join(running: Running) -> str:
    """One member, alone in its group, with both partitions."""
    member = ""
    for _ in range(2):
        request = join_request("g", member, subscription(["t"]), rebalance_ms=300_000)
        joined = await running.ask(request, JoinGroupResponse)
        member = joined.member_id
    shares = {member: assignment({"t": [0, 1]})}
    sync = sync_request("g", member, joined.generation_id, shares)
    assert (await running.ask(sync, SyncGroupResponse)).error_code == 0
    return member


async def leave(running: Running, member: str) -> None:
    request = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=member)])
    assert (await running.ask(request, LeaveGroupResponse)).error_code == 0


async def commit(running: Running, offset: int, group: str = "g") -> None:
    response = await running.ask(commit_request(group, {0: offset}), OffsetCommitResponse, 9)
    assert response.topics[0].partitions[0].error_code == 0


async def told(running: Running, group: str = "g") -> GroupHistory:
    response = await running.ask(
        DescribeGroupHistoryRequest(group_ids=[group]), DescribeGroupHistoryResponse
    )
    return response.groups[0]


async def test_the_story_names_members_causes_and_moves(running: Running) -> None:
    member = await join(running)
    history = await told(running)
    (alive,) = history.members
    assert (alive.member_id, alive.client_id, alive.session_timeout_ms) == (member, "test", 30_000)
    assert alive.protocols == ["range"]
    assert not alive.awaited
    (rebalance,) = history.rebalances
    assert (rebalance.generation, rebalance.members, rebalance.under_way) == (1, 1, False)
    assert [cause.kind for cause in rebalance.causes] == ["JOINED"]
    assert rebalance.causes[0].text.startswith(short_member(member, "test") + " at ")
    assert rebalance.moves is None  # there was no generation before it to compare with


async def test_a_member_that_left_without_closing_its_connection_is_alive(
    running: Running,
) -> None:
    member = await join(running)
    await leave(running, member)
    history = await told(running)
    cause = history.rebalances[-1].causes[0]
    assert (cause.kind, cause.member_id, cause.alive) == ("LEFT", member, True)
    again = await join(running)
    history = await told(running)
    cause = history.rebalances[-1].causes[0]
    assert (cause.kind, cause.member_id) == ("RETURNED", again)
    assert "on the connection on which it had left" in cause.text


async def test_commits_are_reported_with_their_time(running: Running) -> None:
    await commit(running, 7)
    before = time() * 1000
    (partition,) = (await told(running)).partitions
    assert (partition.topic, partition.partition, partition.committed) == ("t", 0, 7)
    assert before - 60_000 < partition.committed_at_ms <= time() * 1000
    assert partition.pace_ms == -1


async def test_a_group_that_is_not_there_is_said_so(running: Running) -> None:
    history = await told(running, "nobody")
    assert history.error_code == Code.GROUP_ID_NOT_FOUND
    assert history.error_message == "there is no group 'nobody'"


async def test_more_groups_than_fit_are_refused(running: Running) -> None:
    request = DescribeGroupHistoryRequest(group_ids=["x"] * 100_000)
    response = await running.ask(request, DescribeGroupHistoryResponse)
    assert len(response.groups) == 21
    assert response.groups[-1].error_code == Code.INVALID_REQUEST
    assert response.groups[-2].error_code == Code.GROUP_ID_NOT_FOUND


async def test_every_finished_rebalance_is_one_line_of_the_log(running: Running) -> None:
    member = await join(running)
    await leave(running, member)
    lines = [json.loads(line) for line in running.log.getvalue().splitlines()]
    first, second = (line for line in lines if line["event"] == "rebalance")
    assert (first["group"], first["generation"], first["members"]) == ("g", 1, 1)
    assert first["why"].startswith(short_member(member, "test"))
    assert first["why"].endswith(" joined")
    assert (second["generation"], second["members"], "left" in second["why"]) == (2, 0, True)


async def test_groups_are_in_the_metrics(running: Running) -> None:
    now_ms = int(time() * 1000)
    await running.produce("t", now_ms - 60_000, now_ms - 30_000, now_ms)
    await commit(running, 1)
    await join(running)
    text = (await page(running.broker)).decode()
    assert 'barnabas_group_rebalances_total{cause="joined"} 1.0' in text
    assert 'barnabas_group_rebalance_seconds_count{phase="join"} 1.0' in text
    assert 'barnabas_group_members{group="g"} 1.0' in text
    assert 'barnabas_group_generation{group="g"} 1.0' in text
    assert 'barnabas_group_lag{group="g",partition="0",topic="t"} 2.0' in text
    assert 'barnabas_group_catch_up_seconds{group="g",partition="0",topic="t"} +Inf' in text
    name = 'barnabas_group_lag_seconds{group="g",partition="0",topic="t"}'
    (line,) = (line for line in text.splitlines() if line.startswith(name))
    assert 29 < float(line.split()[-1]) < 40
    assert "barnabas_group_left_out 0.0" in text


async def test_what_a_member_has_and_nothing_is_committed_of_is_lag(running: Running) -> None:
    now_ms = int(time() * 1000)
    await running.produce("t", now_ms - 60_000, now_ms, now_ms)
    member = await join(running)
    text = (await page(running.broker)).decode()
    assert 'barnabas_group_lag{group="g",partition="0",topic="t"} 3.0' in text
    assert 'barnabas_group_lag{group="g",partition="1",topic="t"} 0.0' in text
    assert 'barnabas_group_no_commit_yet{group="g"} 1.0' in text
    await leave(running, member)
    await commit(running, 3)
    text = (await page(running.broker)).decode()
    assert 'barnabas_group_lag{group="g",partition="0",topic="t"} 0.0' in text
    assert 'barnabas_group_no_commit_yet{group="g"} 0.0' in text


async def test_the_history_says_when_it_began(running: Running) -> None:
    await join(running)
    history = await told(running)
    assert 0 < history.since_ms <= history.rebalances[0].began_ms


async def test_metrics_of_many_groups_stay_within_their_bound(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("barnabas.broker.groups.metrics.GROUPS_MAX", 3)
    monkeypatch.setattr("barnabas.broker.groups.metrics.PARTITIONS_MAX", 2)
    for number in range(5):
        await commit(running, 0, f"group-{number}")
    text = (await page(running.broker)).decode()
    assert text.count("barnabas_group_members{") == 3
    assert text.count("barnabas_group_lag{") == 2
    assert "barnabas_group_left_out 3.0" in text
    assert "barnabas_groups 5.0" in text


async def test_pace_goes_back_to_the_oldest_sample(running: Running) -> None:
    offsets = CommittedOffsets()

    def committed(offset: int) -> None:
        value = OffsetCommitValue(offset=offset, leader_epoch=-1, metadata="", commit_timestamp=0)
        offsets.replay(OffsetRecord("g", "t", 0, value))

    pace = GroupRates(running.broker.topics)
    committed(0)
    pace.sample([("g", offsets)], Now(0, 0))
    assert pace.of(("g", "t", 0), 10, 30, Now(5_000, 0)) == Rate(5_000, 10, 30)
    assert pace.of(("g", "t", 1), 10, 30, Now(5_000, 0)) is None
    committed(100)
    for second in range(1, 10):
        pace.sample([("g", offsets)], Now(second * 10_000, 0))
    assert pace.of(("g", "t", 0), 100, 30, Now(95_000, 0)) == Rate(55_000, 0, 30)
    assert pace.of(("g", "t", 0), 20, 30, Now(95_000, 0)) is None  # it was moved back


def test_time_to_catch_up() -> None:
    assert catch_up_seconds(0, None) == 0
    assert catch_up_seconds(100, None) is None
    assert catch_up_seconds(100, Rate(10_000, 300, 100)) == 5
    assert catch_up_seconds(100, Rate(10_000, 100, 100)) is None


@pytest.mark.parametrize(
    ("reason", "generation", "code", "said"),
    [
        ("consumer poll timeout has expired.", 1, Code.UNKNOWN_MEMBER_ID,
         "did not poll within its max.poll.interval.ms of 5 min, and left; its partitions may"
         " belong to other members; it must poll to join again, and reads on from the last commit;"
         " raise max.poll.interval.ms, lower max.poll.records, or handle records faster"),
        (None, 0, Code.ILLEGAL_GENERATION,
         "the group has rebalanced since the member joined; its partitions may belong to other"
         " members; it must poll to join again, and reads on from the last commit"),
    ],
    ids=["late poll", "generation"],
)  # fmt: skip
async def test_the_log_says_why_a_commit_was_refused_and_what_to_do(
    running: Running, reason: str | None, generation: int, code: Code, said: str
) -> None:
    member = await join(running)
    if reason is not None:
        gone = MemberIdentity(member_id=member, reason=reason)
        request = LeaveGroupRequest(group_id="g", members=[gone])
        assert (await running.ask(request, LeaveGroupResponse, 5)).error_code == 0
    refused = commit_request("g", {0: 5}, member=member, generation=generation)
    response = await running.ask(refused, OffsetCommitResponse, 9)
    assert response.topics[0].partitions[0].error_code == code
    lines = [json.loads(line) for line in running.log.getvalue().splitlines()]
    (line,) = (line for line in lines if line["event"] == "commit refused")
    assert (line["group"], line["member"], line["code"]) == ("g", member, code.name)
    assert said in line["reason"]
