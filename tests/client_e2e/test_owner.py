"""A client on an event loop, or in a process, that is not its own: refused, and closed quietly."""

import asyncio
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

import barnabas
import barnabas.sync
from tests.client_e2e.conftest import Served
from tests.client_e2e.test_consumer import Heard, member
from tests.client_e2e.test_partition_consumer import filled, reader_on
from tests.waiting import WAIT_S

OTHER_LOOP = "belongs to the event loop on which it was first used"
OTHER_PROCESS = "was made before this process was forked"


def on_a_second_loop(call: Callable[[], Any]) -> None:
    """While the first one is running: on a thread."""

    async def calling() -> None:
        with pytest.raises(barnabas.InvalidRequest, match=OTHER_LOOP):
            await call()

    asyncio.run(calling())


async def test_consumers_and_admin_refuse_a_second_loop(
    served: Served, topic: str, group: str
) -> None:
    await filled(served, topic, {0: 20})
    admin = barnabas.Admin(bootstrap_servers=served.bootstrap_servers)
    reader = reader_on(served, (topic, 0))
    grouped = member(served, topic, group)
    async with admin, reader, grouped:
        await admin.topics()
        await anext(reader)  # the rest of its batch is not handed out elsewhere either
        await anext(grouped)

        async def iterating() -> None:
            async for _ in reader:
                pass

        calls: list[Callable[[], Any]] = [
            admin.__aenter__,
            admin.topics,
            admin.close,
            iterating,
            reader.__aenter__,
            reader.getone,
            reader.getmany,
            reader.read_arrow,
            reader.end_offsets,
            lambda: reader.position((topic, 0)),
            lambda: reader.seek((topic, 0), 7),
            lambda: reader.seek_to_time((topic, 0), 0),
            reader.seek_to_beginning,
            reader.seek_to_end,
            reader.close,
            grouped.getone,
            grouped.getmany,
            grouped.commit,
            grouped.commit_nowait,
            grouped.committed,
            grouped.close,
        ]
        for call in calls:
            await asyncio.to_thread(on_a_second_loop, call)
        # None of this has harmed them where they belong.
        assert (await anext(reader)).offset == 1
        assert (await anext(grouped)).offset == 1
        await grouped.commit()
        assert topic in (await admin.topics()).topics


def test_a_client_whose_loop_was_closed_can_be_closed(
    served: Served, topic: str, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    made: list[Any] = []

    async def use() -> None:
        await filled(served, topic, {0: 5})
        made.append(barnabas.Admin(bootstrap_servers=served.bootstrap_servers))
        made.append(reader_on(served, (topic, 0)))
        made.append(member(served, topic, group))
        made.append(barnabas.Producer(bootstrap_servers=served.bootstrap_servers))
        await made[0].topics()
        await made[1].getone()
        await made[2].getone()
        await made[3].send(topic, b"5")

    asyncio.run(use())

    async def close() -> None:
        for each in made:
            await each.close()
            await each.close()

    with caplog.at_level(logging.WARNING, "barnabas.client"):
        asyncio.run(close())
    assert "was closed after its event loop" in caplog.text


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_blocking_clients_refuse_a_forked_child_which_leaves_its_parent_alone(
    served: Served, topic: str, group: str
) -> None:
    asyncio.run(filled(served, topic, {0: 20}))
    heard = Heard()
    servers: dict[str, Any] = {"bootstrap_servers": served.bootstrap_servers}
    reading: dict[str, Any] = {"auto_offset_reset": "earliest", **servers}
    with (
        barnabas.sync.Consumer(
            topic, group_id=group, on_lost=heard.lost, on_revoked=heard.revoked, **reading
        ) as grouped,
        barnabas.sync.PartitionConsumer([(topic, 0)], **reading) as reader,
        barnabas.sync.Admin(**servers) as admin,
        barnabas.sync.Producer(**servers) as producer,
    ):
        assert (next(grouped).offset, next(reader).offset) == (0, 0)
        admin.topics()
        producer.send(topic, b"20")
        generation = grouped.generation
        calls: dict[str, Callable[[], Any]] = {
            "next": lambda: next(grouped),
            "getone": lambda: grouped.getone(timeout=5),
            "getmany": lambda: grouped.getmany(timeout=5),
            "commit": grouped.commit,
            "commit_nowait": grouped.commit_nowait,
            "committed": grouped.committed,
            "next of partitions": lambda: next(reader),
            "read_arrow": lambda: reader.read_arrow(timeout=5),
            "end_offsets": reader.end_offsets,
            "position": lambda: reader.position((topic, 0)),
            "seek": lambda: reader.seek((topic, 0), 7),
            "topics": admin.topics,
            "send": lambda: producer.send(topic, b"from the child"),
        }
        assert in_a_child(calls, [grouped, reader, admin, producer]) == "all were refused"
        # The parent goes on with the next message, as the member that it was.
        assert (next(grouped).offset, next(reader).offset) == (1, 1)
        grouped.commit()
        assert grouped.generation == generation
        assert topic in admin.topics().topics
        assert producer.send(topic, b"21").offset == 21
        assert heard.log == []
    asyncio.run(asyncio.wait_for(still_used_nowhere(served, group), WAIT_S))


def in_a_child(calls: dict[str, Callable[[], Any]], clients: list[Any]) -> str:
    """What a forked child says of these calls; it closes all clients before it ends."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        said = "the child failed"
        with suppress(BaseException):
            said = refused(calls, clients)
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return said


def refused(calls: dict[str, Callable[[], Any]], clients: list[Any]) -> str:
    for name, call in calls.items():
        try:
            found = call()
        except barnabas.InvalidRequest as problem:
            if OTHER_PROCESS not in str(problem):
                return f"{name}: {problem}"
        except BaseException as problem:
            return f"{name}: {problem!r}"
        else:
            return f"{name} was answered: {found!r}"
    for client in clients:
        try:
            client.close()
        except BaseException as problem:
            return f"close of {client!r}: {problem!r}"
    return "all were refused"


async def still_used_nowhere(served: Served, group: str) -> None:
    """The parent's own close has left the group."""
    async with barnabas.Admin(bootstrap_servers=served.bootstrap_servers) as admin:
        while (found := (await admin.describe_groups([group])).get(group)) and found.members:
            await asyncio.sleep(0.05)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
async def test_an_asyncio_client_closed_in_a_forked_child_leaves_its_parent_alone(
    served: Served, topic: str, group: str
) -> None:
    await filled(served, topic, {0: 20})
    async with member(served, topic, group, max_poll_records=1) as consumer:
        await anext(consumer)
        child = os.fork()
        if child == 0:
            code = 1
            with suppress(BaseException):
                consumer._cluster.close()  # what close() comes to: no loop runs in the child
                code = 0
            os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
        # Its sockets are watched as before.
        assert [(await consumer.getone(timeout=WAIT_S)).offset for _ in range(19)][-1] == 19
        await consumer.commit()
