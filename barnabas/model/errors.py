"""Kafka's error codes, and exceptions whose class says what to do next."""

from enum import IntEnum
from typing import Self


class Code(IntEnum):
    """What happened, as the protocol numbers it."""

    text: str

    def __new__(cls, number: int, text: str) -> Self:
        member = int.__new__(cls, number)
        member._value_ = number
        member.text = text
        return member

    @classmethod
    def of(cls, number: int) -> "Code":
        """The code of an answer; UNKNOWN_SERVER_ERROR if the number is not in the table."""
        found = cls._value2member_map_.get(number, cls.UNKNOWN_SERVER_ERROR)
        assert isinstance(found, Code)
        return found

    UNKNOWN_SERVER_ERROR = -1, "the broker failed in a way it did not expect; its log says how"
    NONE = 0, "no error"
    OFFSET_OUT_OF_RANGE = 1, "the offset is not in the log"
    CORRUPT_MESSAGE = 2, "a record batch failed its checksum or is malformed"
    UNKNOWN_TOPIC_OR_PARTITION = 3, "this broker has no such topic or partition"
    INVALID_FETCH_SIZE = 4, "the fetch size is not valid"
    LEADER_NOT_AVAILABLE = 5, "the partition has no leader at the moment"
    NOT_LEADER_OR_FOLLOWER = 6, "this broker does not lead the partition, or has no replica of it"
    REQUEST_TIMED_OUT = 7, "the request was not finished in its time"
    BROKER_NOT_AVAILABLE = 8, "the broker is not available"
    REPLICA_NOT_AVAILABLE = 9, "the replica is not available"
    MESSAGE_TOO_LARGE = 10, "a record batch is larger than max.message.bytes"
    STALE_CONTROLLER_EPOCH = 11, "the controller has moved to another broker"
    OFFSET_METADATA_TOO_LARGE = 12, "the metadata of an offset commit is too large"
    NETWORK_EXCEPTION = 13, "the connection closed before the answer came"
    COORDINATOR_LOAD_IN_PROGRESS = 14, "the coordinator is still loading"
    COORDINATOR_NOT_AVAILABLE = 15, "there is no coordinator at the moment"
    NOT_COORDINATOR = 16, "this broker does not coordinate the group or transaction"
    INVALID_TOPIC_EXCEPTION = 17, "the topic name is not valid, or the topic is internal"
    RECORD_LIST_TOO_LARGE = 18, "a record batch is larger than segment.bytes"
    NOT_ENOUGH_REPLICAS = 19, "fewer replicas are in sync than min.insync.replicas"
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20, "written, but to fewer replicas than min.insync.replicas"
    INVALID_REQUIRED_ACKS = 21, "acks must be -1 (all), 0 or 1"
    ILLEGAL_GENERATION = 22, "the generation is not the group's current one"
    INCONSISTENT_GROUP_PROTOCOL = 23, "the member's protocols do not fit the group's"
    INVALID_GROUP_ID = 24, "the group id is not valid"
    UNKNOWN_MEMBER_ID = 25, "the group has no such member"
    INVALID_SESSION_TIMEOUT = 26, "the session timeout is outside the broker's bounds"
    REBALANCE_IN_PROGRESS = 27, "the group is rebalancing: join again"
    INVALID_COMMIT_OFFSET_SIZE = 28, "the offset commit is too large"
    TOPIC_AUTHORIZATION_FAILED = 29, "not allowed on this topic"
    GROUP_AUTHORIZATION_FAILED = 30, "not allowed on this group"
    CLUSTER_AUTHORIZATION_FAILED = 31, "not allowed on this cluster"
    INVALID_TIMESTAMP = 32, "a timestamp is outside the topic's bounds"
    UNSUPPORTED_SASL_MECHANISM = 33, "the broker does not offer this SASL mechanism"
    ILLEGAL_SASL_STATE = 34, "the request does not fit the state of the SASL exchange"
    UNSUPPORTED_VERSION = 35, "the broker does not speak this version of the API"
    TOPIC_ALREADY_EXISTS = 36, "there is a topic of this name"
    INVALID_PARTITIONS = 37, "the number of partitions is not valid"
    INVALID_REPLICATION_FACTOR = 38, "the replication factor is below 1 or above the broker count"
    INVALID_REPLICA_ASSIGNMENT = 39, "the replica assignment is not valid"
    INVALID_CONFIG = 40, "a configuration option or its value is not valid"
    NOT_CONTROLLER = 41, "this broker is not the controller"
    INVALID_REQUEST = 42, "the request contradicts itself or the protocol"
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, "the message format does not support this"
    POLICY_VIOLATION = 44, "a policy forbids this"
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, "a sequence number is missing before this batch"
    DUPLICATE_SEQUENCE_NUMBER = 46, "the batch was written before"
    INVALID_PRODUCER_EPOCH = 47, "a newer producer with this id exists"
    INVALID_TXN_STATE = 48, "the transaction is not in a state for this"
    INVALID_PRODUCER_ID_MAPPING = 49, "the producer id does not belong to the transactional id"
    INVALID_TRANSACTION_TIMEOUT = 50, "the timeout is above transaction.max.timeout.ms"
    CONCURRENT_TRANSACTIONS = 51, "an earlier transaction is still being completed"
    TRANSACTION_COORDINATOR_FENCED = 52, "a newer transaction coordinator exists"
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, "not allowed to use this transactional id"
    SECURITY_DISABLED = 54, "security is switched off"
    OPERATION_NOT_ATTEMPTED = 55, "not attempted because another part of the request failed"
    KAFKA_STORAGE_ERROR = 56, "the disk under this partition has failed"
    LOG_DIR_NOT_FOUND = 57, "log.dirs does not name this directory"
    SASL_AUTHENTICATION_FAILED = 58, "authentication failed"
    UNKNOWN_PRODUCER_ID = 59, "the broker knows nothing of this producer id"
    REASSIGNMENT_IN_PROGRESS = 60, "a reassignment of the partition is under way"
    DELEGATION_TOKEN_AUTH_DISABLED = 61, "delegation tokens are switched off"
    DELEGATION_TOKEN_NOT_FOUND = 62, "there is no such delegation token"
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, "the token belongs to another principal"
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64, "token requests need an authenticated connection"
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, "not allowed on this delegation token"
    DELEGATION_TOKEN_EXPIRED = 66, "the delegation token has expired"
    INVALID_PRINCIPAL_TYPE = 67, "the principal type is not supported"
    NON_EMPTY_GROUP = 68, "the group still has members"
    GROUP_ID_NOT_FOUND = 69, "there is no such group"
    FETCH_SESSION_ID_NOT_FOUND = 70, "there is no such fetch session"
    INVALID_FETCH_SESSION_EPOCH = 71, "the epoch of the fetch session is not the expected one"
    LISTENER_NOT_FOUND = 72, "the leader has no listener of this name"
    TOPIC_DELETION_DISABLED = 73, "delete.topic.enable is false"
    FENCED_LEADER_EPOCH = 74, "the request's leader epoch is older than the broker's"
    UNKNOWN_LEADER_EPOCH = 75, "the request's leader epoch is newer than the broker's"
    UNSUPPORTED_COMPRESSION_TYPE = 76, "this version of the request cannot carry the codec"
    STALE_BROKER_EPOCH = 77, "the broker has registered anew"
    OFFSET_NOT_AVAILABLE = 78, "the new leader does not know its high watermark yet"
    MEMBER_ID_REQUIRED = 79, "join again with the member id given in this answer"
    PREFERRED_LEADER_NOT_AVAILABLE = 80, "the preferred leader is not available"
    GROUP_MAX_SIZE_REACHED = 81, "the group has group.max.size members"
    FENCED_INSTANCE_ID = 82, "another member uses this group.instance.id"
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, "no replica that may lead is available"
    ELECTION_NOT_NEEDED = 84, "the partition has the leader it should have"
    NO_REASSIGNMENT_IN_PROGRESS = 85, "no reassignment of the partition is under way"
    GROUP_SUBSCRIBED_TO_TOPIC = 86, "the group is subscribed to the topic"
    INVALID_RECORD = 87, "a record broke a rule of its topic"
    UNSTABLE_OFFSET_COMMIT = 88, "offsets of an open transaction are pending"
    THROTTLING_QUOTA_EXCEEDED = 89, "the quota is used up"
    PRODUCER_FENCED = 90, "a newer producer with this transactional id exists"
    RESOURCE_NOT_FOUND = 91, "there is no such resource"
    DUPLICATE_RESOURCE = 92, "the request names a resource twice"
    UNACCEPTABLE_CREDENTIAL = 93, "the credential is not acceptable"
    INCONSISTENT_VOTER_SET = 94, "the voters do not agree"
    INVALID_UPDATE_VERSION = 95, "the version of the update is not valid"
    FEATURE_UPDATE_FAILED = 96, "the features could not be updated"
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, "the forwarded principal cannot be read"
    SNAPSHOT_NOT_FOUND = 98, "there is no such snapshot"
    POSITION_OUT_OF_RANGE = 99, "the position is not in the snapshot"
    UNKNOWN_TOPIC_ID = 100, "this broker has no topic with this id"
    DUPLICATE_BROKER_REGISTRATION = 101, "the broker id is in use"
    BROKER_ID_NOT_REGISTERED = 102, "the broker id is not registered"
    INCONSISTENT_TOPIC_ID = 103, "the log belongs to another topic id"
    INCONSISTENT_CLUSTER_ID = 104, "the request is meant for another cluster"
    TRANSACTIONAL_ID_NOT_FOUND = 105, "there is no such transactional id"
    FETCH_SESSION_TOPIC_ID_ERROR = 106, "the fetch session mixes topic ids and names"
    INELIGIBLE_REPLICA = 107, "a replica of the new in-sync set may not be in it"
    NEW_LEADER_ELECTED = 108, "the partition has a new leader since"
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, "the offset is in remote storage"
    FENCED_MEMBER_EPOCH = 110, "the member epoch is fenced: give up all partitions and rejoin"
    UNRELEASED_INSTANCE_ID = 111, "another member still holds this group.instance.id"
    UNSUPPORTED_ASSIGNOR = 112, "the group does not support this assignor"
    STALE_MEMBER_EPOCH = 113, "the member epoch is stale: heartbeat, then retry"
    MISMATCHED_ENDPOINT_TYPE = 114, "this endpoint is not of the type asked for"
    UNSUPPORTED_ENDPOINT_TYPE = 115, "endpoints of this type are not supported"
    UNKNOWN_CONTROLLER_ID = 116, "there is no such controller"
    UNKNOWN_SUBSCRIPTION_ID = 117, "there is no such telemetry subscription"
    TELEMETRY_TOO_LARGE = 118, "the telemetry is too large"
    INVALID_REGISTRATION = 119, "the broker's registration is not valid"
    TRANSACTION_ABORTABLE = 120, "the transaction failed: abort it and go on"
    INVALID_RECORD_STATE = 121, "the record is not in a state for this acknowledgement"
    SHARE_SESSION_NOT_FOUND = 122, "there is no such share session"
    INVALID_SHARE_SESSION_EPOCH = 123, "the epoch of the share session is not the expected one"
    FENCED_STATE_EPOCH = 124, "the share state's epoch is fenced"
    INVALID_VOTER_KEY = 125, "the voter key is another replica's"
    DUPLICATE_VOTER = 126, "the voter is one already"
    VOTER_NOT_FOUND = 127, "there is no such voter"
    INVALID_REGULAR_EXPRESSION = 128, "the regular expression is not valid"
    REBOOTSTRAP_REQUIRED = 129, "the client must bootstrap again"
    STREAMS_INVALID_TOPOLOGY = 130, "the topology is not valid"
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, "the topology's epoch is not valid"
    STREAMS_TOPOLOGY_FENCED = 132, "the topology's epoch is fenced"
    SHARE_SESSION_LIMIT_REACHED = 133, "there are too many share sessions"


class KafkaError(Exception):
    """The class says what to do next; `code` says what happened."""

    def __init__(self, code: Code, detail: str = "") -> None:
        super().__init__(f"{code.name}: {detail or code.text}")
        self.code = code
        self.detail = detail or code.text


class Retriable(KafkaError):
    """Refresh metadata, back off, try again."""


class Abortable(KafkaError):
    """The transaction cannot be committed: abort it, then begin another."""


class Fenced(KafkaError):
    """A newer owner exists: stop."""


class InvalidRequest(KafkaError):
    """The same request will fail again: fix it."""


class RecordsRefused(InvalidRequest):
    """A batch is refused for some of its records: which they are in the batch, and why."""

    def __init__(self, code: Code, detail: str, records: list[tuple[int, str]]) -> None:
        super().__init__(code, detail)
        self.records = records


class Corrupt(KafkaError):
    """Bytes are not what they claim to be."""

    def __init__(self, detail: str, code: Code = Code.CORRUPT_MESSAGE) -> None:
        super().__init__(code, detail)


class Failed(KafkaError):
    """The broker could not; neither the caller nor a retry is likely to help."""
