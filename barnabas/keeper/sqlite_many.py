"""Executes thousands of operations of one kind in a SQLite file, as fast as SQLite can.

In: consecutive operations that each name one node, and its version if it has one. Out: whether all
of them are done. If one fails, none is done, and the caller finds it one by one.
Not here: what each of them means (sqlite_file.py).
"""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.keeper.keeper import ANY_VERSION, Create, Operation, Set, parent

if TYPE_CHECKING:
    from barnabas.keeper.sqlite_file import SqliteFile

SET = "UPDATE node SET data = ?, version = version + 1 WHERE path = ? AND version = ?"
CREATE = "INSERT INTO node (path, parent, data, version, created, owner) VALUES (?, ?, ?, 0, ?, ?)"
ADD_CHILDREN = "UPDATE node SET births = births + ?, changes = changes + ? WHERE path = ?"


def kind_of(operation: Operation) -> type[Set] | type[Create] | None:
    """The kind if many can be executed at once; None: this one is executed alone."""
    if isinstance(operation, Set) and operation.version != ANY_VERSION:
        return Set
    if isinstance(operation, Create) and not (operation.ephemeral or operation.sequential):
        return Create
    return None


def write_many(file: "SqliteFile", operations: Sequence[Operation], number: int) -> bool:
    """All of one kind. `number` is that of the change they are part of."""
    file.execute("SAVEPOINT many")
    sets = [each for each in operations if isinstance(each, Set)]
    creates = [each for each in operations if isinstance(each, Create)]
    done = _set(file, sets) if sets else _create(file, creates, number)
    if not done:
        file.execute("ROLLBACK TO many")
    file.execute("RELEASE many")
    return done


def _set(file: "SqliteFile", sets: Sequence[Set]) -> bool:
    values = [(bytes(each.data), each.path, each.version) for each in sets]
    return file.execute_many(SET, values) == len(sets)


def _create(file: "SqliteFile", creates: Sequence[Create], number: int) -> bool:
    births = Counter(parent(each.path) for each in creates)
    made: set[str] = set()
    above: dict[str, None] = {}  # must exist before
    for each in creates:
        if parent(each.path) not in made:
            above[parent(each.path)] = None
        made.add(each.path)
    found = file.find_many(list(above))
    if len(found) < len(above) or any(owner for *_, owner in found):
        return False
    values = [(each.path, parent(each.path), bytes(each.data), number, 0) for each in creates]
    if file.execute_many(CREATE, values) != len(creates):
        return False
    file.execute_many(ADD_CHILDREN, [(count, count, path) for path, count in births.items()])
    return True
