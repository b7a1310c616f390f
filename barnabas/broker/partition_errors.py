"""The errors that a partition answers with: their codes, and their words.

Always: the message names the partition and the value that the client must compare.
"""

from typing import TYPE_CHECKING

from barnabas.broker.storage.log_directory import storage_error
from barnabas.model.errors import Code, Failed, KafkaError, Retriable
from barnabas.model.system_errors import OUT_OF_RESOURCES

if TYPE_CHECKING:
    from barnabas.broker.partition import Partition


def not_served(partition: "Partition") -> KafkaError:
    """Why this broker does not serve this partition as leader."""
    name = partition.name
    if partition.failure:
        return storage_error(name, partition.failure)
    if partition.leader < 0:
        return Retriable(Code.NOT_LEADER_OR_FOLLOWER, f"{name} has no leader")
    return Retriable(Code.NOT_LEADER_OR_FOLLOWER, f"{name} is led by broker {partition.leader}")


def leadership_lost(partition: "Partition") -> KafkaError:
    """For the requests that wait when this broker stops leading."""
    if partition.failure:
        return storage_error(partition.name, partition.failure)
    return Retriable(Code.NOT_LEADER_OR_FOLLOWER, f"this broker no longer leads {partition.name}")


def other_leader_epoch(partition: "Partition", claimed: int) -> KafkaError:
    """For a client that knows an older or a newer leader."""
    epoch = partition.leader_epoch
    code = Code.FENCED_LEADER_EPOCH if claimed < epoch else Code.UNKNOWN_LEADER_EPOCH
    return Retriable(code, f"{partition.name} is in leader epoch {epoch}, not {claimed}")


def not_enough_replicas(partition: "Partition", code: Code) -> KafkaError:
    return Retriable(
        code,
        f"{partition.name} has {len(partition.in_sync)} in-sync replicas and requires"
        f" {partition.min_isr} (min.insync.replicas = {partition.min_insync_replicas})",
    )


def disk_error(partition: "Partition", error: OSError) -> KafkaError:
    """Kafka's clients retry a request that gets this error."""
    kind = Retriable if error.errno in OUT_OF_RESOURCES else Failed
    return kind(Code.KAFKA_STORAGE_ERROR, f"{partition.name}: {error}")


def log_truncated(partition: "Partition") -> KafkaError:
    """For a request that waited for a record which is gone."""
    return Failed(Code.KAFKA_STORAGE_ERROR, f"the log of {partition.name} was truncated")
