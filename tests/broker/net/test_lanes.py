"""Control before data, and data in slices."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import cast

import pytest

from barnabas.broker.net import lanes as imported
from barnabas.broker.net.lanes import BRISK_S, DATA_SLICE_S, LINGER_S, Lane, Lanes
from tests.plain import flavours, from_source


@pytest.fixture(
    autouse=True,
    params=flavours(from_source("barnabas.broker.net.lanes"), imported),
)
def _flavour(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test twice."""
    for name in ("Lane", "Lanes"):
        monkeypatch.setitem(globals(), name, getattr(request.param, name))


class HandLoop:
    """A loop whose time and turns the test moves by hand."""

    def __init__(self) -> None:
        self.now = 0.0
        self.soon: deque[Callable[[], None]] = deque()

    def time(self) -> float:
        return self.now

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def turn(self) -> None:
        for _ in range(len(self.soon)):
            self.soon.popleft()()


class Busy:
    """Takes `cost` seconds a turn."""

    def __init__(self, loop: HandLoop, name: str, lane: Lane, cost: float, did: list[str]) -> None:
        self.loop = loop
        self.name = name
        self.lane = lane
        self.cost = cost
        self.did = did
        self.queued = False
        self.light = True

    def turn(self) -> None:
        self.loop.now += self.cost
        self.did.append(self.name)


def test_control_takes_its_turn_at_once_and_data_after_it() -> None:
    loop, did = HandLoop(), list[str]()
    lanes = Lanes(cast(asyncio.AbstractEventLoop, loop), loop.time)
    lanes.ready(Busy(loop, "produce", Lane.DATA, 0, did))
    lanes.ready(Busy(loop, "heartbeat", Lane.CONTROL, 0, did))
    loop.turn()
    assert did == ["heartbeat", "produce"]


def test_control_waits_for_one_slice_of_data_work_and_no_more() -> None:
    loop, did = HandLoop(), list[str]()
    lanes = Lanes(cast(asyncio.AbstractEventLoop, loop), loop.time)
    for index in range(100):
        lanes.ready(Busy(loop, f"p{index}", Lane.DATA, DATA_SLICE_S / 2, did))
    loop.turn()
    assert did == ["p0", "p1"]
    lanes.ready(Busy(loop, "heartbeat", Lane.CONTROL, 0, did))
    assert did[-1] == "heartbeat"
    while loop.soon:
        loop.turn()
    assert len(did) == 101


def test_a_connection_that_is_ready_twice_queues_once() -> None:
    loop, did = HandLoop(), list[str]()
    lanes = Lanes(cast(asyncio.AbstractEventLoop, loop), loop.time)
    one = Busy(loop, "one", Lane.DATA, 0, did)
    lanes.ready(one)
    lanes.ready(one)
    loop.turn()
    assert did == ["one"]
    lanes.ready(one)
    loop.turn()
    assert did == ["one", "one"]


def test_data_takes_its_turn_at_once_while_its_slice_lasts() -> None:
    loop, did = HandLoop(), list[str]()
    lanes = Lanes(cast(asyncio.AbstractEventLoop, loop), loop.time)
    one = Busy(loop, "one", Lane.DATA, DATA_SLICE_S / 3, did)
    lanes.ready(one)
    assert did == []
    loop.turn()
    lanes.ready(one)
    lanes.ready(one)
    assert did == ["one"] * 3
    lanes.ready(one)
    assert did == ["one"] * 3
    loop.turn()
    assert did == ["one"] * 4


def test_the_loop_lingers_after_turns_that_follow_each_other_briskly() -> None:
    loop, did = HandLoop(), list[str]()
    lanes = Lanes(cast(asyncio.AbstractEventLoop, loop), loop.time)
    one = Busy(loop, "one", Lane.DATA, BRISK_S / 10, did)
    loop.now = 1.0
    lanes.ready(one)
    loop.turn()
    assert not loop.soon, "the first after a while is not brisk"
    loop.now += BRISK_S / 2
    lanes.ready(one)
    for _ in range(3):
        assert len(loop.soon) == 1, "the loop is kept from its sleep"
        loop.turn()
    loop.now += LINGER_S
    loop.turn()
    assert not loop.soon


def test_the_loop_does_not_linger_where_many_bytes_move() -> None:
    loop, did = HandLoop(), list[str]()
    lanes = Lanes(cast(asyncio.AbstractEventLoop, loop), loop.time)
    one = Busy(loop, "one", Lane.DATA, BRISK_S / 10, did)
    one.light = False
    loop.now = 1.0
    for _ in range(3):
        lanes.ready(one)
        loop.turn()
        assert not loop.soon
        loop.now += BRISK_S / 2


def test_the_loop_sleeps_after_long_turns_and_after_pauses() -> None:
    loop, did = HandLoop(), list[str]()
    lanes = Lanes(cast(asyncio.AbstractEventLoop, loop), loop.time)
    loop.now = 1.0
    for cost, pause in ((BRISK_S, BRISK_S / 2), (BRISK_S, BRISK_S), (BRISK_S / 10, 1.0)):
        lanes.ready(Busy(loop, "one", Lane.DATA, cost, did))
        loop.turn()
        assert not loop.soon
        loop.now += pause
