"""Decides which topic names a regular expression stands for, in time that the name bounds.

In: a pattern, names. Out: whether they match, from their first character to their last.
Always: no backtracking: a set of places in the pattern moves along the name, and sets once met are
remembered. What a pattern may cost in all is bounded too; past that it is refused.
Not here: the syntax (pattern_syntax.py).
"""

from collections.abc import Iterable

from barnabas.coordinators.groups.consumer.pattern_syntax import (
    Chars,
    Choice,
    Edge,
    Node,
    Repeat,
    Sequence,
    parse,
)
from barnabas.model.errors import Code, InvalidRequest

SETS_MAX = 1_000
WORK_MAX = 1_000_000  # places looked at, for all names together: about a quarter of a second

_START, _END = "start", "end"
_Places = frozenset[int]
_Step = frozenset[str] | str | None  # characters, an edge, or nothing to pass


class Pattern:
    """`work` counts down: a pattern is made for one look over the topics."""

    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._steps: list[_Step] = []
        self._next: list[list[int]] = []
        self._accept = self._place(None)
        start = self._build(parse(pattern), self._accept)
        self._sets: dict[tuple[_Places, str], _Places] = {}
        self._accepts: dict[_Places, bool] = {}
        self._work = WORK_MAX
        self._start = self._closed((start,), at_start=True)

    def matches(self, name: str) -> bool:
        places = self._start
        for char in name:
            key = (places, char)
            found = self._sets.get(key)
            if found is None:
                found = self._moved(places, char)
                if len(self._sets) >= SETS_MAX:
                    self._sets.clear()
                self._sets[key] = found
            places = found
            if not places:
                return False
        return self._accepted(places, empty=not name)

    def matching(self, names: Iterable[str]) -> tuple[str, ...]:
        return tuple(sorted(name for name in names if self.matches(name)))

    def _moved(self, places: _Places, char: str) -> _Places:
        steps = self._steps
        targets = []
        for place in places:
            step = steps[place]
            if isinstance(step, frozenset) and char in step:
                targets += self._next[place]
        self._spend(len(places))
        return self._closed(targets, at_start=False)

    def _accepted(self, places: _Places, *, empty: bool) -> bool:
        found = None if empty else self._accepts.get(places)
        if found is None:
            found = self._accept in self._closed(places, at_start=empty, at_end=True)
            if len(self._accepts) >= SETS_MAX:
                self._accepts.clear()
            if not empty:
                self._accepts[places] = found
        return found

    def _closed(self, places: Iterable[int], *, at_start: bool, at_end: bool = False) -> _Places:
        """With all that can be reached without a character."""
        reached = set(places)
        todo = list(reached)
        while todo:
            place = todo.pop()
            step = self._steps[place]
            if step is None or (step == _START and at_start) or (step == _END and at_end):
                for following in self._next[place]:
                    if following not in reached:
                        reached.add(following)
                        todo.append(following)
        self._spend(len(reached))
        return frozenset(reached)

    def _spend(self, work: int) -> None:
        self._work -= work
        if self._work < 0:
            raise InvalidRequest(
                Code.INVALID_REGULAR_EXPRESSION,
                f"pattern {self._text[:200]!r} takes too long to match; make it simpler",
            )

    # Building: each part knows where it goes on

    def _place(self, step: _Step, *following: int) -> int:
        self._steps.append(step)
        self._next.append(list(following))
        return len(self._steps) - 1

    def _build(self, node: Node, after: int) -> int:
        match node:
            case Chars(chars):
                return self._place(chars, after)
            case Edge(at_end):
                return self._place(_END if at_end else _START, after)
            case Sequence(parts):
                for part in reversed(parts):
                    after = self._build(part, after)
                return after
            case Choice(parts):
                return self._place(None, *(self._build(part, after) for part in parts))
            case Repeat(part, least, most):
                return self._build_repeat(part, least, most, after)

    def _build_repeat(self, part: Node, least: int, most: int | None, after: int) -> int:
        if most is None:
            loop = self._place(None, after)
            self._next[loop].append(self._build(part, loop))
            entry = loop
        else:
            entry = after
            for _ in range(most - least):
                entry = self._place(None, self._build(part, entry), after)
        for _ in range(least):
            entry = self._build(part, entry)
        return entry


def check(pattern: str) -> None:
    """INVALID_REGULAR_EXPRESSION, and why, for a pattern that cannot be used."""
    Pattern(pattern)
