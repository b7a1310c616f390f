"""No answer to a client with few rights has a name that the rules hide, whatever it asks."""

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from barnabas.broker.net.dispatch import BETWEEN_BROKERS, HANDLERS
from barnabas.model.ids import NO_TOPIC_ID
from barnabas.security.principal import Principal
from barnabas.wire.apis import APIS
from barnabas.wire.frames import request_frame
from barnabas.wire.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from barnabas.wire.messages.offset_commit import OffsetCommitResponse
from tests.broker.authorization.samples import SAMPLES, rule
from tests.broker.authorization.test_table import SETTINGS
from tests.broker.running import Running, Wire, running_broker
from tests.share import SEED, examples

HIDDEN = b"canary"
RIGHTS = (
    "TOPIC READ orders", "TOPIC WRITE orders", "TOPIC DESCRIBE_CONFIGS orders", "GROUP READ g",
    "GROUP DESCRIBE g", "TRANSACTIONAL_ID WRITE t",
)  # fmt: skip
FRAMES = 5_000
ANSWER_S = 0.5  # some requests wait for members


@pytest.fixture
async def run(tmp_path: Path) -> AsyncIterator[Running]:
    """With topics, groups and transactional ids of others that hold the mark in their names."""
    async with running_broker(tmp_path, SETTINGS) as run:
        admin = Principal("User", "admin")
        next(iter(run.broker.connections)).principal = admin
        for name in ("orders", "canary-topic", "ord-canary"):
            await run.create(name)
        await run.produce("canary-topic", 1, 2)
        for key_type, key in ((0, "canary-group"), (1, "canary-id")):
            request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
            await run.ask(request, FindCoordinatorResponse)
        commit = SAMPLES[8].make(9, NO_TOPIC_ID)
        for group in ("canary-group", "g"):
            text = commit.encode(9).replace(b"\x02g", bytes((len(group) + 1,)) + group.encode(), 1)
            await run.ask(type(commit).decode(text, 9), OffsetCommitResponse, 9)
        start = InitProducerIdRequest(transactional_id="canary-id", transaction_timeout_ms=60_000)
        await run.ask(start, InitProducerIdResponse)
        authorizer = run.broker.authorizer
        assert authorizer is not None
        authorizer.decisions.load([rule(right) for right in RIGHTS])
        yield run


def log_in(run: Running) -> Wire:
    wire = run.connect()
    list(run.broker.connections)[-1].principal = Principal("User", "alice")
    return wire


def mutated(frame: bytes, chance: random.Random) -> bytes:
    """The header stays, so that the request arrives; the mark itself is never put in."""
    data = bytearray(frame)
    for _ in range(chance.randrange(4)):
        at = chance.randrange(18, len(data)) if len(data) > 18 else len(data) - 1
        data[at] = chance.choice((0, 1, 2, 255, chance.randrange(256)))
    return bytes(data)


@pytest.mark.parametrize("part", range(2))
async def test_no_answer_has_a_hidden_name(run: Running, part: int) -> None:
    chance = random.Random(SEED + part)
    keys = [key for key in HANDLERS if key not in BETWEEN_BROKERS]
    orders = run.broker.topics.get("orders")
    hidden = run.broker.topics.get("canary-topic")
    assert orders is not None
    assert hidden is not None
    wire = log_in(run)
    answered = 0
    for _ in range(examples(FRAMES)):
        key = chance.choice(keys)
        version = chance.randint(APIS[key].min_version, APIS[key].max_version)
        if key == 24:
            version = min(version, 3)
        request = SAMPLES[key].make(version, chance.choice((orders.id, hidden.id)))
        frame = request_frame(key, version, 7, "test", request)
        assert HIDDEN not in frame
        wire.put(mutated(frame, chance))
        try:
            async with asyncio.timeout(ANSWER_S):
                answer = await wire.take()
        except ConnectionError:
            wire = log_in(run)
            continue
        except TimeoutError:  # a member that waits for others
            wire.close()
            wire = log_in(run)
            continue
        answered += 1
        assert HIDDEN not in answer, f"{APIS[key].name} version {version}: {answer!r}"
    assert answered > examples(FRAMES) // 4
    assert not run.broker.counts.failures
    assert hidden.partitions[0].log.end_offset == 2
