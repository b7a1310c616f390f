"""A TLS connection over a link that takes any part of what is offered: no byte is lost or twice."""

import ssl
from collections.abc import Sequence
from random import Random

import pytest

from barnabas.model.ports import Buffer
from barnabas.system.network import SMALL_BUFFER
from barnabas.system.tls.contexts import client_context, server_context
from barnabas.system.tls.records import AHEAD_MAX, READ_SIZE, TlsRecords
from barnabas.system.tls.stores import read_key_store, read_trust_store
from tests.support.certificates import Pki, new_pki


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return new_pki(tmp_path_factory.mktemp("pki"))


class Link:
    """One direction: takes a part of what is offered, or nothing, as chance has it."""

    def __init__(self, rng: Random | None) -> None:
        self._rng = rng
        self.data = bytearray()
        self.over = False
        self.taken_max = 0

    def send(self, parts: Sequence[Buffer], more: bool) -> int:
        (data,) = parts
        count = len(data)
        self.taken_max = max(self.taken_max, count)
        if self._rng is not None:
            count = self._rng.choice([0, self._rng.randrange(count + 1), count])
        self.data += memoryview(data)[:count]
        return count

    def receive(self, buffer: memoryview) -> int:
        count = min(len(buffer), len(self.data))
        if self._rng is not None and count:
            count = self._rng.randrange(1, count + 1)
        buffer[:count] = self.data[:count]
        del self.data[:count]
        return count or (0 if self.over else -1)


def pair(pki: Pki, version: str, rng: Random | None) -> tuple[TlsRecords, TlsRecords, Link, Link]:
    """Client and server after the handshake."""
    keys = read_key_store(pki.path("server.pem"), None, None, None, None)
    trusted = read_trust_store(pki.path("ca.pem"), None, None)
    there, back = Link(None), Link(None)
    client = TlsRecords(
        client_context(None, trusted, versions=[version]),
        there.send,
        back.receive,
        memoryview(bytearray(READ_SIZE)),
        server_side=False,
        host="localhost",
    )
    server = TlsRecords(
        server_context(keys, None, versions=[version]),
        back.send,
        there.receive,
        memoryview(bytearray(READ_SIZE)),
        server_side=True,
    )
    done = [False, False]
    arrived: list[bytes] = [b"", b""]
    while not all(done):
        for number, (side, other) in enumerate(((client, 1), (server, 0))):
            if not done[number]:
                done[number] = side.handshake(arrived[number])
                arrived[number] = b""
            arrived[other] += side.outgoing()
            if done[other] and arrived[other]:
                (there if other else back).data += arrived[other]
                arrived[other] = b""
    there._rng = back._rng = rng
    return client, server, there, back


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
@pytest.mark.parametrize("seed", range(10))
def test_what_is_sent_arrives_once_and_in_order(pki: Pki, version: str, seed: int) -> None:
    rng = Random(seed)
    client, server, there, _ = pair(pki, version, rng)
    sent = rng.randbytes(rng.choice([1, 1_000, 100_000, 400_000]))
    rest: list[memoryview] = []
    at = 0
    while at < len(sent):  # in parts of any size, some empty
        size = rng.choice([0, 1, rng.randrange(100), rng.randrange(70_000)])
        rest.append(memoryview(sent)[at : at + size])
        at += size
    got = bytearray()
    room = memoryview(bytearray(rng.choice([20, 1_000, 16_384, 200_000])))
    for _ in range(200_000):
        if rest:
            count = client.send(rest, False)
            assert count <= sum(map(len, rest))
            while rest and (count or not len(rest[0])):
                step = min(count, len(rest[0]))
                rest[0] = rest[0][step:]
                count -= step
                if not len(rest[0]):
                    del rest[0]
        received = server.receive_into(room)
        got += room[: max(0, received)]
        if len(got) == len(sent) and not rest:
            break
    assert bytes(got) == sent
    assert there.taken_max <= AHEAD_MAX * 1.1


def test_decrypted_bytes_that_wait_are_said_to_wait(pki: Pki) -> None:
    client, server, *_ = pair(pki, "TLSv1.3", None)
    client.send([b"x" * 1_000], False)
    small = memoryview(bytearray(600))
    assert (server.receive_into(small), server.more) == (600, True)
    assert (server.receive_into(small), server.more) == (400, False)
    assert server.receive_into(small) == -1


def test_the_end_is_reported_after_the_last_bytes(pki: Pki) -> None:
    client, server, there, _ = pair(pki, "TLSv1.3", None)
    room = memoryview(bytearray(100))
    client.send([b"last"], False)
    client.say_goodbye()
    assert (server.receive_into(room), server.more) == (4, True)
    assert server.receive_into(room) == 0
    assert server.ended
    there.over = True
    assert server.receive_into(room) == 0


def test_an_end_without_a_goodbye_is_an_end(pki: Pki) -> None:
    _, server, there, _ = pair(pki, "TLSv1.2", None)
    there.over = True
    assert server.receive_into(memoryview(bytearray(10))) == 0
    assert not server.ended


def test_a_damaged_record_is_an_error(pki: Pki) -> None:
    client, server, there, _ = pair(pki, "TLSv1.3", None)
    client.send([b"hello"], False)
    there.data[-1] ^= 1
    with pytest.raises(ssl.SSLError):
        server.receive_into(memoryview(bytearray(10)))


def test_a_read_is_small_enough_for_the_socket_not_to_wait_for_more() -> None:
    """A part is in OpenSSL already: the rest may be less than the socket would wait for."""
    assert READ_SIZE <= SMALL_BUFFER
