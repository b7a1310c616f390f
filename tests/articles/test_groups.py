"""The experiments and pictures of the articles about consumer groups, as they were drawn."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import barnabas.sync
from barnabas.cli.tours.members import TourMember
from barnabas.coordinators.groups.records import partition_of
from barnabas.model.errors import Code, Fenced, KafkaError
from barnabas.testing import Kafka
from tests.waiting import WAIT_S

GROUP = "billing"


@contextmanager
def stopping(*members: TourMember) -> Iterator[None]:
    try:
        yield
    finally:
        for each in members:
            each.stop()


def owned(members: list[TourMember]) -> list[list[int]]:
    return sorted(each.owns for each in members)


def test_a_message_goes_to_one_member_of_each_group(kafka: Kafka) -> None:
    """group1 has one member, group2 three; messages with the keys 1, 2, 3."""
    kafka.create_topic("topic1", 3)
    alone = TourMember(kafka, "group1", "c1", "topic1")
    shared = [TourMember(kafka, "group2", f"c{n}", "topic1") for n in (1, 2, 3)]
    with stopping(alone, *shared):
        kafka.wait_until(lambda: owned(shared) == [[0], [1], [2]])
        for key in (1, 2, 3):
            kafka.produce("topic1", [f"message {key}"], key=str(key), partition=key - 1)
        kafka.wait_until(lambda: len(alone.read) == 3, otherwise="broadcast")
        kafka.wait_until(lambda: all(len(each.read) == 1 for each in shared), otherwise="unicast")
        assert sorted(each.read[0].key for each in shared) == [b"1", b"2", b"3"]
        assert kafka.metrics().count('barnabas_requests_total{api="Produce"} 3.0') == 1


def test_members_join_and_leave_as_in_the_seven_pictures(kafka: Kafka) -> None:
    kafka.create_topic("topic1", 3)
    members: list[TourMember] = []
    pictures = ([[0, 1, 2]], [[0, 1], [2]], [[0], [1], [2]], [[], [0], [1], [2]])
    for number, shares in enumerate(pictures, 1):
        members.append(TourMember(kafka, GROUP, f"consumer{number}", "topic1"))
        kafka.wait_until(lambda: owned(members) == shares)  # noqa: B023
    for left in (3, 2, 1):
        members.pop(0).stop()
        kafka.wait_until(lambda: owned(members) == pictures[left - 1])  # noqa: B023
    history = kafka.rebalance_history(GROUP)
    members[0].stop()
    assert all(entry.causes for entry in history)
    assert [entry.generation for entry in history] == [*range(1, len(history) + 1)]
    assert {"JOINED", "LEFT"} <= {kind for entry in history for kind in entry.kinds}
    assert not {"SESSION_TIMEOUT"} & {kind for entry in history for kind in entry.kinds}


def test_before_a_rebalance_members_commit_and_stop_and_after_it_they_go_on(kafka: Kafka) -> None:
    """The commit interval is an hour: what was read is committed because of the rebalance."""
    kafka.create_topic("topic1", 2)
    kafka.produce("topic1", ["1", "2"], partition=0)
    first = TourMember(kafka, GROUP, "first", "topic1", auto_commit_interval_ms=3_600_000)
    with stopping(first):
        kafka.wait_until(lambda: len(first.read) == 2)
        second = TourMember(kafka, GROUP, "second", "topic1", auto_commit_interval_ms=3_600_000)
        with stopping(second):
            kafka.wait_until(lambda: owned([first, second]) == [[0], [1]])
            assert {part.at.partition: part.committed for part in kafka.group(GROUP).partitions}[
                0
            ] == 2
            kafka.produce("topic1", ["3"], partition=0)
            kafka.produce("topic1", ["4"], partition=1)
            kafka.wait_until(lambda: len(first.read) + len(second.read) == 4)
        kinds = [cause.split(":")[0] for cause in first.causes]
        assert kinds[:3] == ["assigned", "revoked", "assigned"], "all was given back in between"
    values = sorted(message.value for message in [*first.read, *second.read])
    assert values == [b"1", b"2", b"3", b"4"], "nothing came twice"


def test_what_was_not_committed_is_read_twice_after_a_rebalance(kafka: Kafka) -> None:
    kafka.create_topic("topic1", 1)
    kafka.produce("topic1", ["1", "2", "3"])
    first = TourMember(kafka, GROUP, "first", "topic1", enable_auto_commit=False)
    with stopping(first):
        kafka.wait_until(lambda: len(first.read) == 3)
    second = TourMember(kafka, GROUP, "second", "topic1", enable_auto_commit=False)
    with stopping(second):
        kafka.wait_until(lambda: len(second.read) == 3)


def test_a_rebalance_is_told_with_its_cause_its_phases_and_its_generation(kafka: Kafka) -> None:
    kafka.create_topic("topic1", 2)
    first = TourMember(kafka, GROUP, "first", "topic1")
    with stopping(first):
        kafka.wait_until(lambda: owned([first]) == [[0, 1]])
        second = TourMember(kafka, GROUP, "second", "topic1")
        with stopping(second):
            kafka.wait_until(lambda: owned([first, second]) == [[0], [1]])
            entries = kafka.group(GROUP).rebalances
            assert kafka.group(GROUP).generation == entries[-1].generation > entries[0].generation
            assert all(entry.join_ms >= 0 and entry.sync_ms >= 0 for entry in entries)
            assert "second" in " ".join(kafka.rebalance_history(GROUP)[-1].causes)


def test_the_states_of_a_consumer_are_seen(kafka: Kafka) -> None:
    """Down, discovering, in a group, stopped: under their names in `Consumer.state`.

    A request is held until its state was seen, for less time than a client waits for a response.
    """
    kafka.create_topic("topic1")
    held_ms = 20_000
    kafka.slow(held_ms, api="JoinGroup")
    ended = threading.Event()
    with barnabas.sync.Consumer(
        "topic1",
        bootstrap_servers=kafka.bootstrap_servers,
        group_id=GROUP,
        group_protocol="classic",
    ) as consumer:
        seen = [consumer.state]

        def poll() -> None:
            while not ended.is_set():
                consumer.getmany(timeout=0.05)

        def see(state: str) -> None:
            def look() -> bool:
                if (now := consumer.state) != seen[-1]:
                    seen.append(now)
                return now == state

            kafka.wait_until(look, otherwise=lambda: f"{seen}, not {state}")

        polling = threading.Thread(target=poll)
        polling.start()
        try:
            see("joining")
            kafka.heal()
            kafka.slow(held_ms, api="SyncGroup")
            kafka.clock.advance(milliseconds=held_ms)
            see("syncing")
            kafka.heal()
            kafka.clock.advance(milliseconds=held_ms)
            see("stable")
        finally:
            ended.set()
            polling.join()
    seen.append(consumer.state)
    assert [each for each in seen if each != "describing"] == [
        "unjoined", "joining", "syncing", "stable", "closed",
    ]  # fmt: skip


@pytest.mark.kafka(brokers=3, settings={"offsets.topic.num.partitions": 12})
def test_every_broker_coordinates_some_groups_and_every_broker_knows_which(kafka: Kafka) -> None:
    """Group ids are unique in the cluster, and a group is not of one topic."""
    kafka.create_topic("one", 1)
    kafka.create_topic("two", 1)
    coordinators = set()
    for number in range(8):
        group = f"group-{number}"
        with barnabas.sync.Consumer(
            "one", "two", bootstrap_servers=kafka.bootstrap_servers, group_id=group,
            auto_offset_reset="earliest",
        ) as consumer:  # fmt: skip
            kafka.wait_until(lambda: consumer.getmany(timeout=0.05) or consumer.assignment())
            assert [at.topic for at in consumer.assignment()] == ["one", "two"]
            coordinator = kafka.coordinator_of(group)
            of_offsets = kafka.admin.topic("__consumer_offsets").partitions
            assert of_offsets[partition_of(group, 12)].leader == coordinator
            coordinators.add(coordinator)
            for server in kafka.bootstrap_servers.split(","):
                with barnabas.sync.Admin(bootstrap_servers=server) as admin:
                    known = admin.group_report(group).coordinator
                    assert known.startswith(f"{coordinator} (")
    assert coordinators == {1, 2, 3}


@pytest.mark.kafka(brokers=3, settings={"offsets.topic.replication.factor": 3})
def test_a_group_goes_on_when_its_coordinator_is_killed(kafka: Kafka) -> None:
    """No rebalance, no callback: the members look for the next coordinator meanwhile."""
    kafka.create_topic("topic1", 2, replicas=3)
    kafka.produce("topic1", ["1"], partition=0)
    member = TourMember(kafka, GROUP, "member", "topic1")
    with stopping(member):
        kafka.wait_until(lambda: len(member.read) == 1)
        kafka.wait_for_lag(GROUP)
        before, told = kafka.group(GROUP).generation, list(member.causes)
        killed = kafka.kill(coordinator_of=GROUP)
        kafka.produce("topic1", ["2"], partition=1)
        kafka.wait_until(lambda: len(member.read) == 2)
        kafka.wait_for_lag(GROUP)
        assert kafka.group(GROUP).generation == before
        assert kafka.coordinator_of(GROUP) != killed
        assert member.causes == told


def test_a_member_is_refused_by_the_coordinator_after_its_session(kafka: Kafka) -> None:
    kafka.create_topic("topic1")
    kafka.produce("topic1", ["1"])
    with barnabas.sync.Consumer(
        "topic1", bootstrap_servers=kafka.bootstrap_servers, group_id=GROUP,
        auto_offset_reset="earliest", enable_auto_commit=False, group_protocol="classic",
        heartbeat_interval_ms=600_000, session_timeout_ms=1_800_000,  # the commit comes first
    ) as consumer:  # fmt: skip
        message = consumer.getone(timeout=WAIT_S)
        kafka.expire(GROUP)
        with pytest.raises(Fenced) as refused:
            consumer.commit(message)
        assert refused.value.code is Code.UNKNOWN_MEMBER_ID
        assert "session" in str(refused.value)


def test_order_is_kept_in_a_partition_and_not_between_partitions(kafka: Kafka) -> None:
    kafka.create_topic("topic1", 2)
    for number in range(20):
        kafka.produce("topic1", [str(number)], partition=number % 2)
    member = TourMember(kafka, GROUP, "member", "topic1")
    with stopping(member):
        kafka.wait_until(lambda: len(member.read) == 20)
    for partition in (0, 1):
        of_one = [int(each.value) for each in member.read if each.partition == partition]
        assert of_one == sorted(of_one) == [*range(partition, 20, 2)]
    assert [int(each.value) for each in member.read] != [*range(20)], "the topic has no order"


@pytest.mark.parametrize("asked", ["Heartbeat", "OffsetCommit"])
def test_a_coordinator_that_is_away_for_a_moment_is_asked_again(kafka: Kafka, asked: str) -> None:
    kafka.create_topic("topic1")
    kafka.produce("topic1", ["1"])
    member = TourMember(kafka, GROUP, "member", "topic1")
    with stopping(member):
        kafka.wait_until(lambda: len(member.read) == 1)
        found = looked_up(kafka)
        kafka.fail(asked, "NOT_COORDINATOR", times=1)
        kafka.produce("topic1", ["2"])
        kafka.wait_until(lambda: looked_up(kafka) > found and len(member.read) == 2)
        assert [cause for cause in member.causes if cause.startswith("lost")] == []


def looked_up(kafka: Kafka) -> float:
    return requests(kafka, "FindCoordinator")


def requests(kafka: Kafka, api: str) -> float:
    """None has no line."""
    return sum(
        float(line.rsplit(" ", 1)[1])
        for line in kafka.metrics().splitlines()
        if line.startswith(f'barnabas_requests_total{{api="{api}"}}')
    )


def test_a_deleted_group_is_dead_to_its_members(kafka: Kafka) -> None:
    kafka.create_topic("topic1")
    kafka.produce("topic1", ["1"])
    with barnabas.sync.Consumer(
        "topic1", bootstrap_servers=kafka.bootstrap_servers, group_id=GROUP,
        auto_offset_reset="earliest",
    ) as consumer:  # fmt: skip
        consumer.getone(timeout=WAIT_S)
        with pytest.raises(KafkaError) as refused:
            kafka.admin.delete_group(GROUP)
        assert refused.value.code is Code.NON_EMPTY_GROUP
    kafka.wait_until(lambda: kafka.group(GROUP).state == "Empty")
    assert kafka.group(GROUP).partitions[0].committed == 1, "an empty group keeps its offsets"
    kafka.admin.delete_group(GROUP)
    assert GROUP not in kafka.groups()


def test_callbacks_keep_offsets_elsewhere_over_a_rebalance(kafka: Kafka) -> None:
    """As the redesign wants it: the user's own state is stored and found at each rebalance."""
    kafka.create_topic("topic1")
    kafka.produce("topic1", [str(n) for n in range(5)])
    store: dict[str, int] = {}
    for expected in ([0, 1], [2, 3, 4]):
        read: list[int] = []

        def assigned(consumer: object, partitions: object, cause: object) -> None:
            consumer.seek(("topic1", 0), store.get("next", 0))  # type: ignore[attr-defined]

        def revoked(consumer: object, partitions: object, cause: object) -> None:
            store["next"] = read[-1] + 1  # noqa: B023

        with barnabas.sync.Consumer(
            "topic1", bootstrap_servers=kafka.bootstrap_servers, group_id=GROUP,
            enable_auto_commit=False, on_assigned=assigned, on_revoked=revoked,
        ) as consumer:  # fmt: skip
            while len(read) < len(expected):
                read.append(consumer.getone(timeout=WAIT_S).offset)
        assert read == expected
