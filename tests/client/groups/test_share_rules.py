"""Findings about share groups, each from a report that shows it."""

from dataclasses import replace

import pytest

from barnabas.client.groups.diagnosis import diagnose
from barnabas.client.groups.report import SHARE, GroupReport, MemberReport, PartitionReport
from barnabas.client.groups.text import description
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.describe_share_partitions import (
    DescribedSharePartition,
    ShareClient,
    ShareFailure,
    ShareHolder,
    ShareOutcome,
)

NOW_MS = 1_700_000_000_000
NOBODY = ShareClient(member_id="", client_id="", host="")
WORKER = ShareClient(member_id="m1", client_id="worker\x1b[31m", host="10.0.0.7")


def holder(
    client: ShareClient = NOBODY, attempts: int = 0, backoff_ms: int = -1, writing: bool = False
) -> ShareHolder:
    held = bool(client.member_id)
    return ShareHolder(
        offset=17,
        attempts=attempts,
        client=client,
        held_ms=12_000 if held else -1,
        lock_ms=18_000 if held else -1,
        backoff_ms=backoff_ms,
        writing=writing,
    )


def share(
    *holders: ShareHolder,
    in_flight: int = 2_000,
    delivered: int = 50,
    redelivered: int = 0,
    failures: tuple[ShareFailure, ...] = (),
    partition: int = 0,
    **outcomes: int,
) -> DescribedSharePartition:
    return DescribedSharePartition(
        topic="jobs",
        partition=partition,
        start_offset=17,
        in_flight=in_flight,
        limit=2_000,
        acquired=1,
        available=0,
        delivery_limit=5,
        delivered=delivered,
        redelivered=redelivered,
        known_ms=60_000,
        holder=list(holders),
        outcomes=[
            ShareOutcome(name=name.replace("_", "-"), records=records)
            for name, records in outcomes.items()
        ],
        failures=list(failures),
    )


def report(*shares: DescribedSharePartition) -> GroupReport:
    at = TopicPartition("jobs", 0)
    return GroupReport(
        "queue",
        "Stable",
        type=SHARE,
        members=(MemberReport("m1", "worker", "/10.0.0.7", topics=("jobs",), owned=(at,)),),
        partitions=(PartitionReport(at, 17, 0, 5_000, unfinished=3_000, unread_ms=90_000),),
        now_ms=NOW_MS,
        topic_partitions={"jobs": 1},
        shares=shares,
    )


@pytest.mark.parametrize(
    ("held", "text", "remedy"),
    [
        (holder(WORKER, 3), "(member m1) has it for 12 s, delivery 3 of 5", "stop the consumer"),
        (holder(WORKER, 3, writing=True), "its acknowledgement is being", "__share_group_state"),
        (holder(attempts=2, backoff_ms=4_000), "it waits 4 s before", "release.backoff.ms"),
        (holder(), "it waits for a member", "start members"),
    ],
)
def test_a_full_window_names_its_record_and_what_to_do(
    held: ShareHolder, text: str, remedy: str
) -> None:
    (finding,) = diagnose(report(share(held)))
    assert finding.name == "in-flight-limit"
    assert "Offset 17" in finding.text
    assert text in finding.text
    assert remedy in finding.remedy


def test_a_window_with_room_is_no_finding() -> None:
    assert diagnose(report(share(holder(WORKER, 1), in_flight=1_999))) == []


def test_many_full_windows_are_counted() -> None:
    found = diagnose(report(*(share(holder(), partition=number) for number in range(9))))
    assert [each.name for each in found] == ["in-flight-limit"] * 4
    assert "jobs-3, jobs-4, jobs-5, jobs-6 and 2 more" in found[-1].text


@pytest.mark.parametrize(
    ("outcomes", "remedy"),
    [
        ({"expired": 40, "released": 3}, "share.record.lock.duration.ms"),
        ({"session_ended": 40}, "lose their connections"),
        ({"released": 40}, "why they release"),
    ],
)
def test_many_redeliveries_are_explained_by_their_most_frequent_cause(
    outcomes: dict[str, int], remedy: str
) -> None:
    one = share(in_flight=0, delivered=100, redelivered=40, **outcomes)  # type: ignore[arg-type]
    (finding,) = diagnose(report(one))
    assert finding.name == "redeliveries"
    assert "40 of 100 delivered records" in finding.text
    assert remedy in finding.remedy
    assert diagnose(report(share(in_flight=0, delivered=99, redelivered=90))) == []


def test_a_description_has_no_control_characters_of_clients() -> None:
    failure = ShareFailure(
        at_ms=NOW_MS, cause="expired", first_offset=3, last_offset=9, attempts=2, client=WORKER,
        archived=False,
    )  # fmt: skip
    text = description(report(share(holder(WORKER, 1), failures=(failure,), redelivered=5)))
    assert "\x1b" not in text
    assert "jobs-0, offsets 3 to 9, not acknowledged in time by worker" in text
    assert "5 of 50 records (10.0%) in 1 min" in text
    assert "2,000 of 2,000" in text


def test_a_start_offset_beyond_the_end_of_the_log_is_named() -> None:
    at = TopicPartition("jobs", 0)
    lost = replace(report(), partitions=(PartitionReport(at, 900, 0, 300),))
    (finding,) = diagnose(lost)
    assert finding.name == "beyond-the-end"
    assert "begins at offset 900 of jobs-0, which ends at 300" in finding.text
    assert "group seek" in finding.remedy
