"""Consumer groups in a world with a topic of four partitions."""

from barnabas.coordinators.groups.consumer.group import ConsumerGroup
from barnabas.coordinators.groups.consumer.stored import StoredConsumerGroup
from barnabas.coordinators.groups.limits import GroupLimits
from barnabas.model.errors import Code
from tests.coordinators.world import GROUP, Call, Cluster, World, given


def world(partitions: int = 4, **limits: int | bool) -> World:
    return World(GroupLimits(**limits), topics=Cluster({"t": partitions}))  # type: ignore[arg-type]


def stored(world: World) -> StoredConsumerGroup:
    group = world.shard.group(GROUP)
    assert isinstance(group, ConsumerGroup)
    return group.stored


def told(world: World, call: Call) -> tuple[int, list[int] | None]:
    """The epoch, and the partitions of t; None where nothing is said of them."""
    assert call.code is Code.NONE, call.response
    shares = given(call, world.topics)
    return call.response.member_epoch, None if shares is None else shares.get("t", [])


def two_members(world: World) -> None:
    """a and b, at epoch 2, with two partitions each."""
    assert told(world, world.enter("a")) == (1, [0, 1, 2, 3])
    world.advance(1_000)
    assert told(world, world.enter("b")) == (2, [])
    assert told(world, world.beat("a", 1)) == (1, [0, 1])
    assert told(world, world.beat("a", 1, owned={"t": [0, 1]})) == (2, None)
    assert told(world, world.beat("b", 2)) == (2, [2, 3])
