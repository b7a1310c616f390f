"""Bytes of any kind before a login: no failure of the broker, no way in, and little memory."""

import asyncio
import random
from pathlib import Path

import pytest

from barnabas.broker.security import authentication
from barnabas.security.principal import ANONYMOUS
from barnabas.security.sasl.client_login import ClientLogin, SaslLogin
from barnabas.wire.frames import request_frame
from barnabas.wire.messages.api_versions import ApiVersionsRequest
from barnabas.wire.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.broker.running import Running, Wire, running_broker
from tests.broker.security.logging_in import SETTINGS, keeper_with, log_in
from tests.share import SEED
from tests.waiting import eventually

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI", "")
ROUNDS = 3_000


def tokens(chance: random.Random) -> bytes:
    scram = ClientLogin(SaslLogin("SCRAM-SHA-256", "alice", "x"), "nonce")._exchange.first()
    token = bytearray(
        chance.choice([b"\0alice\0wrong", scram, b"c=biws,r=nonce,p=", b"", b"\0" * 40])
    )
    for _ in range(chance.choice([0, 0, 1, 3])):
        if token:
            token[chance.randrange(len(token))] = chance.randrange(256)
    return bytes(token) * chance.choice([1, 1, 1, 50])


def frame(chance: random.Random) -> bytes:
    """One request, or something like one."""
    kind = chance.randrange(6)
    if kind == 0:
        made = request_frame(
            18, 3, 1, "t", ApiVersionsRequest(client_software_name="t", client_software_version="1")
        )
    elif kind in (1, 2):
        version = chance.randrange(2)
        request = SaslHandshakeRequest(mechanism=chance.choice(MECHANISMS))
        made = request_frame(17, version, 1, "t", request)
    elif kind == 3:
        made = request_frame(
            36, chance.randrange(3), 1, "t", SaslAuthenticateRequest(auth_bytes=tokens(chance))
        )
    elif kind == 4:
        token = tokens(chance)
        made = len(token).to_bytes(4) + token
    else:
        made = request_frame(3, 12, 1, "t", MetadataRequest(topics=[]))
    data = bytearray(made)
    for _ in range(chance.choice([0, 0, 0, 1, 4])):
        data[chance.randrange(len(data))] = chance.randrange(256)
    return bytes(data)


async def test_no_sequence_of_bytes_is_a_login_or_a_failure_of_the_broker(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    keeper = keeper_with({"alice": "another"})
    async with running_broker(tmp_path, SETTINGS, keeper) as run:
        for _ in range(ROUNDS):
            wire = run.connect()
            for _ in range(chance.randrange(1, 6)):
                wire.put(frame(chance))
            for _ in range(3):  # turns of the broker
                await asyncio.sleep(0)
        assert run.broker.counts.logins_failed > ROUNDS // 4
        assert all(each.principal == ANONYMOUS for each in run.broker.connections)
        assert run.broker.counts.logins == 0
        assert run.broker.counts.failures == 0, run.log.getvalue()
        assert run.broker.dispatcher.requests[3] == [0]
        await _log_in_and_ask(run, run.connect())


async def _log_in_and_ask(run: Running, wire: Wire) -> None:
    await log_in(run, wire, "SCRAM-SHA-256", password="another")
    await run.ask(MetadataRequest(topics=[]), MetadataResponse, wire=wire)


async def test_large_tokens_that_are_only_announced_take_little_memory(tmp_path: Path) -> None:
    async with running_broker(tmp_path, SETTINGS, keeper_with({"alice": "another"})) as run:
        for _ in range(3_000):
            run.connect().put((500_000).to_bytes(4) + b"x" * 10)
        await eventually(lambda: len(run.broker.connections) <= authentication.LOGINS_MAX)
        (context,) = (each for each in run.broker.listeners.contexts if each.frame_size_min == 0)
        assert context.buffers.bytes_out <= authentication.BUFFERS_BYTES_MAX
        assert run.broker.request_buffer_bytes == 0
        await _log_in_and_ask(run, run.connect())


@pytest.mark.parametrize("count", [200])
async def test_failed_logins_that_wait_hold_nobody_up(tmp_path: Path, count: int) -> None:
    settings = {**SETTINGS, "connection.failed.authentication.delay.ms": "60000"}
    async with running_broker(tmp_path, settings, keeper_with({"alice": "another"})) as run:
        for _ in range(count):
            run.send(MetadataRequest(topics=[]), wire=run.connect())
        await eventually(lambda: run.broker.counts.logins_failed == count)
        await _log_in_and_ask(run, run.connect())
