"""The tables of legal transitions, against what the code does and must not do."""

from itertools import product
from uuid import UUID

import pytest

from barnabas.coordinators.groups.classic import states as classic_states
from barnabas.coordinators.groups.classic.group import ClassicGroup
from barnabas.coordinators.groups.classic.states import ClassicGroupState
from barnabas.coordinators.groups.consumer.member import ConsumerMember
from barnabas.coordinators.groups.consumer.states import PREDECESSORS, MemberState
from barnabas.coordinators.groups.history.rebalance_history import RebalanceHistory
from barnabas.coordinators.groups.limits import GroupLimits
from barnabas.coordinators.timers import Timers

TOPIC = UUID(int=1)
HELD = {TOPIC: {0: 1}}


def classic_group(state: ClassicGroupState) -> ClassicGroup:
    group = ClassicGroup("g", GroupLimits(), Timers(), RebalanceHistory())
    group.state = state
    return group


@pytest.mark.parametrize(("before", "after"), list(product(ClassicGroupState, repeat=2)))
def test_a_classic_group_enters_a_state_only_from_its_predecessors(
    before: ClassicGroupState, after: ClassicGroupState
) -> None:
    group = classic_group(before)
    if before in classic_states.PREDECESSORS[after]:
        group.move_to(after)
        assert group.state is after
    else:
        with pytest.raises(AssertionError, match=f"from {before.value} to {after.value}"):
            group.move_to(after)


@pytest.mark.parametrize(("before", "after"), list(product(MemberState, repeat=2)))
def test_a_member_enters_a_state_only_from_its_predecessors(
    before: MemberState, after: MemberState
) -> None:
    member = ConsumerMember("m", state=before)
    revoking = HELD if after is MemberState.UNREVOKED else {}
    if before in PREDECESSORS[after]:
        assert member.moved(1, after, {}, revoking).state is after
    else:
        with pytest.raises(AssertionError, match=f"from {before.name} to {after.name}"):
            member.moved(1, after, {}, revoking)


@pytest.mark.parametrize("state", [MemberState.STABLE, MemberState.UNRELEASED])
def test_only_an_unrevoked_member_has_partitions_to_release(state: MemberState) -> None:
    member = ConsumerMember("m")
    with pytest.raises(AssertionError, match="with partitions to release"):
        member.moved(1, state, {}, HELD)
    with pytest.raises(AssertionError, match="without partitions to release"):
        member.moved(1, MemberState.UNREVOKED, HELD, {})
