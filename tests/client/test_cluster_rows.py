"""A cluster in rows: who is down or silent, what is offline, where replicas are to go."""

import click
import pytest

from barnabas.cli.cluster_moves import plan_moves
from barnabas.cli.partitions import broker_ids
from barnabas.client.admin.cluster import BrokerDetails
from barnabas.client.cluster_rows import (
    broker_rows,
    controller_epoch,
    counts,
    event_row,
    health,
    problem_rows,
)
from barnabas.client.metadata_snapshot import MetadataSnapshot
from barnabas.model.ids import NO_TOPIC_ID, TopicPartition
from barnabas.wire.messages.describe_broker import ControllerEvent
from barnabas.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

HERE = "this machine"


def view(
    *partitions: tuple[int, list[int], list[int]], brokers: tuple[int, ...] = (1, 2)
) -> MetadataSnapshot:
    """Of a topic `t` whose partitions have these leaders, replicas and in-sync sets."""
    told = [
        MetadataResponsePartition(
            error_code=0,
            partition_index=number,
            leader_id=leader,
            leader_epoch=0,
            replica_nodes=replicas,
            isr_nodes=in_sync,
            offline_replicas=[],
        )
        for number, (leader, replicas, in_sync) in enumerate(partitions)
    ]
    return MetadataSnapshot(
        MetadataResponse(
            brokers=[
                MetadataResponseBroker(node_id=id_, host="h", port=9000 + id_, rack=None)
                for id_ in brokers
            ],
            cluster_id="c",
            controller_id=1,
            topics=[
                MetadataResponseTopic(
                    error_code=0,
                    name="t",
                    topic_id=NO_TOPIC_ID,
                    is_internal=False,
                    partitions=told,
                )
            ],
        )
    )


def details_of(id_: int, machine: str = HERE) -> BrokerDetails:
    return BrokerDetails(id_, 10 + id_, 100 + id_, machine, "0.1.0", 1, 4)


def test_brokers_are_up_down_silent_or_the_controller() -> None:
    seen = view((1, [1, 2, 3], [1, 2]), brokers=(1, 2, 4))
    rows = broker_rows(seen, {1: details_of(1), 2: details_of(2, "another")}, HERE)
    assert [(row["broker"], row["state"]) for row in rows] == [
        (1, "controller"),
        (2, "up"),
        (3, "down"),
        (4, "silent"),
    ]
    assert [row["process"] for row in rows] == [101, None, None, None]
    assert [row["leads"] for row in rows] == [1, 0, 0, 0]
    assert rows[2]["address"] is None


def test_brokers_of_another_make_are_not_called_silent() -> None:
    rows = broker_rows(view((1, [1, 2], [1, 2])), {}, HERE)
    assert [row["state"] for row in rows] == ["controller", "up"]
    assert controller_epoch({}) is None


def test_what_is_offline_comes_before_what_is_under_replicated() -> None:
    seen = view((1, [1, 2], [1, 2]), (2, [2, 3], [2]), (-1, [3], [3]), (3, [3, 1], [3]))
    rows = problem_rows(seen)
    assert [(row["partition"], row["problem"]) for row in rows] == [
        (2, "offline"),
        (3, "offline"),
        (1, "under-replicated"),
    ]
    assert counts(seen) == (1, 4)
    assert health(rows, 4) == "4 partitions, 2 offline, 1 under-replicated"
    assert health([], 4) == "4 partitions, all led and in sync"


def test_a_plan_spreads_leaders_and_leaves_out_what_is_there() -> None:
    seen = view(*[(1, [1], [1])] * 6, brokers=(1, 2, 3))
    named: list[tuple[TopicPartition, list[int] | None]] = [
        (TopicPartition("t", number), None) for number in range(6)
    ]
    plan = plan_moves(seen, named, [1, 2, 3], 3)
    assert all(sorted(brokers) == [1, 2, 3] for brokers in plan.values())
    assert sorted(brokers[0] for brokers in plan.values()) == [1, 1, 2, 2, 3, 3]
    two = plan_moves(seen, named, [1, 3], 2)
    assert {tuple(sorted(brokers)) for brokers in two.values()} == {(1, 3)}
    assert two == plan_moves(seen, named, [1, 3], 2)
    assert plan_moves(seen, [(TopicPartition("t", 0), [1])], None, None) == {}


def test_numbers_of_brokers_are_checked() -> None:
    assert broker_ids("3, 1") == [3, 1]
    for text in ("", "1,,2", "x", "1,1", "-1", "99999999999", "१"):
        with pytest.raises(click.UsageError):
            broker_ids(text)


def test_an_event_says_what_changed() -> None:
    event = ControllerEvent(
        number=7,
        at_ms=0,
        what="election",
        cause="broker 2 is gone",
        topic="t",
        partition=0,
        leader=1,
        leader_epoch=3,
        leader_before=2,
        isr=[1, 3],
        isr_before=[2, 1, 3],
    )
    row = event_row(event)
    assert row["where"] == "t-0"
    assert row["change"] == "leader 2 -> 1, in sync 2,1,3 -> 1,3"
    of_none = ControllerEvent(number=8, at_ms=0, what="broker up", cause="", isr=[], isr_before=[])
    assert (event_row(of_none)["change"], event_row(of_none)["partition"]) == ("", None)
