"""The transcripts of groups beside this file, replayed. REWRITE=1 writes them as they are now."""

from pathlib import Path

import pytest

from tests.coordinators.transcript import Session
from tests.transcripts import check, replay, transcripts_beside


@pytest.mark.parametrize("path", transcripts_beside(__file__), ids=lambda path: path.stem)
def test_the_shard_does_what_the_transcript_says(path: Path) -> None:
    check(path, Session().run)


def test_a_transcript_with_another_answer_is_noticed() -> None:
    wrong = "a JoinGroup\n    a <- JoinGroup: generation 7\n"
    assert replay(wrong, Session().run) == (
        "a JoinGroup\n    a <- JoinGroup: MEMBER_ID_REQUIRED, member id a-1\n    group g: Empty\n"
    )


def test_a_command_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="there is no API 'JoinGrup'"):
        replay("a JoinGrup\n", Session().run)
