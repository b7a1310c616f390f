"""DescribeBroker and DescribeLogs: who a broker is, what the controller did, who lags."""

import os
from pathlib import Path

from barnabas.wire.messages.describe_broker import DescribeBrokerRequest, DescribeBrokerResponse
from barnabas.wire.messages.describe_logs import DescribeLogsRequest, DescribeLogsResponse
from tests.broker.clustered import cluster_of
from tests.broker.running import running_broker


async def test_the_controller_reports_what_it_did_and_others_who_they_are(tmp_path: Path) -> None:
    async with cluster_of(tmp_path, 2) as cluster:
        await cluster.create("t", partitions=1, replicas=2)
        told = {
            id_: await cluster.ask(
                id_, DescribeBrokerRequest(after=-1, events_max=100), DescribeBrokerResponse
            )
            for id_ in cluster.brokers
        }
    assert [each.broker_id for each in told.values()] == list(told)
    assert {each.process_id for each in told.values()} == {os.getpid()}
    assert len({each.broker_epoch for each in told.values()}) == 2
    [controller] = [each for each in told.values() if each.is_controller]
    assert {each.controller_id for each in told.values()} == {controller.broker_id}
    assert [(e.what, e.cause) for e in controller.events if e.topic == "t"] == [
        ("topic created", "1 partitions, by a request")
    ]
    assert all(not each.events for each in told.values() if each is not controller)
    assert len([e.number for e in controller.events]) == len({e.number for e in controller.events})


async def test_a_broker_that_stands_alone_has_no_epoch_and_no_events(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as running:
        told = await running.ask(DescribeBrokerRequest(events_max=100), DescribeBrokerResponse)
    assert (told.broker_epoch, told.is_controller, told.events) == (-1, True, [])
    assert told.controller_id == told.broker_id


async def test_a_leader_reports_the_lag_of_its_followers(tmp_path: Path) -> None:
    async with cluster_of(tmp_path, 2) as cluster:
        await cluster.create("t", partitions=1, replicas=2)
        answers = [
            await cluster.ask(
                id_, DescribeLogsRequest(topic="t", partitions=[0]), DescribeLogsResponse
            )
            for id_ in cluster.brokers
        ]
    [led] = [answer.logs[0] for answer in answers if not answer.logs[0].error_code]
    leader, follower = led.replicas
    assert {leader.broker, follower.broker} == {1, 2}
    assert leader.end == 0
