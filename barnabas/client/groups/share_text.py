"""What a share group has in flight, as text for people, and as rows and documents for scripts."""

from typing import Any

from barnabas.client.groups.report import GroupReport
from barnabas.client.tables import Row
from barnabas.client.words import count
from barnabas.model.ids import TopicPartition
from barnabas.model.times import iso_time
from barnabas.model.words import duration, printable
from barnabas.wire.messages.describe_share_partitions import (
    DescribedSharePartition,
    ShareClient,
    ShareFailure,
    ShareHolder,
)

FAILURES_SHOWN = 10
COLUMNS = ("in_flight", "redelivered", "oldest_unfinished")
_CAUSES = {
    "released": "released by",
    "expired": "not acknowledged in time by",
    "session-ended": "released by the end of the session of",
    "rejected": "rejected by",
}


def by_partition(report: GroupReport) -> dict[TopicPartition, DescribedSharePartition]:
    return {TopicPartition(one.topic, one.partition): one for one in report.shares}


def client_name(client: ShareClient) -> str:
    """worker-1 on 10.0.0.7 (member 9f24…); the member id alone if the client is not known."""
    if not client.client_id:
        return f"member {client.member_id}"
    host = f" on {client.host}" if client.host else ""
    return f"{client.client_id}{host} (member {client.member_id})"


def holder_text(holder: ShareHolder, delivery_limit: int) -> str:
    """Who has the oldest unfinished record, or what it waits for."""
    delivery = f"delivery {holder.attempts} of {delivery_limit}"
    if holder.client.member_id:
        text = f"{client_name(holder.client)} has it for {duration(holder.held_ms)}, {delivery}"
        if holder.writing:
            return f"{text}; its acknowledgement is being stored"
        return f"{text}; its lock ends in {duration(max(0, holder.lock_ms))}"
    if holder.backoff_ms > 0:
        return f"it waits {duration(holder.backoff_ms)} before its next delivery, after {delivery}"
    if holder.attempts:
        return f"it waits for a member, after {delivery}"
    return "it waits for a member"


def facts(report: GroupReport) -> list[tuple[str, str]]:
    """Lines of the description; none where no broker reports it."""
    if not report.shares:
        return []
    in_flight = sum(one.in_flight for one in report.shares)
    acquired = sum(one.acquired for one in report.shares)
    full = sum(one.in_flight >= one.limit for one in report.shares)
    text = f"{count(in_flight, 'record')}, {acquired:,} with members"
    if full:
        text += f"; {count(full, 'partition')} at the limit"
    return [("in flight", text), ("redelivered", redelivered_text(report))]


def redelivered_text(report: GroupReport) -> str:
    delivered = sum(one.delivered for one in report.shares)
    again = sum(one.redelivered for one in report.shares)
    if not again:
        return "none"
    known_ms = max(one.known_ms for one in report.shares)
    share = again / max(1, delivered)
    return f"{again:,} of {count(delivered, 'record')} ({share:.1%}) in {duration(known_ms)}"


def columns(report: GroupReport, at: TopicPartition) -> Row:
    """Further cells of a partition in the description."""
    one = by_partition(report).get(at)
    if one is None:
        return {}
    share = one.redelivered / max(1, one.delivered)
    return {
        "in_flight": f"{one.in_flight:,} of {one.limit:,}",
        "redelivered": f"{share:.1%}" if one.redelivered else "",
        "oldest_unfinished": oldest_text(one),
    }


def oldest_text(one: DescribedSharePartition) -> str:
    if not one.holder:
        return ""
    (holder,) = one.holder[:1]
    return f"offset {holder.offset}: {holder_text(holder, one.delivery_limit)}"


def failures(report: GroupReport) -> list[tuple[str, ShareFailure]]:
    """The last failed deliveries of all partitions, the newest first, each with its partition."""
    found = [
        (f"{one.topic}-{one.partition}", failure)
        for one in report.shares
        for failure in one.failures
    ]
    return sorted(found, key=lambda each: -each[1].at_ms)


def failure_text(at: str, failure: ShareFailure) -> str:
    """One failed delivery in one line."""
    offsets = f"offset {failure.first_offset}"
    if failure.last_offset > failure.first_offset:
        offsets = f"offsets {failure.first_offset} to {failure.last_offset}"
    cause = _CAUSES.get(failure.cause, f"{failure.cause}:")
    end = "not delivered again" if failure.archived else "delivered again"
    return printable(
        f"{at}, {offsets}, {cause} {client_name(failure.client)},"
        f" delivery {failure.attempts}: {end}"
    )


def failure_lines(report: GroupReport) -> str:
    """A section of the description; empty if no delivery failed."""
    lines = [
        f"{iso_time(failure.at_ms)}  {failure_text(at, failure)}\n"
        for at, failure in failures(report)[:FAILURES_SHOWN]
    ]
    return "last failed deliveries\n" + "".join(lines) if lines else ""


def documents(report: GroupReport) -> list[dict[str, Any]]:
    return [
        {
            "topic": one.topic,
            "partition": one.partition,
            "start": one.start_offset,
            "in_flight": one.in_flight,
            "limit": one.limit,
            "acquired": one.acquired,
            "available": one.available,
            "delivered": one.delivered,
            "redelivered": one.redelivered,
            "known_ms": one.known_ms,
            "oldest": [_oldest(holder) for holder in one.holder[:1]],
            "outcomes": {each.name: each.records for each in one.outcomes},
            "failures": [_failure(each) for each in one.failures],
        }
        for one in report.shares
    ]


def _oldest(holder: ShareHolder) -> dict[str, Any]:
    return {
        "offset": holder.offset,
        "attempts": holder.attempts,
        **_client(holder.client),
        "held_ms": holder.held_ms,
        "lock_ms": holder.lock_ms,
        "backoff_ms": holder.backoff_ms,
    }


def _failure(failure: ShareFailure) -> dict[str, Any]:
    return {
        "at_ms": failure.at_ms,
        "cause": failure.cause,
        "first": failure.first_offset,
        "last": failure.last_offset,
        "attempts": failure.attempts,
        **_client(failure.client),
        "archived": failure.archived,
    }


def _client(client: ShareClient) -> dict[str, Any]:
    return {
        "member": client.member_id or None,
        "client": client.client_id or None,
        "host": client.host or None,
    }
