"""Answers to members of a group that are garbled on the way: the client reconnects and asks again.

In: a broker that garbles one answer, or every answer of a kind. Out: nothing that the caller
notices, or an error that names what happened.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

import barnabas
import barnabas.sync
from barnabas import parallel, per_thread
from barnabas.client.consumer.membership.classic_protocol import encode_shares
from barnabas.client.consumer.message import RawMessage
from barnabas.model.errors import KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.heartbeat import HeartbeatResponse
from barnabas.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from barnabas.wire.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tests.client.consumer.test_hostile_consumers import (
    FETCH,
    HEARTBEAT,
    JOIN,
    LONG_S,
    SYNC,
    fetches_give,
    synced,
    world,
)
from tests.client.fetched import batch
from tests.client.impostor import Behave, Impostor, Request
from tests.client.test_hostile import another_request, cut_short, garbage
from tests.client_e2e.test_workers import in_thread
from tests.waiting import eventually, until

pytestmark = pytest.mark.slow

OFFSET_COMMIT = 8
MEMBER: dict[str, Any] = {
    "group_id": "g",
    "request_timeout_ms": 60_000,
    "retry_backoff_ms": 20,
    "heartbeat_interval_ms": 50,
    "auto_offset_reset": "earliest",
    "fetch_max_wait_ms": 50,
}
WAYS = pytest.mark.parametrize(
    "garble", [garbage, another_request, cut_short], ids=["garbage", "correlation", "short"]
)
DRIVERS = pytest.mark.parametrize("blocking", [False, True], ids=["awaited", "blocking"])


class Coordinator:
    """Has one member, with t-0 and three records. The first answers of a kind are garbled."""

    def __init__(self, key: int, garble: Behave, times: int = 1) -> None:
        self._key, self._garble, self._left = key, garble, times
        self.garbled: list[Request] = []
        self.answered: list[Request] = []  # of the kind
        self.joins = 0
        self._true: dict[int, Behave] = {
            JOIN: self._join,
            SYNC: synced(encode_shares([TopicPartition("t", 0)])),
            FETCH: self._fetch,
            OFFSET_COMMIT: self._commit,
            HEARTBEAT: lambda request: request.answer(HeartbeatResponse(error_code=0)),
        }
        self.behaviours: dict[int, Behave] = {**self._true, key: self._perhaps}

    def _perhaps(self, request: Request) -> None:
        if self._left > 0:
            self._left -= 1
            self.garbled.append(request)
            self._garble(request)
            return
        self._true[self._key](request)
        self.answered.append(request)

    def _join(self, request: Request) -> None:
        self.joins += 1
        [protocol] = [each for each in request.message.protocols if each.name == "range"]
        me = JoinGroupResponseMember(member_id="me", metadata=bytes(protocol.metadata))
        request.answer(
            JoinGroupResponse(
                error_code=0,
                generation_id=1,
                protocol_type="consumer",
                protocol_name="range",
                leader="me",
                member_id="me",
                members=[me],
            )
        )

    def _fetch(self, request: Request) -> None:
        at = [p.fetch_offset for topic in request.message.topics for p in topic.partitions]
        fetches_give(batch(0, 3) if at == [0] else b"")(request)

    def _commit(self, request: Request) -> None:
        taken = OffsetCommitResponsePartition(partition_index=0, error_code=0)
        topic = OffsetCommitResponseTopic(name="t", partitions=[taken])
        request.answer(OffsetCommitResponse(topics=[topic]))

    def reconnected(self) -> bool:
        """The answer came on another connection than the garbled one."""
        return bool(self.answered) and self.answered[-1].socket is not self.garbled[0].socket


def serving(coordinator: Coordinator) -> Impostor:
    impostor: Impostor
    impostor = Impostor(world(lambda: impostor, coordinator.behaviours))
    return impostor


def read_and(
    blocking: bool, address: str, then: Callable[[Any], Any], **more: Any
) -> list[RawMessage]:
    """Three messages, and then something else with the consumer; what that gives is awaited."""
    options: dict[str, Any] = {"bootstrap_servers": address, **MEMBER, **more}
    if blocking:
        with barnabas.sync.Consumer("t", **options) as consumer:
            found = consumer.getmany(timeout=LONG_S)
            then(consumer)
            return found

    async def awaiting() -> list[RawMessage]:
        async with barnabas.Consumer("t", **options) as consumer:
            found = await consumer.getmany(timeout=LONG_S)
            await then(consumer)
            return found

    return asyncio.run(awaiting())


@WAYS
@DRIVERS
def test_a_commit_whose_answer_was_garbled_is_sent_again(garble: Behave, blocking: bool) -> None:
    coordinator = Coordinator(OFFSET_COMMIT, garble)
    with serving(coordinator) as impostor:
        found = read_and(blocking, impostor.address, lambda c: c.commit(), enable_auto_commit=False)
    assert [message.offset for message in found] == [0, 1, 2]
    assert coordinator.reconnected()
    [topic] = coordinator.answered[-1].message.topics
    assert [p.committed_offset for p in topic.partitions] == [3]


@DRIVERS
def test_a_commit_whose_answers_are_all_garbled_fails_in_time_with_a_named_error(
    blocking: bool,
) -> None:
    coordinator = Coordinator(OFFSET_COMMIT, garbage, times=1_000_000)
    more: dict[str, Any] = {"enable_auto_commit": False}
    started = time.monotonic()
    for more["default_api_timeout_ms"] in (1_000, 60_000):
        with serving(coordinator) as impostor, pytest.raises(KafkaError, match=r"127\.0\.0\.1"):
            read_and(blocking, impostor.address, lambda c: c.commit(), **more)
        if len(coordinator.garbled) > 1:  # else the machine was too busy to try twice
            break
    assert time.monotonic() - started < LONG_S
    assert len(coordinator.garbled) > 1


@WAYS
@DRIVERS
def test_a_member_stays_in_its_group_when_a_heartbeat_is_answered_with_rubbish(
    garble: Behave, blocking: bool
) -> None:
    coordinator = Coordinator(HEARTBEAT, garble)

    def reads_on(consumer: Any) -> Any:
        if blocking:
            return until(lambda: (consumer.getmany(timeout=0.05), coordinator.reconnected())[1])

        async def reading() -> None:
            while not coordinator.reconnected():
                await consumer.getmany(timeout=0.05)

        return asyncio.wait_for(reading(), LONG_S)

    with serving(coordinator) as impostor:
        found = read_and(blocking, impostor.address, reads_on)
    assert [message.offset for message in found] == [0, 1, 2]
    assert coordinator.joins == 1


@WAYS
@pytest.mark.parametrize("key", [FETCH, OFFSET_COMMIT, HEARTBEAT, JOIN, SYNC])
async def test_a_worker_goes_on_when_an_answer_was_garbled(garble: Behave, key: int) -> None:
    coordinator = Coordinator(key, garble)
    seen: list[int] = []

    @parallel("t", commit_interval=0.02, **MEMBER)
    async def handle(message: RawMessage) -> None:
        seen.append(message.offset)

    with serving(coordinator) as impostor:
        running = asyncio.create_task(handle.serve(bootstrap_servers=impostor.address))
        await eventually(lambda: running.done() or (len(seen) >= 3 and coordinator.reconnected()))
        handle.stop()
        await running
    assert sorted(set(seen)) == [0, 1, 2]
    assert coordinator.reconnected()


@WAYS
@pytest.mark.parametrize("key", [FETCH, OFFSET_COMMIT, HEARTBEAT])
def test_a_worker_of_threads_goes_on_when_an_answer_was_garbled(garble: Behave, key: int) -> None:
    coordinator = Coordinator(key, garble)
    seen: list[int] = []

    @per_thread("t", threads=1, **MEMBER)
    def handle(message: RawMessage) -> None:
        seen.append(message.offset)

    with serving(coordinator) as impostor, in_thread(handle, impostor.address):
        until(lambda: len(seen) >= 3 and coordinator.reconnected())
    assert sorted(set(seen)) == [0, 1, 2]
