"""Brokers that call each other, over real sockets, and others that do not behave."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from io import StringIO
from pathlib import Path

import pytest

from barnabas.broker.broker import Broker
from barnabas.broker.cluster import peers as peers_module
from barnabas.broker.cluster.peers import Peers
from barnabas.config.kinds import Address
from barnabas.keeper.memory import MemoryKeeper
from barnabas.model.errors import Code, Retriable
from barnabas.model.ids import BrokerId
from barnabas.model.ports import Stream
from barnabas.system.clock import SystemClock
from barnabas.system.disk import SystemDisk
from barnabas.system.logs import Logger
from barnabas.system.network import SystemNetwork
from barnabas.wire.codec import ProtocolMessage
from barnabas.wire.frames import read_request_header, response_parts
from barnabas.wire.messages.controlled_shutdown import ControlledShutdownRequest
from barnabas.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from barnabas.wire.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.wire.messages.update_metadata import UpdateMetadataResponse

OTHER = BrokerId(2)
QUESTION = DescribeClusterRequest(include_cluster_authorized_operations=False)


async def to_itself(request: ProtocolMessage, version: int) -> ProtocolMessage:
    return UpdateMetadataResponse(error_code=version)


@asynccontextmanager
async def calling(port: int) -> AsyncIterator[tuple[Peers, StringIO]]:
    said = StringIO()
    log = Logger(said)
    peers = Peers(BrokerId(1), SystemNetwork(log).connect, log, to_itself)
    peers.known({OTHER: Address("127.0.0.1", port)})
    try:
        yield peers, said
    finally:
        peers.close()


@asynccontextmanager
async def real_broker(directory: Path) -> AsyncIterator[Broker]:
    log = Logger(StringIO())
    settings = {"log.dirs": str(directory), "listeners": "PLAINTEXT://127.0.0.1:0"}
    broker = Broker(settings, SystemClock(), SystemDisk(), SystemNetwork(log), MemoryKeeper(), log)
    broker.start()
    try:
        yield broker
    finally:
        await broker.stop()


class Behaviour:
    """A server that does with the bytes of each connection what a test says."""

    def __init__(self, received: Callable[["Behaviour", Stream, bytes], None]) -> None:
        self._received = received
        self.streams: list[Stream] = []
        self.gone = False
        self.listening = SystemNetwork(Logger(StringIO())).listen("127.0.0.1", 0, self._accept)

    def _accept(self, stream: Stream) -> None:
        self.streams.append(stream)
        stream.watch_readable(lambda: self._readable(stream))

    def _readable(self, stream: Stream) -> None:
        room = bytearray(1 << 16)
        count = stream.receive_into(memoryview(room))
        if count > 0:
            self._received(self, stream, bytes(room[:count]))
        elif count == 0:
            stream.close()

    def close(self) -> None:
        if self.gone:
            return
        self.gone = True
        self.listening.close()
        for stream in self.streams:
            stream.close()


@asynccontextmanager
async def calling_one_who(
    received: Callable[[Behaviour, Stream, bytes], None],
) -> AsyncIterator[tuple[Behaviour, Peers, StringIO]]:
    server = Behaviour(received)
    try:
        async with calling(server.listening.port) as (peers, said):
            yield server, peers, said
    finally:
        server.close()


def answer(stream: Stream, frame: bytes, *, correlation_id: int | None = None) -> None:
    header = read_request_header(frame[4:])
    known = header.correlation_id if correlation_id is None else correlation_id
    response = DescribeClusterResponse(error_code=0, cluster_id="c", brokers=[])
    parts = response_parts(header.api_key, header.api_version, known, response)
    stream.send([bytes(part) for part in parts if not hasattr(part, "file")])


def echo(server: Behaviour, stream: Stream, frame: bytes) -> None:
    answer(stream, frame)


async def test_a_broker_answers_another_in_order_and_in_the_version_asked(tmp_path: Path) -> None:
    async with real_broker(tmp_path) as broker, calling(broker.port) as (peers, _):
        asked: list[ProtocolMessage] = [QUESTION, MetadataRequest(topics=None), QUESTION]
        answers = await asyncio.gather(
            *(peers.call(OTHER, request, timeout_ms=60_000) for request in asked)
        )
        kinds = [type(answer) for answer in answers]
        assert kinds == [DescribeClusterResponse, MetadataResponse, DescribeClusterResponse]
        assert len(broker.connections) == 1
        old = await peers.call(
            OTHER, MetadataRequest(topics=[]), timeout_ms=60_000, version=1, lane="forward"
        )
        assert isinstance(old, MetadataResponse)
        assert old.cluster_id is None
        assert len(broker.connections) == 2


async def test_a_broker_calls_itself_without_a_connection() -> None:
    async with calling(1) as (peers, _):
        request = ControlledShutdownRequest(broker_id=1)
        response = await peers.call(BrokerId(1), request, timeout_ms=1)
        assert response == UpdateMetadataResponse(error_code=3)


async def test_who_is_not_in_the_cluster_cannot_be_called() -> None:
    async with calling(1) as (peers, _):
        with pytest.raises(Retriable, match="broker 3 is not in the cluster"):
            await peers.call(BrokerId(3), QUESTION, timeout_ms=1)


async def test_an_unreachable_broker_is_logged_once_and_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers_module, "BACKOFF_MS_MAX", 40)
    async with calling_one_who(echo) as (server, peers, said):
        await peers.call(OTHER, QUESTION, timeout_ms=60_000)
        server.close()
        for _ in range(3):
            with pytest.raises(Retriable, match="broker 2 at 127"):
                await peers.call(OTHER, QUESTION, timeout_ms=60_000)
        assert said.getvalue().count("broker lost") == 1
        async with real_broker(tmp_path) as broker:
            peers.known({OTHER: Address("127.0.0.1", broker.port)})
            await peers.call(OTHER, QUESTION, timeout_ms=60_000)


async def test_silence_ends_the_connection_and_every_call_on_it() -> None:
    async with calling_one_who(lambda server, stream, frame: None) as (_, peers, said):
        calls = [
            asyncio.ensure_future(peers.call(OTHER, QUESTION, timeout_ms=timeout_ms))
            for timeout_ms in (500, 60_000)
        ]
        for call in calls:
            with pytest.raises(Retriable, match="no answer to DescribeClusterRequest") as why:
                await call
            assert why.value.code == Code.REQUEST_TIMED_OUT
        assert said.getvalue().count("broker lost") == 1


@pytest.mark.parametrize(
    "rubbish", [b"HTTP/1.1 400 Bad Request\r\n\r\n", bytes(4), b"\0\0\0\4abcd"]
)
async def test_an_answer_that_is_none_ends_the_connection(rubbish: bytes) -> None:
    def say(server: Behaviour, stream: Stream, frame: bytes) -> None:
        stream.send([rubbish])

    async with calling_one_who(say) as (_, peers, _):
        with pytest.raises(Retriable):
            await peers.call(OTHER, QUESTION, timeout_ms=60_000)


async def test_the_answer_to_another_question_is_not_taken() -> None:
    def mistake(server: Behaviour, stream: Stream, frame: bytes) -> None:
        answer(stream, frame, correlation_id=7)

    async with calling_one_who(mistake) as (_, peers, _):
        with pytest.raises(Retriable, match="response 7 where 0 was due"):
            await peers.call(OTHER, QUESTION, timeout_ms=60_000)


async def test_a_caller_that_gives_up_disturbs_nobody() -> None:
    frames: list[tuple[Stream, bytes]] = []
    asked = asyncio.Event()

    def keep(server: Behaviour, stream: Stream, frame: bytes) -> None:
        frames.append((stream, frame))
        asked.set()

    async with calling_one_who(keep) as (_, peers, _):
        first = asyncio.ensure_future(peers.call(OTHER, QUESTION, timeout_ms=60_000))
        await asked.wait()
        first.cancel()
        asked.clear()
        second = asyncio.ensure_future(peers.call(OTHER, QUESTION, timeout_ms=60_000))
        await asked.wait()
        for stream, frame in frames:
            answer(stream, frame)
        assert isinstance(await second, DescribeClusterResponse)
        assert first.cancelled()


async def test_a_call_to_a_broker_that_leaves_gets_an_error() -> None:
    asked = asyncio.Event()
    async with calling_one_who(lambda *_: asked.set()) as (_, peers, said):
        call = asyncio.ensure_future(peers.call(OTHER, QUESTION, timeout_ms=60_000))
        await asked.wait()
        peers.known({})
        with pytest.raises(Retriable, match="left the cluster"):
            await call
        assert "broker lost" not in said.getvalue()


async def test_a_connection_that_idles_and_is_closed_is_opened_again_without_a_word() -> None:
    async with calling_one_who(echo) as (server, peers, said):
        await peers.call(OTHER, QUESTION, timeout_ms=60_000)
        server.streams[0].close()
        link = peers._links[OTHER, "control"]
        while link._open is not None:
            await asyncio.sleep(0)
        await peers.call(OTHER, QUESTION, timeout_ms=60_000)
        assert len(server.streams) == 2
        assert said.getvalue() == ""


async def test_where_answers_may_take_long_one_who_is_late_costs_no_other() -> None:
    frames: list[tuple[Stream, bytes]] = []
    asked = asyncio.Event()

    def keep(server: Behaviour, stream: Stream, frame: bytes) -> None:
        frames.append((stream, frame))
        asked.set()

    async with calling_one_who(keep) as (_, peers, said):
        hasty = peers.call(OTHER, QUESTION, lane="forward", timeout_ms=500)
        with pytest.raises(Retriable, match="no answer to DescribeClusterRequest in time"):
            await hasty
        asked.clear()
        patient = asyncio.ensure_future(
            peers.call(OTHER, QUESTION, lane="forward", timeout_ms=60_000)
        )
        await asked.wait()
        for stream, frame in frames:
            answer(stream, frame)
        assert isinstance(await patient, DescribeClusterResponse)
        assert said.getvalue() == ""


async def test_the_error_that_ended_a_connection_is_named() -> None:
    async with calling_one_who(echo) as (server, peers, said):
        await peers.call(OTHER, QUESTION, timeout_ms=60_000)
        [stream] = server.streams
        stream.watch_readable(None)
        waiting = asyncio.create_task(peers.call(OTHER, QUESTION, timeout_ms=60_000))
        await asyncio.sleep(0)
        stream.close()  # with bytes that nobody has read: a reset
        with pytest.raises(Retriable, match="Connection reset by peer"):
            await waiting
        assert "Connection reset by peer" in said.getvalue()
