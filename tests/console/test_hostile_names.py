"""Hostile text from members of share and streams groups, from pipelines and from a registry is
shown as text, on the page itself."""

from typing import Any
from urllib.parse import quote

from barnabas import Admin, Producer
from barnabas.pipeline.formats.framed import DecodedValue
from barnabas.wire.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from barnabas.wire.messages.streams_group_heartbeat import (
    KeyValue,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from tests.conftest import broker_with
from tests.console.asgi import Answer, ask
from tests.console.conftest import Ask, StartConsole
from tests.console.test_pipeline_page import entry
from tests.coordinators.groups.streams.streams_world import subtopology, topology
from tests.process import BrokerProcess

broker = broker_with()
HOSTILE = "\"><script>alert(1)</script><img src=x onerror=alert(2)>\u202e\x1b'&{{7*7}}"
TIMEOUT_MS = 30_000


def check_is_text(answer: Answer) -> None:
    assert answer.status == 200
    page = answer.text
    assert "<script>alert" not in page
    assert "<img" not in page
    assert "\u202e" not in page
    assert "\x1b" not in page
    assert "&lt;script&gt;alert(1)" in page


async def test_members_of_a_share_group(get: Ask, broker: BrokerProcess, topic: str) -> None:
    group = f"{topic} {HOSTILE}"
    async with Admin(bootstrap_servers=broker.bootstrap_servers, client_id=HOSTILE) as admin:
        await admin.create_topic(topic, partitions=1)
        coordinator = await admin._cluster.coordinator(group)
        request = ShareGroupHeartbeatRequest(
            group_id=group,
            member_id="<script>alert(3)</script>\u202e",
            member_epoch=0,
            rack_id=HOSTILE,
            subscribed_topic_names=[topic],
        )
        answer = await coordinator.call(request, ShareGroupHeartbeatResponse, timeout_ms=TIMEOUT_MS)
        assert not answer.error_code, answer.error_message
        for path in (f"/groups/{quote(group, safe='')}", "/groups", "/clients"):
            check_is_text(await get(path))
        live = (await get(f"/groups/{quote(group, safe='')}.live")).json()
        assert "\u202e" not in live["title"]
        assert "\x1b" not in live["title"]


async def test_members_of_a_streams_group(get: Ask, broker: BrokerProcess, topic: str) -> None:
    group = f"{topic} {HOSTILE}"
    async with Admin(bootstrap_servers=broker.bootstrap_servers, client_id=HOSTILE) as admin:
        await admin.create_topic(topic, partitions=1)
        coordinator = await admin._cluster.coordinator(group)
        request = StreamsGroupHeartbeatRequest(
            group_id=group,
            member_id=f"m{HOSTILE}",
            member_epoch=0,
            endpoint_information_epoch=-1,
            rebalance_timeout_ms=60_000,
            process_id=HOSTILE,
            topology=topology(subtopology(HOSTILE, [topic])),
            client_tags=[KeyValue(key=HOSTILE, value=HOSTILE)],
            active_tasks=[],
            standby_tasks=[],
            warmup_tasks=[],
        )
        answer = await coordinator.call(
            request, StreamsGroupHeartbeatResponse, timeout_ms=TIMEOUT_MS
        )
        assert not answer.error_code, answer.error_message
        page = await get(f"/groups/{quote(group, safe='')}")
        check_is_text(page)
        assert "Subtopology" in page.text


async def test_pipelines(start_console: StartConsole) -> None:
    hostile = entry(
        HOSTILE, error=HOSTILE, target=HOSTILE, alerts={"failed": HOSTILE}, state="failed",
        spec=HOSTILE, phases_ms={HOSTILE: 5}, dlq=HOSTILE, retry_topic=HOSTILE, reads=[HOSTILE],
    )  # fmt: skip
    guarded = start_console(pipelines=lambda: [hostile]).guarded()
    check_is_text(await ask(guarded, "/pipelines"))
    check_is_text(await ask(guarded, f"/pipelines/{quote(HOSTILE, safe='')}"))


async def test_schemas_of_a_registry(
    start_console: StartConsole, broker: BrokerProcess, topic: str
) -> None:
    def decode(value: bytes) -> Any:
        if value[5:] == b"bad":
            raise ValueError(HOSTILE)
        return DecodedValue(HOSTILE, HOSTILE, HOSTILE)

    servers = broker.bootstrap_servers
    async with Admin(bootstrap_servers=servers) as admin:
        await admin.create_topic(topic, partitions=1)
    async with Producer(bootstrap_servers=servers) as producer:
        for value in (b"good", b"bad"):
            await producer.send(topic, b"\0\0\0\0\7" + value, key=b"\0\0\0\0\7good")
    guarded = start_console(decode=decode).guarded()
    for path in ("records", "0/0", "0/1"):
        check_is_text(await ask(guarded, f"/topics/{topic}/{path}"))
