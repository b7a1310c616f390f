"""Rules about share groups.

In: a report of a share group. Out: findings.
"""

from collections.abc import Iterator

from barnabas.client.finding import Finding, problem, warning
from barnabas.client.groups.lag_rules import no_members
from barnabas.client.groups.report import GroupReport
from barnabas.client.groups.share_text import holder_text
from barnabas.client.words import count, listed
from barnabas.wire.messages.describe_share_partitions import DescribedSharePartition

NAMED_MAX = 3  # partitions at their limit; the others are counted
REDELIVERED_MIN = 100  # records; with fewer deliveries, their parts mean little
REDELIVERED = 0.2  # of all deliveries
_REMEDIES = {
    "expired": "process records faster, fetch fewer at once (max.poll.records), renew their locks,"
    " or raise share.record.lock.duration.ms of the group",
    "session-ended": "see in the logs of the consumers why they end, or lose their connections",
    "released": "see in the logs of the consumers why they release records. A record that can never"
    " be processed is rejected, not released",
}


def idle_members(report: GroupReport) -> Iterator[Finding]:
    """A member of a share group has no partition until state is initialized, or by a wrong name."""
    idle = [member for member in report.members if not member.owned]
    if not idle:
        return
    names = sorted({topic for member in idle for topic in member.topics})
    missing = [name for name in names if name not in report.topic_partitions]
    if missing:
        yield warning(
            "no-such-topic",
            f"{count(len(idle), 'member')} of the group subscribe to {', '.join(missing)},"
            " which does not exist",
            "create the topic, or correct its name in the consumers",
        )


def at_the_limit(report: GroupReport) -> Iterator[Finding]:
    """One unfinished record stops its partition when the in-flight limit is reached."""
    full = [one for one in report.shares if one.holder and one.in_flight >= one.limit]
    for one in full[:NAMED_MAX]:
        (holder,) = one.holder[:1]
        at = f"{one.topic}-{one.partition}"
        done = one.in_flight - one.acquired - one.available
        yield problem(
            "in-flight-limit",
            f"no new record of {at} is delivered: {count(one.in_flight, 'record')} are in flight,"
            f" as many as share.partition.max.record.locks allows, and {done:,} of them are"
            f" finished. Offset {holder.offset} is the oldest that is not:"
            f" {holder_text(holder, one.delivery_limit)}",
            _unblock(one),
        )
    if len(full) > NAMED_MAX:
        rest = [f"{one.topic}-{one.partition}" for one in full[NAMED_MAX:]]
        yield problem(
            "in-flight-limit",
            f"{listed(rest)} are at their in-flight limit too",
            "see `barnabas group describe` for the record and the member of each",
        )


def _unblock(one: DescribedSharePartition) -> str:
    (holder,) = one.holder[:1]
    look = f"`barnabas consume {one.topic} -p {one.partition} -o {holder.offset} -c 1` shows the"
    look += " record"
    if holder.client.member_id and holder.writing:
        return "see in the log of the broker whether it can write to __share_group_state"
    if holder.client.member_id:
        return (
            "see what this consumer does with it; stop the consumer to have it delivered to another"
            f" member. {look}. Records that take long need a higher"
            " share.partition.max.record.locks of the group"
        )
    if holder.backoff_ms > 0:
        return (
            "wait, or lower barnabas.share.release.backoff.ms of the group. A record that can never"
            f" be processed is rejected, not released. {look}"
        )
    return f"start members, or see why those that run do not fetch. {look}"


def beyond_the_end(report: GroupReport) -> Iterator[Finding]:
    """A share group waits until the log has reached its start offset, without a word."""
    for one in report.partitions:
        if one.committed is not None and one.committed > one.end:
            yield problem(
                "beyond-the-end",
                f"the group begins at offset {one.committed} of {one.at}, which ends at {one.end}:"
                " the log has lost records, or the offset was set so. Records up to there are not"
                " delivered",
                "stop the members, and decide where they should go on: barnabas group seek --to"
                " earliest, or --to latest",
            )
            return


def redelivered(report: GroupReport) -> Iterator[Finding]:
    delivered = sum(one.delivered for one in report.shares)
    again = sum(one.redelivered for one in report.shares)
    if delivered < REDELIVERED_MIN or again < REDELIVERED * delivered:
        return
    causes = {cause: _records(report, cause) for cause in _REMEDIES}
    cause = max(causes, key=lambda name: causes[name])
    said = ", ".join(f"{name} {records:,}" for name, records in causes.items() if records)
    yield warning(
        "redeliveries",
        f"{again:,} of {delivered:,} delivered records were delivered before"
        f" ({again / delivered:.0%}); ended without an acceptance: {said or 'none lately'}",
        _REMEDIES[cause],
    )


def archived(report: GroupReport) -> Iterator[Finding]:
    """Records that nobody accepted, and that are not delivered again."""
    records = _records(report, "archived")
    if records:
        yield warning(
            "not-accepted",
            f"{count(records, 'record')} {'was' if records == 1 else 'were'} given up: rejected, or"
            " delivered too often",
            "see the last failed deliveries in `barnabas group describe`. With"
            " errors.deadletterqueue.topic.name of the group, such records go to a dead-letter"
            " topic (`barnabas dlq`)",
        )


def _records(report: GroupReport, outcome: str) -> int:
    return sum(
        each.records for one in report.shares for each in one.outcomes if each.name == outcome
    )


RULES = (at_the_limit, beyond_the_end, no_members, idle_members, redelivered, archived)
