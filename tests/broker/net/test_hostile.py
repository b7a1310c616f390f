"""A broker process and people who mean it harm: each is refused, said so, and hurts nobody else."""

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from struct import pack

import pytest

from barnabas.model.errors import Code, Corrupt
from barnabas.wire.compression import Codec
from barnabas.wire.frames import request_frame
from barnabas.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from barnabas.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from barnabas.wire.primitives import uvarint
from barnabas.wire.records import decode_batch
from tests.fuzz.batches import bomb, forge
from tests.process import BrokerProcess, cpu_s
from tests.raw import Closed, RawClient, batch_of, fetch_request, records_in
from tests.waiting import WAIT_S, until

pytestmark = pytest.mark.slow

MIB = 1 << 20
FRAME_SIZE_MAX = 104_857_600
SERVED_S_MAX = WAIT_S


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[RawClient]:
    with RawClient(broker.host, broker.port) as connected:
        yield connected


@pytest.fixture
def stored(broker: BrokerProcess, topic: str) -> str:
    """A topic that is there."""
    with RawClient(broker.host, broker.port) as client:
        assert client.create_topic(topic) == 0
    return topic


def said(broker: BrokerProcess, peer: str, reason: str) -> None:
    """A line of the log names the peer and the reason."""
    until(
        lambda: any(f'"{peer}"' in line and reason in line for line in broker.log.splitlines()),
        f"a line with {peer} and {reason!r} in: {broker.log[-2000:]}",
    )


def served(
    broker: BrokerProcess, topic: str, value: bytes = b"honest", within_s: float = SERVED_S_MAX
) -> None:
    """Somebody else's record goes in and comes out, soon."""
    started = time.monotonic()
    with RawClient(broker.host, broker.port, timeout_s=within_s) as other:
        told = other.produce(topic, batch_of(value))
        assert told.error_code == 0
        found = memoryview(b"")
        while not found:  # an answer leaves records out while descriptors are scarce
            assert time.monotonic() - started < within_s, "the record does not come out"
            found = records_in(other.fetch(topic, told.base_offset))
        assert [record.value for record in decode_batch(found)] == [value]
    assert time.monotonic() - started < within_s


def forget_peak(broker: BrokerProcess) -> None:
    """Let VmHWM start again from what is held now."""
    Path(f"/proc/{broker.pid}/clear_refs").write_text("5")


def memory(broker: BrokerProcess, field: str = "VmRSS") -> int:
    for line in Path(f"/proc/{broker.pid}/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return int(value.split()[0]) * 1024
    raise AssertionError(f"no {field}")


def resting(broker: BrokerProcess) -> Callable[[], bool]:
    """Has it used less than half a core for a while, in which its housekeeping had a turn?"""
    began, used = time.monotonic(), cpu_s(broker)

    def rests() -> bool:
        nonlocal began, used
        now = time.monotonic()
        if now < began + 1.2:
            return False
        used_before, used = used, cpu_s(broker)
        share, began = (used - used_before) / (now - began), now
        return share < 0.5

    return rests


def header(key: int, version: int) -> bytes:
    """Of a request from a client without a name."""
    return pack(">hhih", key, version, 1, -1)


# --- frames -------------------------------------------------------------------------------------

BAD_FRAMES = {
    "oversized": (pack(">i", FRAME_SIZE_MAX + 1) + bytes(64), "socket.request.max.bytes"),
    "as large as can be": (pack(">i", 2**31 - 1) + bytes(64), "request of 2147483647 bytes"),
    "of negative length": (pack(">i", -1) + bytes(64), "request of -1 bytes"),
    "of the most negative length": (pack(">i", -(2**31)) + bytes(64), "request of -2147483648"),
    "shorter than a header": (pack(">i", 7) + bytes(64), "not Kafka's protocol"),
    "of another protocol": (b"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n", "request of 1195725856"),
}

BAD_REQUESTS = {
    "of a version unknown": (header(0, 99), "Produce version 99"),
    "of a negative version": (header(3, -1), "Metadata version -1"),
    "of an API unknown": (header(999, 0), "API key 999"),
    "of a negative API": (header(-1, 0), "API key -1"),
    "cut in its header": (pack(">hhi", 3, 1, 1), "request header"),
    "cut in its body": (header(3, 1) + b"\0\0", "MetadataRequest version 1"),
    "with a string longer than it is": (header(3, 1) + b"\0\0\0\1\x7f\xff", "length 32767"),
    "with an overflowing varint": (header(3, 9) + b"\0\xff\xff\xff\xff\x7f", "overflows"),
    "with an endless varint": (header(3, 9) + b"\0" + b"\x80" * 12, "longer than 5 bytes"),
    "with a million elements that are not there": (
        header(3, 1) + pack(">i", 1_000_000),
        "1000000 elements",
    ),
    "with a million elements": (
        header(20, 4) + b"\0" + uvarint(1_000_001) + b"\1" * 1_000_000 + bytes(5),
        "1000000 elements",
    ),
}


@pytest.mark.parametrize("kind", BAD_FRAMES)
def test_a_frame_is_refused(broker: BrokerProcess, client: RawClient, kind: str) -> None:
    data, reason = BAD_FRAMES[kind]
    client.send(data)
    client.wait_closed()
    said(broker, client.address, reason)


@pytest.mark.parametrize("kind", BAD_REQUESTS)
def test_a_request_is_refused(broker: BrokerProcess, client: RawClient, kind: str) -> None:
    body, reason = BAD_REQUESTS[kind]
    client.send_body(body)
    client.wait_closed()
    said(broker, client.address, reason)


def test_a_peer_that_leaves_in_a_request_is_said_so(
    broker: BrokerProcess, client: RawClient
) -> None:
    client.send(pack(">i", 1000) + bytes(500))
    client.socket.shutdown(socket.SHUT_WR)
    client.wait_closed()
    said(broker, client.address, "in the middle of a request")


def test_honest_requests_before_a_bad_one_are_answered(
    broker: BrokerProcess, client: RawClient
) -> None:
    honest = request_frame(3, 12, 5, None, MetadataRequest(topics=[]))
    client.send(honest * 3 + pack(">i", -1))
    for _ in range(3):
        assert client.receive()[:4] == pack(">i", 5)
    client.wait_closed()


def test_after_all_of_these_others_are_served(broker: BrokerProcess, stored: str) -> None:
    bad = [data for data, _ in BAD_FRAMES.values()]
    bad += [pack(">i", len(body)) + body for body, _ in BAD_REQUESTS.values()]
    before = memory(broker)
    for _ in range(10):
        for data in bad:
            with RawClient(broker.host, broker.port) as client:
                try:
                    client.send(data)
                    client.wait_closed()
                except Closed:
                    pass
    served(broker, stored)
    assert memory(broker) < before + 20 * MIB


# --- batches ------------------------------------------------------------------------------------

BAD_BATCHES = {
    "wrong checksum": ({"crc": 0}, Code.CORRUPT_MESSAGE),
    "magic 0": ({"magic": 0}, Code.CORRUPT_MESSAGE),
    "magic 1": ({"magic": 1}, Code.CORRUPT_MESSAGE),
    "magic 3": ({"magic": 3}, Code.CORRUPT_MESSAGE),
    "fewer records than offsets": ({"last_offset_delta": 5}, Code.INVALID_RECORD),
    "more records than offsets": ({"record_count": 5}, Code.INVALID_RECORD),
    "no records": ({"record_count": 0, "last_offset_delta": -1}, Code.INVALID_RECORD),
    "negative count": ({"record_count": -1}, Code.INVALID_RECORD),
    "length beyond its end": ({"length": 2**31 - 1}, Code.CORRUPT_MESSAGE),
    "negative length": ({"length": -1}, Code.CORRUPT_MESSAGE),
    "unknown codec": ({"attributes": 7}, Code.CORRUPT_MESSAGE),
    "control batch": ({"attributes": 1 << 5}, Code.INVALID_RECORD),
}


@pytest.mark.parametrize("kind", BAD_BATCHES)
def test_a_batch_is_refused_and_its_connection_goes_on(
    broker: BrokerProcess, client: RawClient, stored: str, kind: str
) -> None:
    fields, code = BAD_BATCHES[kind]
    told = client.produce(stored, forge(batch_of(b"v"), **fields))
    assert told.error_code == code
    assert told.error_message
    said(broker, client.address, code.name)
    assert client.fetch(stored, 0).high_watermark == 0
    assert client.produce(stored, batch_of(b"good")).base_offset == 0


def test_a_batch_that_unpacks_into_gigabytes_is_stored_and_harms_nobody(
    broker: BrokerProcess, client: RawClient, stored: str
) -> None:
    """The broker never unpacks it to store it; who does, stops at a bound."""
    data = bomb(512 * MIB, Codec.ZSTD)
    assert len(data) < MIB
    forget_peak(broker)
    before = memory(broker)
    assert client.produce(stored, data).error_code == 0
    records = records_in(client.fetch(stored, 0))
    assert memory(broker, "VmHWM") < before + 8 * MIB
    with pytest.raises(Corrupt):
        decode_batch(records, size_max=16 * MIB)
    served(broker, stored)


def test_looking_for_a_time_in_such_a_batch_is_bounded(
    broker: BrokerProcess, client: RawClient, stored: str
) -> None:
    assert client.produce(stored, bomb(512 * MIB, Codec.ZSTD)).error_code == 0
    wanted = ListOffsetsPartition(partition_index=0, timestamp=1)
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=stored, partitions=[wanted])]
    )
    forget_peak(broker)
    before = memory(broker)
    answer = client.call(request, 7, ListOffsetsResponse)
    assert answer.topics[0].partitions[0].error_code in (0, Code.CORRUPT_MESSAGE)
    assert memory(broker, "VmHWM") < before + 300 * MIB
    served(broker, stored)
    assert memory(broker) < before + 20 * MIB


# --- names --------------------------------------------------------------------------------------

BAD_NAMES = ["../x", "..", ".", "/etc/x", "a/../../x", "a\0b", "x" * 250, "", "ä", "x\n"]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_topic_name_cannot_leave_the_data_directory(
    broker: BrokerProcess, client: RawClient, stored: str, name: str
) -> None:
    assert broker.data is not None
    around = sorted(broker.data.parent.iterdir())
    topics = {topic.name for topic in client.metadata().topics}
    assert client.create_topic(name) == Code.INVALID_TOPIC_EXCEPTION
    asked = MetadataRequest(
        topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=True
    )
    answer = client.call(asked, 9, MetadataResponse)
    assert answer.topics[0].error_code == Code.INVALID_TOPIC_EXCEPTION
    assert client.produce(name, batch_of(b"v")).error_code in (
        Code.UNKNOWN_TOPIC_OR_PARTITION,
        Code.INVALID_TOPIC_EXCEPTION,
    )
    assert {topic.name for topic in client.metadata().topics} == topics
    assert sorted(broker.data.parent.iterdir()) == around
    served(broker, stored)


# --- the slow -----------------------------------------------------------------------------------


def test_requests_that_never_end_leave_room_for_others(broker: BrokerProcess, stored: str) -> None:
    """Each announces 100 MB and sends a little: together they could hold all memory for frames."""
    before = memory(broker)
    with ExitStack() as held:
        for _ in range(400):
            slow = held.enter_context(RawClient(broker.host, broker.port))
            slow.send(pack(">i", FRAME_SIZE_MAX) + bytes(100))
        assert memory(broker) < before + 60 * MIB
        # Larger than one read, so it needs some of that memory too. Slow ones go after 2 s.
        served(broker, stored, b"x" * 500_000, within_s=WAIT_S)


def test_a_thousand_readers_that_do_not_read_cost_little(
    broker: BrokerProcess, stored: str
) -> None:
    with RawClient(broker.host, broker.port) as writer:
        for _ in range(8):
            assert writer.produce(stored, batch_of(b"x" * 900_000)).error_code == 0
    fetch = request_frame(1, 12, 1, None, fetch_request(stored, 0, 0, bytes_max=8 * MIB))
    named = MetadataRequest(topics=[MetadataRequestTopic(name=stored)])
    asking = request_frame(3, 12, 1, None, named)
    before = memory(broker)
    with ExitStack() as held:
        for _ in range(1000):
            stalled = held.enter_context(socket.socket())
            stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            stalled.settimeout(WAIT_S)
            stalled.connect((broker.host, broker.port))
            stalled.sendall(fetch + asking * 50)
        served(broker, stored)
        assert memory(broker) < before + 100 * MIB
    served(broker, stored)


def test_a_read_full_of_requests_for_long_replies_is_bounded(
    broker: BrokerProcess, client: RawClient, stored: str
) -> None:
    """A listing of many partitions is ten thousand times as long as the request for it."""
    assert client.create_topic(f"{stored}-wide", 1000) == 0
    listing = request_frame(3, 1, 1, None, MetadataRequest(topics=None))
    before = memory(broker)
    with ExitStack() as held:
        for _ in range(20):
            greedy = held.enter_context(socket.socket())
            greedy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            greedy.connect((broker.host, broker.port))
            greedy.sendall(listing * 2000)
        served(broker, stored)
        assert memory(broker) < before + 60 * MIB


# --- the many -----------------------------------------------------------------------------------


class FewFiles(BrokerProcess):
    """A broker that may open only so many files."""

    def command(self) -> list[str]:
        return ["sh", "-c", 'ulimit -n 64; exec "$@"', "sh", *super().command()]


@pytest.mark.parametrize("segment_bytes", [1 << 30, 10_000], ids=["one segment", "many"])
def test_a_crowd_leaves_file_descriptors_to_those_inside(
    tmp_path: Path, segment_bytes: int
) -> None:
    """A broker that could not open its own files would have to stop."""
    options = {"log.segment.bytes": str(segment_bytes)}
    broker = FewFiles(tmp_path / "data", options, log=tmp_path / "log")
    broker.start()
    try:
        with RawClient(broker.host, broker.port) as early, ExitStack() as held:
            assert early.create_topic("t") == 0
            for _ in range(100):
                crowd = socket.create_connection((broker.host, broker.port), timeout=WAIT_S)
                held.callback(crowd.close)
            until(lambda: "refused" in broker.log, "somebody turned away")
            for number in range(200):
                assert early.produce("t", batch_of(b"x" * 1000)).base_offset == number
            until(resting(broker), "the broker spins")
            assert early.create_topic("more", 3) == 0
            assert early.fetch("t", 0).error_code == 0
        until(lambda: _answers(broker), "the broker takes connections again")
        served(broker, "t")
    finally:
        assert broker.stop() == 0
    broker.check_log()


def _answers(broker: BrokerProcess) -> bool:
    try:
        with RawClient(broker.host, broker.port) as client:
            client.metadata()
    except Closed:
        return False
    return True


def test_the_limit_of_connections_holds_and_is_said(tmp_path: Path) -> None:
    broker = BrokerProcess(
        tmp_path / "data", {"max.connections.per.ip": "5"}, log=tmp_path / "log"
    ).start()
    try:
        with ExitStack() as held:
            for _ in range(5):
                client = held.enter_context(RawClient(broker.host, broker.port))
                client.metadata()
            with RawClient(broker.host, broker.port) as sixth:
                sixth.wait_closed()
                said(broker, sixth.address, "max.connections.per.ip is 5")
        until(lambda: _answers(broker), "the broker takes connections again")
    finally:
        broker.stop()
