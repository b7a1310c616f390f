"""`barnabas dlq` on letters that a worker left."""

import asyncio
import json

import pytest

import barnabas
from barnabas import Reject, Retry, parallel
from barnabas.client.aio import open_cluster
from barnabas.client.consumer.message import RawMessage
from barnabas.client.workers.dead_letters import DeadLetters, Filter
from barnabas.client.workers.letter_writer import LetterWriter
from barnabas.model.errors import Code, Retriable
from tests.cli.command import barnabas as command
from tests.client_e2e.conftest import Served

VALUES = [b"good-1", b"bad-1", b"bad-2", b"good-2", b"rejected", b"\xff\x00"]


async def produced(servers: str, topic: str, values: list[bytes]) -> None:
    async with barnabas.Producer(bootstrap_servers=servers) as producer:
        for number, value in enumerate(values):
            await producer.send(topic, value, key=b"k%d" % number, headers=[("trace", b"t1")])


async def worked(servers: str, topic: str, group: str, seen: list[bytes], until: int) -> None:
    """A worker, until it has seen so many records."""

    @parallel(topic, group_id=group, retry=Retry(1, backoff=(0.01, 0.01)), dlq=f"{topic}.dlq")
    async def handle(message: RawMessage) -> None:
        value = message.value or b""
        seen.append(value)
        if value.startswith(b"bad"):
            raise ValueError(f"{value.decode()}: no such customer")
        if value in (b"rejected", b"\xff\x00"):
            raise Reject("not an order")

    running = asyncio.create_task(handle.serve(bootstrap_servers=servers))
    while len(seen) < until:
        assert not running.done(), running.result()
        await asyncio.sleep(0.02)
    handle.stop()
    await running


@pytest.fixture
async def letters(served: Served, topic: str, group: str) -> str:
    """A dead-letter topic with four letters, two of them after two attempts."""
    async with barnabas.Admin(bootstrap_servers=served.bootstrap_servers) as admin:
        await admin.create_topic(topic, partitions=2)
    await produced(served.bootstrap_servers, topic, VALUES)
    await worked(served.bootstrap_servers, topic, group, [], until=8)
    return f"{topic}.dlq"


async def in_thread(*arguments: str, servers: str) -> tuple[int, list[dict[str, object]], str]:
    """Exit code, rows, standard error."""
    ended = await asyncio.to_thread(command, "dlq", *arguments, "-J", servers=servers)
    return ended.code, [json.loads(line) for line in ended.out.splitlines()], ended.err


async def test_letters_are_listed_shown_and_redriven_once(
    served: Served, topic: str, group: str, letters: str
) -> None:
    servers = served.bootstrap_servers
    code, rows, _ = await in_thread("ls", servers=servers)
    (mine,) = [row for row in rows if row["topic"] == letters]
    assert (code, mine["letters"], mine["left"]) == (0, 4, 4)
    assert (await in_thread("ls", "--max-left", "3", servers=servers))[0] == 6

    code, rows, _ = await in_thread("show", letters, servers=servers)
    assert code == 0
    shown = {str(row["value"]): row for row in rows}
    assert set(shown) == {"bad-1", "bad-2", "rejected", "\\xff\x00"}
    bad = shown["bad-1"]
    assert bad["cause"] == "ValueError: bad-1: no such customer"
    assert (bad["attempts"], bad["group"], bad["redriven"]) == (2, group, False)
    assert str(bad["origin"]).startswith(f"{topic}:")
    only = await in_thread("show", letters, "--cause", "BAD-2", servers=servers)
    assert [row["value"] for row in only[1]] == ["bad-2"]

    plan = await in_thread("redrive", letters, "--cause", "customer", "--dry-run", servers=servers)
    assert (plan[1][0]["letters"], plan[1][0]["redriven"]) == (2, 0)
    done = await in_thread("redrive", letters, "--cause", "customer", servers=servers)
    assert done[1][0]["redriven"] == 2
    again = await in_thread("redrive", letters, servers=servers)
    assert (again[1][0]["redriven"], again[1][0]["before"]) == (2, 2)
    nothing = await in_thread("redrive", letters, servers=servers)
    assert (nothing[0], nothing[1][0]["redriven"], nothing[1][0]["before"]) == (0, 0, 4)

    seen: list[bytes] = []
    await worked(servers, topic, group, seen, until=6)
    assert sorted(seen) == [b"bad-1", b"bad-1", b"bad-2", b"bad-2", b"rejected", b"\xff\x00"]
    _, rows, _ = await in_thread("ls", servers=servers)
    (mine,) = [row for row in rows if row["topic"] == letters]
    assert (mine["letters"], mine["redriven"], mine["left"]) == (8, 4, 4)


async def test_a_redrive_that_was_cut_off_is_finished_by_the_next(
    served: Served, topic: str, letters: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = served.bootstrap_servers
    cluster = open_cluster(None, {"bootstrap_servers": servers, "auto_offset_reset": "earliest"})
    send, sent = LetterWriter.send, 0

    async def cut_off(self: LetterWriter, letter: object) -> bool:
        nonlocal sent
        sent += 1
        if sent == 2:
            raise Retriable(Code.NETWORK_EXCEPTION, "the plug was pulled")
        return await send(self, letter)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(LetterWriter, "send", cut_off)
        with pytest.raises(Retriable, match="plug"):
            await DeadLetters(cluster).redrive(letters, Filter())
    assert await DeadLetters(cluster).redrive(letters, Filter()) == 4
    assert await DeadLetters(cluster).redrive(letters, Filter()) == 0
    cluster.close()
    async with barnabas.Admin(bootstrap_servers=servers) as admin:
        found = await admin.topic(topic)
        ends = await admin.offsets(
            {barnabas.TopicPartition(topic, one.number): -1 for one in found.partitions}
        )
    assert sum(end.offset for end in ends.values()) == len(VALUES) + 4


async def test_two_that_redrive_at_once_send_each_letter_once(
    served: Served, topic: str, letters: str
) -> None:
    servers = served.bootstrap_servers
    options = {"bootstrap_servers": servers, "auto_offset_reset": "earliest"}
    clusters = [open_cluster(None, options) for _ in range(3)]
    await asyncio.gather(
        *(DeadLetters(cluster).redrive(letters, Filter()) for cluster in clusters),
        return_exceptions=True,
    )
    await DeadLetters(clusters[0]).redrive(letters, Filter())
    async with barnabas.Admin(bootstrap_servers=servers) as admin:
        found = await admin.topic(topic)
        ends = await admin.offsets(
            {barnabas.TopicPartition(topic, one.number): -1 for one in found.partitions}
        )
    for cluster in clusters:
        cluster.close()
    assert sum(end.offset for end in ends.values()) == len(VALUES) + 4


async def test_wrong_use_has_its_own_exit_code(served: Served, topic: str) -> None:
    servers = served.bootstrap_servers
    code, _, err = await in_thread("show", f"{topic}-missing", servers=servers)
    assert code == 3
    assert topic in err
    assert (await in_thread("redrive", f"{topic}-missing", servers=servers))[0] == 3
    code, _, err = await in_thread("show", topic, "--since", "yesterday", servers=servers)
    assert code == 2
    assert "yesterday" in err
    async with barnabas.Admin(bootstrap_servers=servers) as admin:
        await admin.create_topic(f"{topic}.dlq", partitions=1)
    await produced(servers, f"{topic}.dlq", [b"of another program"])
    code, rows, _ = await in_thread("redrive", f"{topic}.dlq", servers=servers)
    assert (code, rows[0]["redriven"], rows[0]["no_origin"]) == (0, 0, 1)
    code, _, err = await in_thread("redrive", f"{topic}.dlq", "--to", topic, servers=servers)
    assert code == 3
    code, rows, _ = await in_thread(
        "redrive", f"{topic}.dlq", "--to", f"{topic}.dlq", servers=servers
    )
    assert (code, rows[0]["redriven"]) == (0, 1)
