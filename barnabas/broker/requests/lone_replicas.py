"""The replies of a lone broker to requests about replicas, which in a cluster the controller gets.

In: partitions to elect leaders for, replicas to move, a broker to unregister. Out: per partition an
error or None, the same as from a one-node Apache Kafka.
Always: nothing changes: every partition has one replica, on this broker, which leads.
`own` is the id of this broker.
Not here: the same in a cluster (controller/), the format of responses (handlers/).
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from barnabas.broker.topic import Topics
from barnabas.model.errors import Code, InvalidRequest, KafkaError, Retriable
from barnabas.model.ids import TopicPartition

if TYPE_CHECKING:
    from barnabas.broker.partition import Partition

Results = list[tuple[TopicPartition, KafkaError | None]]


def elect(own: int, topics: Topics, names: Iterable[TopicPartition], *, unclean: bool) -> Results:
    """The only replica leads already, or its log directory is offline and no replica can lead."""
    return [(name, _election(own, topics, name, unclean)) for name in names]


def _election(own: int, topics: Topics, name: TopicPartition, unclean: bool) -> KafkaError:
    partition = _find(topics, name)
    if partition is None:
        return _unknown(name)
    if partition.is_open:
        return InvalidRequest(
            Code.ELECTION_NOT_NEEDED, f"{name} is led by its only replica, broker {own}"
        )
    code = Code.ELIGIBLE_LEADERS_NOT_AVAILABLE if unclean else Code.PREFERRED_LEADER_NOT_AVAILABLE
    return InvalidRequest(code, f"the only replica of {name} is on a log directory that is offline")


def reassign(
    own: int, topics: Topics, wanted: Iterable[tuple[TopicPartition, Sequence[int] | None]]
) -> Results:
    """`wanted`: per partition its replicas, or None to cancel a reassignment."""
    return [(name, _reassignment(own, topics, name, replicas)) for name, replicas in wanted]


def _reassignment(
    own: int, topics: Topics, name: TopicPartition, replicas: Sequence[int] | None
) -> KafkaError | None:
    if _find(topics, name) is None:
        return _unknown(name)
    if replicas is None:
        return InvalidRequest(
            Code.NO_REASSIGNMENT_IN_PROGRESS, f"no reassignment of {name} is in progress"
        )
    problem = ""
    others = [id_ for id_ in replicas if id_ != own]
    if not replicas:
        problem = "the list is empty"
    elif others:
        problem = f"there is no broker {others[0]}; this cluster has broker {own} only"
    elif len(replicas) > 1:
        problem = f"broker {own} is in the list {len(replicas)} times"
    if problem:
        return InvalidRequest(Code.INVALID_REPLICA_ASSIGNMENT, f"replicas of {name}: {problem}")
    return None


def unregister(own: int, id_: int) -> KafkaError:
    if id_ == own:
        return InvalidRequest(
            Code.INVALID_REQUEST,
            f"broker {id_} is the only broker and is running; only a broker that"
            " is down can be unregistered",
        )
    return InvalidRequest(Code.BROKER_ID_NOT_REGISTERED, f"there is no broker {id_}")


def _find(topics: Topics, name: TopicPartition) -> "Partition | None":
    topic = topics.get(name.topic)
    if topic is None or not 0 <= name.partition < len(topic.partitions):
        return None
    return topic.partitions[name.partition]


def _unknown(name: TopicPartition) -> Retriable:
    return Retriable(Code.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {name}")
