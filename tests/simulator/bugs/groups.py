"""Bugs of group coordinators and of members."""

from typing import Any

from msgspec import structs

from barnabas.broker.storage import cleaner
from barnabas.client.consumer.message_stream import MessageStream
from barnabas.coordinators.groups.classic import membership
from barnabas.coordinators.groups.offsets import operations as offset_operations
from barnabas.coordinators.runtime import Runtime
from barnabas.log.compaction import cleanable
from barnabas.model.errors import Code, Retriable
from barnabas.wire.batch import read_header
from tests.simulator.bugs.planting import Change, bug


@bug(brokers=None)
def answers_while_it_loads() -> list[Change]:
    """Hazard 14: a shard that is still being read back says that nothing was committed."""

    def context(self: Any, partition: int) -> Any:
        found = self._contexts.get(partition)
        if found is None:
            raise Retriable(Code.NOT_COORDINATOR, f"shard {partition} is not on this broker")
        return found

    return [(Runtime, "_context", context)]


@bug(brokers=None)
def takes_commits_of_old_generations() -> list[Change]:
    """Hazard 15: a member that was put out commits, and wins."""
    return [(offset_operations, "check_commit", lambda group, request, caller: Code.NONE)]


@bug()
def drops_tombstones_at_once() -> list[Change]:
    """Hazard 13: compaction takes deletions away that a replica has not fetched yet, and offsets
    that were deleted return with it."""
    real = cleanable.job_for

    def job_for(found: Any, wall_ms: int, keys_bytes_max: int) -> Any:
        job = real(found, wall_ms, keys_bytes_max)
        return job._replace(delete_retention_ms=-1)

    return [(cleaner, "job_for", job_for)]


@bug(brokers=None)
def takes_commits_of_twins() -> list[Change]:
    """Hazard 16 (KIP-345): a client that names the instance id of a member may commit for it."""
    real = membership.check_commit

    def check_commit(group: Any, member_id: str, instance_id: str | None, generation: int) -> Code:
        holder = group.members.by_instance(instance_id)
        return real(group, member_id if holder is None else holder.id, instance_id, generation)

    return [(membership, "check_commit", check_commit)]


@bug()
def answers_before_commits_count() -> list[Change]:
    """A commit is acknowledged before the other replicas have it."""
    real = Runtime._carry_out

    def carry_out(self: Any, context: Any, outcome: Any, now: Any) -> Any:
        return real(self, context, structs.replace(outcome, at_once=True), now)

    return [(Runtime, "_carry_out", carry_out)]


@bug(brokers=None)
def reads_from_the_beginning_again() -> list[Change]:
    """A member that is given a partition does not ask where the group left off."""

    async def left_off(self: Any, partitions: Any) -> dict[Any, Any]:
        return {}

    return [(MessageStream, "_left_off", left_off)]


@bug()
def loads_half_of_the_log() -> list[Change]:
    """Hazard 14: after a failover the coordinator has only the first half of what was committed."""
    real = Runtime.load

    def load(self: Any, partition: int, batch: Any, header: Any = None) -> None:
        if read_header(batch).base_offset % 2 == 0:
            real(self, partition, batch, header)

    return [(Runtime, "load", load)]
