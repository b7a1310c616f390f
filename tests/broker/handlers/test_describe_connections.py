"""DescribeConnections and the segments of DescribeLogs: who is connected, and what a log is of."""

from pathlib import Path

from barnabas.broker.handlers import describe_connections
from barnabas.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.wire.messages.describe_connections import (
    DescribeConnectionsRequest,
    DescribeConnectionsResponse,
    DescribedConnection,
)
from barnabas.wire.messages.describe_logs import DescribeLogsRequest, DescribeLogsResponse
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from barnabas.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from barnabas.wire.records import Record, encode_batch
from tests.broker.running import running_broker


async def test_a_broker_lists_its_connections_with_software_and_topics(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as running:
        await running.create("t")
        reader = running.connect()
        named = ApiVersionsRequest(client_software_name="reader", client_software_version="1.2")
        await running.ask(named, ApiVersionsResponse, wire=reader, version=3)
        fetch = FetchRequest(
            replica_id=-1,
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=1000,
            isolation_level=0,
            session_id=0,
            session_epoch=0,
            topics=[
                FetchTopic(
                    topic="t",
                    partitions=[
                        FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
                    ],
                )
            ],
            forgotten_topics_data=[],
        )
        await running.ask(fetch, FetchResponse, wire=reader, version=11)
        told = await running.ask(DescribeConnectionsRequest(), DescribeConnectionsResponse)
        assert told.count == len(told.connections) == len(running.broker.connections)
        (mine,) = [each for each in told.connections if each.client == "reader 1.2"]
        assert (mine.principal, mine.reads) == ("User:ANONYMOUS", ["t"])
        few = await running.ask(
            DescribeConnectionsRequest(connections_max=1), DescribeConnectionsResponse
        )
        assert (few.count, len(few.connections)) == (told.count, 1)
        none = await running.ask(
            DescribeConnectionsRequest(connections_max=-5), DescribeConnectionsResponse
        )
        assert none.connections == []


async def test_requests_bytes_and_errors_of_a_connection_are_counted(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as running:
        await running.create("t", configs={"max.message.bytes": "500"})
        producer = running.connect()
        named = ApiVersionsRequest(client_software_name="writer", client_software_version="1")
        await running.ask(named, ApiVersionsResponse, wire=producer, version=3)

        async def counted() -> DescribedConnection:
            told = await running.ask(
                DescribeConnectionsRequest(), DescribeConnectionsResponse, version=1
            )
            (mine,) = [each for each in told.connections if each.client == "writer 1"]
            return mine

        before = await counted()
        assert (before.requests, before.errors, before.last_error) == (1, 0, "")
        assert before.bytes_in > 0
        assert before.bytes_out > before.bytes_in, "the list of versions is longer"
        records = memoryview(encode_batch([Record(0, 0, b"key", bytes(2_000), ())]))
        data = PartitionProduceData(index=0, records=records)
        request = ProduceRequest(
            transactional_id=None,
            acks=-1,
            timeout_ms=1_000,
            topic_data=[TopicProduceData(name="t", partition_data=[data])],
        )
        await running.ask(request, ProduceResponse, wire=producer, version=12)
        after = await counted()
        assert (after.requests, after.errors) == (2, 1)
        assert after.last_error == "MESSAGE_TOO_LARGE"
        assert after.bytes_in - before.bytes_in > 2_000
        old = await running.ask(
            DescribeConnectionsRequest(), DescribeConnectionsResponse, version=0
        )
        assert {each.requests for each in old.connections} == {-1}


async def test_texts_of_clients_are_cut(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as running:
        wire = running.connect()
        await running.ask(ApiVersionsRequest(), ApiVersionsResponse, wire=wire, version=0)
        for connection in running.broker.connections:
            connection.client_id = "x" * 10_000
        told = await running.ask(DescribeConnectionsRequest(), DescribeConnectionsResponse)
        longest = max(len(each.client_id) for each in told.connections)
        assert longest == describe_connections.TEXT_LENGTH_MAX


async def test_a_leader_lists_the_newest_segments_up_to_the_limit(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as running:
        await running.create("t", configs={"segment.bytes": "1000000"})
        log = running.broker.topics.existing("t").partition(0).log
        for _ in range(3):
            await running.produce("t", 1_000)
            log.roll(running.broker.clock.wall_ms())
        await running.produce("t", 1_000)

        async def segments(count: int) -> list[tuple[int, int]]:
            told = await running.ask(
                DescribeLogsRequest(topic="t", partitions=[0], segments_max=count),
                DescribeLogsResponse,
            )
            assert told.logs[0].segments == 4
            return [(each.base_offset, each.next_offset) for each in told.logs[0].segment_list]

        assert await segments(0) == []
        assert await segments(2) == [(2, 3), (3, 4)]
        assert await segments(100) == [(0, 1), (1, 2), (2, 3), (3, 4)]
