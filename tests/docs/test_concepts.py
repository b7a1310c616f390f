"""docs/CONCEPTS.md is up to date, and what it names exists."""

import re

import pytest

from barnabas.cli.app import COMMANDS
from barnabas.cli.tours import basics, cluster_chapters, group_chapters, processing
from tests.docs.concepts import PAGE, ROOT, ideas, page, statements

CHAPTERS = sum(
    len(module.CHAPTERS) for module in (basics, group_chapters, cluster_chapters, processing)
)


def test_the_page_is_generated_from_its_tables() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python -m tests.docs.concepts"


# Claims about throughput and load: measured, not tested.
FIGURES = ("docs/BENCHMARKS.md", "docs/ZOOKEEPER_CONSUMER.md")


def test_every_claim_has_a_test_and_every_difference_a_reason() -> None:
    assert len(statements()) == 352
    assert [each.number for each in statements()] == [str(n) for n in range(1, 353)]
    for each in statements():
        assert each.status in ("works", "differs", "not applicable")
        assert each.tests() or each.status == "not applicable", each
        if each.status != "works":
            assert each.note, each


def test_every_test_and_chapter_that_is_named_exists() -> None:
    for each in statements():
        for test in each.tests():
            path, _, name = test.partition("::")
            assert name.startswith("test_") or path in FIGURES, each
            assert re.search(rf"def {name}\b", (ROOT / path).read_text()) or not name, each
        assert not each.chapter or 1 <= int(each.chapter) <= CHAPTERS, each


@pytest.mark.parametrize("idea", ideas(), ids=lambda idea: idea.idea)
def test_the_code_and_the_command_of_an_idea_exist(idea: object) -> None:
    each = idea
    for part in each.code.split(","):  # type: ignore[attr-defined]
        assert (ROOT / part.strip()).exists(), part
    words = each.command.split()  # type: ignore[attr-defined]
    assert words[0] in ("barnabas", "kill")
    assert words[0] == "kill" or words[1] in COMMANDS
    assert 1 <= int(each.chapter) <= CHAPTERS  # type: ignore[attr-defined]
