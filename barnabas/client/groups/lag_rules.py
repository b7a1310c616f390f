"""Rules about the progress of a group: no members, lag in one partition or member, no commits, more
records written than read, records deleted before they were read.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from barnabas.client.finding import Finding, problem, warning
from barnabas.client.groups.member_rules import away
from barnabas.client.groups.report import GroupReport, PartitionReport
from barnabas.client.transactions.transaction_rules import diagnose_transactions
from barnabas.client.words import count, listed, per_second
from barnabas.model.ids import TopicPartition
from barnabas.model.words import duration

LAG_MIN = 100  # records; with less lag, its distribution is not examined
SHARE = 0.8  # of all lag, where one has it
HOT = 1.5  # times the mean of what others get
STUCK_MS = 30_000
BEHIND_MS = 10_000  # clients commit every five seconds
PACE_MS_MIN = 1_000
OPEN_MS_MIN = 10_000  # readers expect to wait for a younger transaction


def no_members(report: GroupReport) -> Iterator[Finding]:
    if report.members or not report.lag or away(report):
        return  # (another rule reports a member that is away for a short time)
    came = sum(p.pace.produced for p in report.partitions if p.pace is not None)
    ms = max((p.pace.ms for p in report.partitions if p.pace is not None), default=0)
    since = [p.committed_ago_ms for p in report.partitions if p.committed_ago_ms is not None]
    text = f"the group has no members, and {count(report.lag, 'record')} unread"
    if report.unread_ms:
        text += f", the oldest for {duration(report.unread_ms)}"
    if since:
        text += f"; the last commit was {duration(min(since))} ago"
    if came:
        text += f". More come in: {per_second(came, ms)}"
    said = problem if came else warning
    yield said(
        "no-members",
        text,
        "start its consumers, or see in their logs why they ended. A group that is no longer"
        " wanted can be deleted with `barnabas group delete`",
    )


def nothing_committed(report: GroupReport) -> Iterator[Finding]:
    """A group that fails before its first commit shows no lag."""
    if report.is_unknown:
        yield warning(
            "nothing-committed",
            "the group has neither members nor committed offsets: whether it has read anything is"
            " not known",
            "start its consumers, or see in their logs why they ended before their first commit",
        )
    without = report.no_commit_yet
    if not without:
        return
    waited_ms = 0
    began_ms = report.rebalances[-1].began_ms if report.rebalances else report.history_since_ms
    if report.state == "Stable" and began_ms is not None:
        waited_ms = report.now_ms - began_ms
    if report.members and began_ms is not None and waited_ms < STUCK_MS:
        return  # new members commit after some seconds
    text = (
        f"the group has committed nothing yet in {listed(p.at for p in without)}"
        f" ({count(sum(p.lag for p in without), 'record')}; it is unknown whether they were read)"
    )
    if waited_ms:
        text += f", although its members joined {duration(waited_ms)} ago"
    said = problem if waited_ms else warning
    yield said(
        "nothing-committed",
        text,
        "see in the members' logs whether they fail at the first records, and that they commit"
        " (enable.auto.commit, or a commit after the work). Until then each start of a member"
        " begins where its auto.offset.reset says",
    )


def out_of_range(report: GroupReport) -> Iterator[Finding]:
    lost = [p for p in report.partitions if p.committed is not None and p.committed < p.start]
    if lost:
        gone = sum(p.start - (p.committed or 0) for p in lost)
        yield problem(
            "deleted-unread",
            f"{count(gone, 'record')} of {listed(p.at for p in lost)} were deleted before the"
            " group had read them",
            "raise retention.ms or retention.bytes of the topic, or read faster. A member starts"
            " there as its auto.offset.reset says",
        )
    beyond = [p for p in report.partitions if p.committed is not None and p.committed > p.end]
    if beyond:
        yield problem(
            "beyond-the-end",
            f"the group has committed offsets in {listed(p.at for p in beyond)} that are not there:"
            " the topic was deleted and made again, or has lost records",
            "decide where it should go on: barnabas group seek --to earliest, or --to latest",
        )


def uneven(report: GroupReport) -> Iterator[Finding]:
    """One partition or one member has nearly all the lag."""
    lagging = _lagging(report, report.owned)
    total = sum(p.lag for p in lagging)
    if total < LAG_MIN or len(report.owned) < 2 or any(stuck(report)):
        return
    worst = max(lagging, key=lambda p: p.lag)
    if not _is_behind(worst):
        return
    by_owner: dict[str, int] = {}
    for partition in lagging:
        if partition.owner is not None:
            by_owner[partition.owner] = by_owner.get(partition.owner, 0) + partition.lag
    top_owner = max(by_owner, key=by_owner.__getitem__)
    if worst.lag >= SHARE * total and _is_hot(report, worst):
        yield problem(
            "hot-partition",
            f"{worst.at} has {_percent(worst.lag, total)} of the lag"
            f" ({count(worst.lag, 'record')}) and {_share_of_records(report, worst)}: its"
            " one reader cannot keep up",
            "spread the records: give them keys with more different values, or none; see which key"
            f" is so frequent with `barnabas consume {worst.at.topic} -p {worst.at.partition} -f"
            " '%k\\n'`. More members do not help one partition",
        )
    elif (
        len(report.members) > 1
        and by_owner[top_owner] >= SHARE * total
        and _has_fair_share(report, top_owner)
        and not _just_taken_over(report, worst)
    ):
        member = report.member(top_owner)
        behind = [p.at for p in lagging if p.owner == top_owner]
        assert member is not None
        yield problem(
            "slow-member",
            f"{report.name_of(top_owner)} at {member.host.removeprefix('/')} has"
            f" {_percent(by_owner[top_owner], total)} of the lag"
            f" ({count(by_owner[top_owner], 'record')}, in {listed(behind)}) although it gets no"
            " more records than the others",
            "look at that one member: its machine, its connection to what it writes to, its log."
            " Restarting it gives its partitions to others",
        )


def behind_transaction(report: GroupReport) -> Iterator[Finding]:
    """The group has read all committed records: the next ones wait for an open transaction."""
    held = report.behind_transactions
    if held:
        yield from diagnose_transactions(replace(report.transactions, held=held), OPEN_MS_MIN)


def _lagging(report: GroupReport, partitions: Iterable[PartitionReport]) -> list[PartitionReport]:
    """Those with records to read. Behind an open transaction, no member is to blame."""
    behind = {held.at for held in report.behind_transactions}
    return [p for p in partitions if p.lag and not p.no_commit_yet and p.at not in behind]


def _is_behind(partition: PartitionReport) -> bool:
    """Whether the lag is larger than the records that arrive between two commits."""
    return partition.unread_ms is None or partition.unread_ms >= BEHIND_MS


def _is_hot(report: GroupReport, partition: PartitionReport) -> bool:
    weights = _weights(report)
    return weights[partition.at] >= HOT * sum(weights.values()) / len(weights)


def _has_fair_share(report: GroupReport, owner: str) -> bool:
    """Whether other members keep up with as many records."""
    weights = _weights(report)
    of = sum(weights[p.at] for p in report.owned if p.owner == owner)
    owners = {p.owner for p in report.owned}
    return of <= HOT * sum(weights.values()) / max(1, len(owners))


def _just_taken_over(report: GroupReport, partition: PartitionReport) -> bool:
    """Whether it owns the partition long enough: the lag may be its previous owner's."""
    last = report.rebalances[-1] if report.rebalances else None
    if last is None or report.now_ms - last.began_ms > STUCK_MS:
        return False
    moved = [(move.topic, move.partition) for move in last.moves or () if move.before is not None]
    return tuple(partition.at) in moved


def _weights(report: GroupReport) -> dict[TopicPartition, int]:
    """The number of records written to each partition: recently, or else in total."""
    if any(p.pace is not None and p.pace.produced for p in report.owned):
        return {p.at: 0 if p.pace is None else p.pace.produced for p in report.owned}
    return {p.at: p.end - p.start for p in report.owned}


def _share_of_records(report: GroupReport, partition: PartitionReport) -> str:
    weights = _weights(report)
    return f"{_percent(weights[partition.at], sum(weights.values()))} of all records go there"


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "0 %"


def stuck(report: GroupReport) -> Iterator[Finding]:
    """A partition has an owner and unread records, and no commit for a while."""
    if not report.has_history or not report.members or report.state != "Stable":
        return
    began_ms = report.rebalances[-1].began_ms if report.rebalances else 0
    if report.now_ms - began_ms < STUCK_MS:
        return  # its owner is new
    still = [p for p in _lagging(report, report.partitions) if _stands_still(p)]
    moving = [p for p in report.partitions if p.pace is not None and p.pace.consumed]
    if not still:
        return
    owners = list(dict.fromkeys(p.owner for p in still))
    names = [report.name_of(owner) for owner in owners if owner is not None]
    ago = min(p.committed_ago_ms or 0 for p in still)
    others = ". Offsets of other partitions are committed" if moving else ""
    yield problem(
        "stuck",
        f"no commit in {listed(p.at for p in still)} (owner: {listed(names)}) for"
        f" {duration(ago)}, and {count(sum(p.lag for p in still), 'record')} unread{others}",
        "it may fail at one record again and again (see its log; the record is at the committed"
        " offset), hang in a call without a timeout, or not commit at all (enable.auto.commit)",
    )


def _stands_still(partition: PartitionReport) -> bool:
    if not partition.lag or partition.owner is None:
        return False
    ago = partition.committed_ago_ms
    waits = partition.unread_ms is None or partition.unread_ms >= STUCK_MS
    return ago is not None and ago >= STUCK_MS and waits


def not_subscribed(report: GroupReport) -> Iterator[Finding]:
    """The group has offsets of a topic that no member subscribes to any more."""
    wanted = {topic for member in report.members for topic in member.topics}
    if report.state != "Stable" or not wanted or any(topic.startswith("/") for topic in wanted):
        return
    left = [p for p in report.partitions if p.lag and p.at.topic not in wanted]
    if left:
        topics = dict.fromkeys(p.at.topic for p in left)
        yield warning(
            "not-subscribed",
            f"no member subscribes to {listed(topics)}, where the group has"
            f" {count(sum(p.lag for p in left), 'record')} unread",
            "subscribe to it again, or leave it: what is committed there is forgotten after"
            " offsets.retention.minutes",
        )


def falling_behind(report: GroupReport) -> Iterator[Finding]:
    """More records are written than read in all partitions, and no rule about one partition
    applies.
    """
    lagging = _lagging(report, report.owned)
    lag = sum(p.lag for p in lagging)
    if lag < LAG_MIN or not any(map(_is_behind, lagging)):
        return
    if any(stuck(report)) or any(uneven(report)):
        return
    paced = [p.pace for p in report.owned if p.pace is not None and p.pace.ms >= PACE_MS_MIN]
    read = sum(pace.consumed * 1_000 / pace.ms for pace in paced)
    written = sum(pace.produced * 1_000 / pace.ms for pace in paced)
    long_enough = max((pace.ms for pace in paced), default=0) >= STUCK_MS // 3
    if not long_enough or read >= written * 0.95:
        return
    partitions = len(report.owned)
    more = "add members" if len(report.members) < partitions else "add partitions, then members"
    yield problem(
        "falling-behind",
        f"{per_second(round(written * 10), 10_000)} come in, {per_second(round(read * 10), 10_000)}"
        f" are read: the lag of {count(lag, 'record')} grows",
        f"{more} (there are {len(report.members)} members on {partitions} partitions), or make the"
        " work on a record quicker; larger fetches (max.partition.fetch.bytes, fetch.min.bytes)"
        " help where the network is the limit",
    )


RULES = (
    nothing_committed,
    out_of_range,
    behind_transaction,
    stuck,
    uneven,
    falling_behind,
    not_subscribed,
)
