"""Random histories of share groups, and planted bugs that they must find."""

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from barnabas.coordinators.groups.share import heartbeats, operations, state_partitions
from barnabas.coordinators.groups.share.member import ShareMember, removal_records
from barnabas.coordinators.groups.share.records import SHARE_MEMBER_KEY
from barnabas.coordinators.groups.share.state_partitions import InitializedPartitions
from barnabas.coordinators.groups.share.target import without_state
from barnabas.coordinators.runtime import Outcome
from tests.coordinators.groups.share.histories import live
from tests.share import IN_FULL, run_seeds

HISTORIES = int(os.environ.get("HISTORIES", "1000" if IN_FULL else "40"))
SEEDS_MAX = 200  # within which a planted bug must be found


def test_no_history_breaks_a_promise() -> None:
    run_seeds(live, range(HISTORIES))


Plant = Callable[[pytest.MonkeyPatch], None]


def partitions_without_state(patch: pytest.MonkeyPatch) -> None:
    """All partitions of a topic are assigned, whether their state has begun or not."""
    patch.setattr(InitializedPartitions, "of_topic", lambda self, topic_id: frozenset(range(9)))
    patch.setattr(heartbeats, "without_state", _truly_without_state)


def _truly_without_state(names: Any, states: InitializedPartitions, topics: Any) -> Any:
    found = {}
    for name in names:
        topic = topics.find(name)
        if topic is not None:
            held = states.initialized.get(topic.topic_id)
            begun = frozenset() if held is None else held.partitions
            missing = frozenset(range(topic.partitions)) - begun
            if missing:
                found[topic.topic_id] = state_partitions.NamedPartitions(name, missing)
    return found


def the_lost_reply(patch: pytest.MonkeyPatch) -> None:
    """A member that missed a reply is refused, and comes back as if it were new; but nothing tells
    it to: it keeps its old epoch."""
    moved = ShareMember.moved

    def forgets(self: ShareMember, epoch: int, assigned: Any) -> ShareMember:
        after = moved(self, epoch, assigned)
        return replace(after, epoch=self.epoch) if epoch % 3 == 0 else after

    patch.setattr(ShareMember, "moved", forgets)


def state_only_in_memory(patch: pytest.MonkeyPatch) -> None:
    """What the share coordinator has begun is not written."""

    def initialized(state: Any, group_id: str, keys: Any, now: Any) -> Any:
        group = state.find(group_id)
        if group is not None:
            group.stored.states = group.stored.states.finish(keys, group.topics_port.name_of)
        return Outcome()

    patch.setattr(operations, "initialized", initialized)


def no_new_epoch(patch: pytest.MonkeyPatch) -> None:
    """Partitions get state, but no member hears of them."""
    original = operations.initialized

    def initialized(state: Any, group_id: str, keys: Any, now: Any) -> Any:
        outcome = original(state, group_id, keys, now)
        return Outcome(outcome.records[:1], subject=outcome.subject)

    patch.setattr(operations, "initialized", initialized)


def never_again(patch: pytest.MonkeyPatch) -> None:
    """An initialization without an answer is never repeated."""
    patch.setattr(heartbeats, "INITIALIZE_RETRY_MS", 10**12)


def targets_of_the_gone(patch: pytest.MonkeyPatch) -> None:
    """A member that is removed keeps its target: its partitions are not given to others."""
    patch.setattr(
        operations,
        "removal_records",
        lambda group, member: [
            record for record in stored_removal(group, member) if record.key != SHARE_MEMBER_KEY
        ],
    )


stored_removal = removal_records


def topics_never_stale(patch: pytest.MonkeyPatch) -> None:
    """New partitions of a topic are not noticed."""
    patch.setattr(heartbeats, "metadata_hash", lambda names, topics: len("".join(names)))
    patch.setattr(operations, "metadata_hash", lambda names, topics: len("".join(names)))
    original = without_state

    def once(names: Any, states: InitializedPartitions, topics: Any) -> Any:
        found = original(names, states, topics)
        return {i: n for i, n in found.items() if i not in states.initialized}

    patch.setattr(heartbeats, "without_state", once)


PLANTS: list[Plant] = [
    partitions_without_state,
    the_lost_reply,
    state_only_in_memory,
    no_new_epoch,
    never_again,
    targets_of_the_gone,
    topics_never_stale,
]


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_a_planted_bug_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    for seed in range(SEEDS_MAX):
        try:
            live(seed)
        except AssertionError:
            return
    pytest.fail(f"{SEEDS_MAX} histories did not find: {plant.__doc__}")
