"""Runs of offsets, against a model that has one entry for each offset."""

import random
from itertools import pairwise

import pytest

from barnabas.client.share.acknowledge_type import AcknowledgeType
from barnabas.client.share.held_records import (
    FETCHED,
    GAP,
    RENEWING,
    RETURNED,
    AckRun,
    HeldRecords,
    packed,
)

ACCEPT, RELEASE, REJECT, RENEW = map(int, AcknowledgeType)


class PerOffset:
    """The same without runs: offset -> [state, count, deadline]."""

    def __init__(self) -> None:
        self.held: dict[int, list[int]] = {}

    def change(self, first: int, last: int, states: tuple[int, ...], state: int) -> None:
        for offset in range(first, last + 1):
            if offset in self.held and self.held[offset][0] in states:
                self.held[offset][0] = state

    def take(self, now: int) -> dict[int, int]:
        chosen = {o: s for o, (s, _, until) in self.held.items() if s >= 0 and now < until}
        chosen = chosen or {o: s for o, (s, _, _) in self.held.items() if s >= 0}
        for offset, state in chosen.items():
            if state == RENEW:
                self.held[offset][0] = RENEWING
            else:
                del self.held[offset]
        return chosen


def each(runs: list[AckRun]) -> dict[int, int]:
    return {offset: run.type for run in runs for offset in range(run.first, run.last + 1)}


@pytest.mark.parametrize("seed", range(60))
def test_runs_say_the_same_as_a_model_of_every_offset(seed: int) -> None:
    chance = random.Random(seed)
    runs, model = HeldRecords(), PerOffset()
    for now in range(120):
        first = chance.randrange(60)
        last = first + chance.randrange(12)
        action = chance.randrange(10)
        if action < 2:
            count, until = chance.randrange(1, 4), now + chance.randrange(1, 40)
            runs.acquired(first, last, count, until)
            for offset in range(first, last + 1):
                model.held[offset] = [FETCHED, count, until]
        elif action == 2:
            runs.gap(first, last)
            model.change(first, last, (FETCHED,), GAP)
        elif action == 3:
            runs.returned(first, last)
            model.change(first, last, (FETCHED,), RETURNED)
        elif action == 4:
            runs.given_back(first, last)
            model.change(first, last, (RETURNED,), FETCHED)
        elif action < 7:
            kind, count = chance.randrange(1, 5), chance.randrange(1, 4)
            expected = (
                first in model.held
                and model.held[first][0] not in (FETCHED, GAP)
                and model.held[first][1] == count
            )
            assert runs.acknowledge(first, count, kind) is expected
            if expected:
                model.held[first][0] = kind
        elif action == 7:
            assert each(runs.take(now)) == model.take(now)
        elif action == 8:
            renewed = now + 30 if chance.random() < 0.5 else None
            runs.renewed(renewed)
            for entry in model.held.values():
                if entry[0] == RENEWING:
                    entry[0] = RETURNED
                    entry[2] = entry[2] if renewed is None else renewed
        else:
            dropped = runs.drop_expired(now)
            late = {o for o, (s, _, until) in model.held.items() if s == FETCHED and now >= until}
            assert {o for a, b in dropped for o in range(a, b + 1)} == late
            for offset in late:
                del model.held[offset]
        found = [(a, b, s) for a, b, s in runs.runs()]
        assert all(a <= b for a, b, _ in found)
        assert all(one[1] < two[0] for one, two in pairwise(found))
        states = {offset: s for a, b, s in found for offset in range(a, b + 1)}
        assert states == {offset: entry[0] for offset, entry in model.held.items()}


def test_an_acknowledgement_whose_lock_may_have_ended_is_not_sent_with_others() -> None:
    """The broker refuses all acknowledgements of a partition, or none."""
    held = HeldRecords()
    held.acquired(0, 4, 1, deadline=100)
    held.acquired(5, 9, 1, deadline=200)
    held.returned(0, 9)
    held.accept(0, 9)
    assert held.take(now=150) == [AckRun(5, 9, ACCEPT)]
    assert held.take(now=150) == [AckRun(0, 4, ACCEPT)]
    assert not held


def test_an_old_delivery_does_not_acknowledge_the_next_one() -> None:
    held = HeldRecords()
    held.acquired(7, 7, 1, deadline=100)
    held.returned(7, 7)
    held.acquired(7, 7, 2, deadline=300)
    held.returned(7, 7)
    assert not held.acknowledge(7, 1, ACCEPT)
    assert held.acknowledge(7, 2, ACCEPT)


def test_a_renewed_record_is_held_on_and_can_be_acknowledged_meanwhile() -> None:
    held = HeldRecords()
    held.acquired(0, 1, 1, deadline=100)
    held.returned(0, 1)
    assert held.acknowledge(0, 1, RENEW)
    assert held.acknowledge(1, 1, RENEW)
    assert held.take(now=50) == [AckRun(0, 1, RENEW)]
    assert held.acknowledge(1, 1, ACCEPT)
    held.renewed(150)
    assert held.runs() == [(0, 0, RETURNED), (1, 1, ACCEPT)]
    assert held.returned_runs() == [(0, 0, 150)]


@pytest.mark.parametrize("seed", range(50))
def test_a_request_carries_the_runs_in_ranges_with_one_type_or_one_for_each_offset(
    seed: int,
) -> None:
    chance = random.Random(seed)
    runs, at = [], 0
    for _ in range(30):
        at += chance.choice((0, 0, 0, 5))
        length = chance.choice((1, 1, 2, 30))
        runs.append(AckRun(at, at + length - 1, chance.randrange(0, 5)))
        at += length
    carried: dict[int, int] = {}
    for first, last, types in packed(runs):
        assert len(types) in (1, last - first + 1)
        for number, offset in enumerate(range(first, last + 1)):
            assert offset not in carried
            carried[offset] = types[number if len(types) > 1 else 0]
    assert carried == each(runs)
