"""How many connections are created: later ones are accepted later, those of an address over its
quota are closed."""

from pathlib import Path

import pytest

from barnabas.broker.security import connection_rates
from barnabas.broker.security.connection_rates import HELD_MAX
from barnabas.model.errors import KafkaError
from barnabas.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tests.broker.handlers.test_client_quotas import set_quota
from tests.broker.running import Doorway, Running, Wire, running_broker
from tests.waiting import eventually

WINDOWS = {"quota.window.num": "2"}  # of a second: at most a second until all is forgotten


def connect(run: Running, host: str = "203.0.113.7") -> Wire:
    wire = Wire()
    wire.peer = f"{host}:4711"
    door(run).accepted(wire)
    return wire


def door(run: Running) -> Doorway:
    return run._network.doorway


async def answers(run: Running, wire: Wire) -> bool:
    await run.ask(ApiVersionsRequest(), ApiVersionsResponse, 0, wire)
    return True


@pytest.mark.parametrize(
    "option",
    ["max.connection.creation.rate", "listener.name.plaintext.max.connection.creation.rate"],
)
async def test_over_the_rate_a_listener_accepts_later(tmp_path: Path, option: str) -> None:
    async with running_broker(tmp_path, {**WINDOWS, option: "3"}) as run:  # its client is the first
        early = [connect(run) for _ in range(2)]
        assert not door(run).paused
        late = connect(run)
        assert door(run).paused
        assert late._readable is None
        for wire in early:
            assert await answers(run, wire)
        await eventually(lambda: not door(run).paused)
        assert await answers(run, late)


async def test_the_rate_changes_without_a_restart(tmp_path: Path) -> None:
    async with running_broker(tmp_path, WINDOWS) as run:
        for _ in range(50):
            connect(run)
        await run.broker.catalog.configure_broker(
            None, lambda _: {"max.connection.creation.rate": "1"}
        )
        connect(run)
        connect(run)
        assert door(run).paused


async def test_an_address_over_its_quota_is_closed_after_a_while(tmp_path: Path) -> None:
    async with running_broker(tmp_path, WINDOWS) as run:
        await set_quota(run, {"ip": "203.0.113.7"}, connection_creation_rate=2.0)
        good = [connect(run) for _ in range(2)]
        bad = connect(run, "::ffff:203.0.113.7")
        assert not bad.closed, "a client that is closed at once tries again at once"
        other = connect(run, "203.0.113.8")
        for wire in (*good, other):
            assert await answers(run, wire)
        await eventually(lambda: bad.closed)
        assert '"quota": "connection_creation_rate"' in run.log.getvalue().replace('":"', '": "')
        assert run.broker.counts.connections_refused == 1
        assert len(run.broker.connections) == 4


async def test_the_default_holds_for_each_address_alone(tmp_path: Path) -> None:
    async with running_broker(tmp_path, WINDOWS) as run:
        await set_quota(run, {"ip": None}, connection_creation_rate=1.0)
        for number in range(5):
            assert await answers(run, connect(run, f"203.0.113.{100 + number}"))
        connect(run, "203.0.113.100")
        assert run.broker.counts.connections_refused == 1


async def test_connections_that_wait_to_be_closed_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert HELD_MAX == 1_000
    monkeypatch.setattr(connection_rates, "HELD_MAX", 5)
    async with running_broker(tmp_path) as run:
        await set_quota(run, {"ip": None}, connection_creation_rate=1.0)
        wires = [connect(run, "203.0.113.100") for _ in range(40)]
        held = [wire for wire in wires if not wire.closed]
        assert len(held) < 25
        assert any(wire.closed for wire in wires)


async def test_a_broker_of_this_machine_is_never_kept_out(tmp_path: Path) -> None:
    async with running_broker(tmp_path, {**WINDOWS, "max.connection.creation.rate": "1"}) as run:
        await set_quota(run, {"ip": None}, connection_creation_rate=1.0)
        for _ in range(20):
            wire = Wire()
            wire.peer = "127.0.0.1:near"
            door(run).accepted(wire)
            assert await answers(run, wire)


async def test_a_rate_of_a_listener_that_is_no_number_is_refused(tmp_path: Path) -> None:
    option = "listener.name.plaintext.max.connection.creation.rate"
    with pytest.raises(KafkaError, match=r"max\.connection\.creation\.rate"):
        async with running_broker(tmp_path, {option: "many"}):
            pass
