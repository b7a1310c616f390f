"""The order of the steps that all tables share: against a table in memory that fails as told."""

from typing import Any

import pytest

from barnabas.model.ids import TopicPartition
from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.lake.batch_commit import (
    ATTEMPTS_MAX,
    NONE,
    Attempt,
    CommitUnknown,
    TableState,
    has_batch,
    write_batch,
)
from barnabas.pipeline.spark.batch_identity import BatchIdentity, SinkBehind

AT = TopicPartition("orders", 0)


def identity(start: int, end: int, number: int = 0) -> BatchIdentity:
    return BatchIdentity("q", number, {AT: start}, {AT: end}, {"orders": "id"})


class MemoryTable:
    """`answers`: of the next commits: True, False, or an exception; "lost": it is in the table, and
    the answer is not known; "refused": it is in the table, and the answer is no. `meanwhile`: what
    another driver does before a commit.
    """

    name = "memory"
    replaces = False

    def __init__(self, *answers: Any) -> None:
        self.rows: list[int] = []
        self.done: dict[str, int] = {}
        self.version = NONE
        self.attempts: list[str] = []
        self.files: dict[str, list[int]] = {}
        self.answers = list(answers)
        self.meanwhile: list[Any] = []

    def check(self, schema: Any) -> None: ...
    def prepare(self, schema: Any) -> None: ...

    def state(self, identity: BatchIdentity) -> TableState:
        return TableState(self.version, dict(self.done))

    def write_files(self, rows: list[int], attempt: Attempt) -> list[int]:
        self.files[attempt.id] = rows
        return rows

    def commit(self, files: list[int], attempt: Attempt) -> bool:
        if self.meanwhile:
            self.meanwhile.pop(0)()
        answer = self.answers.pop(0) if self.answers else True
        if isinstance(answer, Exception):
            raise answer
        if attempt.version != max(self.version + 1, attempt.identity.number) or not answer:
            return False
        self.rows += files
        self.done, self.version = attempt.done_after, attempt.version
        self.attempts.append(attempt.id)
        if answer == "lost":
            raise CommitUnknown("no answer")
        return answer != "refused"

    def has_attempt(self, attempt: Attempt) -> bool:
        return attempt.id in self.attempts

    def committed(self, attempt: Attempt) -> None:
        self.files = {attempt.id: self.files[attempt.id]}

    def discard(self, attempt: Attempt) -> None:
        self.files.pop(attempt.id, None)


def add(table: MemoryTable, of: BatchIdentity) -> None:
    write_batch(table, of, None, lambda begin: list(range(begin.get(AT, of.end[AT]), of.end[AT])))


def test_a_batch_that_is_there_is_not_written_again() -> None:
    table = MemoryTable()
    add(table, identity(0, 10))
    add(table, identity(0, 10))
    assert has_batch(table, identity(0, 10))
    add(table, identity(5, 15, 1))
    assert table.rows == list(range(15))


def test_a_refused_commit_writes_what_the_other_driver_did_not() -> None:
    table = MemoryTable()
    other = identity(0, 20)
    table.meanwhile = [lambda: add(table, other)]
    add(table, identity(0, 30))
    assert table.rows == list(range(30))


def test_files_are_committed_again_if_others_only_changed_the_table() -> None:
    table = MemoryTable(False, False, True)
    add(table, identity(0, 10))
    assert table.rows == list(range(10))
    assert len(table.files) == 1


def test_a_commit_whose_answer_is_lost_counts_if_it_is_there() -> None:
    table = MemoryTable("lost")
    add(table, identity(0, 10))
    assert (table.rows, len(table.attempts)) == (list(range(10)), 1)


def test_a_commit_that_is_refused_because_of_itself_counts() -> None:
    """A client repeats a request whose answer it did not get; the second one is refused. The files
    are in the table, and must not be deleted.
    """
    table = MemoryTable("refused")
    add(table, identity(0, 10))
    assert (table.rows, len(table.attempts), len(table.files)) == (list(range(10)), 1, 1)


def test_files_that_replace_a_table_are_not_committed_to_another_one() -> None:
    table = MemoryTable(False, True)
    table.replaces = True
    add(table, identity(0, 10))
    (attempt,) = table.attempts
    assert table.rows == list(range(10))
    assert list(table.files) == [attempt]


def test_a_commit_that_may_still_arrive_keeps_its_files() -> None:
    table = MemoryTable(CommitUnknown("no answer"), CommitUnknown("denied"), CommitUnknown("gone"))
    with pytest.raises(PipelineError, match="the commit of batch 0 failed: gone"):
        add(table, identity(0, 10))
    assert len(table.files) == 3
    table = MemoryTable(CommitUnknown("no answer"))
    add(table, identity(0, 10))
    assert table.rows == list(range(10))


def test_commits_that_are_always_refused_end_with_one_line() -> None:
    table = MemoryTable(*[False] * 10_000)
    with pytest.raises(PipelineError, match=f"{ATTEMPTS_MAX} commits of batch 0 were refused"):
        add(table, identity(0, 10))
    assert table.files == {}


def test_a_table_that_lost_rows_is_refused() -> None:
    table = MemoryTable()
    add(table, identity(0, 10))
    with pytest.raises(SinkBehind, match="rows were taken out"):
        add(table, identity(20, 30, 2))
