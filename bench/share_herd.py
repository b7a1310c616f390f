"""What many members of share groups do at the same time, from one thread.

In: an address, a topic, how many members and records. Out: seconds, and latencies of heartbeats.
Always: each record is acquired once and its acceptance is confirmed, or the run fails. Replies are
decoded, or compared byte for byte with one that was decoded and found good.
"""

import select
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager

from barnabas.wire.frames import read_response, request_frame
from barnabas.wire.messages.share_acknowledge import (
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)
from barnabas.wire.messages.share_fetch import ShareFetchRequest, ShareFetchResponse
from barnabas.wire.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from bench.herd import CORRELATION, TIMEOUT_S, Heartbeats, Line, open_coordinator
from bench.share_members import (
    ACKNOWLEDGE,
    BEAT,
    EPOCH_MARK,
    FETCH,
    OFFSET_MARK,
    PatchedFrame,
    Range,
    ShareMember,
    start_at_the_beginning,
)

READY_S = 0.05


def join(servers: str, topic: str, groups: list[str], members_each: int) -> list[ShareMember]:
    """Members that have their partitions; those of a group follow each other."""
    found: list[ShareMember] = []
    for group in groups:
        start_at_the_beginning(servers, group)
        found += _members(servers, topic, group, members_each)
    return found


@contextmanager
def joined(servers: str, topic: str, group: str, count: int) -> Iterator[list[ShareMember]]:
    """Members of one group, whose connections are closed afterwards."""
    members = join(servers, topic, [group], count)
    try:
        yield members
    finally:
        for member in members:
            member.close()


def _members(servers: str, topic: str, group: str, count: int) -> list[ShareMember]:
    members = [ShareMember(servers, group, topic) for _ in range(count)]
    open_coordinator(members[0].beats, group)
    deadline = time.perf_counter() + TIMEOUT_S
    while True:
        for member in members:
            member.heartbeat()
        epochs = {member.member_epoch for member in members}
        if len(epochs) == 1 and all(member.partitions for member in members):
            return members
        if time.perf_counter() > deadline:
            raise TimeoutError(f"members of {group} without partitions of {topic}")
        time.sleep(READY_S)


class Replies:
    """The members whose leader has answered, as the replies arrive."""

    def __init__(self, members: list[ShareMember]) -> None:
        self._epoll = select.epoll()
        self._by_fd = {member.fetches.socket.fileno(): member for member in members}
        for fd in self._by_fd:
            self._epoll.register(fd, select.EPOLLIN)

    def members(self) -> list[ShareMember]:
        ready = self._epoll.poll(TIMEOUT_S)
        if not ready:
            raise TimeoutError("no member has had an answer")
        return [self._by_fd[fd] for fd, _ in ready]

    def close(self) -> None:
        self._epoll.close()


def size_of(ranges: list[Range]) -> int:
    return sum(last - first + 1 for _, first, last in ranges)


def consume(members: list[ShareMember], count: int) -> float:
    """The seconds until `count` records were received; each fetch accepts those before it."""
    replies = Replies(members)
    started = time.perf_counter()
    for member in members:
        member.send_fetch([])
    received = 0
    while received < count:
        for member in replies.members():
            ranges = member.receive_fetch()
            received += size_of(ranges)
            member.send_fetch(ranges)
    seconds = time.perf_counter() - started
    for member in members:  # the last acknowledgements are confirmed, too
        received += size_of(member.receive_fetch())
    replies.close()
    if received != count:
        raise RuntimeError(f"{received:,} records received instead of {count:,}")
    return seconds


class _OneByOne:
    """A member that accepts its records with one request each."""

    def __init__(self, member: ShareMember) -> None:
        self.member = member
        marked = (member.partitions[0], OFFSET_MARK, OFFSET_MARK)
        self._frame = PatchedFrame(member.acknowledge_request(EPOCH_MARK, marked), ACKNOWLEDGE)
        self._offsets: list[int] = []
        self._fetches = False
        self._good = b""

    def go_on(self) -> None:
        """Sends the next acknowledgement, or a fetch if no record is left."""
        member = self.member
        self._fetches = not self._offsets
        if self._fetches:
            member.send_fetch([], strict=True)
            return
        offset = self._offsets.pop()
        member.fetches.socket.send(self._frame.patch(member.session_epoch, offset, offset))
        member.session_epoch += 1

    def answered(self) -> int:
        """How many records were accepted: one, or none with the reply of a fetch."""
        if self._fetches:
            ranges = self.member.receive_fetch()
            self._offsets = [o for _, first, last in ranges for o in range(last, first - 1, -1)]
            return 0
        data = self.member.fetches.socket.recv(65536)
        if data != self._good:
            answer = read_response(data[4:], ShareAcknowledgeRequest.api_key, ACKNOWLEDGE)[1]
            assert isinstance(answer, ShareAcknowledgeResponse)
            codes = {part.error_code for topic in answer.responses for part in topic.partitions}
            if answer.error_code or codes != {0}:
                raise RuntimeError(f"an acknowledgement was refused: {answer}")
            self._good = data
        return 1


def accept_one_by_one(members: list[ShareMember], count: int) -> float:
    """The seconds until `count` records of one partition were accepted, each with its request."""
    replies = Replies(members)
    drivers = {member.id: _OneByOne(member) for member in members}
    started = time.perf_counter()
    for driver in drivers.values():
        driver.go_on()
    accepted = 0
    while accepted < count:
        for member in replies.members():
            driver = drivers[member.id]
            accepted += driver.answered()
            driver.go_on()
    replies.close()
    return time.perf_counter() - started


class IdleMembers:
    """Members that fetch and find nothing, with their heartbeats."""

    def __init__(self, members: list[ShareMember]) -> None:
        self._members = members
        self._polls = {member.id: _Polls(member) for member in members}
        self._by_fd: dict[int, tuple[Line, ShareMember]] = {}
        self._epoll = select.epoll()
        for member in members:
            member.send_fetch([])
        for member in members:
            member.receive_fetch()
            for line in (member.beats, member.fetches):
                self._by_fd[line.socket.fileno()] = (line, member)
                self._epoll.register(line.socket.fileno(), select.EPOLLIN)

    def live(self, interval_s: float, seconds: float) -> Heartbeats:
        """A heartbeat of each member per interval, evenly; its next fetch after each reply."""
        for polls in self._polls.values():
            polls.send()
        gap = interval_s / len(self._members)
        took: list[float] = []
        sent, started = 0, time.perf_counter()
        while (now := time.perf_counter()) < started + seconds:
            while sent < (now - started) / gap:
                self._beat(self._members[sent % len(self._members)])
                sent += 1
            for fd, _ in self._epoll.poll(max(0.0, started + sent * gap - now)):
                line, member = self._by_fd[fd]
                if line is member.beats:
                    took.append(self._beaten(member))
                else:
                    self._polls[member.id].answered(again=True)
        spent = time.perf_counter() - started
        for polls in self._polls.values():
            polls.answered(again=False)
        while len(took) < sent:
            for fd, _ in self._epoll.poll(TIMEOUT_S):
                took.append(self._beaten(self._by_fd[fd][1]))
        percentiles = statistics.quantiles(took, n=100)
        return Heartbeats(sent, spent, percentiles[49] * 1e3, percentiles[98] * 1e3)

    def _beat(self, member: ShareMember) -> None:
        member.sent_at = time.perf_counter()
        member.beats.socket.send(member.beats.frame)

    def _beaten(self, member: ShareMember) -> float:
        took = time.perf_counter() - member.sent_at
        data = member.beats.socket.recv(65536)
        if data != member.beats.expected:
            answer = read_response(data[4:], ShareGroupHeartbeatRequest.api_key, BEAT)[1]
            assert isinstance(answer, ShareGroupHeartbeatResponse)
            member.beaten(answer)
            request = member.heartbeat_request()
            member.beats.frame = request_frame(request.api_key, BEAT, CORRELATION, "herd", request)
            member.beats.expected = data
        return took


class _Polls:
    """The fetches of an idle member: the same frame but for the epoch of its session."""

    def __init__(self, member: ShareMember) -> None:
        self._member = member
        self._frame = PatchedFrame(member.fetch_request([], EPOCH_MARK), FETCH)
        self._good = b""

    def answered(self, *, again: bool) -> None:
        data = self._member.fetches.socket.recv(65536)
        if data != self._good:
            answer = read_response(data[4:], ShareFetchRequest.api_key, FETCH)[1]
            assert isinstance(answer, ShareFetchResponse)
            if answer.error_code or answer.responses:
                raise RuntimeError(f"the fetch of an idle member: {answer}")
            self._good = data
        if again:
            self.send()

    def send(self) -> None:
        self._member.fetches.socket.send(self._frame.patch(self._member.session_epoch))
        self._member.session_epoch += 1
