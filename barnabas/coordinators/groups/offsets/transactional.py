"""The operations on offsets of transactions: TxnOffsetCommit, and the markers that end them.

In: TxnOffsetCommit, markers for the partition of __consumer_offsets. Out: outcomes.
Always: a member of the past commits nothing (KIP-447): if a request says who sends it, the group
must agree. The effect of a marker and the marker are one step, and answered when it is committed.
Not here: the offsets that are pending (pending.py), whether the transaction is open (the log).
"""

from barnabas.coordinators.caller import Caller
from barnabas.coordinators.groups.classic import membership as classic_membership
from barnabas.coordinators.groups.classic.group import ClassicGroup
from barnabas.coordinators.groups.consumer import membership as consumer_membership
from barnabas.coordinators.groups.consumer.group import ConsumerGroup
from barnabas.coordinators.groups.records import NO_EXPIRY, OffsetRecord, Record, offset_value
from barnabas.coordinators.groups.replies import txn_commit_refused
from barnabas.coordinators.groups.share.group import ShareGroup
from barnabas.coordinators.groups.state import Group, ShardState, reply
from barnabas.coordinators.runtime import (
    Now,
    Outcome,
    ShardReply,
    TransactionMarker,
    TransactionProducer,
)
from barnabas.model.errors import Code
from barnabas.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from barnabas.wire.messages.write_txn_markers import WriteTxnMarkersResponse


def commit(
    state: ShardState,
    request: TxnOffsetCommitRequest,
    guard: object,
    caller: Caller,
    now: Now,
) -> Outcome[Record]:
    """`guard`: that of the log, if the transaction is not open in it yet."""
    group = state.find(request.group_id)
    code = check_commit(group, request)
    if code:
        return reply(caller, txn_commit_refused(request.topics, code))
    if isinstance(group, ClassicGroup):
        classic_membership.committed(group, request.member_id, now)
    records, response = _records(request, state.limits.offset_metadata_chars_max, now)
    return Outcome(
        records,
        (ShardReply(caller.token, response),),
        request.group_id,
        producer=TransactionProducer(request.producer_id, request.producer_epoch, guard),
    )


def check_commit(group: Group | None, request: TxnOffsetCommitRequest) -> Code:
    """Old versions say nothing of the member, and are believed."""
    epoch = request.generation_id
    if isinstance(group, ShareGroup):
        return Code.GROUP_ID_NOT_FOUND
    if group is None:
        return Code.NONE if epoch < 0 else Code.ILLEGAL_GENERATION
    is_anonymous = epoch < 0 and not request.member_id and request.group_instance_id is None
    if is_anonymous:
        return Code.NONE
    partitions = (
        (topic.name, partition.partition_index)
        for topic in request.topics
        for partition in topic.partitions
    )
    version = consumer_membership.COMMIT_WITH_EPOCH_SINCE
    if group.type == "streams":
        code = group.check_commit(request.member_id, epoch, version, partitions)
        return Code.ILLEGAL_GENERATION if code is Code.STALE_MEMBER_EPOCH else code
    if isinstance(group, ConsumerGroup):
        code = consumer_membership.check_commit(
            group, request.member_id, epoch, version, partitions
        )
        return Code.ILLEGAL_GENERATION if code is Code.STALE_MEMBER_EPOCH else code
    code = classic_membership.check_commit(
        group, request.member_id, request.group_instance_id, epoch
    )
    return Code.NONE if code is Code.REBALANCE_IN_PROGRESS else code


def _records(
    request: TxnOffsetCommitRequest, metadata_chars_max: int, now: Now
) -> tuple[tuple[Record, ...], TxnOffsetCommitResponse]:
    """Each partition succeeds or fails on its own: its metadata may be too long."""
    records: list[Record] = []
    topics = []
    for topic in request.topics:
        partitions = []
        for each in topic.partitions:
            metadata = each.committed_metadata or ""
            code = Code.NONE
            if len(metadata) > metadata_chars_max:
                code = Code.OFFSET_METADATA_TOO_LARGE
            else:
                value = offset_value(
                    each.committed_offset,
                    metadata,
                    now.wall_ms,
                    each.committed_leader_epoch,
                    NO_EXPIRY,
                )
                records.append(
                    OffsetRecord(request.group_id, topic.name, each.partition_index, value)
                )
            partitions.append(
                TxnOffsetCommitResponsePartition(
                    partition_index=each.partition_index, error_code=code
                )
            )
        topics.append(TxnOffsetCommitResponseTopic(name=topic.name, partitions=partitions))
    return tuple(records), TxnOffsetCommitResponse(topics=topics)


def end(
    marker: TransactionMarker, response: WriteTxnMarkersResponse, caller: Caller
) -> Outcome[Record]:
    """Write the marker. Its effect is that of its replay."""
    return Outcome(answers=(ShardReply(caller.token, response),), marker=marker)
