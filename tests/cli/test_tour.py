"""The tour: every claim of a chapter holds. Here a share; `make tour` runs all."""

import os

import pytest

from barnabas.cli.app import run

CHAPTERS = (2, 5, 9, 12) if not os.environ.get("WHOLE_TOUR") else tuple(range(1, 16))


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_what_a_chapter_says_is_so(chapter: int, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["tour", "--auto", "--chapter", str(chapter)]) == 0, capfd.readouterr()
    said = capfd.readouterr().out
    assert "claims hold" in said
    if chapter == 5:
        states = ("CompletingRebalance", "Dead", "Empty", "PreparingRebalance", "Stable")
        assert f"States of groups seen: {', '.join(states)}." in said


def test_chapters_are_listed_and_others_are_refused(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["tour", "--list"]) == 0
    assert len(capfd.readouterr().out.splitlines()) == 15
    assert run(["tour", "--chapter", "16"]) == 2
