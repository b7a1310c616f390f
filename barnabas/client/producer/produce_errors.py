"""What error codes of a Produce response say about a batch, beside whether it is sent again.

`STALE`: the leader may be another broker by now. `MAYBE_WRITTEN`: the batch may be in the log all
the same. `NUMBER_REFUSED`: its sequence number is not the one that the broker expects.
"""

from barnabas.model.errors import Code

STALE = frozenset(
    {
        Code.NOT_LEADER_OR_FOLLOWER,
        Code.LEADER_NOT_AVAILABLE,
        Code.UNKNOWN_TOPIC_OR_PARTITION,
        Code.UNKNOWN_TOPIC_ID,
        Code.INCONSISTENT_TOPIC_ID,
        Code.FENCED_LEADER_EPOCH,
        Code.UNKNOWN_LEADER_EPOCH,
        Code.KAFKA_STORAGE_ERROR,
        Code.REPLICA_NOT_AVAILABLE,
        Code.BROKER_NOT_AVAILABLE,
        Code.NETWORK_EXCEPTION,
        Code.REQUEST_TIMED_OUT,
    }
)
MAYBE_WRITTEN = frozenset(
    {
        Code.UNKNOWN_SERVER_ERROR,
        Code.REQUEST_TIMED_OUT,
        Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        Code.KAFKA_STORAGE_ERROR,
        Code.NETWORK_EXCEPTION,
        Code.NOT_LEADER_OR_FOLLOWER,  # perhaps since a moment ago, with the record in its log
    }
)
NUMBER_REFUSED = frozenset(
    {
        Code.OUT_OF_ORDER_SEQUENCE_NUMBER,
        Code.UNKNOWN_PRODUCER_ID,
        Code.DUPLICATE_SEQUENCE_NUMBER,
    }
)
