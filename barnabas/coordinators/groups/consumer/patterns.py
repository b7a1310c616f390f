"""Decides which topic names match a regular expression, in time linear in the name.

In: a pattern, names. Out: whether the whole name matches.
Always: no backtracking: a set of states of an automaton moves along the name, and sets are cached.
The total work of a pattern is bounded; a pattern that needs more is refused.
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
WORK_MAX = 1_000_000  # states visited, for all names together: about a quarter of a second

_START, _END = "start", "end"
_States = frozenset[int]
_Step = frozenset[str] | str | None  # characters, an edge, or no condition


class Pattern:
    """A Pattern is made for one pass over the topics, as its work is bounded in total."""

    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._steps: list[_Step] = []
        self._next: list[list[int]] = []
        self._accept = self._state(None)
        start = self._build(parse(pattern), self._accept)
        self._sets: dict[tuple[_States, str], _States] = {}
        self._accepts: dict[_States, bool] = {}
        self._work = WORK_MAX
        self._start = self._closed((start,), at_start=True)

    def matches(self, name: str) -> bool:
        states = self._start
        for char in name:
            key = (states, char)
            found = self._sets.get(key)
            if found is None:
                found = self._moved(states, char)
                if len(self._sets) >= SETS_MAX:
                    self._sets.clear()
                self._sets[key] = found
            states = found
            if not states:
                return False
        return self._accepted(states, empty=not name)

    def matching(self, names: Iterable[str]) -> tuple[str, ...]:
        return tuple(sorted(name for name in names if self.matches(name)))

    def _moved(self, states: _States, char: str) -> _States:
        steps = self._steps
        targets = []
        for state in states:
            step = steps[state]
            if isinstance(step, frozenset) and char in step:
                targets += self._next[state]
        self._spend(len(states))
        return self._closed(targets, at_start=False)

    def _accepted(self, states: _States, *, empty: bool) -> bool:
        found = None if empty else self._accepts.get(states)
        if found is None:
            found = self._accept in self._closed(states, at_start=empty, at_end=True)
            if len(self._accepts) >= SETS_MAX:
                self._accepts.clear()
            if not empty:
                self._accepts[states] = found
        return found

    def _closed(self, states: Iterable[int], *, at_start: bool, at_end: bool = False) -> _States:
        """The states, and all that can be reached from them without a character."""
        reached = set(states)
        todo = list(reached)
        while todo:
            state = todo.pop()
            step = self._steps[state]
            if step is None or (step == _START and at_start) or (step == _END and at_end):
                for following in self._next[state]:
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

    # Building the automaton, from the last part to the first

    def _state(self, step: _Step, *following: int) -> int:
        self._steps.append(step)
        self._next.append(list(following))
        return len(self._steps) - 1

    def _build(self, node: Node, after: int) -> int:
        match node:
            case Chars(chars):
                return self._state(chars, after)
            case Edge(at_end):
                return self._state(_END if at_end else _START, after)
            case Sequence(parts):
                for part in reversed(parts):
                    after = self._build(part, after)
                return after
            case Choice(parts):
                return self._state(None, *(self._build(part, after) for part in parts))
            case Repeat(part, least, most):
                return self._build_repeat(part, least, most, after)

    def _build_repeat(self, part: Node, least: int, most: int | None, after: int) -> int:
        if most is None:
            loop = self._state(None, after)
            self._next[loop].append(self._build(part, loop))
            entry = loop
        else:
            entry = after
            for _ in range(most - least):
                entry = self._state(None, self._build(part, entry), after)
        for _ in range(least):
            entry = self._build(part, entry)
        return entry


def check(pattern: str) -> None:
    """Raises INVALID_REGULAR_EXPRESSION with the reason if the pattern cannot be used."""
    Pattern(pattern)
