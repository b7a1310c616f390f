"""A socket that speaks the protocol with no client's manners: any bytes, any order.

In: frames or messages of barnabas.wire. Out: whole reply frames or decoded responses.
Not here: what is well formed (the caller may well want it not to be).
"""

import socket
import time
from collections.abc import Sequence
from struct import Struct, pack
from typing import TypeVar, cast

from barnabas.model.errors import Code
from barnabas.wire.codec import ProtocolMessage
from barnabas.wire.compression import Codec
from barnabas.wire.frames import read_response, request_frame
from barnabas.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from barnabas.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from barnabas.wire.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from barnabas.wire.records import Record, encode_batch
from tests.process import BROKERS, REPLICAS
from tests.secured import connection
from tests.waiting import WAIT_S

TIMEOUT_S = WAIT_S
SIZE = Struct(">i")
FETCH_BY_NAME = 12  # the last version that names topics

R = TypeVar("R", bound=ProtocolMessage)


class Closed(ConnectionError):
    """The broker closed the connection."""


class RawClient:
    """One connection. Requests may be sent ahead; replies come in their order."""

    def __init__(self, host: str, port: int, *, timeout_s: float = TIMEOUT_S) -> None:
        self.socket = connection(host, port, timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = bytearray()
        self._correlation = 0

    def __enter__(self) -> "RawClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    @property
    def address(self) -> str:
        """As the broker's log names this connection."""
        host, port = self.socket.getsockname()[:2]
        return f"{host}:{port}"

    def send(self, data: bytes) -> None:
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise Closed(str(error)) from None

    def send_body(self, body: bytes) -> None:
        """A frame with an honest size."""
        self.send(pack(">i", len(body)) + body)

    def receive(self) -> bytes:
        """The next reply without its size; Closed when there is none to come."""
        size = SIZE.unpack(self._take(SIZE.size))[0]
        return self._take(size)

    def _take(self, count: int) -> bytes:
        while len(self._received) < count:
            try:
                piece = self.socket.recv(1 << 20)
            except ConnectionResetError:
                piece = b""
            if not piece:
                raise Closed(f"closed with {len(self._received)} of {count} bytes received")
            self._received += piece
        taken = bytes(self._received[:count])
        del self._received[:count]
        return taken

    def wait_closed(self) -> None:
        """The broker says nothing more and hangs up."""
        try:
            frame = self.receive()
        except Closed:
            return
        raise AssertionError(f"a reply of {len(frame)} bytes where a closed connection was due")

    def begin(self, request: ProtocolMessage, version: int) -> int:
        """Send without waiting; the correlation id."""
        self._correlation += 1
        self.send(request_frame(request.api_key, version, self._correlation, "raw", request))
        return self._correlation

    def call(self, request: ProtocolMessage, version: int, response: type[R]) -> R:
        sent = self.begin(request, version)
        correlation, answer = read_response(self.receive(), request.api_key, version)
        assert correlation == sent
        assert isinstance(answer, response)
        return answer

    # The four things that every test needs

    def create_topic(
        self, name: str, partitions: int = 1, configs: Sequence[tuple[str, str]] = ()
    ) -> int:
        """The error code."""
        alone = BROKERS == 1
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions if alone else -1,
            replication_factor=1 if alone else -1,
            assignments=[] if alone else _led_by_the_first(partitions),
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs],
        )
        answer = self.call(CreateTopicsRequest(topics=[topic]), 7, CreateTopicsResponse)
        code = answer.topics[0].error_code
        if not alone and not code:
            self._wait_led(name, partitions)
        return code

    def _wait_led(self, topic: str, partitions: int) -> None:
        """Brokers hear of a topic a little after the controller has made it."""
        deadline = time.monotonic() + TIMEOUT_S
        while any(self.fetch(topic, 0, partition=p).error_code for p in range(partitions)):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{topic} is not led by the broker that was asked")
            time.sleep(0.01)

    def produce(
        self, topic: str, records: bytes | bytearray, *, partition: int = 0, version: int = 9
    ) -> PartitionProduceResponse:
        request = produce_request(topic, partition, records)
        answer = self.call(request, version, ProduceResponse)
        return answer.responses[0].partition_responses[0]

    def fetch(
        self, topic: str, offset: int, *, partition: int = 0, max_wait_ms: int = 0
    ) -> PartitionData:
        request = fetch_request(topic, partition, offset, max_wait_ms=max_wait_ms)
        answer = self.call(request, FETCH_BY_NAME, FetchResponse)
        return answer.responses[0].partitions[0]

    def metadata(self, *, version: int = 12) -> MetadataResponse:
        """Of all topics."""
        return self.call(MetadataRequest(topics=None), version, MetadataResponse)


def _led_by_the_first(partitions: int) -> list[CreatableReplicaAssignment]:
    """With a replica on each of the brokers; a raw client speaks to the first of them."""
    return [
        CreatableReplicaAssignment(partition_index=index, broker_ids=list(range(1, REPLICAS + 1)))
        for index in range(partitions)
    ]


def produce_request(
    topic: str, partition: int, records: bytes | bytearray, *, acks: int = -1
) -> ProduceRequest:
    data = PartitionProduceData(index=partition, records=records)
    return ProduceRequest(
        acks=acks,
        timeout_ms=60_000,
        topic_data=[TopicProduceData(name=topic, partition_data=[data])],
    )


def fetch_request(
    topic: str,
    partition: int,
    offset: int,
    *,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    bytes_max: int = 1 << 22,
) -> FetchRequest:
    wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=bytes_max)
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=bytes_max,
        topics=[FetchTopic(topic=topic, partitions=[wanted])],
    )


def batch_of(
    *values: bytes,
    codec: Codec = Codec.NONE,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
) -> bytearray:
    """One batch as a producer sends it."""
    now_ms = time.time_ns() // 1_000_000
    return encode_batch(
        [Record(offset, now_ms, None, value) for offset, value in enumerate(values)],
        codec=codec,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
    )


def records_in(data: PartitionData) -> memoryview:
    """The record bytes of one partition of a fetch, which must have gone well."""
    assert data.error_code == 0, name_of(data.error_code)
    return memoryview(cast(bytes, data.records or b""))


def name_of(code: int) -> str:
    """Of an error code."""
    return next((known.name for known in Code if known == code), str(code))
