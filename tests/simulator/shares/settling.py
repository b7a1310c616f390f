"""The share groups of a world: who takes part, what befalls them, what must hold at the end.

In: a world. Out: members in it; a Violation if a record is left that no group is done with.
"""

from random import Random
from typing import TYPE_CHECKING

from barnabas.model.ids import TopicPartition
from tests.simulator.shares.clients import ShareMember, ShareMover, ShareOperator
from tests.simulator.shares.ledger import ShareLedger
from tests.simulator.shares.plan import TOPIC, SharePlan

if TYPE_CHECKING:
    from tests.simulator.world import World

MEMBERS_MAX = 6
SLEEP_MS = 40_000
SETTLED_S_MAX = 90


class Shares:
    """Of one world. Its choices do not touch those of the world."""

    def __init__(self, world: "World", plan: SharePlan) -> None:
        self.plan = plan
        self.ledger = ShareLedger(plan.delivery_limit, lambda: world.schedule.now_us)
        self.calm = False  # nothing goes wrong any more: members accept everything
        self._world = world
        self._rng = Random(f"members of share groups of {world.seed}")

    def begin(self) -> None:
        world, plan = self._world, self.plan
        operator = ShareOperator(world, world.name("desk"), self._new(), self)
        world.add(operator)
        world.until(lambda: operator.done, 60, "the options of share groups were not set")
        for group, count in zip(plan.groups, plan.members, strict=True):
            for _ in range(count):
                self.add_member(group)
        if plan.moves and world.plan.brokers > 1:
            world.add(ShareMover(world, world.name("mover"), self._new()))

    def _new(self) -> Random:
        return Random(self._rng.random())

    def add_member(self, group: str) -> None:
        world = self._world
        world.add(ShareMember(world, world.name("sharer"), self._new(), self, group))

    def members(self, group: str = "") -> list[ShareMember]:
        """Those that are alive; of all groups, or of one."""
        return [
            each
            for each in self._world.clients
            if isinstance(each, ShareMember) and not each.ended and group in ("", each.group)
        ]

    def add_another(self, group: str) -> None:
        if len(self.members()) < MEMBERS_MAX:
            self.add_member(group)

    # --- the end ---

    def stop_operators(self) -> None:
        """Followers cannot catch up while leaders are moved."""
        for each in self._world.clients:
            each.stopped = each.stopped or isinstance(each, ShareMover | ShareOperator)

    def settle(self) -> None:
        """After healing: each group is done with every record, also with those of a member that
        holds some and does nothing any more."""
        world = self._world
        operators = [each for each in world.clients if isinstance(each, ShareMover | ShareOperator)]
        world.until(lambda: all(each.ended for each in operators), 60, "an operator does not end")
        self.calm = True
        for group in self.plan.groups:
            members = self.members(group)
            if members and self._rng.random() < 0.5:
                members[0].stand_still(SLEEP_MS)
            self.add_member(group)
        world.until(lambda: not self._unfinished(), SETTLED_S_MAX, "", why=self._unfinished)
        counts = world.transcript.counts
        counts["records in share groups"] = self.ledger.deliveries
        counts["redeliveries"] = self.ledger.redeliveries

    def _unfinished(self) -> str:
        """A record that a group is not done with; empty if there is none."""
        for group in self.plan.groups:
            for partition in range(self._world.plan.partitions):
                at = TopicPartition(TOPIC, partition)
                for found in self.ledger.unfinished(group, at, self._world.committed(at).end):
                    return f"{SETTLED_S_MAX} s after healing, {found}"
        return ""
