"""`group explain`, `group describe` and the console name the record that stops a share group."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from barnabas import AcknowledgeType, Admin, Producer, ShareConsumer
from barnabas.client.aio import open_cluster
from barnabas.client.groups.diagnosis import diagnose
from barnabas.client.groups.text import description, document
from barnabas.client.workers.dead_letters import DeadLetters, Filter
from barnabas.client.workers.letter_rows import redrive_plan
from barnabas.config.kinds import Address
from barnabas.console.application import ConsoleOptions
from barnabas.console.serving import application, console_access
from tests.console.asgi import ask
from tests.process import BrokerProcess, running_broker

GROUP, TOPIC, LIMIT = "queue", "jobs", 100


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[BrokerProcess]:
    with running_broker(tmp_path, {}) as running:
        async with Admin(bootstrap_servers=running.bootstrap_servers) as admin:
            await admin.create_topic(TOPIC, partitions=1)
            await admin.alter_group(
                GROUP,
                put={
                    "share.auto.offset.reset": "earliest",
                    "share.partition.max.record.locks": str(LIMIT),
                },
            )
        async with Producer(bootstrap_servers=running.bootstrap_servers) as producer:
            for number in range(2 * LIMIT):
                producer.send_nowait(TOPIC, str(number))
        yield running


async def test_an_unfinished_record_at_the_in_flight_limit_is_named_with_its_holder(
    broker: BrokerProcess,
) -> None:
    servers = broker.bootstrap_servers
    async with (
        ShareConsumer(
            TOPIC,
            group_id=GROUP,
            bootstrap_servers=servers,
            client_id="resizer",
            share_acknowledgement_mode="explicit",
            allow_unacknowledged=True,
        ) as consumer,
        Admin(bootstrap_servers=servers) as admin,
    ):
        rejected = 0
        done = 1
        while done < LIMIT:
            for message in await consumer.poll(timeout=1):
                if message.offset == 0:
                    continue  # it is never finished
                reject = message.offset == 5
                rejected += reject
                consumer.acknowledge(
                    message, AcknowledgeType.REJECT if reject else AcknowledgeType.ACCEPT
                )
                done += 1
            await consumer.commit_sync()
        assert await consumer.poll(timeout=0.2) == []

        report = await admin.group_report(GROUP)
        finding = diagnose(report)[0]
        assert (finding.name, finding.severity.value) == ("in-flight-limit", "problem")
        assert "no new record of jobs-0 is delivered: 100 records are in flight" in finding.text
        assert "Offset 0 is the oldest that is not: resizer on 127.0.0.1 (member" in finding.text
        assert "delivery 1 of 5; its lock ends in" in finding.text
        assert "`barnabas consume jobs -p 0 -o 0 -c 1` shows the record" in finding.remedy
        assert "not-accepted" in {each.name for each in diagnose(report)}

        text = description(report)
        assert "100 records, 1 with members; 1 partition at the limit" in text
        assert "offset 0: resizer on 127.0.0.1" in text
        assert "jobs-0, offset 5, rejected by resizer on 127.0.0.1" in text
        (partition,) = report.partitions
        assert partition.lag == LIMIT + 1
        assert partition.unread_ms
        assert partition.unread_ms > 0

        (found,) = json.loads(json.dumps(document(report)))["in_flight"]
        assert found["oldest"][0]["client"] == "resizer"
        assert found["failures"][0]["cause"] == "rejected"

        console = application(
            ConsoleOptions(servers=servers, settings={"bootstrap.servers": servers}),
            console_access(Address("127.0.0.1", 8080), None),
        )
        try:
            page = (await ask(console.guarded(), f"/groups/{GROUP}")).text
            assert "offset 0: resizer on 127.0.0.1" in page
            assert "rejected by resizer" in page
            live = (await ask(console.guarded(), f"/groups/{GROUP}.live")).json()
            assert live["in_flight"] == "100"
        finally:
            await console.close()


async def test_a_letter_without_its_record_is_never_redriven(broker: BrokerProcess) -> None:
    """An empty record in the original topic would help nobody."""
    servers = broker.bootstrap_servers
    async with Admin(bootstrap_servers=servers) as admin:
        for copied, expected in (("false", (0, 1)), ("true", (1, 1))):
            await admin.alter_group(
                GROUP,
                put={
                    "errors.deadletterqueue.topic.name": "jobs.dlq",
                    "errors.deadletterqueue.copy.record.enable": copied,
                },
            )
            async with ShareConsumer(
                TOPIC,
                group_id=GROUP,
                bootstrap_servers=servers,
                share_acknowledgement_mode="explicit",
                share_acquire_mode="record_limit",
                max_poll_records=1,
            ) as consumer:
                while not (found := await consumer.poll(timeout=1)):
                    pass
                consumer.acknowledge(found[0], AcknowledgeType.REJECT)
                assert set((await consumer.commit_sync()).values()) == {None}
            cluster = open_cluster({}, {"bootstrap_servers": servers})
            dead = DeadLetters(cluster)
            plan = await redrive_plan(dead, "jobs.dlq", Filter(), None, None)
            assert (plan["letters"], plan["no_record"]) == expected
            assert await dead.redrive("jobs.dlq", Filter()) == expected[0]
            cluster.close()
