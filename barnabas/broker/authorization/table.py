"""The rights of each API: the one place where an API gets its check.

Always: an API without a row cannot be called on a broker with an authorizer; a test fails if a
handler has none.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from barnabas.broker.authorization import (
    administration,
    group_requests,
    offsets,
    records,
    share_groups,
    share_records,
    streams_groups,
    topic_metadata,
    topics,
    transactional,
)
from barnabas.broker.authorization.answers import Handle
from barnabas.broker.authorization.requester import Requester, Requesters
from barnabas.broker.authorization.whole_requests import (
    describe_connections_check,
    describe_denials_check,
    needs_cluster,
    needs_nothing,
)
from barnabas.broker.net.dispatch import Call
from barnabas.model.errors import Code, InvalidRequest
from barnabas.security.acl.rules import AclOperation

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker

Check = Callable[[Handle, "Broker", Any, Call, Requester], Any]

_ACTION = needs_cluster(AclOperation.CLUSTER_ACTION)
_ALTER = needs_cluster(AclOperation.ALTER)
_DESCRIBE = needs_cluster(AclOperation.DESCRIBE)

CHECKS: dict[int, Check] = {
    0: records.produce_check,
    1: records.fetch_check,
    2: topics.list_offsets_check,
    3: topic_metadata.metadata_check,
    4: _ACTION,
    5: _ACTION,
    6: _ACTION,
    7: _ACTION,
    8: offsets.offset_commit_check,
    9: offsets.offset_fetch_check,
    10: group_requests.find_coordinator_check,
    11: group_requests.member_check,
    12: group_requests.member_check,
    13: group_requests.member_check,
    14: group_requests.member_check,
    15: group_requests.describe_groups_check,
    16: group_requests.list_groups_check,
    17: needs_nothing,
    18: needs_nothing,
    19: administration.create_topics_check,
    20: administration.delete_topics_check,
    21: topics.delete_records_check,
    22: transactional.init_producer_id_check,
    23: topics.offset_for_leader_epoch_check,
    24: transactional.add_partitions_to_txn_check,
    25: transactional.add_offsets_to_txn_check,
    26: transactional.end_txn_check,
    27: needs_cluster(AclOperation.ALTER, AclOperation.CLUSTER_ACTION),
    28: offsets.txn_offset_commit_check,
    29: _DESCRIBE,
    30: _ALTER,
    31: _ALTER,
    32: administration.describe_configs_check,
    33: administration.alter_configs_check,
    34: _ALTER,
    35: _DESCRIBE,
    36: needs_nothing,
    38: needs_nothing,  # the handlers of tokens look at the rules themselves
    39: needs_nothing,
    40: needs_nothing,
    41: needs_nothing,
    37: administration.create_partitions_check,
    42: group_requests.delete_groups_check,
    43: _ALTER,
    44: administration.alter_configs_check,
    45: _ALTER,
    46: _DESCRIBE,
    47: offsets.offset_delete_check,
    48: needs_cluster(AclOperation.DESCRIBE_CONFIGS),
    49: needs_cluster(AclOperation.ALTER_CONFIGS),
    50: _DESCRIBE,
    51: _ALTER,
    56: _ACTION,
    60: topic_metadata.describe_cluster_check,
    61: topics.describe_producers_check,
    64: _ALTER,
    65: transactional.describe_transactions_check,
    66: transactional.list_transactions_check,
    68: group_requests.consumer_group_heartbeat_check,
    69: group_requests.consumer_group_describe_check,
    74: needs_cluster(AclOperation.DESCRIBE_CONFIGS),
    75: topic_metadata.describe_topic_partitions_check,
    76: share_groups.share_group_heartbeat_check,
    77: share_groups.share_group_describe_check,
    90: share_groups.describe_share_group_offsets_check,
    91: share_groups.alter_share_group_offsets_check,
    92: share_groups.delete_share_group_offsets_check,
    78: share_records.share_fetch_check,
    79: share_records.share_acknowledge_check,
    83: _ACTION,
    84: _ACTION,
    85: _ACTION,
    86: _ACTION,
    87: _ACTION,
    88: streams_groups.streams_group_heartbeat_check,
    89: streams_groups.streams_group_describe_check,
    20_000: group_requests.describe_group_history_check,
    20_001: topics.describe_logs_check,
    20_002: _DESCRIBE,
    20_003: _ACTION,
    20_004: _ACTION,
    20_005: _ACTION,
    20_006: transactional.describe_transaction_history_check,
    20_007: describe_denials_check,
    20_008: transactional.commit_transaction_group_check,
    20_009: transactional.describe_transaction_group_check,
    20_010: describe_connections_check,
    20_011: share_groups.describe_share_partitions_check,
}


def authorized(api_key: int, handle: Handle) -> Handle:
    """The handler, behind the check of its API."""
    check = CHECKS.get(api_key)
    if check is None:
        raise InvalidRequest(
            Code.CLUSTER_AUTHORIZATION_FAILED, f"API key {api_key} has no access rule"
        )

    requesters = Requesters(api_key)
    known = requesters.known

    def answer(broker: "Broker", request: Any, call: Call) -> Any:
        authorizer = broker.authorizer
        assert authorizer is not None
        connection = call.connection
        requester = known.get((connection.principal, connection.host, call.client_id))
        if requester is None or not authorizer.decisions.loaded:
            requester = requesters.find(authorizer, call)
            if requester is None:
                return handle(broker, request, call)
        return check(handle, broker, request, call, requester)

    return answer
