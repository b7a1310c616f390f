"""Rules about the members of a group: late, flapping, idle, duplicate instance ids, different
subscriptions.

Most rules read the history: kinds of causes by name, as in coordinators/groups/history.
"""

from collections.abc import Iterator

from barnabas.client.finding import Finding, problem, warning
from barnabas.client.groups.report import CONSUMER, STREAMS, GroupReport
from barnabas.client.words import count, listed
from barnabas.model.words import duration
from barnabas.wire.messages.describe_group_history import GroupHistoryCause, GroupHistoryRebalance

RECENT_MS = 600_000
SLOW_REBALANCE_MS = 5_000
SHORT_LIVES_MIN = 3
MANY = 2  # findings of one kind; more are combined into one
GOODBYE_MS = 2_000  # between leaving and closing its connections
STABLE = "Stable"

_SILENCE = (
    "look for a crash, a long pause (garbage collection, SIGSTOP, a full machine) or the network;"
    " if the pauses cannot be avoided, raise session.timeout.ms and keep heartbeat.interval.ms"
    " at a third of it"
)
_CAME = ("JOINED", "RETURNED", "REPLACED")
_WENT = ("LEFT", "LATE_HEARTBEAT", "LATE_JOIN", "LATE_SYNC", "LATE_REVOKE")
_HELD_UP = ("LATE_JOIN", "LATE_SYNC", "LATE_REVOKE")


def recent(report: GroupReport) -> list[GroupHistoryRebalance]:
    return [c for c in report.rebalances if c.began_ms >= report.now_ms - RECENT_MS]


def recent_causes(
    report: GroupReport, *kinds: str
) -> Iterator[tuple[GroupHistoryRebalance, GroupHistoryCause]]:
    for rebalance in recent(report):
        for cause in rebalance.causes:
            if cause.kind in kinds:
                yield rebalance, cause


def named(cause: GroupHistoryCause) -> str:
    """The client id and host of a member, which say more to a person than the member id."""
    name = cause.client_id or cause.member_id
    instance = f" (instance {cause.instance_id})" if cause.instance_id else ""
    host = f" at {cause.client_host.removeprefix('/')}" if cause.client_host else ""
    return f"{name}{instance}{host}"


def away(report: GroupReport) -> dict[str, None]:
    """Members that have left although they are alive, and have not rejoined yet."""
    found: dict[str, None] = {}
    for rebalance, cause in recent_causes(report, "LEFT", "LATE_POLL", *_CAME):
        if cause.kind in _CAME:
            found.pop(named(cause), None)
        elif cause.alive and report.now_ms - rebalance.began_ms >= GOODBYE_MS:
            found[named(cause)] = None
    return found


def poll_interval(report: GroupReport) -> Iterator[Finding]:
    """A member left although it is alive: it did not call poll() in time."""
    left: dict[str, int] = {}
    returned: dict[str, list[GroupHistoryCause]] = {}
    allowed: dict[str, int] = {}
    for _, cause in recent_causes(report, "LATE_POLL", "RETURNED", "LEFT"):
        allowed[named(cause)] = cause.allowed_ms
        if cause.kind == "RETURNED":
            returned.setdefault(named(cause), []).append(cause)
        elif cause.kind == "LATE_POLL":
            left[named(cause)] = left.get(named(cause), 0) + 1
    now_away = away(report)
    for who in dict.fromkeys((*left, *returned, *now_away)):
        times = max(left.get(who, 0), len(returned.get(who, ())), 1)
        # Most clients send max.poll.interval.ms as the rebalance timeout; aiokafka does not.
        interval = f"its max.poll.interval.ms (its rebalance timeout is {duration(allowed[who])})"
        text = f"{who} did not poll for longer than {interval}, and left"
        if who in now_away:
            text = (
                f"{who} left the group but is still connected: it has not polled for longer"
                f" than {interval}"
            )
        elif who in returned:
            text += f"; it came back after {duration(returned[who][-1].waited_ms)}"
        yield problem(
            "poll-interval",
            text if times == 1 else f"{text} ({times} times in ten minutes)",
            "let it take fewer records at a time (max.poll.records) or work faster between polls;"
            " if the work must take that long, raise max.poll.interval.ms",
        )


def session_timeout(report: GroupReport) -> Iterator[Finding]:
    late: dict[str, list[GroupHistoryCause]] = {}
    for _, cause in recent_causes(report, "LATE_HEARTBEAT"):
        late.setdefault(named(cause), []).append(cause)
    if len(late) > MANY:
        yield _many_session_timeouts(late)
        return
    for who, causes in late.items():
        last = causes[-1]
        often = "" if len(causes) == 1 else f" ({len(causes)} times in ten minutes)"
        option = "session.timeout.ms"
        guess = "It died without leaving, was stopped or starved, or could not reach the broker"
        if last.alive:
            guess = "It is still connected: its process was stopped or starved"
        if report.type in (CONSUMER, STREAMS):
            option = f"group.{report.type}.{option} (at the broker)"
        if last.alive and (report.type == CONSUMER or last.instance_id):
            # In that case librdkafka and static members do not leave.
            guess += ", or it has not polled within max.poll.interval.ms and sends no heartbeats"
        yield problem(
            "session-timeout",
            f"{who} sent no heartbeat for {duration(last.waited_ms)} and was removed{often}: its"
            f" {option} is {duration(last.allowed_ms)}. {guess}",
            _SILENCE,
        )


def _many_session_timeouts(late: dict[str, list[GroupHistoryCause]]) -> Finding:
    times = sum(map(len, late.values()))
    return problem(
        "session-timeout",
        f"{listed(late)} sent no heartbeat within their session.timeout.ms and were removed"
        f" ({times} times in ten minutes): they died without leaving, or could not reach the"
        " broker",
        _SILENCE,
    )


def late_to_join(report: GroupReport) -> Iterator[Finding]:
    late: dict[str, GroupHistoryCause] = {}
    for _, cause in recent_causes(report, *_HELD_UP):
        late[named(cause)] = cause
    for who, cause in late.items():
        did = {
            "LATE_JOIN": "did not join again",
            "LATE_SYNC": "did not ask for its assignment",
            "LATE_REVOKE": "did not give up partitions that another was to have",
        }[cause.kind]
        yield problem(
            "late-to-join",
            f"{who} {did} within {duration(cause.waited_ms)} of a rebalance and was dropped: all"
            " others waited for it that long",
            "its poll loop is stuck or too slow: let it take fewer records at a time"
            " (max.poll.records), or raise max.poll.interval.ms, which is how long a rebalance"
            " waits",
        )


def flapping(report: GroupReport) -> Iterator[Finding]:
    """Members that join and leave within minutes, again and again."""
    came: dict[str, int] = {}
    short: dict[str, list[int]] = {}
    busy = {cause.member_id for _, cause in recent_causes(report, "RETURNED")}
    for rebalance in recent(report):
        for cause in rebalance.causes:
            if cause.kind in _CAME:
                came[cause.member_id] = rebalance.began_ms
            elif cause.kind in _WENT and cause.member_id in came:
                lived_ms = rebalance.began_ms - came.pop(cause.member_id)
                if not cause.alive and cause.member_id not in busy:
                    short.setdefault(named(cause), []).append(lived_ms)
    for who, lives in short.items():
        if len(lives) >= SHORT_LIVES_MIN:
            yield problem(
                "flapping",
                f"{who} came and went {len(lives)} times in ten minutes, staying"
                f" {duration(sorted(lives)[len(lives) // 2])} as a rule; each time all members had"
                " to rebalance",
                "see why it ends (its own log has the reason: a crash at a certain record, a"
                " supervisor's restarts, an autoscaler). With group.instance.id set, a restart"
                " within session.timeout.ms needs no rebalance",
            )


def twins(report: GroupReport) -> Iterator[Finding]:
    """A replaced static member still sends requests: two programs have the same instance id."""
    instances: dict[str, int] = {}
    for note in report.notes:
        if note.cause.kind == "FENCED" and note.at_ms >= report.now_ms - RECENT_MS:
            id_ = note.cause.instance_id
            instances[id_] = instances.get(id_, 0) + note.times
    for _, cause in recent_causes(report, "FENCED"):
        instances[cause.instance_id] = instances.get(cause.instance_id, 0) + 1
    for instance in instances:
        yield problem(
            "static-twin",
            f"two programs use the group.instance.id {instance!r}: each that joins fences"
            " the other (FENCED_INSTANCE_ID)",
            "give every member a group.instance.id of its own, such as the name of its host or"
            " pod; a copied configuration is the usual reason",
        )


def held_up(report: GroupReport) -> Iterator[Finding]:
    """Rebalances in which all members waited for one member, or for the leader's assignment."""
    slow: dict[str, tuple[int, int, int]] = {}  # by client: times, longest, generation
    for rebalance in recent(report):
        if rebalance.under_way:
            yield from _held_up_now(report, rebalance)
            continue
        newcomers = {cause.member_id for cause in rebalance.causes if cause.kind in _CAME}
        waited_ms = rebalance.last_after_ms
        who = rebalance.last_client or rebalance.last_member
        if rebalance.last_member in newcomers or any(c.kind in _HELD_UP for c in rebalance.causes):
            waited_ms = 0
        if rebalance.sync_ms >= SLOW_REBALANCE_MS > waited_ms and rebalance.leader:
            who = f"its leader {report.name_of(rebalance.leader)}"
            waited_ms = rebalance.sync_ms
        if waited_ms >= SLOW_REBALANCE_MS:
            times, longest, _ = slow.get(who, (0, 0, 0))
            slow[who] = (times + 1, max(longest, waited_ms), rebalance.generation)
    for who, (times, longest, generation) in slow.items():
        often = "" if times == 1 else f", {times} times in ten minutes"
        waited = f"had to wait {duration(longest)} for {who}{often}"
        if report.type in (CONSUMER, STREAMS):
            yield problem(
                "slow-rebalance",
                f"epoch {generation} {waited} to give up partitions that others were to have",
                "a member gives partitions up when it next polls: let it take fewer records at a"
                " time (max.poll.records) so that it polls sooner",
            )
            continue
        yield problem(
            "slow-rebalance",
            f"generation {generation} {waited}; until then no member could rely on its assignment",
            "a member joins again when it next polls: let it take fewer records at a time"
            " (max.poll.records) so that it polls sooner, or use the cooperative-sticky assignor"
            " or group.protocol=consumer, where the others go on reading",
        )


def _held_up_now(report: GroupReport, rebalance: GroupHistoryRebalance) -> Iterator[Finding]:
    waited_ms = report.now_ms - rebalance.began_ms
    late = [member for member in report.members if member.awaited]
    if waited_ms < SLOW_REBALANCE_MS or not late:
        return
    allowed = max((member.rebalance_timeout_ms or 0 for member in late), default=0)
    names = listed(report.name_of(member.id) for member in late)
    yield problem(
        "slow-rebalance",
        f"a rebalance has waited {duration(waited_ms)} for {names}, which will be dropped after"
        f" {duration(allowed)}",
        "a member takes part when it next polls: see what keeps it (one slow record, a call that"
        " hangs); fewer records at a time (max.poll.records) let it poll sooner",
    )


def idle_members(report: GroupReport) -> Iterator[Finding]:
    idle = [member for member in report.members if not member.owned]
    topics = {topic for member in report.members for topic in member.topics}
    topics |= {partition.at.topic for partition in report.owned}
    partitions = sum(report.topic_partitions.get(topic, 0) for topic in topics)
    if report.state != STABLE or not idle or not 0 < partitions < len(report.members):
        return
    yield warning(
        "idle-members",
        f"{len(idle)} of {len(report.members)} members {'has' if len(idle) == 1 else 'have'}"
        " nothing to do: a partition has one reader, and there are"
        f" {count(partitions, 'partition')}",
        "add partitions (barnabas topic add-partitions), or run fewer members. Where order within"
        " a key is enough, one member can work on many records of a partition at once",
    )


def at_odds(report: GroupReport) -> Iterator[Finding]:
    """Members with different subscriptions or assignors."""
    topics = {frozenset(member.topics) for member in report.members if member.topics}
    if len(topics) > 1:
        every = frozenset.union(*topics)
        some = sorted(every - frozenset.intersection(*topics))
        yield warning(
            "different-subscriptions",
            f"members subscribe to different topics: only some subscribe to {listed(some)}",
            "give all members of a group the same topics; what is read by another program belongs"
            " in another group.id. (While a new version is rolled out this passes)",
        )
    protocols = {frozenset(member.protocols) for member in report.members if member.protocols}
    if len(protocols) > 1:
        common = frozenset.intersection(*protocols)
        yield warning(
            "different-assignors",
            f"members offer different assignors; all know {listed(sorted(common))}",
            "set partition.assignment.strategy to the same list everywhere, once the new version"
            " is rolled out",
        )


def broker_side(report: GroupReport) -> Iterator[Finding]:
    if any(recent_causes(report, "NOT_STORED")):
        yield problem(
            "not-stored",
            "the broker could not write the group's assignment to __consumer_offsets",
            "look at the broker's log and disk; members try again by themselves",
        )
    if any(recent_causes(report, "OVER_CAPACITY")):
        yield problem(
            "too-many-members",
            "more members want to join than the broker allows",
            "raise group.max.size at the broker, or run fewer members",
        )


RULES = (
    poll_interval,
    session_timeout,
    late_to_join,
    flapping,
    twins,
    held_up,
    broker_side,
    idle_members,
    at_odds,
)
