"""Delivery at the time in a header, through kills and with bad input."""

import asyncio
import json
import random
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Producer

import barnabas
from barnabas.client.consumer.message import RawMessage
from barnabas.client.delay.held_payloads import HeldPayloads
from barnabas.client.workers.dead_letter_headers import CUT, trail_in
from barnabas.model.errors import KafkaError
from barnabas.model.ids import TopicPartition
from tests.cli.command import barnabas as command
from tests.client_e2e.conftest import OPTIONS, OwnBroker, Served
from tests.client_e2e.delaying import (
    DelayedSend,
    DelayerProcess,
    committed,
    count,
    delayer,
    now_ms,
    send,
)
from tests.conftest import StartBroker
from tests.waiting import WAIT_S

RECORDS = 200
SPREAD_MS = 4_000
DAY_MS = 86_400_000


def origin(message: RawMessage) -> str:
    (found,) = (value for name, value in message.headers if name == "barnabas.delivered-from")
    assert found is not None
    return found.decode()


async def delivered(servers: str, topic: str, least: int) -> list[RawMessage]:
    async with asyncio.timeout(WAIT_S):
        while True:
            try:
                found = await committed(servers, topic)
            except KafkaError:  # the broker is being restarted
                found = []
            if len(found) >= least:
                return found
            await asyncio.sleep(0.05)


async def test_each_record_is_delivered_once_in_time_order_whatever_is_killed(
    own_broker: OwnBroker, tmp_path: Path, topic: str
) -> None:
    servers, holding = own_broker.bootstrap_servers, f"{topic}-later"
    async with barnabas.Admin(bootstrap_servers=servers) as admin:
        await admin.create_topic(topic, partitions=2)
        await admin.create_topic(holding, partitions=2, configs={"retention.ms": "-1"})
    chance = random.Random(7)
    dues = {f"v{number}": now_ms() + chance.randrange(SPREAD_MS) for number in range(RECORDS)}
    send(
        servers,
        holding,
        [DelayedSend(value, str(due), topic, f"key-{value}") for value, due in dues.items()],
    )
    log = tmp_path / "delayer.log"
    with ExitStack() as running:
        killed = [DelayerProcess(servers, log, [holding]) for _ in range(2)]
        for each in killed:
            running.callback(each.kill)
        await delivered(servers, topic, RECORDS // 8)
        killed[0].kill()
        last = running.enter_context(delayer(servers, tmp_path / "last.log", holding))
        await delivered(servers, topic, RECORDS // 4)
        own_broker.kill()
        own_broker.start()
        killed[1].kill()
        await delivered(servers, topic, RECORDS)
        last.check_running()
    found = await committed(servers, topic)
    assert Counter(one.value.decode() for one in found if one.value) == Counter(dues.keys())
    assert all(one.timestamp >= dues[(one.value or b"").decode()] for one in found), "early"
    check_order(found, dues)
    assert await count(servers, f"{holding}.dlq") == 0


def check_order(found: list[RawMessage], dues: dict[str, int]) -> None:
    """All were read before the first was delivered: so the order has no exceptions."""
    last: dict[tuple[int, str], tuple[int, int]] = {}
    for message in found:
        _, partition, offset = origin(message).split(":")
        place = (dues[(message.value or b"").decode()], int(offset))
        line = (message.partition, partition)
        assert last.get(line, (0, 0)) < place, (line, last[line], place)
        last[line] = place


async def test_a_record_that_cannot_be_delivered_becomes_a_dead_letter_with_its_cause(
    served: Served, tmp_path: Path, topic: str
) -> None:
    servers, holding, small = served.bootstrap_servers, f"{topic}-later", f"{topic}-small"
    gone = f"{topic}-gone"
    async with barnabas.Admin(bootstrap_servers=servers) as admin:
        await admin.create_topic(topic, partitions=1)
        await admin.create_topic(gone, partitions=1)
        await admin.create_topic(small, partitions=1, configs={"max.message.bytes": "1000"})
        await admin.create_topic(holding, partitions=1, configs={"retention.ms": "-1"})
    at = str(now_ms())
    bad = {
        "soon": (DelayedSend("soon", "tomorrow", topic), "deliver-at = 'tomorrow' is not a time"),
        "negative": (DelayedSend("negative", "-5", topic), "deliver-at = '-5' is not a time"),
        "huge": (DelayedSend("huge", "9" * 30, topic), "is not a time in milliseconds"),
        "far": (DelayedSend("far", str(now_ms() + 9 * DAY_MS), topic), "more than 7 days ahead"),
        "timeless": (DelayedSend("timeless", None, topic), "no header deliver-at"),
        "targetless": (DelayedSend("targetless", at, None), "no header deliver-to"),
        "odd": (DelayedSend("odd", at, "no/topic"), "is not the name of a topic"),
        "itself": (DelayedSend("itself", at, holding), "is a topic of the delayer itself"),
        "internal": (DelayedSend("internal", at, "__consumer_offsets"), "is an internal topic"),
        "missing": (DelayedSend("missing", at, f"{topic}-nope"), "UNKNOWN_TOPIC_OR_PARTITION"),
        "deleted": (DelayedSend("deleted", at, gone), "UNKNOWN_TOPIC_OR_PARTITION"),
        "x" * 3_000: (DelayedSend("x" * 3_000, at, small), "MESSAGE_TOO_LARGE"),
    }
    good = [DelayedSend(f"good-{number}", at, topic) for number in range(20)]
    fitting = [DelayedSend(f"fits-{number}", at, small) for number in range(20)]
    records = [record for record, _ in bad.values()]
    send(servers, holding, [*good[:10], *fitting[:10], *records, *good[10:], *fitting[10:]])
    async with barnabas.Admin(bootstrap_servers=servers) as admin:
        await admin.delete_topic(gone)
    with delayer(servers, tmp_path / "log", holding):
        letters = await delivered(servers, f"{holding}.dlq", len(bad))
        assert len(await delivered(servers, topic, len(good))) == len(good)
        assert len(await delivered(servers, small, len(fitting))) == len(fitting)
        async with barnabas.Admin(bootstrap_servers=servers) as admin:
            await admin.create_topic(f"{topic}-nope", partitions=1)
        redriven = ("dlq", "redrive", f"{holding}.dlq", "--cause", f"{topic}-nope")
        assert command(*redriven, servers=servers).code == 0
        (late,) = await delivered(servers, f"{topic}-nope", 1)
        assert late.value == b"missing"
    assert len(letters) == len(bad)
    for letter in letters:
        trail = trail_in(letter.headers)
        assert trail is not None
        assert bad[(letter.value or b"").decode()][1] in trail.cause
        assert trail.origin.topic == holding


async def test_an_open_transaction_in_the_holding_topic_makes_nothing_come_twice(
    served: Served, tmp_path: Path, topic: str
) -> None:
    """A delayer that starts cannot read behind it, and still knows what was delivered."""
    servers, holding = served.bootstrap_servers, f"{topic}-later"
    async with barnabas.Admin(bootstrap_servers=servers) as admin:
        await admin.create_topic(topic, partitions=1)
        await admin.create_topic(holding, partitions=1, configs={"retention.ms": "-1"})
    far = str(now_ms() + DAY_MS)
    send(servers, holding, [DelayedSend("pending", far, topic)])
    other = Producer(
        {
            "bootstrap.servers": servers,
            "transactional.id": topic,
            "transaction.timeout.ms": 600_000,
        }
    )
    other.init_transactions()
    other.begin_transaction()
    headers: list[tuple[str, str | bytes | None]] = [("deliver-at", "0"), ("deliver-to", topic)]
    with delayer(servers, tmp_path / "first.log", holding):
        send(servers, holding, [DelayedSend("before", "0", topic)])
        await delivered(servers, topic, 1)
        other.produce(holding, "within", headers=headers)
        other.flush(WAIT_S)
        send(servers, holding, [DelayedSend("behind", "0", topic)])
    with delayer(servers, tmp_path / "second.log", holding):
        other.commit_transaction()
        found = await delivered(servers, topic, 3)
    assert [one.value for one in found] == [b"before", b"within", b"behind"]
    listed = command("delay", "ls", holding, "-J", servers=servers)
    assert [json.loads(line)["value"] for line in listed.out.splitlines()] == ["pending"]


async def test_payloads_that_were_not_kept_are_read_again(served: Served, topic: str) -> None:
    """Those that somebody has deleted are known to be gone."""
    servers = served.bootstrap_servers
    async with barnabas.Admin(bootstrap_servers=servers) as admin:
        await admin.create_topic(topic, partitions=1)
        send(servers, topic, [DelayedSend(f"v{number}", "0", "t", "k") for number in range(30)])
        await admin.delete_records({TopicPartition(topic, 0): 10})
    settings = {"bootstrap.servers": servers, "auto.offset.reset": "earliest"}
    payloads = HeldPayloads(TopicPartition(topic, 0), settings, size_max=0)
    try:
        found = await payloads.get([3, 25, 10, 11])
        async with barnabas.Admin(bootstrap_servers=servers) as admin:
            await admin.delete_records({TopicPartition(topic, 0): -1})
        assert (await payloads.get([29]))[29].gone
    finally:
        await payloads.close()
    assert {offset: payload.value for offset, payload in found.items()} == {
        3: None,
        10: b"v10",
        11: b"v11",
        25: b"v25",
    }
    assert [offset for offset, payload in found.items() if payload.gone] == [3]
    assert found[10].headers == (("deliver-at", b"0"), ("deliver-to", b"t"))


async def test_a_letter_that_is_too_large_leaves_its_headers(
    served: Served, tmp_path: Path, topic: str
) -> None:
    servers, holding = served.bootstrap_servers, f"{topic}-later"
    async with barnabas.Admin(bootstrap_servers=servers) as admin:
        await admin.create_topic(holding, partitions=1, configs={"retention.ms": "-1"})
        limits = {"max.message.bytes": "1000"}
        await admin.create_topic(f"{holding}.dlq", partitions=1, configs=limits)
    send(servers, holding, [DelayedSend("x" * 5_000, "soon", topic)])
    with delayer(servers, tmp_path / "log", holding):
        (letter,) = await delivered(servers, f"{holding}.dlq", 1)
    assert letter.value is None
    assert (CUT, b"5000") in letter.headers


@pytest.mark.plain
async def test_a_topic_that_the_delayer_may_not_write_gives_dead_letters(
    start_broker: StartBroker, tmp_path: Path, topic: str
) -> None:
    """The others are delivered."""
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    allowed = {"allow.everyone.if.no.acl.found": "true"}
    broker = start_broker({**OPTIONS, **allowed, "authorizer.class.name": authorizer})
    servers, holding, secret = broker.bootstrap_servers, f"{topic}-later", f"{topic}-secret"
    async with barnabas.Admin(bootstrap_servers=servers) as admin:
        await admin.create_topic(topic, partitions=1)
        await admin.create_topic(secret, partitions=1)
        await admin.create_topic(holding, partitions=1, configs={"retention.ms": "-1"})
    ended = command("acl", "deny", "ANONYMOUS", "write", f"topic:{secret}", servers=servers)
    assert ended.code == 0, ended.err
    at = str(now_ms())
    send(servers, holding, [DelayedSend("no", at, secret), DelayedSend("yes", at, topic)])
    with delayer(servers, tmp_path / "log", holding):
        (letter,) = await delivered(servers, f"{holding}.dlq", 1)
        assert len(await delivered(servers, topic, 1)) == 1
    trail = trail_in(letter.headers)
    assert trail is not None
    assert "TOPIC_AUTHORIZATION_FAILED" in trail.cause


async def test_topics_with_the_option_are_served_also_later_ones(
    start_broker: StartBroker, tmp_path: Path, topic: str
) -> None:
    broker = start_broker(OPTIONS)
    servers = broker.bootstrap_servers
    running = DelayerProcess(servers, tmp_path / "log", [])
    try:
        async with barnabas.Admin(bootstrap_servers=servers) as admin:
            await admin.create_topic(topic, partitions=1)
            marked = {"barnabas.scheduler": "true"}
            with pytest.raises(KafkaError, match=r"requires retention\.ms = -1"):
                await admin.create_topic("refused", partitions=1, configs=marked)
            for number in range(2):
                name = f"{topic}-{number}"
                kept = {**marked, "retention.ms": "-1"}
                await admin.create_topic(name, partitions=1, configs=kept)
                send(servers, name, [DelayedSend(name, "0", topic)])
                found = await delivered(servers, topic, number + 1)
                assert found[-1].value == name.encode()
        listed = command("delay", "ls", "-J", servers=servers)
        assert [json.loads(line)["topic"] for line in listed.out.splitlines()] == [
            f"{topic}-0",
            f"{topic}-1",
        ]
        assert running.stop() == 0, running.said
    finally:
        running.kill()


async def test_pending_records_are_listed_and_cancelled(
    served: Served, tmp_path: Path, topic: str
) -> None:
    servers, holding = served.bootstrap_servers, f"{topic}-later"
    async with barnabas.Admin(bootstrap_servers=servers) as admin:
        await admin.create_topic(topic, partitions=1)
        await admin.create_topic(holding, partitions=1, configs={"retention.ms": "-1"})
    due = str(now_ms() + DAY_MS)
    names = ("first", "second", "third")
    send(servers, holding, [DelayedSend(name, due, topic, f"key-{name}") for name in names])
    listed = command("delay", "ls", holding, "--output", "csv", servers=servers)
    assert [line.split(",")[0] for line in listed.out.splitlines()[1:]] == ["0:0", "0:1", "0:2"]
    early = command("delay", "cancel", holding, "0:0", "--timeout", "0", servers=servers)
    assert early.code == 4, early
    assert "no delayer" in early.err
    with delayer(servers, tmp_path / "log", holding):
        patient = ("--timeout", str(WAIT_S))
        ended = command("delay", "cancel", holding, "--key", "key-third", *patient, servers=servers)
        assert (ended.code, ended.out.split()[-2:]) == (0, ["0:2", "cancelled"]), ended
        again = command("delay", "cancel", holding, "0:2", servers=servers)
        assert again.code == 3
        assert "is not pending" in again.err
        wrong = command("delay", "cancel", holding, "all", servers=servers)
        assert wrong.code == 2
        now = command("delay", "ls", holding, "-J", servers=servers)
    assert "key-second" in now.out
    assert "key-first" not in now.out
    assert "key-third" not in now.out
    assert await count(servers, topic) == 0
