"""Looks up offsets by time, and reads and commits a group's offsets.

Flows over a cluster, one attempt each: temporary errors are Retriable.
Always: a partition that fails does not prevent the lookup of the others.
"""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from barnabas.client.cluster import ClusterClient
from barnabas.client.consumer.membership.membership import CommitterIdentity
from barnabas.client.consumer.positions import FetchPosition
from barnabas.client.errors import check, error_of, partition_error
from barnabas.config.option import invalid
from barnabas.model.errors import Code, Fenced, KafkaError, Retriable
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.list_offsets import (
    EARLIEST,
    LATEST,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from barnabas.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)

_BY_NAME_MAX = 9  # the last version of OffsetCommit and OffsetFetch that names topics
_GROUPS_SINCE = 8
_OFFSET_FETCH = 9
_DURATION = re.compile(
    r"P(?:(\d{1,9})D)?(?:T(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,12})(?:\.(\d{1,3}))?S)?)?",
    re.ASCII,
)
_STALE = frozenset(
    {
        Code.UNKNOWN_MEMBER_ID,
        Code.ILLEGAL_GENERATION,
        Code.FENCED_INSTANCE_ID,
        Code.FENCED_MEMBER_EPOCH,
    }
)


_UNSTABLE = (
    "offsets of an open transaction are pending. It ends when its producer commits or aborts it, or"
    " calls init_transactions() after a restart, and after transaction.timeout.ms at the latest"
)


class Rebalancing(KafkaError):
    """The group rebalances: poll, so that the rebalance makes progress; then commit again."""


class Committed(NamedTuple):
    """The committed offset of a partition. Of a share group: its start offset, and the records
    from there to the end that are not finished (-1: not known)."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    lag: int = -1


class Reset(NamedTuple):
    """Where to start without an offset: `back_ms` before now, at the earliest or latest offset, or
    nowhere.
    """

    mark: int | None = None
    back_ms: int | None = None

    def time(self, wall_ms: int) -> int | None:
        return self.mark if self.back_ms is None else max(0, wall_ms - self.back_ms)


def reset_of(text: str) -> Reset:
    """Of auto.offset.reset."""
    if text in ("earliest", "smallest", "beginning"):
        return Reset(EARLIEST)
    if text in ("latest", "largest", "end"):
        return Reset(LATEST)
    if text in ("none", "error"):
        return Reset()
    kind, _, duration = text.partition(":")
    found = _DURATION.fullmatch(duration)
    if kind == "by_duration" and found is not None and any(found.groups()):
        days, hours, minutes, seconds, fraction = (int(part or 0) for part in found.groups())
        total_s = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
        return Reset(back_ms=total_s * 1000 + fraction * 10 ** (3 - len(found[5] or "000")))
    raise invalid(
        f"auto.offset.reset is {text[:100]!r}: expected earliest, latest, none, or"
        " by_duration: with an ISO 8601 duration like PT1H"
    )


async def places_at(
    cluster: ClusterClient, times: Mapping[TopicPartition, int], *, committed_only: bool
) -> dict[TopicPartition, FetchPosition]:
    """The offsets of EARLIEST, LATEST or times in ms; offset -1: no record is as late."""
    found: dict[TopicPartition, FetchPosition] = {}
    problem: KafkaError | None = None
    view = await cluster.view({at.topic: None for at in times})
    by_leader: dict[int, list[TopicPartition]] = {}
    for at in times:
        try:
            by_leader.setdefault(view.leader(at), []).append(at)
        except KafkaError as why:
            problem = why
    for broker, partitions in by_leader.items():
        topics: dict[str, list[ListOffsetsPartition]] = {}
        for at in partitions:
            topics.setdefault(at.topic, []).append(
                ListOffsetsPartition(partition_index=at.partition, timestamp=times[at])
            )
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=1 if committed_only else 0,
            topics=[ListOffsetsTopic(name=name, partitions=p) for name, p in topics.items()],
            timeout_ms=cluster.timeout_ms,
        )
        connection = await cluster.broker(broker)
        response = await connection.call(
            request, ListOffsetsResponse, timeout_ms=cluster.timeout_ms
        )
        for topic in response.topics:
            for answer in topic.partitions:
                at = TopicPartition(topic.name, answer.partition_index)
                if answer.error_code:
                    problem = partition_error(answer.error_code, about=str(at))
                elif at in times:
                    # Without the epoch of the response: no record of that epoch has been read yet.
                    found[at] = FetchPosition(answer.offset)
    if problem is not None and (not found or not isinstance(problem, Retriable)):
        raise problem
    return found


async def fetch_committed(
    cluster: ClusterClient,
    group_id: str,
    partitions: Iterable[TopicPartition],
) -> dict[TopicPartition, Committed]:
    """The committed offsets; partitions without one are left out."""
    topics: dict[str, list[int]] = {}
    for at in partitions:
        topics.setdefault(at.topic, []).append(at.partition)
    connection = await cluster.coordinator(group_id)
    if connection.version_of(_OFFSET_FETCH, _BY_NAME_MAX) >= _GROUPS_SINCE:
        group = OffsetFetchRequestGroup(
            group_id=group_id,
            topics=[
                OffsetFetchRequestTopics(name=name, partition_indexes=numbers)
                for name, numbers in topics.items()
            ],
        )
        request = OffsetFetchRequest(groups=[group], require_stable=True)
    else:
        request = OffsetFetchRequest(
            group_id=group_id,
            topics=[
                OffsetFetchRequestTopic(name=name, partition_indexes=numbers)
                for name, numbers in topics.items()
            ],
            require_stable=connection.version_of(_OFFSET_FETCH) == _GROUPS_SINCE - 1,
        )
    response = await connection.call(
        request, OffsetFetchResponse, timeout_ms=cluster.timeout_ms, version_max=_BY_NAME_MAX
    )
    about = f"group {group_id!r}"
    check(response.error_code, about=about)
    found: dict[TopicPartition, Committed] = {}
    for group_answer in response.groups:
        check(group_answer.error_code, about=about)
    answers = [(topic.name, answer) for topic in response.topics for answer in topic.partitions]
    newer = [
        (topic.name, answer)
        for each in response.groups
        for topic in each.topics
        for answer in topic.partitions
    ]
    for found_in in (answers, newer):
        for name, answer in found_in:
            at = TopicPartition(name, answer.partition_index)
            unstable = answer.error_code == Code.UNSTABLE_OFFSET_COMMIT
            check(answer.error_code, _UNSTABLE if unstable else None, about=f"{about}, {at}")
            if answer.committed_offset >= 0:
                found[at] = Committed(
                    answer.committed_offset, answer.committed_leader_epoch, answer.metadata or ""
                )
    return found


def commit_request(
    group_id: str, identity: CommitterIdentity | None, offsets: Mapping[TopicPartition, Committed]
) -> OffsetCommitRequest:
    """Commit offsets. Without an identity, the commit is not a member's."""
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for at, place in offsets.items():
        topics.setdefault(at.topic, []).append(
            OffsetCommitRequestPartition(
                partition_index=at.partition,
                committed_offset=place.offset,
                committed_leader_epoch=place.leader_epoch,
                committed_metadata=place.metadata,
            )
        )
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=identity.generation if identity else -1,
        member_id=identity.member_id if identity else "",
        group_instance_id=identity.instance_id if identity else None,
        topics=[OffsetCommitRequestTopic(name=n, partitions=p) for n, p in topics.items()],
    )


_JOIN_AGAIN = "; poll for messages, so that it joins again and reads on from the last commit"
_REFUSED: dict[int, str] = {
    Code.UNKNOWN_MEMBER_ID: "the coordinator has removed this member: it sent no heartbeat in"
    " session.timeout.ms, or did not poll in max.poll.interval.ms, and its partitions"
    f" now belong to other members{_JOIN_AGAIN}",
    Code.ILLEGAL_GENERATION: "the group has rebalanced without this member, and its partitions"
    f" now belong to other members{_JOIN_AGAIN}",
    Code.FENCED_MEMBER_EPOCH: "the group has rebalanced without this member, and its partitions"
    f" now belong to other members{_JOIN_AGAIN}",
    Code.FENCED_INSTANCE_ID: "another consumer has joined with the same group.instance.id: give"
    " every member its own",
}


def check_committed(group_id: str, response: OffsetCommitResponse, limits: str = "") -> None:
    """Raises the first error of the response. `limits`: the timeouts of the member, for
    the text.
    """
    for topic in response.topics:
        for answer in topic.partitions:
            code = answer.error_code
            about = f"group {group_id!r}, {topic.name}-{answer.partition_index}"
            if code == Code.REBALANCE_IN_PROGRESS:
                raise Rebalancing(
                    Code.REBALANCE_IN_PROGRESS,
                    f"{about}: not committed, the group rebalances; poll for messages, then commit",
                )
            if code == Code.STALE_MEMBER_EPOCH:
                raise Retriable(Code.STALE_MEMBER_EPOCH, f"{about}: retry after the next heartbeat")
            if code in _STALE:
                raise Fenced(
                    error_of(code).code, f"{about}: not committed, {_REFUSED[code]}{limits}"
                )
            if code == Code.UNKNOWN_TOPIC_OR_PARTITION:
                raise partition_error(code, about=about)
            check(code, about=about)


COMMIT_VERSION_MAX = _BY_NAME_MAX
