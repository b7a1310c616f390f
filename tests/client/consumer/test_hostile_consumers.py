"""Consumers against brokers that lie: a typed error, in time, and no more memory than is fair."""

import asyncio
import resource
import time
from collections.abc import Callable
from typing import Any

import pytest

import barnabas
import barnabas.sync
from barnabas.client.consumer.membership.classic_protocol import encode_shares
from barnabas.model.errors import Code, Corrupt, InvalidRequest, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.wire.compression import Codec
from barnabas.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from barnabas.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from barnabas.wire.messages.heartbeat import HeartbeatResponse
from barnabas.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from barnabas.wire.messages.leave_group import LeaveGroupResponse
from barnabas.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from barnabas.wire.messages.offset_fetch import OffsetFetchResponse, OffsetFetchResponseGroup
from barnabas.wire.messages.sync_group import SyncGroupResponse
from barnabas.wire.records import Record, encode_batch
from tests.client.fetched import batch
from tests.client.impostor import METADATA, Behave, Impostor, Request
from tests.client.test_hostile import another_request, cut_short, garbage, hang_up, silent
from tests.share import IN_FULL
from tests.waiting import WAIT_S

FETCH, LIST_OFFSETS, OFFSET_FETCH, FIND_COORDINATOR = 1, 2, 9, 10
JOIN, HEARTBEAT, LEAVE, SYNC = 11, 12, 13, 14
LONG_S = WAIT_S
NOTHING_S = 0.25 if IN_FULL else 0.1  # in which nothing comes
QUICK: dict[str, Any] = {
    "request_timeout_ms": 300,
    "default_api_timeout_ms": 120_000,
    "retry_backoff_ms": 20,
    "auto_offset_reset": "earliest",
    "fetch_max_wait_ms": 50,
}


def offsets_are(offset: int) -> Behave:
    def answer(request: Request) -> None:
        partition = ListOffsetsPartitionResponse(partition_index=0, error_code=0, offset=offset)
        topic = ListOffsetsTopicResponse(name="t", partitions=[partition])
        request.answer(ListOffsetsResponse(topics=[topic]))

    return answer


def fetches_give(records: bytes, **more: Any) -> Behave:
    def answer(request: Request) -> None:
        fields = {"partition_index": 0, "error_code": 0, "high_watermark": 100, **more}
        partition = PartitionData(records=records, **fields)
        topic = FetchableTopicResponse(topic="t", partitions=[partition])
        request.answer(FetchResponse(responses=[topic]))

    return answer


def broken(data: bytes, position: int) -> bytes:
    return data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :]


def bomb() -> bytes:
    """Of 300 MB, in a batch of some kilobytes."""
    return bytes(encode_batch([Record(0, 0, None, bytes(300_000_000))], codec=Codec.ZSTD))


def session_lost(request: Request) -> None:
    code = Code.FETCH_SESSION_ID_NOT_FOUND
    request.answer(FetchResponse(error_code=code, responses=[]))


def world(impostor: Callable[[], Impostor], behaviours: dict[int, Behave]) -> Behave:
    def answer(request: Request) -> None:
        if behave := behaviours.get(request.key):
            behave(request)
        elif request.key == METADATA:
            request.answer(impostor().metadata())
        elif request.key == LIST_OFFSETS:
            offsets_are(0)(request)
        elif request.key == FIND_COORDINATOR:
            [group] = request.message.coordinator_keys
            found = Coordinator(
                key=group, node_id=1, host="127.0.0.1", port=impostor().port, error_code=0
            )
            request.answer(FindCoordinatorResponse(coordinators=[found]))
        elif request.key == OFFSET_FETCH:
            group = request.message.groups[0].group_id
            none = OffsetFetchResponseGroup(group_id=group, topics=[])
            request.answer(OffsetFetchResponse(groups=[none]))
        elif request.key == HEARTBEAT:
            request.answer(HeartbeatResponse(error_code=0))
        elif request.key == LEAVE:
            request.answer(LeaveGroupResponse(error_code=0))
        elif request.key == FETCH:
            fetches_give(b"")(request)

    return answer


def read(address: str, blocking: bool, group: str, timeout: float) -> list[Any]:
    options = {"bootstrap_servers": address, "group_id": group, **QUICK}
    if blocking:
        with (
            barnabas.sync.Consumer("t", **options)
            if group
            else barnabas.sync.PartitionConsumer([("t", 0)], **options)
        ) as consumer:
            return consumer.getmany(timeout=timeout)

    async def awaiting() -> list[Any]:
        async with (
            barnabas.Consumer("t", **options)
            if group
            else barnabas.PartitionConsumer([("t", 0)], **options)
        ) as consumer:
            return await consumer.getmany(timeout=timeout)

    return asyncio.run(awaiting())


def refusal(
    behaviours: dict[int, Behave], blocking: bool, group: str = "", *, raises: bool = True
) -> KafkaError | None:
    """What reading raises; nothing comes, in any case, and soon."""
    timeout = LONG_S - 5 if raises else NOTHING_S
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with Impostor(world(lambda: impostor, behaviours)) as impostor:
        started = time.monotonic()
        try:
            assert read(impostor.address, blocking, group, timeout) == []
        except KafkaError as problem:
            return problem
        finally:
            assert time.monotonic() - started < LONG_S
            grown_mb = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
            assert grown_mb < 200
    return None


@pytest.mark.parametrize("blocking", [False, True], ids=["awaited", "blocking"])
@pytest.mark.parametrize(
    ("behave", "kind", "said"),
    [
        (silent, None, ""),
        (hang_up, None, ""),
        (session_lost, None, ""),
        (garbage, None, ""),  # fetched again, on another connection
        (another_request, None, ""),
        (cut_short, None, ""),
        (fetches_give(broken(batch(0, 3), 70)), Corrupt, "checksum"),
        (fetches_give(batch(0, 3)[:-1]), Corrupt, "no batch"),
        (fetches_give(b"\xff" * 500), Corrupt, ""),
        (fetches_give(b"", partition_index=7), None, ""),
        (fetches_give(b"", error_code=32_000), KafkaError, "error code 32000"),
        (fetches_give(b"", error_code=Code.TOPIC_AUTHORIZATION_FAILED), InvalidRequest, "t-0"),
        (fetches_give(b"", error_code=Code.OFFSET_OUT_OF_RANGE), None, ""),
        (fetches_give(b"", error_code=Code.NOT_LEADER_OR_FOLLOWER), None, ""),
        (fetches_give(b"", preferred_read_replica=99), None, ""),
    ],
    ids=[
        "silent", "hang-up", "session", "garbage", "correlation", "short", "checksum", "part",
        "rubbish", "other", "future", "refused", "range", "moved", "replica",
    ],
)  # fmt: skip
def test_a_fetch_that_lies(
    behave: Behave, kind: type[KafkaError] | None, said: str, blocking: bool
) -> None:
    problem = refusal({FETCH: behave}, blocking, raises=kind is not None)
    if kind is None:
        assert problem is None
    else:
        assert isinstance(problem, kind)
        assert said in str(problem)


@pytest.mark.parametrize("blocking", [False, True], ids=["awaited", "blocking"])
@pytest.mark.parametrize(
    "behave",
    [
        garbage, another_request, cut_short, fetches_give(broken(batch(0, 3), 70)),
        fetches_give(batch(0, 3)[:-1]), fetches_give(b"\xff" * 500),
    ],
    ids=["garbage", "correlation", "short", "checksum", "part", "rubbish"],
)  # fmt: skip
def test_what_was_garbled_once_is_fetched_again(behave: Behave, blocking: bool) -> None:
    behaviours = iter([behave])

    def once(request: Request) -> None:
        next(behaviours, fetches_give(batch(0, 3)))(request)

    with Impostor(world(lambda: impostor, {FETCH: once})) as impostor:
        found = read(impostor.address, blocking, "", LONG_S)
    assert [message.offset for message in found] == [0, 1, 2]


@pytest.mark.full
def test_a_bomb_is_not_unpacked() -> None:
    problem = refusal({FETCH: fetches_give(bomb())}, blocking=False)
    assert isinstance(problem, Corrupt)
    assert "the most allowed" in str(problem)


def test_an_end_before_the_beginning() -> None:
    problem = refusal({LIST_OFFSETS: offsets_are(-1)}, blocking=False)
    assert isinstance(problem, Corrupt)


# --- coordinators ---


def joined(**more: Any) -> Behave:
    def answer(request: Request) -> None:
        fields: dict[str, Any] = {
            "error_code": 0,
            "generation_id": 1,
            "protocol_type": "consumer",
            "protocol_name": "range",
            "leader": "me",
            "member_id": "me",
            "members": [],
            **more,
        }
        request.answer(JoinGroupResponse(**fields))

    return answer


def synced(assignment: bytes, code: int = 0) -> Behave:
    def answer(request: Request) -> None:
        request.answer(SyncGroupResponse(error_code=code, assignment=assignment))

    return answer


def coordinated_by(node: int, code: int = 0) -> Behave:
    def answer(request: Request) -> None:
        [group] = request.message.coordinator_keys
        found = Coordinator(key=group, node_id=node, host="h", port=1, error_code=code)
        request.answer(FindCoordinatorResponse(coordinators=[found]))

    return answer


STRANGER = JoinGroupResponseMember(member_id="stranger", metadata=b"\xff\xffrubbish")
NOWHERE = encode_shares([TopicPartition("t", 999_999_999), TopicPartition("gone", 0)])


@pytest.mark.parametrize("blocking", [False, True], ids=["awaited", "blocking"])
@pytest.mark.parametrize(
    ("behaviours", "kind", "said"),
    [
        ({FIND_COORDINATOR: coordinated_by(99)}, None, ""),
        ({FIND_COORDINATOR: coordinated_by(-1, Code.COORDINATOR_NOT_AVAILABLE)}, None, ""),
        ({FIND_COORDINATOR: coordinated_by(-1, Code.GROUP_AUTHORIZATION_FAILED)},
         InvalidRequest, "not allowed"),
        ({JOIN: silent}, None, ""),
        ({JOIN: hang_up}, None, ""),
        ({JOIN: garbage}, None, ""),
        ({SYNC: cut_short}, None, ""),
        ({OFFSET_FETCH: garbage}, None, ""),
        ({JOIN: joined(error_code=Code.UNKNOWN_MEMBER_ID)}, None, ""),
        ({JOIN: joined(error_code=Code.MEMBER_ID_REQUIRED)}, None, ""),
        ({JOIN: joined(error_code=Code.INVALID_SESSION_TIMEOUT)}, InvalidRequest,
         "group.min.session.timeout.ms"),
        ({JOIN: joined(protocol_name="magic")}, InvalidRequest, "'magic'"),
        ({JOIN: joined(members=[STRANGER]), SYNC: synced(b"")}, None, ""),
        ({JOIN: joined(), SYNC: synced(b"\0\1\xff\xff")}, Corrupt, "assignment"),
        ({JOIN: joined(), SYNC: synced(b"", Code.REBALANCE_IN_PROGRESS)}, None, ""),
        ({JOIN: joined(), SYNC: synced(b"", Code.ILLEGAL_GENERATION)}, None, ""),
        ({JOIN: joined(), SYNC: synced(NOWHERE)}, None, ""),
    ],
    ids=[
        "nobody", "unavailable", "forbidden", "silent", "hang-up", "garbage", "short",
        "garbled offsets", "forgotten", "id", "session",
        "magic", "stranger", "rubbish", "again", "generation", "nowhere",
    ],
)  # fmt: skip
def test_a_coordinator_that_lies(
    behaviours: dict[int, Behave], kind: type[KafkaError] | None, said: str, blocking: bool
) -> None:
    problem = refusal(behaviours, blocking, group="g", raises=kind is not None)
    if kind is None:
        assert problem is None
    else:
        assert isinstance(problem, kind)
        assert said in str(problem)


ANYTHING: Any = barnabas


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: ANYTHING.Consumer(["a", "b"], group_id="g"), r"not \['a', 'b'\].*Consumer\("),
        (lambda: ANYTHING.PartitionConsumer("tt"), r"\(\"orders\", 0\).*not 'tt'"),
        (lambda: ANYTHING.PartitionConsumer([("t", "0")]), r"not \('t', '0'\)"),
        (lambda: ANYTHING.PartitionConsumer(["ab"]), "not 'ab'"),
        (lambda: ANYTHING.PartitionConsumer(7), "not 7"),
        (
            lambda: ANYTHING.Consumer("t", group_id="g", value_deserialiser=int),
            "did you mean value_deserializer",
        ),
        (
            lambda: ANYTHING.Consumer("t", {"group.id": object()}),
            r"group\.id is <object.*: expected a text, a number",
        ),
        (lambda: ANYTHING.parallel("t", group_id="g", windw=3), "unknown client option 'windw'"),
        (
            lambda: ANYTHING.parallel("t", group_id="g", settings={"fetch.min.byte": 3}),
            r"did you mean fetch\.min\.bytes",
        ),
    ],
)
async def test_an_ordinary_mistake_is_said_in_its_own_words(
    make: Callable[[], object], said: str
) -> None:
    with pytest.raises(InvalidRequest, match=said):
        make()
