"""One request of each API, what it needs, and the code of its refusal.

Topics `orders` (exists) and `missing`, group `g`, transactional id `t`. A right is written
`TOPIC READ orders`. `needs`: alternatives; each is a list of rights that together are enough.
"""

from collections.abc import Callable
from typing import Any, NamedTuple
from uuid import UUID

from barnabas.security.acl.rules import (
    AclOperation,
    AclResourceType,
    AclRule,
    PatternType,
    Permission,
    ResourcePattern,
)
from barnabas.wire.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    alter_client_quotas,
    alter_configs,
    alter_partition,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    alter_share_group_offsets,
    alter_user_scram_credentials,
    api_versions,
    commit_transaction_group,
    consumer_group_describe,
    consumer_group_heartbeat,
    controlled_shutdown,
    create_acls,
    create_delegation_token,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_share_group_offsets,
    delete_share_group_state,
    delete_topics,
    describe_acls,
    describe_broker,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_connections,
    describe_delegation_token,
    describe_denials,
    describe_group_history,
    describe_groups,
    describe_log_dirs,
    describe_logs,
    describe_producers,
    describe_replicas,
    describe_share_group_offsets,
    describe_share_partitions,
    describe_topic_partitions,
    describe_transaction_group,
    describe_transaction_history,
    describe_transactions,
    describe_user_scram_credentials,
    elect_leaders,
    end_txn,
    expire_delegation_token,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    initialize_share_group_state,
    join_group,
    leader_and_isr,
    leave_group,
    list_config_resources,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    read_share_group_state,
    read_share_group_state_summary,
    refresh_settings,
    renew_delegation_token,
    replicas_failed,
    sasl_authenticate,
    sasl_handshake,
    share_acknowledge,
    share_fetch,
    share_group_describe,
    share_group_heartbeat,
    stop_replica,
    streams_group_describe,
    streams_group_heartbeat,
    sync_group,
    txn_offset_commit,
    unregister_broker,
    update_metadata,
    write_share_group_state,
    write_txn_markers,
)
from barnabas.wire.records import Record, encode_batch

T, G, C, X = 29, 30, 31, 53
NO_ID = UUID(int=0)
RECORDS = memoryview(encode_batch([Record(0, 0, b"k", b"v", ())]))


class Sample(NamedTuple):
    """`make(version, topic id)` is the request."""

    make: Callable[[int, UUID], Any]
    needs: tuple[tuple[str, ...], ...]
    denied: int


def rule(right: str, permission: Permission = Permission.ALLOW) -> AclRule:
    type_, operation, name = right.split(" ")
    return AclRule(
        ResourcePattern(AclResourceType[type_], name),
        "User:alice",
        "*",
        AclOperation[operation],
        permission,
    )


def prefixed(one: AclRule) -> AclRule:
    """The cluster has one name, also as a prefix."""
    is_cluster = one.resource.type is AclResourceType.CLUSTER
    name = one.resource.name if is_cluster else one.resource.name[:1]
    return one._replace(resource=one.resource._replace(name=name, pattern=PatternType.PREFIXED))


def cluster(*operations: str) -> tuple[tuple[str, ...], ...]:
    return tuple((f"CLUSTER {each} kafka-cluster",) for each in operations)


def only(make: Callable[[], Any]) -> Callable[[int, UUID], Any]:
    return lambda version, id_: make()


def _produce(version: int, id_: UUID) -> Any:
    data = [produce.PartitionProduceData(index=0, records=RECORDS)]
    topic = produce.TopicProduceData(partition_data=data, **_named(version >= 13, id_, "name"))
    return produce.ProduceRequest(acks=1, timeout_ms=1, topic_data=[topic])


def _named(by_id: bool, id_: UUID, field: str) -> Any:
    return {"topic_id": id_} if by_id else {field: "orders"}


def _fetch(version: int, id_: UUID) -> Any:
    part = fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    topic = fetch.FetchTopic(partitions=[part], **_named(version >= 13, id_, "topic"))
    return fetch.FetchRequest(max_wait_ms=0, min_bytes=0, session_epoch=-1, topics=[topic])


def _offset_commit(version: int, id_: UUID) -> Any:
    part = offset_commit.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=1, committed_metadata=""
    )
    topic = offset_commit.OffsetCommitRequestTopic(
        partitions=[part], **_named(version >= 10, id_, "name")
    )
    return offset_commit.OffsetCommitRequest(group_id="g", member_id="", topics=[topic])


def _offset_fetch(version: int, id_: UUID) -> Any:
    if version < 8:
        one = offset_fetch.OffsetFetchRequestTopic(name="orders", partition_indexes=[0])
        return offset_fetch.OffsetFetchRequest(group_id="g", topics=[one])
    topic = offset_fetch.OffsetFetchRequestTopics(
        partition_indexes=[0], **_named(version >= 10, id_, "name")
    )
    group = offset_fetch.OffsetFetchRequestGroup(group_id="g", topics=[topic])
    return offset_fetch.OffsetFetchRequest(groups=[group])


def _find_coordinator(version: int, id_: UUID) -> Any:
    if version < 4:
        return find_coordinator.FindCoordinatorRequest(key="g")
    return find_coordinator.FindCoordinatorRequest(coordinator_keys=["g"])


def _metadata(version: int, id_: UUID) -> Any:
    return metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name="orders")])


def _delete_topics(version: int, id_: UUID) -> Any:
    if version < 6:
        return delete_topics.DeleteTopicsRequest(topic_names=["orders"], timeout_ms=1000)
    state = delete_topics.DeleteTopicState(topic_id=id_)
    return delete_topics.DeleteTopicsRequest(topics=[state], timeout_ms=1000)


def _add_partitions(version: int, id_: UUID) -> Any:
    topics = [add_partitions_to_txn.AddPartitionsToTxnTopic(name="orders", partitions=[0])]
    return add_partitions_to_txn.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="t",
        v3_and_below_producer_id=1,
        v3_and_below_producer_epoch=0,
        v3_and_below_topics=topics,
    )


def _heartbeat(version: int, id_: UUID) -> Any:
    return consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
        group_id="with-members",
        member_id="AAAAAAAAAAAAAAAAAAAAAA",
        member_epoch=0,
        rebalance_timeout_ms=1000,
        subscribed_topic_names=["orders"],
        topic_partitions=[],
    )


def _alter_configs(kind: int, name: str) -> Callable[[int, UUID], Any]:
    resource = alter_configs.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[alter_configs.AlterableConfig(name="retention.ms", value="1")],
    )
    return only(lambda: alter_configs.AlterConfigsRequest(resources=[resource], validate_only=True))


def _incremental(version: int, id_: UUID) -> Any:
    config = incremental_alter_configs.AlterableConfig(
        name="retention.ms", config_operation=0, value="1"
    )
    resource = incremental_alter_configs.AlterConfigsResource(
        resource_type=2, resource_name="orders", configs=[config]
    )
    return incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=[resource], validate_only=True
    )


def _txn_offset_commit(version: int, id_: UUID) -> Any:
    part = txn_offset_commit.TxnOffsetCommitRequestPartition(
        partition_index=0, committed_offset=1, committed_metadata=""
    )
    topic = txn_offset_commit.TxnOffsetCommitRequestTopic(name="orders", partitions=[part])
    return txn_offset_commit.TxnOffsetCommitRequest(
        transactional_id="t", group_id="g", producer_id=1, producer_epoch=0, topics=[topic]
    )


def _create_acls(version: int, id_: UUID) -> Any:
    creation = create_acls.AclCreation(
        resource_type=2, resource_name="x", principal="User:x", host="*", operation=3,
        permission_type=3,
    )  # fmt: skip
    return create_acls.CreateAclsRequest(creations=[creation])


_FILTER: dict[str, Any] = {
    "resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1,
    "principal_filter": "User:nobody", "host_filter": None, "operation": 1, "permission_type": 1,
}  # fmt: skip
_COMMIT = ("TRANSACTIONAL_ID WRITE t", "GROUP READ g", "TOPIC READ orders")
_ALTER, _DESCRIBE, _ACTION = cluster("ALTER"), cluster("DESCRIBE"), cluster("CLUSTER_ACTION")

SAMPLES: dict[int, Sample] = {
    0: Sample(_produce, (("TOPIC WRITE orders",),), T),
    1: Sample(_fetch, (("TOPIC READ orders",),), T),
    2: Sample(
        only(lambda: list_offsets.ListOffsetsRequest(replica_id=-1, topics=[
            list_offsets.ListOffsetsTopic(name="orders", partitions=[
                list_offsets.ListOffsetsPartition(partition_index=0, timestamp=-1)])])),
        (("TOPIC DESCRIBE orders",), ("TOPIC READ orders",)), T),
    3: Sample(_metadata, (("TOPIC DESCRIBE orders",), ("TOPIC ALTER orders",)), T),
    4: Sample(only(lambda: leader_and_isr.LeaderAndIsrRequest(
        controller_id=1, controller_epoch=1, topic_states=[], live_leaders=[])), _ACTION, C),
    5: Sample(only(lambda: stop_replica.StopReplicaRequest(
        controller_id=1, controller_epoch=1, topic_states=[])), _ACTION, C),
    6: Sample(only(lambda: update_metadata.UpdateMetadataRequest(
        controller_id=1, controller_epoch=1, topic_states=[], live_brokers=[])), _ACTION, C),
    7: Sample(only(lambda: controlled_shutdown.ControlledShutdownRequest(broker_id=1)),
              _ACTION, C),
    8: Sample(_offset_commit, (("GROUP READ g", "TOPIC READ orders"),), G),
    9: Sample(_offset_fetch, (("GROUP DESCRIBE g", "TOPIC DESCRIBE orders"),), G),
    10: Sample(_find_coordinator, (("GROUP DESCRIBE g",), ("GROUP READ g",)), G),
    11: Sample(only(lambda: join_group.JoinGroupRequest(
        group_id="g", session_timeout_ms=10_000, rebalance_timeout_ms=10_000, member_id="x",
        protocol_type="consumer",
        protocols=[join_group.JoinGroupRequestProtocol(name="range", metadata=b"")])),
        (("GROUP READ g",),), G),
    12: Sample(only(lambda: heartbeat.HeartbeatRequest(
        group_id="g", generation_id=1, member_id="x")), (("GROUP READ g",),), G),
    13: Sample(lambda version, id_: leave_group.LeaveGroupRequest(group_id="g", member_id="x")
               if version < 3 else leave_group.LeaveGroupRequest(
                   group_id="g", members=[leave_group.MemberIdentity(member_id="x")]),
               (("GROUP READ g",),), G),
    14: Sample(only(lambda: sync_group.SyncGroupRequest(
        group_id="g", generation_id=1, member_id="x", protocol_type="consumer",
        protocol_name="range", assignments=[])), (("GROUP READ g",),), G),
    15: Sample(only(lambda: describe_groups.DescribeGroupsRequest(groups=["g"])),
               (("GROUP DESCRIBE g",),), G),
    16: Sample(only(list_groups.ListGroupsRequest), ((),), 0),
    17: Sample(only(lambda: sasl_handshake.SaslHandshakeRequest(mechanism="PLAIN")), ((),), 0),
    18: Sample(only(lambda: api_versions.ApiVersionsRequest(
        client_software_name="x", client_software_version="1")), ((),), 0),
    19: Sample(only(lambda: create_topics.CreateTopicsRequest(
        validate_only=True, topics=[create_topics.CreatableTopic(
            name="orders", num_partitions=1, replication_factor=1, assignments=[], configs=[])])),
        (("TOPIC CREATE orders",), *cluster("CREATE")), T),
    20: Sample(_delete_topics, (("TOPIC DELETE orders",), *cluster("ALL")), T),
    21: Sample(only(lambda: delete_records.DeleteRecordsRequest(timeout_ms=1, topics=[
        delete_records.DeleteRecordsTopic(name="orders", partitions=[
            delete_records.DeleteRecordsPartition(partition_index=0, offset=0)])])),
        (("TOPIC DELETE orders",),), T),
    22: Sample(only(lambda: init_producer_id.InitProducerIdRequest(
        transactional_id=None, transaction_timeout_ms=1000)),
        (*cluster("IDEMPOTENT_WRITE"), ("TOPIC WRITE orders",)), C),
    23: Sample(only(lambda: offset_for_leader_epoch.OffsetForLeaderEpochRequest(topics=[
        offset_for_leader_epoch.OffsetForLeaderTopic(topic="orders", partitions=[
            offset_for_leader_epoch.OffsetForLeaderPartition(partition=0, leader_epoch=0)])])),
        (("TOPIC DESCRIBE orders",), *_ACTION), T),
    24: Sample(_add_partitions, (("TRANSACTIONAL_ID WRITE t", "TOPIC WRITE orders"),), X),
    25: Sample(only(lambda: add_offsets_to_txn.AddOffsetsToTxnRequest(
        transactional_id="t", producer_id=1, producer_epoch=0, group_id="g")),
        (("TRANSACTIONAL_ID WRITE t", "GROUP READ g"),), X),
    26: Sample(only(lambda: end_txn.EndTxnRequest(
        transactional_id="t", producer_id=1, producer_epoch=0, committed=True)),
        (("TRANSACTIONAL_ID WRITE t",),), X),
    27: Sample(only(lambda: write_txn_markers.WriteTxnMarkersRequest(markers=[
        write_txn_markers.WritableTxnMarker(
            producer_id=1, producer_epoch=0, transaction_result=True, coordinator_epoch=0,
            topics=[write_txn_markers.WritableTxnMarkerTopic(
                name="missing", partition_indexes=[0])])])),
        cluster("CLUSTER_ACTION", "ALTER"), C),
    28: Sample(_txn_offset_commit, (_COMMIT,), X),
    29: Sample(only(lambda: describe_acls.DescribeAclsRequest(**_FILTER)), _DESCRIBE, C),
    30: Sample(_create_acls, _ALTER, C),
    31: Sample(only(lambda: delete_acls.DeleteAclsRequest(
        filters=[delete_acls.DeleteAclsFilter(**_FILTER)])), _ALTER, C),
    32: Sample(only(lambda: describe_configs.DescribeConfigsRequest(resources=[
        describe_configs.DescribeConfigsResource(
            resource_type=2, resource_name="orders", configuration_keys=None)])),
        (("TOPIC DESCRIBE_CONFIGS orders",), ("TOPIC ALTER_CONFIGS orders",)), T),
    33: Sample(_alter_configs(2, "orders"), (("TOPIC ALTER_CONFIGS orders",),), T),
    34: Sample(only(lambda: alter_replica_log_dirs.AlterReplicaLogDirsRequest(dirs=[
        alter_replica_log_dirs.AlterReplicaLogDir(path="/x", topics=[
            alter_replica_log_dirs.AlterReplicaLogDirTopic(name="missing", partitions=[0])])])),
        _ALTER, C),
    35: Sample(only(lambda: describe_log_dirs.DescribeLogDirsRequest(topics=None)), _DESCRIBE, C),
    36: Sample(only(lambda: sasl_authenticate.SaslAuthenticateRequest(auth_bytes=b"")), ((),), 0),
    37: Sample(only(lambda: create_partitions.CreatePartitionsRequest(
        timeout_ms=1000, validate_only=True, topics=[create_partitions.CreatePartitionsTopic(
            name="orders", count=2, assignments=None)])), (("TOPIC ALTER orders",),), T),
    # Of the client's own tokens; those of others: handlers/test_delegation_tokens.py.
    38: Sample(only(lambda: create_delegation_token.CreateDelegationTokenRequest(
        renewers=[], max_lifetime_ms=-1)), ((),), 0),
    39: Sample(only(lambda: renew_delegation_token.RenewDelegationTokenRequest(
        hmac=b"x", renew_period_ms=-1)), ((),), 0),
    40: Sample(only(lambda: expire_delegation_token.ExpireDelegationTokenRequest(
        hmac=b"x", expiry_time_period_ms=-1)), ((),), 0),
    41: Sample(only(lambda: describe_delegation_token.DescribeDelegationTokenRequest(
        owners=None)), ((),), 0),
    42: Sample(only(lambda: delete_groups.DeleteGroupsRequest(groups_names=["g"])),
               (("GROUP DELETE g",),), G),
    43: Sample(only(lambda: elect_leaders.ElectLeadersRequest(topic_partitions=[
        elect_leaders.TopicPartitions(topic="missing", partitions=[0])])), _ALTER, C),
    44: Sample(_incremental, (("TOPIC ALTER_CONFIGS orders",),), T),
    45: Sample(only(lambda: alter_partition_reassignments.AlterPartitionReassignmentsRequest(
        topics=[alter_partition_reassignments.ReassignableTopic(name="missing", partitions=[
            alter_partition_reassignments.ReassignablePartition(partition_index=0)])])),
        _ALTER, C),
    46: Sample(only(lambda: list_partition_reassignments.ListPartitionReassignmentsRequest(
        topics=None)), _DESCRIBE, C),
    47: Sample(only(lambda: offset_delete.OffsetDeleteRequest(group_id="g", topics=[
        offset_delete.OffsetDeleteRequestTopic(name="orders", partitions=[
            offset_delete.OffsetDeleteRequestPartition(partition_index=0)])])),
        (("GROUP DELETE g", "TOPIC READ orders"),), G),
    48: Sample(only(lambda: describe_client_quotas.DescribeClientQuotasRequest(
        components=[], strict=False)), cluster("DESCRIBE_CONFIGS"), C),
    49: Sample(only(lambda: alter_client_quotas.AlterClientQuotasRequest(
        validate_only=False, entries=[alter_client_quotas.EntryData(
            entity=[alter_client_quotas.EntityData(entity_type="user", entity_name="u")],
            ops=[alter_client_quotas.OpData(key="producer_byte_rate", value=1e9, remove=False)],
        )])), cluster("ALTER_CONFIGS"), C),
    50: Sample(only(lambda: describe_user_scram_credentials.DescribeUserScramCredentialsRequest(
        users=[])), _DESCRIBE, C),
    51: Sample(only(lambda: alter_user_scram_credentials.AlterUserScramCredentialsRequest(
        deletions=[alter_user_scram_credentials.ScramCredentialDeletion(name="u", mechanism=1)],
        upsertions=[])), _ALTER, C),
    56: Sample(only(lambda: alter_partition.AlterPartitionRequest(broker_id=1, topics=[])),
               _ACTION, C),
    60: Sample(only(lambda: describe_cluster.DescribeClusterRequest(
        include_cluster_authorized_operations=True)), ((),), 0),
    61: Sample(only(lambda: describe_producers.DescribeProducersRequest(topics=[
        describe_producers.TopicRequest(name="orders", partition_indexes=[0])])),
        (("TOPIC READ orders",),), T),
    64: Sample(only(lambda: unregister_broker.UnregisterBrokerRequest(broker_id=7)), _ALTER, C),
    65: Sample(only(lambda: describe_transactions.DescribeTransactionsRequest(
        transactional_ids=["t"])), (("TRANSACTIONAL_ID DESCRIBE t",),), X),
    66: Sample(only(lambda: list_transactions.ListTransactionsRequest(
        state_filters=[], producer_id_filters=[])), ((),), 0),
    68: Sample(_heartbeat, (("GROUP READ with-members", "TOPIC DESCRIBE orders"),), G),
    69: Sample(only(lambda: consumer_group_describe.ConsumerGroupDescribeRequest(
        group_ids=["g"], include_authorized_operations=True)), (("GROUP DESCRIBE g",),), G),
    74: Sample(only(list_config_resources.ListConfigResourcesRequest),
               cluster("DESCRIBE_CONFIGS"), C),
    75: Sample(only(lambda: describe_topic_partitions.DescribeTopicPartitionsRequest(topics=[
        describe_topic_partitions.TopicRequest(name="orders")])),
        (("TOPIC DESCRIBE orders",),), T),
    20_000: Sample(only(lambda: describe_group_history.DescribeGroupHistoryRequest(
        group_ids=["g"])), (("GROUP DESCRIBE g",),), G),
    20_001: Sample(only(lambda: describe_logs.DescribeLogsRequest(
        topic="orders", partitions=[0])), (("TOPIC DESCRIBE orders",),), T),
    20_002: Sample(only(describe_broker.DescribeBrokerRequest), _DESCRIBE, C),
    20_003: Sample(only(lambda: replicas_failed.ReplicasFailedRequest(
        broker_id=1, broker_epoch=1, topics=[])), _ACTION, C),
    20_004: Sample(only(refresh_settings.RefreshSettingsRequest), _ACTION, C),
    20_005: Sample(only(lambda: describe_replicas.DescribeReplicasRequest(
        controller_id=1, controller_epoch=1, broker_epoch=1, topics=[])), _ACTION, C),
    20_006: Sample(only(lambda: describe_transaction_history.DescribeTransactionHistoryRequest(
        transactional_ids=["t"], topics=[])), (("TRANSACTIONAL_ID DESCRIBE t",),), X),
    20_008: Sample(only(lambda: commit_transaction_group.CommitTransactionGroupRequest(
        group="g", committed=True, batch=0, identity="", note="", transactions=[
            commit_transaction_group.GroupedTransaction(
                transactional_id="g/0", producer_id=1, producer_epoch=0)])),
        (("TRANSACTIONAL_ID WRITE g", "TRANSACTIONAL_ID WRITE g/0"),), X),
    20_009: Sample(only(lambda: describe_transaction_group.DescribeTransactionGroupRequest(
        group="g")), (("TRANSACTIONAL_ID DESCRIBE g",),), X),
    20_010: Sample(only(describe_connections.DescribeConnectionsRequest), _DESCRIBE, C),
    20_011: Sample(only(lambda: describe_share_partitions.DescribeSharePartitionsRequest(
        group_id="g")), (("GROUP DESCRIBE g",),), G),
    20_007: Sample(only(describe_denials.DescribeDenialsRequest), ((),), 0),
}  # fmt: skip


def _share_fetch(version: int, id_: UUID) -> Any:
    part = share_fetch.FetchPartition(partition_index=0, acknowledgement_batches=[])
    return share_fetch.ShareFetchRequest(
        group_id="g", member_id="m", share_session_epoch=0, max_wait_ms=0, min_bytes=0,
        max_records=1, batch_size=1, forgotten_topics_data=[],
        topics=[share_fetch.FetchTopic(topic_id=id_, partitions=[part])],
    )  # fmt: skip


def _streams_group_heartbeat(version: int, id_: UUID) -> Any:
    part = streams_group_heartbeat.Subtopology(
        subtopology_id="0", source_topics=["orders"], source_topic_regex=[],
        state_changelog_topics=[], repartition_sink_topics=[], repartition_source_topics=[],
        copartition_groups=[],
    )  # fmt: skip
    return streams_group_heartbeat.StreamsGroupHeartbeatRequest(
        group_id="g", member_id="m", member_epoch=0, endpoint_information_epoch=-1,
        rebalance_timeout_ms=1_000, process_id="p", active_tasks=[], standby_tasks=[],
        warmup_tasks=[],
        topology=streams_group_heartbeat.Topology(epoch=0, subtopologies=[part]),
    )  # fmt: skip


def _alter_share_group_offsets(version: int, id_: UUID) -> Any:
    part = alter_share_group_offsets.AlterShareGroupOffsetsRequestPartition(
        partition_index=0, start_offset=0
    )
    return alter_share_group_offsets.AlterShareGroupOffsetsRequest(group_id="g", topics=[
        alter_share_group_offsets.AlterShareGroupOffsetsRequestTopic(
            topic_name="orders", partitions=[part])])  # fmt: skip


def _share_state(messages: Any, request: str, topic: str, **fields: Any) -> Any:
    def make(version: int, id_: UUID) -> Any:
        parts = [messages.PartitionData(**fields)]
        topics = [getattr(messages, topic)(topic_id=id_, partitions=parts)]
        return getattr(messages, request)(group_id="g", topics=topics)

    return make


SAMPLES |= {
    76: Sample(only(lambda: share_group_heartbeat.ShareGroupHeartbeatRequest(
        group_id="g", member_id="m", member_epoch=0, subscribed_topic_names=["orders"])),
        (("GROUP READ g", "TOPIC DESCRIBE orders"),), G),
    77: Sample(only(lambda: share_group_describe.ShareGroupDescribeRequest(
        group_ids=["g"], include_authorized_operations=True)), (("GROUP DESCRIBE g",),), G),
    78: Sample(_share_fetch, (("GROUP READ g", "TOPIC READ orders"),), G),
    79: Sample(only(lambda: share_acknowledge.ShareAcknowledgeRequest(
        group_id="g", member_id="m", share_session_epoch=0, topics=[])),
        (("GROUP READ g",),), G),
    88: Sample(_streams_group_heartbeat, (("GROUP READ g", "TOPIC DESCRIBE orders"),), G),
    89: Sample(only(lambda: streams_group_describe.StreamsGroupDescribeRequest(
        group_ids=["g"], include_authorized_operations=True)), (("GROUP DESCRIBE g",),), G),
    83: Sample(_share_state(
        initialize_share_group_state, "InitializeShareGroupStateRequest", "InitializeStateData",
        partition=0, state_epoch=1, start_offset=-1), _ACTION, C),
    84: Sample(_share_state(
        read_share_group_state, "ReadShareGroupStateRequest", "ReadStateData",
        partition=0, leader_epoch=0), _ACTION, C),
    85: Sample(_share_state(
        write_share_group_state, "WriteShareGroupStateRequest", "WriteStateData",
        partition=0, state_epoch=1, leader_epoch=0, start_offset=0, state_batches=[]), _ACTION, C),
    86: Sample(_share_state(
        delete_share_group_state, "DeleteShareGroupStateRequest", "DeleteStateData",
        partition=0), _ACTION, C),
    87: Sample(_share_state(
        read_share_group_state_summary, "ReadShareGroupStateSummaryRequest", "ReadStateSummaryData",
        partition=0, leader_epoch=0), _ACTION, C),
    90: Sample(only(lambda: describe_share_group_offsets.DescribeShareGroupOffsetsRequest(groups=[
        describe_share_group_offsets.DescribeShareGroupOffsetsRequestGroup(
            group_id="g", topics=[])])), (("GROUP DESCRIBE g",),), G),
    91: Sample(_alter_share_group_offsets, (("GROUP READ g", "TOPIC READ orders"),), G),
    92: Sample(only(lambda: delete_share_group_offsets.DeleteShareGroupOffsetsRequest(
        group_id="g", topics=[delete_share_group_offsets.DeleteShareGroupOffsetsRequestTopic(
            topic_name="orders")])), (("GROUP DELETE g", "TOPIC READ orders"),), G),
}  # fmt: skip
