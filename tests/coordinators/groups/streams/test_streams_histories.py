"""Random histories of streams groups, and planted bugs that they must find."""

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from barnabas.coordinators.groups.streams import operations, reconcile, step
from barnabas.coordinators.groups.streams.group import StreamsGroup
from barnabas.coordinators.groups.streams.member import StreamsMember, removal_records
from barnabas.coordinators.groups.streams.records import STREAMS_MEMBER_KEY
from barnabas.coordinators.groups.streams.stored import StoredStreamsGroup, epoch_record
from barnabas.coordinators.groups.streams.tasks import HeldTasks, OwnedTasks
from tests.coordinators.groups.streams.histories import live
from tests.share import IN_FULL, run_seeds

HISTORIES = int(os.environ.get("HISTORIES", "1000" if IN_FULL else "40"))
SEEDS_MAX = 200  # within which a planted bug must be found


def test_no_history_breaks_a_promise() -> None:
    run_seeds(live, range(HISTORIES))


Plant = Callable[[pytest.MonkeyPatch], None]


def tasks_of_others(patch: pytest.MonkeyPatch) -> None:
    """A task is assigned although another member has not released it."""
    patch.setattr(StoredStreamsGroup, "is_free_as_active", lambda self, task, member: True)


def twice_in_a_process(patch: pytest.MonkeyPatch) -> None:
    """A copy is assigned although another thread of the process has the task."""
    patch.setattr(StoredStreamsGroup, "is_free_as_standby", lambda self, task, member: True)


def released_without_a_word(patch: pytest.MonkeyPatch) -> None:
    """A member that does not say what it owns is taken to own nothing."""
    patch.setattr(
        reconcile,
        "_still_owns",
        lambda revoked, owned: owned is not None and owned.has_any(revoked),
    )


def the_lost_reply(patch: pytest.MonkeyPatch) -> None:
    """A member that missed a reply does not get its tasks again."""
    patch.setattr(OwnedTasks, "is_all_of", lambda self, held: True)


def a_memory_only_release(patch: pytest.MonkeyPatch) -> None:
    """What a member has released is not written."""
    original = StreamsMember.assignment_record

    def record(self: StreamsMember, group: str) -> Any:
        return original(replace(self, revoking=HeldTasks()), group)

    patch.setattr(StreamsMember, "assignment_record", record)


def members_that_stay(patch: pytest.MonkeyPatch) -> None:
    """A member that is removed keeps its record."""
    patch.setattr(
        operations,
        "removal_records",
        lambda group, member: [
            each for each in removal_records(group, member) if each.key != STREAMS_MEMBER_KEY
        ],
    )


def topics_never_stale(patch: pytest.MonkeyPatch) -> None:
    """Topics that are created or deleted are not noticed."""
    patch.setattr(StreamsGroup, "needs", lambda self, topic: False)


def standbys_not_noticed(patch: pytest.MonkeyPatch) -> None:
    """Another number of standby tasks is no reason for a new assignment."""
    original = step.StreamsStep.bump

    def bump(self: step.StreamsStep, configured: Any) -> None:
        known = self.group.stored.standbys
        limits = self.group.limits
        if known is not None:
            self.group.limits = replace(limits, streams_num_standby_replicas=known)
        original(self, configured)
        self.group.limits = limits

    patch.setattr(step.StreamsStep, "bump", bump)


def gathering_forever(patch: pytest.MonkeyPatch) -> None:
    """The wait for more members begins again with every heartbeat."""
    patch.setattr(step, "gathering_ms", lambda group, now: 1 if group.gathering else 0)


def an_epoch_that_stays(patch: pytest.MonkeyPatch) -> None:
    """A member that leaves is no reason for a new epoch."""
    patch.setattr(
        operations,
        "epoch_record",
        lambda group, epoch, *more: epoch_record(group, epoch - 1, *more),
    )


PLANTS: list[Plant] = [
    tasks_of_others,
    twice_in_a_process,
    released_without_a_word,
    the_lost_reply,
    a_memory_only_release,
    members_that_stay,
    topics_never_stale,
    standbys_not_noticed,
    gathering_forever,
    an_epoch_that_stays,
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
