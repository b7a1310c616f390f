"""Groups as a test sees them: their history of rebalances, members that expire, forced rebalances.

`rebalance_history` and `lag` go over the wire. `expire` and `rebalance` reach into the coordinator
of a broker in this process: no client can ask for them.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from barnabas.broker.net.dispatch import NO_CONNECTION, Call
from barnabas.client.finding import Finding
from barnabas.client.groups.diagnosis import diagnose
from barnabas.client.groups.report import GroupReport
from barnabas.coordinators.groups.classic.group import ClassicGroup
from barnabas.coordinators.groups.state import Group
from barnabas.model.errors import Code, KafkaError
from barnabas.model.words import duration
from barnabas.wire.messages.describe_group_history import GroupHistoryRebalance

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker
    from barnabas.client.blocking.admin import Admin

_NOT_THERE = (Code.GROUP_ID_NOT_FOUND, Code.COORDINATOR_NOT_AVAILABLE, Code.NOT_COORDINATOR)
_CALL = Call(0, NO_CONNECTION, "test")


@dataclass(frozen=True, slots=True)
class Rebalance:
    """One generation of a group. `causes`: what happened, in sentences; `kinds`: as names."""

    generation: int
    members: int
    causes: tuple[str, ...]
    kinds: tuple[str, ...]
    took_ms: int

    def __str__(self) -> str:
        why = "; ".join(self.causes) or "for an unknown cause"
        return (
            f"generation {self.generation}, {self.members} members,"
            f" after {duration(max(0, self.took_ms))}: {why}"
        )


def rebalances_of(report: GroupReport) -> list[Rebalance]:
    return [_rebalance(entry) for entry in report.rebalances]


def _rebalance(entry: GroupHistoryRebalance) -> Rebalance:
    return Rebalance(
        entry.generation,
        entry.members,
        tuple(cause.text for cause in entry.causes),
        tuple(cause.kind for cause in entry.causes),
        max(0, entry.join_ms) + max(0, entry.sync_ms),
    )


def group_text(report: GroupReport, findings: list[Finding]) -> str:
    """A group in a few lines: its lag per partition, what is wrong with it, its rebalances."""
    lines = [
        f"group {report.group!r}: {report.state}, {len(report.members)} members,"
        f" {report.lag} records unread"
    ]
    lines += [
        f"  {each.at}: committed {'nothing' if each.committed is None else each.committed},"
        f" end {each.end}, lag {each.lag}"
        for each in report.partitions
    ]
    for finding in findings:
        lines.append(f"  {finding.severity.value}: {finding.name}: {finding.text}.")
        lines.append(f"    remedy: {finding.remedy}.")
    lines += [f"  {each}" for each in rebalances_of(report)]
    return "\n".join(lines)


def _report(admin: "Admin", group: str) -> GroupReport | None:
    try:
        return admin.group_report(group)
    except KafkaError as error:
        if error.code in _NOT_THERE:
            return None
        raise


def is_level(admin: "Admin", group: str, lag: int) -> bool:
    """Whether the group has committed everywhere, and has at most so much lag."""
    found = _report(admin, group)
    return (
        found is not None
        and not found.is_unknown
        and bool(found.partitions)
        and found.lag <= lag
        and not any(each.no_commit_yet for each in found.partitions)
    )


def why_behind(admin: "Admin", group: str, lag: int) -> str:
    """What `explain` says of a group that is behind."""
    found = _report(admin, group)
    if found is None:
        there = sorted(listing.group for listing in admin.groups())
        return f"there is no group {group!r}; there are {there}"
    return f"lag {found.lag}, not {lag}\n{group_text(found, diagnose(found))}"


# In the broker's own thread


def coordinates(broker: "Broker", group: str) -> bool:
    """Whether this broker is the coordinator, and knows the group."""
    try:
        return broker.coordination is not None and _found(broker, group) is not None
    except KafkaError:
        return False


def _found(broker: "Broker", group: str) -> Group | None:
    assert broker.coordination is not None
    return broker.coordination.shard_of(group).group(group)


def expire(broker: "Broker", group: str, member: int | str) -> str:
    """End the session of a member now; returns its id. `member`: its number by id, or its id."""
    assert broker.coordination is not None
    found = _found(broker, group)
    assert found is not None
    id_ = _member_id(found, member)
    broker.coordination.run(
        group, lambda shard, caller, now: shard.session_over(group, id_, now), _CALL
    )
    return id_


def _member_id(group: Group, member: int | str) -> str:
    of = group.members.by_id if isinstance(group, ClassicGroup) else group.stored.members
    ids = sorted(of)
    if isinstance(member, str):
        matching = [id_ for id_ in ids if id_.startswith(member)]
        if len(matching) != 1:
            raise ValueError(f"{len(matching)} members are called {member!r}; there are {ids}")
        return matching[0]
    if not -len(ids) <= member < len(ids):
        raise ValueError(f"there is no member {member}: the group has {len(ids)}")
    return ids[member]


def rebalance(broker: "Broker", group: str) -> None:
    """Every member of a group of the classic protocol must join again."""
    assert broker.coordination is not None
    if not isinstance(_found(broker, group), ClassicGroup):
        raise ValueError(
            f"{group!r} is not of the classic protocol, and its members never all join again:"
            " expire() one of them instead"
        )
    broker.coordination.run(group, lambda shard, caller, now: shard.rejoin_all(group, now), _CALL)
