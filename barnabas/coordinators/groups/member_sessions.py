"""The sessions of the members of one group: when each was last heard, and its timers.

In: heartbeats, deadlines, members that are removed. Out: timers that are set.
Always: everything here is lost with the broker; the sessions of a loaded group start again.
Not here: what happens when a timer fires (shard.py), classic groups (classic/group.py).
"""

from barnabas.coordinators.groups.timer_keys import SESSION, TimerKey
from barnabas.coordinators.runtime import Now
from barnabas.coordinators.timers import Timer, Timers


class MemberSession:
    """The session of one member, and the other timers that it has."""

    __slots__ = ("connection", "heard_ms", "others", "timer")

    def __init__(self, group: str, member: str) -> None:
        self.heard_ms = 0
        self.connection = ""
        self.timer: Timer[TimerKey] = Timer(TimerKey(SESSION, group, member))
        self.others: dict[str, Timer[TimerKey]] = {}  # by kind, made when first set

    def stop(self) -> None:
        self.timer.stop()
        for timer in self.others.values():
            timer.stop()


class MemberSessions:
    """The sessions of all members of a group, by member id."""

    __slots__ = ("_group", "_sessions", "_timers")

    def __init__(self, group: str, timers: Timers[TimerKey]) -> None:
        self._group = group
        self._timers = timers
        self._sessions: dict[str, MemberSession] = {}

    def __contains__(self, member_id: str) -> bool:
        return member_id in self._sessions

    def heard(self, member_id: str, timeout_ms: int, now: Now) -> None:
        """The member is alive: its session starts, or starts again."""
        session = self._sessions.get(member_id)
        if session is None:
            session = self._sessions[member_id] = MemberSession(self._group, member_id)
        session.heard_ms = now.ms
        self._timers.set(session.timer, now.ms + timeout_ms)

    def silent_ms(self, member_id: str, now: Now) -> int:
        """The time since the member was last heard."""
        session = self._sessions.get(member_id)
        return 0 if session is None else now.ms - session.heard_ms

    def connected(self, member_id: str, connection: str) -> None:
        self._sessions[member_id].connection = connection

    def connection(self, member_id: str) -> str:
        """That of its last heartbeat which changed something; empty if there is none."""
        session = self._sessions.get(member_id)
        return "" if session is None else session.connection

    # Other timers of a member

    def start_timer(self, kind: str, member_id: str, at: int) -> None:
        timers = self._sessions[member_id].others
        timer = timers.get(kind)
        if timer is None:
            timer = timers[kind] = Timer(TimerKey(kind, self._group, member_id))
        self._timers.set(timer, at)

    def stop_timer(self, kind: str, member_id: str) -> None:
        timer = self._sessions[member_id].others.get(kind)
        if timer is not None:
            timer.stop()

    def is_timer_set(self, kind: str, member_id: str) -> bool:
        timer = self._sessions[member_id].others.get(kind)
        return timer is not None and timer.at is not None

    # The end

    def end(self, member_id: str) -> None:
        session = self._sessions.pop(member_id, None)
        if session is not None:
            session.stop()

    def end_all(self) -> None:
        for session in self._sessions.values():
            session.stop()
        self._sessions.clear()
