"""The consumer in its group, awaited and blocking, against both brokers."""

import asyncio
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from typing import Any

import pytest

import barnabas
import barnabas.sync
from barnabas.model.errors import Code, Fenced, InvalidRequest
from tests.client_e2e.conftest import Served
from tests.client_e2e.test_partition_consumer import filled, take, values
from tests.waiting import PROGRAM_S, WAIT_S

PROTOCOLS = ("classic", "consumer")
STRATEGIES = ("range", "roundrobin", "sticky", "cooperative-sticky")
SESSION_MS = 6_000  # the shortest that Kafka accepts by default
LIVES_MS = 15_000  # of a session that a busy machine does not end


class Heard:
    """Callbacks that remember: what happened, to which partitions, and why."""

    def __init__(self) -> None:
        self.log: list[tuple[str, list[int], barnabas.Cause]] = []

    def __getattr__(self, name: str) -> Any:
        def heard(consumer: Any, partitions: list[Any], cause: barnabas.Cause) -> None:
            assert consumer.assignment() is not None
            self.log.append((name, [at.partition for at in partitions], cause))

        return heard

    @property
    def kinds(self) -> list[str]:
        return [f"{name}:{cause.kind}" for name, _, cause in self.log]


def member(served: Served, topic: Any, group: str, heard: Heard | None = None, **more: Any) -> Any:
    heard = heard or Heard()
    options = {"auto_offset_reset": "earliest", "heartbeat_interval_ms": 200, **more}
    return barnabas.Consumer(
        topic,
        bootstrap_servers=served.bootstrap_servers,
        group_id=group,
        on_assigned=heard.assigned,
        on_revoked=heard.revoked,
        on_lost=heard.lost,
        **options,
    )


async def until(members: list[Any], shares: list[int]) -> None:
    """Poll all until they hold as many partitions each, in any order; messages are dropped."""

    async def all_of_them() -> None:
        while sorted(len(each.assignment()) for each in members) != sorted(shares):
            await asyncio.gather(*(each.getmany(timeout=0.1) for each in members))

    await asyncio.wait_for(all_of_them(), WAIT_S)


async def nobody_is_in(served: Served, group: str) -> None:
    async with barnabas.Admin(bootstrap_servers=served.bootstrap_servers) as admin:
        while (found := (await admin.describe_groups([group])).get(group)) and found.members:
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_consumer_goes_on_where_its_group_left_off(
    served: Served, topic: str, group: str, protocol: str
) -> None:
    await filled(served, topic, {0: 100, 1: 100})
    found: list[Any] = []
    for _ in range(2):
        heard = Heard()
        async with member(served, topic, group, heard, group_protocol=protocol) as consumer:
            async for message in consumer:
                found.append(message)
                if len(found) % 100 == 0:
                    break
        assert heard.kinds == ["assigned:joined", "revoked:closed"]
    assert Counter((m.partition, m.offset) for m in found) == Counter(
        (partition, offset) for partition in (0, 1) for offset in range(100)
    )


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_members_share_partitions_and_take_over(
    served: Served, topic: str, group: str, protocol: str
) -> None:
    await filled(served, topic, {0: 0, 5: 0})
    heard = Heard()
    first = member(served, topic, group, heard, group_protocol=protocol)
    await until([first], [6])
    second = member(served, topic, group, group_protocol=protocol)
    await until([first, second], [3, 3])
    assert not set(first.assignment()) & set(second.assignment())
    await second.close()
    await until([first], [6])
    await first.close()
    assert heard.kinds[0] == "assigned:joined"
    assert heard.kinds[-1] == "revoked:closed"
    assert all(str(cause) for _, _, cause in heard.log)


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_each_assignor_shares_out(
    served: Served, topic: str, group: str, strategy: str
) -> None:
    await filled(served, topic, {0: 0, 5: 0})
    options: dict[str, Any] = {"partition_assignment_strategy": strategy}
    heard = [Heard(), Heard(), Heard()]
    members = [member(served, topic, group, each, **options) for each in heard]
    await until(members, [2, 2, 2])
    await members.pop().close()
    await until(members, [3, 3])
    for each in members:
        await each.close()
    revoked = [len(partitions) for name, partitions, _ in heard[0].log if name == "revoked"]
    if strategy == "cooperative-sticky":
        assert [name for name, _, _ in heard[0].log][-2:] == ["assigned", "revoked"]
    else:
        assert 2 in revoked  # everything is handed back first


async def test_an_assignor_of_your_own(served: Served, topic: str, group: str) -> None:
    def all_to_the_first(members: Any, topics: Any) -> Any:
        everything = [
            barnabas.TopicPartition(name, number)
            for name, topic in topics.items()
            for number in range(topic.partitions)
        ]
        first = min(member.member_id for member in members)
        return {m.member_id: everything if m.member_id == first else [] for m in members}

    await filled(served, topic, {0: 0, 3: 0})
    own = [barnabas.Assignor("all-to-one", all_to_the_first)]
    members = [member(served, topic, group, assignors=own) for _ in range(2)]
    await until(members, [4, 0])
    for each in members:
        await each.close()
    with pytest.raises(InvalidRequest, match="did you mean roundrobin"):
        member(served, topic, group, assignors=["roundrobbin"])


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_topics_by_pattern(served: Served, topic: str, group: str, protocol: str) -> None:
    await filled(served, f"{topic}-a", {0: 3})
    options: dict[str, Any] = {"group_protocol": protocol, "metadata_max_age_ms": 500}
    async with member(served, re.compile(f"{topic}-[ab]"), group, **options) as consumer:
        assert len(await take(consumer, 3)) == 3
        await filled(served, f"{topic}-b", {0: 2})
        await filled(served, f"{topic}-c", {0: 9})
        found = await take(consumer, 2)
        assert {message.topic for message in found} == {f"{topic}-b"}
        assert [at.topic for at in consumer.assignment()] == [f"{topic}-a", f"{topic}-b"]


async def test_new_partitions_are_shared_out(served: Served, topic: str, group: str) -> None:
    await filled(served, topic, {0: 0})
    heard = Heard()
    async with member(served, topic, group, heard, metadata_max_age_ms=300) as consumer:
        await until([consumer], [1])
        async with barnabas.Admin(bootstrap_servers=served.bootstrap_servers) as admin:
            await admin.create_partitions(topic, 3)
        await until([consumer], [3])
    assert "has 3 partitions, it had 1" in str(heard.log[-2][2])


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_commits_by_message_by_hand_and_without_waiting(
    served: Served, topic: str, group: str, protocol: str
) -> None:
    await filled(served, topic, {0: 100})
    options: dict[str, Any] = {"group_protocol": protocol, "enable_auto_commit": False}
    async with member(served, topic, group, **options) as consumer:
        messages = await take(consumer, 20)
        await consumer.commit(messages[4])
        assert (await consumer.committed())[topic, 0].offset == 5
        await consumer.commit()
        assert (await consumer.committed())[topic, 0].offset == 20
        await consumer.commit_nowait({(topic, 0): 30})
        assert (await consumer.committed())[topic, 0].offset == 30
    async with member(served, topic, group, **options) as consumer:
        assert values(await take(consumer, 1)) == [30]


async def test_positions_are_committed_now_and_then(served: Served, topic: str, group: str) -> None:
    await filled(served, topic, {0: 10})
    options: dict[str, Any] = {"auto_commit_interval_ms": 50}
    async with member(served, topic, group, **options) as consumer:
        await take(consumer, 10)

        async def committed() -> None:
            while (await consumer.committed()) != {(topic, 0): barnabas.Committed(10, 0)}:
                await consumer.getmany(timeout=0.1)

        await asyncio.wait_for(committed(), WAIT_S)


async def test_the_message_at_which_a_reader_failed_comes_again(
    served: Served, topic: str, group: str
) -> None:
    async def reads() -> None:
        async with member(served, topic, group) as consumer:
            async for message in consumer:
                if message.offset == 4:
                    raise ZeroDivisionError

    await filled(served, topic, {0: 10})
    with pytest.raises(ZeroDivisionError):
        await reads()
    async with member(served, topic, group) as consumer:
        assert values(await take(consumer, 1)) == [4]


async def test_a_batch_at_which_a_reader_failed_comes_again(
    served: Served, topic: str, group: str
) -> None:
    async def reads() -> None:
        async with member(served, topic, group) as consumer:
            await consumer.getmany(2)
            await consumer.getmany(2)
            raise ZeroDivisionError

    await filled(served, topic, {0: 10})
    with pytest.raises(ZeroDivisionError):
        await reads()
    async with member(served, topic, group) as consumer:
        assert values(await take(consumer, 1)) == [2]


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_member_that_does_not_poll_leaves_and_says_so(
    served: Served, topic: str, group: str, protocol: str
) -> None:
    await filled(served, topic, {0: 5})
    heard = Heard()
    slow_options = {"max_poll_interval_ms": 3_000, "group_protocol": protocol}
    async with member(served, topic, group, heard, **slow_options) as slow:
        [first] = await take(slow, 1)
        # It leaves by itself, before anybody could wait for it.
        await asyncio.wait_for(nobody_is_in(served, group), WAIT_S)
        async with member(served, topic, group, group_protocol=protocol) as other:
            assert values(await take(other, 1)) == [0]
            with pytest.raises(Fenced) as refused:
                await slow.commit(first)
            assert "max.poll.interval.ms" in str(refused.value)
            assert "oll for messages" in str(refused.value)
            assert refused.value.code in (
                Code.UNKNOWN_MEMBER_ID, Code.ILLEGAL_GENERATION, Code.FENCED_MEMBER_EPOCH
            )  # fmt: skip

        async def back() -> None:
            while heard.kinds[-1] != "assigned:joined" or len(heard.log) < 3:
                await slow.getmany(timeout=0.1)

        await asyncio.wait_for(back(), WAIT_S)
    lost = [cause for name, _, cause in heard.log if name == "lost"]
    assert {cause.kind for cause in lost} == {"slow"}
    assert "max.poll.interval.ms" in str(lost[0])


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_static_member_finds_its_place_again(
    served: Served, topic: str, group: str, protocol: str
) -> None:
    await filled(served, topic, {0: 0, 3: 0})
    options: dict[str, Any] = {"group_protocol": protocol}
    members = [
        member(served, topic, group, group_instance_id=name, **options) for name in ("a", "b")
    ]
    await until(members, [2, 2])
    heard = Heard()
    before = members[0].assignment()
    await members[0].close()
    members[0] = member(served, topic, group, heard, group_instance_id="a", **options)
    await until(members, [2, 2])
    assert members[0].assignment() == before
    assert len(heard.log) == 1
    for each in members:
        await each.close()


async def test_two_with_one_instance_id_are_one_too_many(
    served: Served, topic: str, group: str
) -> None:
    await filled(served, topic, {0: 0})
    first = member(served, topic, group, group_instance_id="same")
    await until([first], [1])
    second = member(served, topic, group, group_instance_id="same")
    await until([second], [1])
    with pytest.raises(Fenced, match=r"give every member its own group\.instance\.id"):
        await until([first], [0])
    for each in (first, second):
        await each.close()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_blocking_member_shares_with_an_awaiting_one(
    served: Served, topic: str, group: str, protocol: str
) -> None:
    asyncio.run(filled(served, topic, {0: 10, 1: 10}))
    heard = Heard()
    with barnabas.sync.Consumer(
        topic,
        {"bootstrap.servers": served.bootstrap_servers, "group.id": group},
        auto_offset_reset="earliest",
        group_protocol=protocol,
        heartbeat_interval_ms=200,
        on_assigned=heard.assigned,
        on_revoked=heard.revoked,
    ) as blocking:
        found = [next(blocking) for _ in range(20)]
        assert len(found) == 20

        async def awaiting() -> None:
            async with member(served, topic, group, group_protocol=protocol) as other:
                while len(other.assignment()) != 1:
                    await other.getmany(timeout=0.1)
                    await asyncio.to_thread(blocking.getmany, timeout=0.1)

        asyncio.run(asyncio.wait_for(awaiting(), WAIT_S))
        while len(blocking.assignment()) != 2:
            blocking.getmany(timeout=0.1)
        assert blocking.generation > 0
    assert "assigned:joined" in heard.kinds


def test_a_blocking_member_lives_while_its_reader_works(
    served: Served, topic: str, group: str
) -> None:
    """Longer than its session would last without heartbeats."""
    asyncio.run(filled(served, topic, {0: 2}))
    heard = Heard()
    with barnabas.sync.Consumer(
        topic,
        bootstrap_servers=served.bootstrap_servers,
        group_id=group,
        auto_offset_reset="earliest",
        session_timeout_ms=LIVES_MS,
        heartbeat_interval_ms=300,
        on_lost=heard.lost,
    ) as consumer:
        message = consumer.getone(timeout=WAIT_S)
        generation = consumer.generation
        worked_until = time.monotonic() + LIVES_MS / 1000 + 0.5
        while time.monotonic() < worked_until:
            time.sleep(0.1)  # the work
        consumer.commit(message)
        assert consumer.generation == generation
    assert heard.log == []


async def test_the_share_of_a_member_that_was_killed_goes_to_the_others(
    served: Served, topic: str, group: str
) -> None:
    await filled(served, topic, {0: 50, 3: 50})
    program = f"""
import barnabas.sync
with barnabas.sync.Consumer({topic!r}, bootstrap_servers={served.bootstrap_servers!r},
    group_id={group!r}, auto_offset_reset="earliest", session_timeout_ms={SESSION_MS},
    heartbeat_interval_ms=200) as consumer:
    while True:
        if consumer.getmany(timeout=0.1):
            print("reading", flush=True)
"""
    killed = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        assert killed.stdout is not None
        assert await asyncio.to_thread(killed.stdout.readline) == b"reading\n"
        survivor = member(served, topic, group, session_timeout_ms=SESSION_MS)
        await until([survivor], [2])
        killed.send_signal(signal.SIGKILL)
        await until([survivor], [4])
        await survivor.close()
    finally:
        killed.kill()
        killed.wait()
        assert killed.stdout is not None
        killed.stdout.close()


def test_a_consumer_that_is_not_closed_neither_warns_nor_hangs(
    served: Served, topic: str, group: str
) -> None:
    asyncio.run(filled(served, topic, {0: 3}))
    program = f"""
import asyncio, gc, logging, sys
import barnabas, barnabas.sync
logging.basicConfig(level=logging.WARNING)
options = dict(bootstrap_servers={served.bootstrap_servers!r}, auto_offset_reset="earliest",
               heartbeat_interval_ms=50)
async def forgotten(group):
    consumer = barnabas.Consumer({topic!r}, group_id=group, **options)
    await consumer.getone()
    await asyncio.sleep(0.2)
asyncio.run(forgotten({group!r}))
gc.collect()
loop = asyncio.new_event_loop()
loop.run_until_complete(forgotten({group!r} + "1"))
loop.close()
gc.collect()
consumer = barnabas.sync.Consumer({topic!r}, group_id={group!r} + "2", **options)
consumer.getone()
del consumer
gc.collect()
print("fine")
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True, text=True, timeout=PROGRAM_S, check=False,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("fine\n", "")


async def test_a_consumer_without_what_it_needs_says_so(served: Served) -> None:
    for arguments, options, said in (
        (("t",), {}, r"set group\.id"),
        ((), {"group_id": "g"}, "nothing to read"),
        (("t", "^u.*"), {"group_id": "g"}, "not to both"),
        (("^(",), {"group_id": "g"}, "topic pattern"),
        (("a b",), {"group_id": "g"}, "topic name 'a b'"),
        (("t",), {"group_id": "g", "gruop_instance_id": "x"}, r"group\.instance\.id"),
        (("t",), {"group_id": "g", "heartbeat_interval_ms": 50_000}, r"session\.timeout\.ms"),
        (("t",), {"group_id": "g", "auto_offset_reset": "soonest"}, "'soonest'"),
    ):
        with pytest.raises(InvalidRequest, match=said):
            await barnabas.Consumer(
                *arguments, bootstrap_servers=served.bootstrap_servers, **options
            ).getmany(timeout=1)


async def test_a_closed_consumer_gives_nothing(served: Served, topic: str, group: str) -> None:
    consumer = member(served, topic, group)
    await consumer.close()
    await consumer.close()
    with pytest.raises(InvalidRequest, match="the consumer is closed"):
        await consumer.getmany()


async def test_an_unreachable_cluster_is_reported_once_and_quickly() -> None:
    consumer = barnabas.Consumer("t", group_id="g", bootstrap_servers="127.0.0.1:1")
    started = time.monotonic()
    with pytest.raises(barnabas.Retriable, match=r"no broker at 127\.0\.0\.1:1"):
        await consumer.getmany()
    assert time.monotonic() - started < WAIT_S / 2
    await consumer.close()


async def test_callbacks_may_seek_and_may_fail(served: Served, topic: str, group: str) -> None:
    await filled(served, topic, {0: 30})
    calls = 0

    async def assigned(consumer: Any, partitions: list[Any], cause: barnabas.Cause) -> None:
        nonlocal calls
        calls += 1
        for at in partitions:
            await consumer.seek(at, 25)
        raise ZeroDivisionError

    async with barnabas.Consumer(
        topic, bootstrap_servers=served.bootstrap_servers, group_id=group, on_assigned=assigned
    ) as consumer:
        with pytest.raises(ZeroDivisionError):
            await consumer.getmany()
        assert values(await take(consumer, 5)) == [25, 26, 27, 28, 29]
    assert calls == 1
