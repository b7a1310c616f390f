"""Many members on the wire, with next to no work per request: frames are made once and resent.

In: an address, how many. Out: latencies and rates.
Always: every reply is compared, byte for byte, with one that was decoded and found good; so no
broker is measured while it refuses. One connection per member, as real members have.
"""

import select
import socket
import statistics
import time
from dataclasses import dataclass
from struct import Struct

from barnabas.wire.codec import ProtocolMessage
from barnabas.wire.frames import read_response, request_frame
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from barnabas.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from barnabas.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tests import group_requests
from tests.group_requests import join_request, sync_request

SESSION_MS = 1_800_000  # nobody expires between rounds
REBALANCE_MS = 60_000
JOIN, SYNC, HEARTBEAT, COMMIT, FIND = 3, 3, 4, 8, 4  # versions
CORRELATION = 7
OFFSET = 4711  # that is committed
COMING_UP = (14, 15, 16)  # coordinator loading, not available, not this one
TIMEOUT_S = 60
_SIZE = Struct(">i")


class Line:
    """One connection, one request at a time."""

    def __init__(self, servers: str) -> None:
        host, _, port = servers.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sent_at = 0.0
        self.frame = b""
        self.expected = b""

    def send(self, request: ProtocolMessage, version: int) -> None:
        self.frame = request_frame(request.api_key, version, CORRELATION, "herd", request)
        self.socket.sendall(self.frame)

    def receive(self, request: type[ProtocolMessage], version: int) -> ProtocolMessage:
        data = b""
        while len(data) < 4 or len(data) < 4 + _SIZE.unpack_from(data)[0]:
            piece = self.socket.recv(1 << 20)
            if not piece:
                raise ConnectionError("the broker closed a member's connection")
            data += piece
        self.expected = data
        return read_response(data[4:], request.api_key, version)[1]

    def call(self, request: ProtocolMessage, version: int) -> ProtocolMessage:
        self.send(request, version)
        return self.receive(type(request), version)


class Epoll:
    """Replies of many lines, as they come."""

    def __init__(self, lines: list[Line]) -> None:
        self._epoll = select.epoll()
        self._by_fd = {line.socket.fileno(): line for line in lines}
        for fd in self._by_fd:
            self._epoll.register(fd, select.EPOLLIN)

    def answered(self, timeout_s: float) -> list[Line]:
        """Those whose reply has come, and is the one that was expected."""
        lines = []
        for fd, _ in self._epoll.poll(timeout_s):
            line = self._by_fd[fd]
            # Replies are some dozen bytes and come in one piece.
            data = line.socket.recv(65536)
            if data != line.expected:
                raise RuntimeError(f"{data!r} instead of {line.expected!r}")
            lines.append(line)
        return lines

    def close(self) -> None:
        self._epoll.close()


def open_coordinator(line: Line, group: str) -> None:
    """Until there is a coordinator that answers for the group."""
    deadline = time.perf_counter() + TIMEOUT_S
    while True:
        request = FindCoordinatorRequest(coordinator_keys=[group])
        answer = line.call(request, FIND)
        assert isinstance(answer, FindCoordinatorResponse)
        code = answer.coordinators[0].error_code
        if not code:
            return
        if time.perf_counter() > deadline:
            raise TimeoutError(f"no coordinator for {group}: error {code}")
        time.sleep(0.05)


@dataclass
class Heartbeats:
    """What a stretch of heartbeats took."""

    count: int
    seconds: float
    p50_ms: float
    p99_ms: float


class Herd:
    """Members of classic groups that have joined, and heartbeat when told to."""

    def __init__(self, servers: str, groups: int, members_each: int) -> None:
        self._lines: list[Line] = []
        for number in range(groups * members_each):
            line = Line(servers)
            # An answer, or connections would come faster than they are accepted.
            open_coordinator(line, f"herd-{number // members_each}")
            self._lines.append(line)
        # All at once, so that each group comes together within its first rebalance's delay.
        for number, line in enumerate(self._lines):
            line.send(_join(f"herd-{number // members_each}"), JOIN)
        for number in range(groups):
            first = number * members_each
            self._sync(f"herd-{number}", self._lines[first : first + members_each])
        # Members of one group are spread over the interval, as they are in life.
        self._order = [
            self._lines[group * members_each + member]
            for member in range(members_each)
            for group in range(groups)
        ]
        self._epoll = Epoll(self._lines)

    def _sync(self, group: str, lines: list[Line]) -> None:
        answers = []
        for line in lines:
            answer = line.receive(JoinGroupRequest, JOIN)
            assert isinstance(answer, JoinGroupResponse)
            answers.append(answer)
        generations = {answer.generation_id for answer in answers}
        if len(generations) != 1 or any(answer.error_code for answer in answers):
            raise RuntimeError(f"{group} did not come together at once: {answers}")
        for line, answer in zip(lines, answers, strict=True):
            leads = answer.leader == answer.member_id
            shares = {each.member_id: bytes(40) for each in (answers if leads else [])}
            line.send(sync_request(group, answer.member_id, answer.generation_id, shares), SYNC)
        for line in lines:
            synced = line.receive(SyncGroupRequest, SYNC)
            assert isinstance(synced, SyncGroupResponse)
            assert not synced.error_code, synced
        for line, answer in zip(lines, answers, strict=True):
            beat = HeartbeatRequest(
                group_id=group, generation_id=answer.generation_id, member_id=answer.member_id
            )
            line.send(beat, HEARTBEAT)
        for line in lines:
            reply = line.receive(HeartbeatRequest, HEARTBEAT)
            assert isinstance(reply, HeartbeatResponse)
            assert not reply.error_code, reply

    def heartbeat(self, interval_s: float, seconds: float) -> Heartbeats:
        """Every member once per interval, evenly, for so long."""
        gap = interval_s / len(self._order)
        count = int(seconds / gap)
        took: list[float] = []
        started = time.perf_counter()
        sent = 0
        while len(took) < count:
            now = time.perf_counter()
            due = min(count, int((now - started) / gap) + 1)
            while sent < due:
                line = self._order[sent % len(self._order)]
                line.sent_at = time.perf_counter()
                line.socket.send(line.frame)
                sent += 1
            wait = started + sent * gap - time.perf_counter() if sent < count else TIMEOUT_S
            answered = self._epoll.answered(max(0.0, wait))
            now = time.perf_counter()
            took += [now - line.sent_at for line in answered]
            if sent == count and not answered:
                raise TimeoutError(f"{count - len(took)} heartbeats without an answer")
        spent = time.perf_counter() - started
        percentiles = statistics.quantiles(took, n=100)
        return Heartbeats(count, spent, percentiles[49] * 1e3, percentiles[98] * 1e3)


def _join(group: str) -> JoinGroupRequest:
    return join_request(group, metadata=bytes(40), session_ms=SESSION_MS, rebalance_ms=REBALANCE_MS)


def commit_request(group: str, topic: str, partitions: range) -> OffsetCommitRequest:
    return group_requests.commit_request(group, dict.fromkeys(partitions, OFFSET), topic=topic)


def check_commit(answer: ProtocolMessage) -> None:
    assert isinstance(answer, OffsetCommitResponse)
    codes = {each.error_code for topic in answer.topics for each in topic.partitions}
    if codes != {0}:
        raise RuntimeError(f"a commit was refused: {codes}")


def commit(line: Line, request: OffsetCommitRequest) -> None:
    """Again and again while the coordinator of this group is still coming up."""
    deadline = time.perf_counter() + TIMEOUT_S
    while True:
        answer = line.call(request, COMMIT)
        assert isinstance(answer, OffsetCommitResponse)
        if answer.topics[0].partitions[0].error_code not in COMING_UP:
            break
        if time.perf_counter() > deadline:
            raise TimeoutError(f"no coordinator for {request.group_id}")
        time.sleep(0.05)
    check_commit(answer)


def commit_over_and_over(
    servers: str, topic: str, partitions: int, lines: int, count: int
) -> float:
    """Seconds for `count` commits of all partitions, each line a group that awaits its reply."""
    opened = [Line(servers) for _ in range(lines)]
    for number, line in enumerate(opened):
        open_coordinator(line, f"committer-{number}")
        commit(line, commit_request(f"committer-{number}", topic, range(partitions)))
    epoll = Epoll(opened)
    started = time.perf_counter()
    for line in opened:
        line.socket.send(line.frame)
    left, sent = count, lines
    while left:
        answered = epoll.answered(TIMEOUT_S)
        if not answered:
            raise TimeoutError(f"{left} commits without an answer")
        for line in answered:
            left -= 1
            if sent < count:
                sent += 1
                line.socket.send(line.frame)
    seconds = time.perf_counter() - started
    epoll.close()
    for line in opened:
        line.socket.close()
    return seconds
