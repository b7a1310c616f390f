"""How messages of the controller reach brokers: in order, until answered, never without end."""

import asyncio
from collections.abc import Callable

from barnabas.broker.controller.channels import WAITING_MAX, ControllerChannels
from barnabas.model.errors import Code, Retriable
from barnabas.model.ids import BrokerId
from barnabas.wire.codec import ProtocolMessage
from barnabas.wire.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from barnabas.wire.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from tests.waiting import WAIT_S

ONE = BrokerId(1)
EPOCH = 7


class Road:
    """To brokers that answer, refuse, or are silent."""

    def __init__(self) -> None:
        self.came: list[ProtocolMessage] = []
        self.answers: list[int | None] = []  # codes to answer with; None: out of reach
        self.open = asyncio.Event()
        self.open.set()
        self.epoch = EPOCH
        self.answered: list[ProtocolMessage] = []
        self.behind: list[BrokerId] = []

    async def call(
        self, broker: BrokerId, message: ProtocolMessage, *, timeout_ms: int
    ) -> ProtocolMessage:
        await self.open.wait()
        code = self.answers.pop(0) if self.answers else 0
        if code is None:
            raise Retriable(Code.NETWORK_EXCEPTION, "out of reach")
        self.came.append(message)
        if isinstance(message, StopReplicaRequest):
            return StopReplicaResponse(error_code=code, partition_errors=[])
        return UpdateMetadataResponse(error_code=code)

    def channels(self) -> ControllerChannels:
        return ControllerChannels(
            self,  # type: ignore[arg-type]
            lambda broker: self.epoch,
            lambda broker, request, answer: self.answered.append(request),
            self.behind.append,
        )


def metadata(number: int, epoch: int = EPOCH) -> ProtocolMessage:
    return UpdateMetadataRequest(
        controller_id=number,
        controller_epoch=1,
        broker_epoch=epoch,
        topic_states=[],
        live_brokers=[],
    )


def stop() -> ProtocolMessage:
    return StopReplicaRequest(
        controller_id=0, controller_epoch=1, broker_epoch=EPOCH, topic_states=[]
    )


def run(play: Callable[[Road, ControllerChannels], "asyncio.Future[None] | None"]) -> Road:
    async def inner() -> Road:
        road = Road()
        channels = road.channels()
        last = play(road, channels)
        if last is not None:
            async with asyncio.timeout(WAIT_S):
                await last
        channels.close()
        return road

    return asyncio.run(inner())


def test_messages_come_in_order_also_when_some_must_be_sent_again() -> None:
    sent = [metadata(number) for number in range(4)]

    def play(road: Road, channels: ControllerChannels) -> "asyncio.Future[None]":
        road.answers = [0, None, Code.BROKER_NOT_AVAILABLE, 0, None, 0]
        return [channels.send(ONE, each) for each in sent][-1]

    road = run(play)
    assert road.answered == sent
    assert road.came == [sent[0], sent[1], sent[1], sent[2], sent[3]]


def test_what_was_meant_for_a_broker_that_is_gone_is_dropped() -> None:
    def play(road: Road, channels: ControllerChannels) -> "asyncio.Future[None]":
        channels.send(ONE, metadata(1, epoch=EPOCH - 1))
        return channels.send(ONE, metadata(2))

    assert [getattr(each, "controller_id", -1) for each in run(play).came] == [2]


def test_an_older_state_than_the_broker_has_is_not_sent_again() -> None:
    def play(road: Road, channels: ControllerChannels) -> "asyncio.Future[None]":
        road.answers = [Code.STALE_CONTROLLER_EPOCH]
        return channels.send(ONE, metadata(1))

    assert len(run(play).answered) == 1


def test_a_broker_that_is_far_behind_gets_everything_at_once() -> None:
    """But what deletes logs is said all the same: nothing later says it."""
    stops = [stop(), stop()]

    def play(road: Road, channels: ControllerChannels) -> "asyncio.Future[None]":
        road.open.clear()
        first = metadata(0)
        channels.send(ONE, first)
        channels.send(ONE, stops[0])
        for number in range(WAITING_MAX - 2):
            channels.send(ONE, metadata(number + 1))
        last = channels.send(ONE, stops[1])
        road.open.set()
        return last

    road = run(play)
    assert road.behind == [ONE]
    assert len(road.came) == 3
    assert road.came[1:] == stops


def test_requests_of_an_old_controller_epoch_are_not_awaited() -> None:
    def play(road: Road, channels: ControllerChannels) -> "asyncio.Future[None]":
        road.open.clear()
        sent = channels.send(ONE, metadata(1))
        channels.close()
        return sent

    assert run(play).came == []
