"""Transcripts of failovers, replayed. REWRITE=1 writes them as they are now."""

from pathlib import Path

import pytest

from tests.controller.transcript import Session
from tests.transcripts import check, replay, transcripts_beside


@pytest.mark.parametrize("path", transcripts_beside(__file__), ids=lambda path: path.stem)
def test_the_controller_does_what_the_transcript_says(path: Path) -> None:
    check(path, Session().run)


def test_a_command_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="there is no command 'broker 1 naps'"):
        replay("broker 1 naps\n", Session().run)
