"""Which API has which number, versions and messages: the versions that Kafka 4.3 accepts.

In: an API key. Out: an `Api`, whose message classes are imported when first asked for.
Not here: which APIs a broker offers (its handlers say), what is in the messages (messages/).
"""

from importlib import import_module

from barnabas.wire.codec import VERSION_MAX, ProtocolMessage

NEVER = VERSION_MAX + 1
PRIVATE_FROM = 20_000
"""APIs from here on are our own: Kafka does not have them, and other clients do not see them."""


class Api:
    """One kind of request, with its response."""

    __slots__ = (
        "_request",
        "_response",
        "advertised_min",
        "flexible_from",
        "key",
        "max_version",
        "min_version",
        "module",
        "name",
    )

    def __init__(
        self,
        key: int,
        name: str,
        min_version: int,
        max_version: int,
        flexible_from: int,
        *,
        advertised_min: int | None = None,
    ) -> None:
        self.key = key
        self.name = name
        self.min_version = min_version
        self.max_version = max_version
        self.flexible_from = flexible_from
        self.advertised_min = min_version if advertised_min is None else advertised_min
        self.module = "".join("_" + c.lower() if c.isupper() else c for c in name)[1:]
        self._request: type[ProtocolMessage] | None = None
        self._response: type[ProtocolMessage] | None = None

    def __repr__(self) -> str:
        return f"Api({self.key}, {self.name!r}, {self.min_version}-{self.max_version})"

    @property
    def request(self) -> type[ProtocolMessage]:
        return self._request or self._load()[0]

    @property
    def response(self) -> type[ProtocolMessage]:
        return self._response or self._load()[1]

    def _load(self) -> tuple[type[ProtocolMessage], type[ProtocolMessage]]:
        messages = import_module(f"barnabas.wire.messages.{self.module}")
        self._request = request = getattr(messages, f"{self.name}Request")
        self._response = response = getattr(messages, f"{self.name}Response")
        return request, response


APIS = {
    api.key: api
    for api in (
        # Versions below 3 of Produce are refused, but a librdkafka that does not see 0
        # advertised sends uncompressed without a word.
        Api(0, "Produce", 3, 13, 9, advertised_min=0),
        Api(1, "Fetch", 4, 18, 12),
        Api(2, "ListOffsets", 1, 11, 6),
        Api(3, "Metadata", 0, 13, 9),
        # From the controller to brokers, as in Kafka 3.9, the last that had them.
        Api(4, "LeaderAndIsr", 7, 7, 4),
        Api(5, "StopReplica", 4, 4, 2),
        Api(6, "UpdateMetadata", 8, 8, 6),
        Api(7, "ControlledShutdown", 3, 3, 3),
        Api(8, "OffsetCommit", 2, 10, 8),
        Api(9, "OffsetFetch", 1, 10, 6),
        Api(10, "FindCoordinator", 0, 6, 3),
        Api(11, "JoinGroup", 0, 9, 6),
        Api(12, "Heartbeat", 0, 4, 4),
        Api(13, "LeaveGroup", 0, 5, 4),
        Api(14, "SyncGroup", 0, 5, 4),
        Api(15, "DescribeGroups", 0, 6, 5),
        Api(16, "ListGroups", 0, 5, 3),
        Api(17, "SaslHandshake", 0, 1, NEVER),
        Api(18, "ApiVersions", 0, 4, 3),
        Api(19, "CreateTopics", 2, 7, 5),
        Api(20, "DeleteTopics", 1, 6, 4),
        Api(21, "DeleteRecords", 0, 2, 2),
        Api(22, "InitProducerId", 0, 5, 2),
        Api(23, "OffsetForLeaderEpoch", 2, 4, 4),
        Api(24, "AddPartitionsToTxn", 0, 5, 3),
        Api(25, "AddOffsetsToTxn", 0, 4, 3),
        Api(26, "EndTxn", 0, 5, 3),
        Api(27, "WriteTxnMarkers", 1, 2, 1),
        Api(28, "TxnOffsetCommit", 0, 5, 3),
        Api(29, "DescribeAcls", 1, 3, 2),
        Api(30, "CreateAcls", 1, 3, 2),
        Api(31, "DeleteAcls", 1, 3, 2),
        Api(32, "DescribeConfigs", 1, 4, 4),
        Api(33, "AlterConfigs", 0, 2, 2),
        Api(34, "AlterReplicaLogDirs", 1, 2, 2),
        Api(35, "DescribeLogDirs", 1, 5, 2),
        Api(36, "SaslAuthenticate", 0, 2, 2),
        Api(37, "CreatePartitions", 0, 3, 2),
        Api(38, "CreateDelegationToken", 1, 3, 2),
        Api(39, "RenewDelegationToken", 1, 2, 2),
        Api(40, "ExpireDelegationToken", 1, 2, 2),
        Api(41, "DescribeDelegationToken", 1, 3, 2),
        Api(42, "DeleteGroups", 0, 2, 2),
        Api(43, "ElectLeaders", 0, 2, 2),
        Api(44, "IncrementalAlterConfigs", 0, 1, 1),
        Api(45, "AlterPartitionReassignments", 0, 1, 0),
        Api(46, "ListPartitionReassignments", 0, 0, 0),
        Api(47, "OffsetDelete", 0, 0, NEVER),
        Api(48, "DescribeClientQuotas", 0, 1, 1),
        Api(49, "AlterClientQuotas", 0, 1, 1),
        Api(50, "DescribeUserScramCredentials", 0, 0, 0),
        Api(51, "AlterUserScramCredentials", 0, 0, 0),
        Api(56, "AlterPartition", 2, 3, 0),
        Api(60, "DescribeCluster", 0, 2, 0),
        Api(61, "DescribeProducers", 0, 0, 0),
        Api(64, "UnregisterBroker", 0, 0, 0),
        Api(65, "DescribeTransactions", 0, 0, 0),
        Api(66, "ListTransactions", 0, 2, 0),
        Api(68, "ConsumerGroupHeartbeat", 0, 1, 0),
        Api(69, "ConsumerGroupDescribe", 0, 1, 0),
        Api(74, "ListConfigResources", 0, 1, 0),
        Api(75, "DescribeTopicPartitions", 0, 0, 0),
        Api(76, "ShareGroupHeartbeat", 1, 1, 0),
        Api(77, "ShareGroupDescribe", 1, 1, 0),
        Api(78, "ShareFetch", 1, 2, 0),
        Api(79, "ShareAcknowledge", 1, 2, 0),
        Api(83, "InitializeShareGroupState", 0, 0, 0),
        Api(84, "ReadShareGroupState", 0, 0, 0),
        Api(85, "WriteShareGroupState", 0, 1, 0),
        Api(86, "DeleteShareGroupState", 0, 0, 0),
        Api(87, "ReadShareGroupStateSummary", 0, 1, 0),
        Api(88, "StreamsGroupHeartbeat", 0, 0, 0),
        Api(89, "StreamsGroupDescribe", 0, 0, 0),
        Api(90, "DescribeShareGroupOffsets", 0, 1, 0),
        Api(91, "AlterShareGroupOffsets", 0, 0, 0),
        Api(92, "DeleteShareGroupOffsets", 0, 0, 0),
        Api(20_000, "DescribeGroupHistory", 0, 0, 0),
        Api(20_001, "DescribeLogs", 0, 1, 0),
        Api(20_002, "DescribeBroker", 0, 1, 0),
        Api(20_003, "ReplicasFailed", 0, 0, 0),
        Api(20_004, "RefreshSettings", 0, 0, 0),
        Api(20_005, "DescribeReplicas", 0, 0, 0),
        Api(20_006, "DescribeTransactionHistory", 0, 0, 0),
        Api(20_007, "DescribeDenials", 0, 0, 0),
        Api(20_008, "CommitTransactionGroup", 0, 0, 0),
        Api(20_009, "DescribeTransactionGroup", 0, 0, 0),
        Api(20_010, "DescribeConnections", 0, 1, 0),
        Api(20_011, "DescribeSharePartitions", 0, 0, 0),
    )
}
"""By key."""

API_VERSIONS = 18
