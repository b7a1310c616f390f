"""Generates docs/CONCEPTS.md from claims.tsv and ideas.tsv: `python -m tests.docs.concepts`."""

import csv
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
PAGE = ROOT / "docs/CONCEPTS.md"
ARTICLES = {
    "1": "The design of the consumer (Consumer 设计解析)",
    "2": "How Kafka is built (Kafka 实现)",
    "3": "Notes on the high-level consumer",
    "4": "The consumer group (消费者组)",
    "5": "Consumers in Java, and how to process in parallel (消费者)",
}
TOP = """# Concepts

Each idea of five articles about Kafka that Barnabas was built to make visible: what it is, where
it is in the code, how to see it. `barnabas tour` shows the ideas one after the other, each on
brokers of its own; `barnabas tour --list` names the chapters. [GLOSSARY.md](GLOSSARY.md) explains
the words.

This page is generated (`python -m tests.docs.concepts`). A test checks that it is up to date, and
that each file, command and test on it exists. Each claim names the tests that prove it, or, where
it is about figures, the page that has them; `tests/articles` has the experiments of the articles.

## Ideas

"""
CLAIMS = """
## Every claim of the articles

{count} claims, each with its tests, and with the chapter of the tour that shows it. {works} work as
the articles say; {differs} differ, with the reason; {rest} are not about a program.

"""


class Idea(NamedTuple):
    idea: str
    chinese: str
    text: str
    code: str
    command: str
    chapter: str


class Statement(NamedTuple):
    article: str
    number: str
    claim: str
    status: str
    note: str
    test: str
    chapter: str

    def tests(self) -> list[str]:
        """Each as FILE::NAME, or a page."""
        return [each.strip() for each in self.test.split(";") if each.strip()]


def ideas() -> list[Idea]:
    return [Idea(*row) for row in _rows("ideas.tsv")]


def statements() -> list[Statement]:
    return [Statement(*row) for row in _rows("claims.tsv")]


def _rows(name: str) -> list[list[str]]:
    with open(HERE / name, encoding="utf-8", newline="") as file:
        return list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[1:]


def page() -> str:
    text = TOP + "| idea | | what it is | code | command | tour |\n|---|---|---|---|---|---|\n"
    for each in ideas():
        code = ", ".join(f"`{part.strip()}`" for part in each.code.split(","))
        text += (
            f"| {each.idea} | {each.chinese} | {each.text} | {code} | `{each.command}` |"
            f" {each.chapter} |\n"
        )
    found = statements()
    works = sum(each.status == "works" for each in found)
    differs = sum(each.status == "differs" for each in found)
    text += CLAIMS.format(
        count=len(found), works=works, differs=differs, rest=len(found) - works - differs
    )
    for article, title in ARTICLES.items():
        text += f"### {title}\n\n| | claim | | test | tour |\n|---|---|---|---|---|\n"
        text += "".join(_row(said) for said in found if said.article == article)
        text += "\n"
    return text.rstrip("\n") + "\n"


def _row(said: Statement) -> str:
    note = f"{said.status}: {said.note}" if said.note else said.status
    test = ", ".join(_linked(each) for each in said.tests())
    claim, note = said.claim.replace("|", "\\|"), note.replace("|", "\\|")
    return f"| {said.number} | {claim} | {note} | {test} | {said.chapter} |\n"


def _linked(test: str) -> str:
    """The name as a link to its file: the names say what is proved."""
    path, _, name = test.partition("::")
    target = path.removeprefix("docs/") if path.startswith("docs/") else f"../{path}"
    return f"[{name.removeprefix('test_').replace('_', ' ') or Path(path).name}]({target})"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
