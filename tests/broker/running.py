"""A real broker in this process, on a real disk, spoken to over a wire in memory.

Requests go through the connection, the dispatcher and the codec like any client's: what a
test asks and what it is answered are the messages of the wire.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from io import StringIO
from pathlib import Path
from typing import Any, TypeVar

from barnabas.broker.broker import Broker
from barnabas.keeper.keeper import Keeper
from barnabas.keeper.memory import MemoryKeeper
from barnabas.model.ports import Buffer, Disk, FileSlice, Stream
from barnabas.system.clock import SystemClock
from barnabas.system.disk import SystemDisk
from barnabas.system.logs import Logger
from barnabas.wire.apis import APIS
from barnabas.wire.codec import ProtocolMessage
from barnabas.wire.frames import read_response, request_frame
from barnabas.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from barnabas.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from barnabas.wire.records import Record, encode_batch
from tests.waiting import WAIT_S

PORT = 9092
CORRELATION = 4711
R = TypeVar("R", bound=ProtocolMessage)


class Wire:
    """The client's and the broker's end of one connection."""

    def __init__(self) -> None:
        self.peer = "203.0.113.7:4711"
        self.failure = ""
        self.closed = False
        self._to_broker = bytearray()
        self._to_client = bytearray()
        self._readable: Callable[[], None] | None = None
        self._telling = False
        self._news = asyncio.Event()

    # The broker's end

    def receive_into(self, buffer: memoryview) -> int:
        count = min(len(buffer), len(self._to_broker))
        buffer[:count] = self._to_broker[:count]
        del self._to_broker[:count]
        return count or -1

    def send(self, parts: Sequence[Buffer], more: bool = False) -> int:
        data = b"".join(parts)
        self._to_client += data
        self._news.set()
        return len(data)

    def send_file(self, slice_: FileSlice, more: bool = False) -> int:
        return self.send([slice_.file.read(slice_.position, slice_.length)])

    def watch_readable(self, callback: Callable[[], None] | None) -> None:
        self._readable = callback
        self._tell()

    def _tell(self) -> None:
        """As the kernel does: again and again while bytes wait and someone watches."""
        if self._readable is not None and self._to_broker and not self._telling:
            self._telling = True
            asyncio.get_running_loop().call_soon(self._told)

    def _told(self) -> None:
        self._telling = False
        if self._readable is not None and self._to_broker:
            self._readable()
            self._tell()

    def watch_writable(self, callback: Callable[[], None] | None) -> None:
        """It always is."""

    def close(self) -> None:
        self.closed = True
        self._news.set()

    # The client's end

    def put(self, data: bytes) -> None:
        self._to_broker += data
        self._tell()

    async def take(self) -> bytes:
        """One frame, without its size; ConnectionError if the broker closes instead."""
        async with asyncio.timeout(WAIT_S):
            while True:
                size = int.from_bytes(self._to_client[:4])
                if len(self._to_client) >= 4 and len(self._to_client) >= 4 + size:
                    frame = bytes(self._to_client[4 : 4 + size])
                    del self._to_client[: 4 + size]
                    return frame
                if self.closed:
                    raise ConnectionError("the broker closed the connection")
                self._news.clear()
                await self._news.wait()


class Doorway:
    """A listener that nobody but the test can come through."""

    host = "broker.example"
    port = PORT

    def __init__(self, accepted: Callable[[Stream], None]) -> None:
        self.accepted = accepted
        self.paused = False

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False

    def close(self) -> None:
        """Nothing is open."""


class NoNetwork:
    """Never listens; keeps what a listener would call."""

    def listen(
        self, host: str, port: int, accepted: Callable[[Stream], None], near: bool = True
    ) -> Doorway:
        self.doorway = Doorway(accepted)
        return self.doorway

    async def connect(self, host: str, port: int, near: bool = True) -> Stream:
        raise OSError(f"{host}:{port}: there is no network")


class Running:
    """A broker that runs, and a client of it."""

    def __init__(self, broker: Broker, network: NoNetwork, log: StringIO, keeper: Keeper) -> None:
        self.broker = broker
        self.log = log
        self.keeper = keeper
        self._network = network
        self.wire = self.connect()

    def connect(self) -> Wire:
        wire = Wire()
        self._network.doorway.accepted(wire)
        return wire

    async def ask(
        self,
        request: ProtocolMessage,
        expected: type[R],
        version: int | None = None,
        wire: Wire | None = None,
    ) -> R:
        """The response, having been encoded and decoded in that version (or the newest)."""
        self.send(request, version, wire)
        return await self.receive(request, expected, version, wire)

    def send(
        self, request: ProtocolMessage, version: int | None = None, wire: Wire | None = None
    ) -> None:
        key = type(request).api_key
        version = APIS[key].max_version if version is None else version
        (wire or self.wire).put(request_frame(key, version, CORRELATION, "test", request))

    async def receive(
        self,
        request: ProtocolMessage,
        expected: type[R],
        version: int | None = None,
        wire: Wire | None = None,
    ) -> R:
        key = type(request).api_key
        version = APIS[key].max_version if version is None else version
        correlation, response = read_response(await (wire or self.wire).take(), key, version)
        assert correlation == CORRELATION
        assert isinstance(response, expected)
        return response

    async def create(
        self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> CreatableTopicResult:
        request = CreateTopicsRequest(topics=[creatable(name, partitions, configs=configs or {})])
        (result,) = (await self.ask(request, CreateTopicsResponse)).topics
        assert not result.error_code, result.error_message
        return result

    async def produce(
        self, topic: str, *times: int, partition: int = 0, **options: Any
    ) -> ProduceResponse:
        """One batch with one record per timestamp."""
        records = [Record(n, time, b"key", b"value", ()) for n, time in enumerate(times)]
        data = PartitionProduceData(
            index=partition, records=memoryview(encode_batch(records, **options))
        )
        request = ProduceRequest(
            transactional_id=None,
            acks=-1,
            timeout_ms=1000,
            topic_data=[TopicProduceData(name=topic, partition_data=[data])],
        )
        response = await self.ask(request, ProduceResponse, 12)
        assert not response.responses[0].partition_responses[0].error_code
        return response


def creatable(
    name: str,
    partitions: int = 1,
    replicas: int = 1,
    configs: Mapping[str, str | None] | None = None,
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=[],
        configs=[
            CreatableTopicConfig(name=option, value=value)
            for option, value in (configs or {}).items()
        ],
    )


@asynccontextmanager
async def running_broker(
    directory: Path,
    settings: Mapping[str, str] | None = None,
    keeper: Keeper | None = None,
    disk: Disk | None = None,
) -> AsyncIterator[Running]:
    network = NoNetwork()
    log = StringIO()
    keeper = keeper or MemoryKeeper()
    broker = Broker(
        {"log.dirs": str(directory), **(settings or {})},
        SystemClock(),
        disk or SystemDisk(),
        network,
        keeper,
        Logger(log),
    )
    broker.start()
    try:
        yield Running(broker, network, log, keeper)
    finally:
        await broker.stop()
