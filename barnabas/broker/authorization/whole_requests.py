"""Requests that need one right, and how each of them says that it is refused."""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from barnabas.broker.authorization.answers import Handle, after, changed
from barnabas.broker.authorization.requester import Requester
from barnabas.broker.net.dispatch import Call
from barnabas.model.errors import Code
from barnabas.security.acl.rules import AclOperation
from barnabas.wire.apis import APIS

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker

DENIED = Code.CLUSTER_AUTHORIZATION_FAILED
Refuse = Callable[[Any, int], Any]
"""From the request and its version, the response that refuses all of it."""


def with_error_code(request: Any, version: int) -> Any:
    """For responses whose only required fields are the error code and lists."""
    response: Any = APIS[request.api_key].response
    required: dict[str, list[Any]] = {name: [] for name in _LISTS.get(request.api_key, ())}
    return response(error_code=DENIED, **required)


# The lists that responses have beside their error code.
_LISTS = {
    4: ("topics",),
    5: ("partition_errors",),
    7: ("remaining_partitions",),
    29: ("resources",),
    35: ("results",),
    43: ("replica_election_results",),
    45: ("responses",),
    46: ("topics",),
    50: ("results",),
    56: ("topics",),
    74: ("config_resources",),
    20_005: ("topics",),
    20_010: ("connections",),
}


def _create_acls(request: Any, version: int) -> Any:
    from barnabas.wire.messages.create_acls import AclCreationResult, CreateAclsResponse

    return CreateAclsResponse(
        results=[
            AclCreationResult(error_code=DENIED, error_message=DENIED.text)
            for _ in request.creations
        ]
    )


def _delete_acls(request: Any, version: int) -> Any:
    from barnabas.wire.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsResponse

    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsFilterResult(error_code=DENIED, error_message=DENIED.text, matching_acls=[])
            for _ in request.filters
        ]
    )


def _alter_replica_log_dirs(request: Any, version: int) -> Any:
    from barnabas.wire.messages.alter_replica_log_dirs import (
        AlterReplicaLogDirPartitionResult,
        AlterReplicaLogDirsResponse,
        AlterReplicaLogDirTopicResult,
    )

    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(
                topic_name=topic.name,
                partitions=[
                    AlterReplicaLogDirPartitionResult(partition_index=index, error_code=DENIED)
                    for index in topic.partitions
                ],
            )
            for directory in request.dirs
            for topic in directory.topics
        ]
    )


def _alter_partition_reassignments(request: Any, version: int) -> Any:
    from barnabas.wire.messages.alter_partition_reassignments import (
        AlterPartitionReassignmentsResponse,
        ReassignablePartitionResponse,
        ReassignableTopicResponse,
    )

    return AlterPartitionReassignmentsResponse(
        error_code=DENIED,
        error_message=DENIED.text,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    ReassignablePartitionResponse(
                        partition_index=each.partition_index,
                        error_code=DENIED,
                        error_message=DENIED.text,
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _elect_leaders(request: Any, version: int) -> Any:
    from barnabas.wire.messages.elect_leaders import (
        ElectLeadersResponse,
        PartitionResult,
        ReplicaElectionResult,
    )

    return ElectLeadersResponse(
        error_code=DENIED if version >= 1 else 0,
        replica_election_results=[
            ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[
                    PartitionResult(
                        partition_id=index, error_code=DENIED, error_message=DENIED.text
                    )
                    for index in topic.partitions
                ],
            )
            for topic in request.topic_partitions or ()
        ],
    )


def _write_txn_markers(request: Any, version: int) -> Any:
    from barnabas.wire.messages.write_txn_markers import (
        WritableTxnMarkerPartitionResult,
        WritableTxnMarkerResult,
        WritableTxnMarkerTopicResult,
        WriteTxnMarkersResponse,
    )

    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(
                                partition_index=index, error_code=DENIED
                            )
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )


def _describe_client_quotas(request: Any, version: int) -> Any:
    from barnabas.wire.messages.describe_client_quotas import DescribeClientQuotasResponse

    return DescribeClientQuotasResponse(error_code=DENIED, error_message=DENIED.text, entries=None)


def _alter_client_quotas(request: Any, version: int) -> Any:
    from barnabas.wire.messages.alter_client_quotas import AlterClientQuotasResponse, EntryResult

    return AlterClientQuotasResponse(
        entries=[
            EntryResult(error_code=DENIED, error_message=DENIED.text, entity=entry.entity)
            for entry in request.entries
        ]
    )


def _alter_user_scram_credentials(request: Any, version: int) -> Any:
    from barnabas.wire.messages.alter_user_scram_credentials import (
        AlterUserScramCredentialsResponse,
        AlterUserScramCredentialsResult,
    )

    users = dict.fromkeys(each.name for each in (*request.deletions, *request.upsertions))
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(user=user, error_code=DENIED, error_message=DENIED.text)
            for user in users
        ]
    )


def _describe_broker(request: Any, version: int) -> Any:
    from barnabas.wire.messages.describe_broker import DescribeBrokerResponse

    return DescribeBrokerResponse(
        broker_id=-1,
        broker_epoch=-1,
        process_id=-1,
        machine="",
        version="",
        controller_id=-1,
        controller_epoch=-1,
        is_controller=False,
        events=[],
        error_code=DENIED,
    )


def _share_state(request: Any, version: int) -> Any:
    """Requests for share state: their responses differ in the names of their parts."""
    api = APIS[request.api_key]
    messages: Any = import_module(f"barnabas.wire.messages.{api.module}")
    result_of = getattr(messages, _STATE_RESULTS[request.api_key])
    nothing = _STATE_FIELDS.get(request.api_key, {})
    results = [
        result_of(
            topic_id=topic.topic_id,
            partitions=[
                messages.PartitionResult(partition=each.partition, error_code=DENIED, **nothing)
                for each in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    response: Any = api.response
    return response(results=results)


_STATE_RESULTS = {
    83: "InitializeStateResult",
    84: "ReadStateResult",
    85: "WriteStateResult",
    86: "DeleteStateResult",
    87: "ReadStateSummaryResult",
}
_STATE_FIELDS: dict[int, dict[str, Any]] = {
    84: {"state_epoch": 0, "start_offset": 0, "state_batches": []},
    87: {"state_epoch": 0, "leader_epoch": 0, "start_offset": 0},
}

_REFUSALS: dict[int, Refuse] = {
    83: _share_state,
    84: _share_state,
    85: _share_state,
    86: _share_state,
    87: _share_state,
    27: _write_txn_markers,
    30: _create_acls,
    31: _delete_acls,
    34: _alter_replica_log_dirs,
    43: _elect_leaders,
    45: _alter_partition_reassignments,
    48: _describe_client_quotas,
    49: _alter_client_quotas,
    51: _alter_user_scram_credentials,
    20_002: _describe_broker,
}


def needs_cluster(*operations: AclOperation) -> Any:
    """Any of these rights on the cluster; without, all of the request is refused."""

    def check(handle: Handle, broker: "Broker", request: Any, call: Call, caller: Requester) -> Any:
        if any(caller.cluster(each, quiet=True) for each in operations):
            return handle(broker, request, call)
        caller.cluster(operations[-1])  # recorded once
        return _REFUSALS.get(request.api_key, with_error_code)(request, call.version)

    return check


def describe_denials_check(
    handle: Handle, broker: "Broker", request: Any, call: Call, caller: Requester
) -> Any:
    """Everybody may ask what it was denied itself: not which rule did it, nor the name of what it
    has asked for by id."""
    if caller.cluster(AclOperation.DESCRIBE, quiet=True):
        return handle(broker, request, call)
    own = str(call.connection.principal)

    def finish(response: Any) -> Any:
        denials = [
            changed(each, rule="", resource_name=each.resource_name if each.named else "")
            for each in response.denials
            if each.principal == own
        ]
        return changed(response, denials=denials, count=len(denials))

    return after(handle(broker, request, call), finish)


def describe_connections_check(
    handle: Handle, broker: "Broker", request: Any, call: Call, caller: Requester
) -> Any:
    """DESCRIBE of the cluster; topics that the client may not describe are left out."""
    if not caller.cluster(AclOperation.DESCRIBE):
        return with_error_code(request, call.version)

    def may_describe(name: str) -> bool:
        return caller.topic(AclOperation.DESCRIBE, name, quiet=True)

    return handle(
        broker, request, Call(call.version, call.connection, call.client_id, may_describe)
    )


def needs_nothing(
    handle: Handle, broker: "Broker", request: Any, call: Call, caller: Requester
) -> Any:
    return handle(broker, request, call)
