"""The tour: every claim of each chapter holds, chapter by chapter and in one run."""

import re

import pytest

from barnabas.cli.app import run

QUICK = (2, 5, 9, 12)  # the others run in `make slow`
CHAPTERS = [
    pytest.param(number, marks=() if number in QUICK else pytest.mark.slow)
    for number in range(1, 16)
]
ROLES = ("absent", "assigned", "closed", "follower", "leader", "offline")


def _tour(capfd: pytest.CaptureFixture[str], *options: str) -> str:
    code = run(["tour", "--auto", *options])
    said, complaints = capfd.readouterr()
    assert code == 0, f"{said[-1_000:]}\n{complaints[-3_000:]}"
    return said


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_what_a_chapter_says_is_so(chapter: int, capfd: pytest.CaptureFixture[str]) -> None:
    said = _tour(capfd, "--chapter", str(chapter))
    assert "claims hold" in said
    if chapter == 5:
        states = ("CompletingRebalance", "Dead", "Empty", "PreparingRebalance", "Stable")
        assert f"States of groups seen: {', '.join(states)}." in said
    if chapter == 10:
        assert f"Roles of replicas seen: {', '.join(ROLES)}." in said


@pytest.mark.slow
def test_the_whole_tour_shows_every_state_of_a_group_and_the_roles_of_a_replica(
    capfd: pytest.CaptureFixture[str],
) -> None:
    said = _tour(capfd)
    states = ("CompletingRebalance", "Dead", "Empty", "PreparingRebalance", "Stable")
    assert f"States of groups seen: {', '.join(states)}." in said
    assert f"Roles of replicas seen: {', '.join(ROLES)}." in said
    found = re.search(r"^(\d+) claims hold, after \d+ s\.$", said, re.MULTILINE)
    assert found is not None
    assert int(found[1]) >= 72


def test_chapters_are_listed_and_others_are_refused(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["tour", "--list"]) == 0
    assert len(capfd.readouterr().out.splitlines()) == 15
    assert run(["tour", "--chapter", "16"]) == 2
